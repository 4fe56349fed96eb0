"""The training loop: steps, epochs, validation, checkpoints; the same for every method, in one process or several."""

import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from shortlist.data.randomness import Purpose
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.training.augmentation import Augmenter
from shortlist.training.augmented_network import AugmentedNetwork, compiled
from shortlist.training.averaging import AveragedWeights
from shortlist.training.callbacks import Callback
from shortlist.training.checkpoint import (
    TrainingState,
    first_difference,
    load_checkpoint,
    save_checkpoint,
    with_prefix,
    without_prefix,
)
from shortlist.training.criterion import Criterion
from shortlist.training.device_state import BufferSnapshot, PendingNumber, seed_step
from shortlist.training.failures import is_out_of_memory, largest_batch, nonfinite_loss, out_of_memory_error, save_failed_batch
from shortlist.training.interruption import Interrupted, StopRequest, deferred_interrupt
from shortlist.training.loaded_data import check_readable
from shortlist.training.monitor import Monitor
from shortlist.training.optimizers import make_optimizer, optimizer_tensors, restore_optimizer
from shortlist.training.recipe import Recipe
from shortlist.training.row_sources import Batch, RowSource
from shortlist.training.run_folder import RunFolder
from shortlist.training.sampler import MicroBatch, StepSampler, derived_seed
from shortlist.training.schedules import learning_rate
from shortlist.training.scoring import score_rows

MOST_NAMED = 10  # unreadable pictures that are reported by name


@dataclass(frozen=True)
class TrainingContext:
    """What a training needs besides its recipe and data, and what does not change its result.

    Args:
        accelerator: device, processes and precision.
        run: the folder of the run.
        callback: notified as training proceeds.
        checkpoint_seconds: minimum time between checkpoints.
        validation_batch: rows per batch in validation.
    """

    accelerator: Accelerator
    run: RunFolder
    callback: Callback = field(default_factory=Callback)
    checkpoint_seconds: float = 30.0
    validation_batch: int = 1024

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of autocast; None for full precision."""
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.accelerator.mixed_precision)


class Loop:
    """One training, from its first step or from its checkpoint."""

    def __init__(
        self,
        recipe: Recipe,
        network: Network,
        criterion: Criterion,
        inputs: InputSpec,
        train: RowSource,
        validation: RowSource,
        monitor: Monitor,
        context: TrainingContext,
    ):
        self.recipe, self.inputs, self.train, self.validation = recipe, inputs, train, validation
        self.monitor, self.context, self.state = monitor, context, TrainingState()
        accelerator = context.accelerator
        self.network = network.to(accelerator.device)
        self.criterion = criterion.to(accelerator.device)
        self.sampler = StepSampler(len(train), recipe.batch_size, recipe.seed, recipe.accumulate, recipe.epoch_rows)
        self.rate = learning_rate(recipe, self.sampler.steps_per_epoch)
        self.steps = recipe.epochs * self.sampler.steps_per_epoch
        self.optimizer = make_optimizer(self.network, recipe)
        augmenter = Augmenter(recipe.augmentation, inputs.size, recipe.seed) if inputs.is_pictures else None
        whole = AugmentedNetwork(self.network, inputs, augmenter)
        replay = accelerator.device.type == "cuda" and accelerator.num_processes == 1 and recipe.accumulate == 1
        model = compiled(whole, replay=replay) if recipe.compile else whole
        with warnings.catch_warnings():  # accelerate uses the older name of a setting that torch has renamed
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            self.model, self._scaled = accelerator.prepare(model, self.optimizer)
        self.augmenter = augmenter
        self.average = None if recipe.ema is None else AveragedWeights(self.network, recipe.ema)
        self.best: dict[str, Tensor] | None = None
        self.best_link: dict[str, Tensor] = {}  # the running link at the time of these weights
        self._clock = time.perf_counter()
        self._named: set[str] = set()

    @property
    def evaluated(self) -> Network:
        """The network that is validated and kept: the average of the weights if the recipe has one."""
        return self.network if self.average is None else self.average.network

    def run(self) -> TrainingState:
        """Train to the end, and leave the best weights in :attr:`evaluated`; Ctrl-C stops between two steps."""
        state = self.state
        self.context.callback.training_started(self.steps, self.sampler.steps_per_epoch, self.sampler.size, state.step)
        if not state.finished:
            with deferred_interrupt() as stop:
                self._train(stop)
        if self.best is not None:
            self.evaluated.load_state_dict(self.best)
            self.criterion.restore_link(self.best_link)
        self.evaluated.eval()
        return state

    def _train(self, stop: StopRequest) -> None:
        """Take steps until the last one or until a stop is requested, then save a checkpoint."""
        state, epoch_steps = self.state, self.sampler.steps_per_epoch
        last_saved = time.monotonic()
        self.network.train()
        self._clock = time.perf_counter()
        for parts, batches in self._batches(state.step, self.steps):
            self._step_or_leave(stop, parts, batches)
            state.step += 1
            if state.step % epoch_steps == 0 and self._end_epoch(state.step // epoch_steps):
                break
            if self._should_stop(stop):
                self.save()
                raise self._interrupted()
            if time.monotonic() - last_saved >= self.context.checkpoint_seconds:
                self.save()
                last_saved = time.monotonic()
        state.finished = True
        self.save()
        if self._should_stop(stop):
            raise self._interrupted()

    def _should_stop(self, stop: StopRequest) -> bool:
        """Whether to stop here; of several processes the first decides, because it writes the checkpoint."""
        return stop.requested and self.context.accelerator.is_main_process

    def _step_or_leave(self, stop: StopRequest, parts: list[MicroBatch], batches: list[Batch]) -> None:
        """Take a step; if the first process has stopped, the others fail while waiting for it and stop too."""
        try:
            self._step(self.state.step, parts, batches)
        except RuntimeError as error:
            if stop.requested and not self.context.accelerator.is_main_process:
                raise self._interrupted() from error
            raise

    def _interrupted(self) -> Interrupted:
        step = self.state.step
        epoch = max(0, step - 1) // self.sampler.steps_per_epoch + 1
        return Interrupted(f"stopped after step {step:,} of {self.steps:,}, epoch {epoch} of {self.recipe.epochs}")

    def _batches(self, first: int, end: int) -> Iterator[tuple[list[MicroBatch], list[Batch]]]:
        """The micro-batches of each step and their batches."""
        accelerator = self.context.accelerator
        process, processes = accelerator.process_index, accelerator.num_processes
        planned = (part.rows for parts in self.sampler.steps(first, end, process, processes) for part in parts)
        ready = self.train.batches(planned)
        for parts in self.sampler.steps(first, end, process, processes):
            yield parts, [next(ready) for _ in parts]

    def _step(self, step: int, parts: list[MicroBatch], batches: list[Batch]) -> None:
        accelerator = self.context.accelerator
        rate = self.rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # Dropout and noise of losses are functions of the seed, the step and the process: there is no random state to save.
        own = step * accelerator.num_processes + accelerator.process_index
        seed_step(derived_seed(self.recipe.seed, Purpose.TRAINING_STEP, own), accelerator.device)
        before = BufferSnapshot(self._running_modules()) if self.recipe.skip_nonfinite else None
        full = False
        try:
            loss = self._gradient(step, parts, batches)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            full = True  # handled below: while the exception is alive it keeps the tensors that did not fit
        if full:
            raise self._too_large(max(len(batch.rows) for batch in batches), batches[0])
        if loss != loss or loss in (float("inf"), float("-inf")):
            self._skip_or_stop(step, loss, batches, before)
        else:
            if self.recipe.clip is not None:
                accelerator.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
            (self.optimizer if accelerator.scaler is None else self._scaled).step()
            self.criterion.stepped(rate)
            if self.average is not None:
                self.average.update(self.network, step)
            running = self.state.running
            running["loss"] = running.get("loss", 0.0) + loss
            running["steps"] = running.get("steps", 0.0) + 1
        self.optimizer.zero_grad()
        self.context.callback.step_ended(step + 1, loss)

    def _gradient(self, step: int, parts: list[MicroBatch], batches: list[Batch]) -> float:
        """Forward and backward pass of a step; returns its loss, which is known before the backward pass has finished."""
        accelerator = self.context.accelerator
        summed: Tensor | None = None
        reported: PendingNumber | None = None
        for number, (part, batch) in enumerate(zip(parts, batches, strict=True)):
            last = number == len(parts) - 1
            with nullcontext() if last else accelerator.no_sync(self.model):
                draws: tuple[Tensor, ...] = ()
                if self.augmenter is not None:
                    draws = self.augmenter.draw(batch.inputs, step * len(parts) + number, part.start, part.total)
                output = self.model(batch.inputs, *draws)
                loss = self.criterion(output, batch.target, batch.rows, part.total, self.sampler.size)
                summed = loss.detach() if summed is None else summed + loss.detach()
                if last:
                    reported = PendingNumber(accelerator.reduce(summed, "mean") if accelerator.num_processes > 1 else summed)
                self._backward(loss)
        assert reported is not None
        return reported.value()

    def _backward(self, loss: Tensor) -> None:
        """Through the gradient scaler for float16, otherwise directly, which saves 0.25 ms per step."""
        if self.context.accelerator.scaler is None:
            loss.backward()
        else:
            self.context.accelerator.backward(loss)

    def _skip_or_stop(self, step: int, loss: float, batches: list[Batch], before: BufferSnapshot | None) -> None:
        """Skip a step whose loss is not finite, or stop if there were too many."""
        self.state.skipped += 1
        self.criterion.skipped()
        if before is not None:
            before.restore()
        if self.state.skipped > self.recipe.skip_nonfinite:
            path = self.context.run.failed_batch_path
            if self.context.accelerator.is_main_process:
                batch = batches[-1]
                save_failed_batch(path, {"inputs": batch.inputs, "target": batch.target, "rows": batch.rows})
            raise nonfinite_loss(step + 1, loss, path, self.state.skipped - 1)
        self.context.callback.message(f"step {step + 1}: the loss is {loss}; the step is skipped")

    def _running_modules(self) -> list[nn.Module]:
        """The modules that keep running statistics."""
        return [self.network] if self.criterion.link is None else [self.network, self.criterion.link]

    def _too_large(self, rows: int, batch: Batch) -> InputError:
        device = self.context.accelerator.device
        self.optimizer.zero_grad()

        def peak(number: int) -> float:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            part = MicroBatch(batch.rows[:number], 0, number)
            self._gradient(0, [part], [Batch(batch.inputs[:number], batch.target[:number], batch.rows[:number])])
            self.optimizer.zero_grad()
            return float(torch.cuda.max_memory_reserved(device))

        if self.context.accelerator.num_processes > 1:  # the others would have to take part in the measurement
            return out_of_memory_error(rows, self.recipe.accumulate, max(1, rows // 2), str(device))
        try:
            free, _ = torch.cuda.mem_get_info(device)
            available = free + torch.cuda.memory_reserved(device)
            fits = largest_batch(rows, peak, float(available))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            fits = max(1, rows // 16)
        return out_of_memory_error(rows, self.recipe.accumulate, fits, str(device))

    def _end_epoch(self, epoch: int) -> bool:
        """Validate, add the epoch to the history, and return whether to stop."""
        recipe, state = self.recipe, self.state
        self._count_seconds()
        running, state.running = state.running, {}
        steps = running.get("steps", 0.0)
        line: dict[str, Any] = {
            "epoch": epoch,
            "step": state.step,
            "loss": running.get("loss", 0.0) / steps if steps else None,
            "lr": self.rate(state.step - 1),
            "seconds": round(running.get("seconds", 0.0), 3),
        }
        line["rows_per_second"] = round(self.sampler.steps_per_epoch * self.sampler.size / max(1e-9, line["seconds"]), 1)
        last = epoch == recipe.epochs
        if epoch % recipe.validate_every == 0 or last:
            line |= self._validate(epoch)
        state.history.append(line)
        self._report_problems()
        self.context.callback.epoch_ended(line, state.history)
        self._clock = time.perf_counter()
        return last or (recipe.patience is not None and state.stale >= recipe.patience)

    def _report_problems(self) -> None:
        """Report each unreadable picture once; raise an error above the recipe's tolerance."""
        found = {problem.where: problem for problem in self.train.problems}
        for where, problem in found.items():
            if where not in self._named and len(self._named) < MOST_NAMED:
                self.context.callback.message(str(problem))
            self._named.add(where)
        self.train.problems.clear()
        check_readable(list(found.values()), len(self.train), self.recipe)

    def _count_seconds(self) -> None:
        """Add the time since the last call to that of the epoch; validation is not counted."""
        now = time.perf_counter()
        self.state.running["seconds"] = self.state.running.get("seconds", 0.0) + now - self._clock
        self._clock = now

    def _validate(self, epoch: int) -> dict[str, Any]:
        self._share_buffers()
        self.evaluated.eval()
        scores, numbers = score_rows(
            self.evaluated, self.validation, batch_size=self.context.validation_batch, dtype=self.context.dtype
        )
        self.network.train()
        if not scores.isfinite().all():
            metrics = {self.monitor.deciding: float("nan")}
        else:
            metrics = self.monitor.measure(scores, self.validation.target[numbers])
        value = metrics[self.monitor.deciding]
        better = self.monitor.better(value, self.state.best)
        self.state.stale = 0 if better else self.state.stale + 1
        if better:
            self.state.best, self.state.best_epoch = value, epoch
            self.best = {name: tensor.clone() for name, tensor in self.evaluated.state_dict().items()}
            self.best_link = {name: tensor.clone() for name, tensor in self.criterion.link_tensors().items()}
        return {"monitor": self.monitor.deciding, "value": value, "best": better, "metrics": metrics}

    def _share_buffers(self) -> None:
        """Broadcast running statistics, which differ between processes, from the first process."""
        if self.context.accelerator.num_processes > 1:
            for buffer in self.evaluated.buffers():
                torch.distributed.broadcast(buffer, 0)

    def save(self) -> None:
        """Write a checkpoint."""
        if not self.state.finished:
            self._count_seconds()
        if not self.context.accelerator.is_main_process:
            return
        state, plain = optimizer_tensors(self.optimizer)
        tensors = with_prefix("network", self.network.state_dict()) | with_prefix("optimizer", state)
        tensors |= with_prefix("criterion", self.criterion.tensors())
        if self.average is not None:
            tensors |= with_prefix("average", self.average.network.state_dict())
        if self.best is not None:
            tensors |= with_prefix("best", self.best) | with_prefix("best_link", self.best_link)
        save_checkpoint(self.context.run.checkpoint_path, self.state, tensors, {"optimizer": plain})

    def restore(self) -> bool:
        """Continue from the checkpoint in the folder; returns False if there is none."""
        path = self.context.run.checkpoint_path
        if not path.exists():
            return False
        device = self.context.accelerator.device
        state, tensors, plain = load_checkpoint(path)
        states = {"network": self.network} | ({} if self.average is None else {"average": self.average.network})
        here = {
            name: tensor for part, module in states.items() for name, tensor in with_prefix(part, module.state_dict()).items()
        }
        saved = {name: tensor for name, tensor in tensors.items() if name.split(".")[0] in states}
        differs = first_difference(saved, here)
        if differs is not None:
            raise self._other_training(path, differs)
        try:
            self.network.load_state_dict(without_prefix("network", tensors))
            restore_optimizer(self.optimizer, without_prefix("optimizer", tensors), plain["optimizer"])
            self.criterion.restore(without_prefix("criterion", tensors))
            self.criterion.to(device)  # a link without values takes them from the file, which was read to the CPU
            if self.average is not None:
                self.average.network.load_state_dict(without_prefix("average", tensors))
        except (RuntimeError, ValueError, KeyError) as error:
            raise self._other_training(path, str(error).strip().splitlines()[-1].strip()) from error
        self.state = state
        self.best = {name: tensor.to(device) for name, tensor in without_prefix("best", tensors).items()} or None
        self.best_link = {name: tensor.to(device) for name, tensor in without_prefix("best_link", tensors).items()}
        return True

    @staticmethod
    def _other_training(path: Path, how: str) -> InputError:
        return InputError(
            f"{path} belongs to another training: {how}; the data or the code may have changed: start again in a new folder"
        )
