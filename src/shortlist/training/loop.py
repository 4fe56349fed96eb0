"""The loop: steps, epochs, validation, checkpoints. One, for every method, on one process or many."""

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
from shortlist.training.averaging import AveragedWeights
from shortlist.training.callbacks import Callback
from shortlist.training.checkpoint import (
    TrainingState,
    below,
    difference,
    load_checkpoint,
    save_checkpoint,
    under,
)
from shortlist.training.criterion import Criterion
from shortlist.training.device_state import BufferSnapshot, PendingNumber, seed_step
from shortlist.training.failures import is_out_of_memory, keep_batch, largest_batch, nonfinite, out_of_memory
from shortlist.training.interruption import Interrupted, Stop, first_interrupt_waits
from shortlist.training.material import check_readable
from shortlist.training.monitor import Monitor
from shortlist.training.optimizers import make_optimizer, optimizer_tensors, restore_optimizer
from shortlist.training.raw_model import RawModel, compiled
from shortlist.training.recipe import Recipe
from shortlist.training.row_sources import Batch, RowSource
from shortlist.training.run_folder import RunFolder
from shortlist.training.sampler import MicroBatch, StepSampler, derived_seed
from shortlist.training.schedules import learning_rate
from shortlist.training.scoring import score_rows

MOST_TOLD = 10  # pictures that cannot be read, by name


@dataclass(frozen=True)
class Stage:
    """Where a training takes place: what does not change its result."""

    accelerator: Accelerator
    run: RunFolder
    callback: Callback = field(default_factory=Callback)
    checkpoint_seconds: float = 30.0
    validation_batch: int = 1024

    @property
    def dtype(self) -> torch.dtype | None:
        """Of autocast."""
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.accelerator.mixed_precision)


class Loop:
    """One training, from its first step or from where its checkpoint stands."""

    def __init__(
        self,
        recipe: Recipe,
        network: Network,
        criterion: Criterion,
        inputs: InputSpec,
        train: RowSource,
        validation: RowSource,
        monitor: Monitor,
        stage: Stage,
    ):
        self.recipe, self.inputs, self.train, self.validation = recipe, inputs, train, validation
        self.monitor, self.stage, self.state = monitor, stage, TrainingState()
        accelerator = stage.accelerator
        self.network = network.to(accelerator.device)
        self.criterion = criterion.to(accelerator.device)
        self.sampler = StepSampler(len(train), recipe.batch_size, recipe.seed, recipe.accumulate, recipe.epoch_rows)
        self.rate = learning_rate(recipe, self.sampler.steps_per_epoch)
        self.steps = recipe.epochs * self.sampler.steps_per_epoch
        self.optimizer = make_optimizer(self.network, recipe)
        augmenter = Augmenter(recipe.augmentation, inputs.size, recipe.seed) if inputs.is_pictures else None
        whole = RawModel(self.network, inputs, augmenter)
        replay = accelerator.device.type == "cuda" and accelerator.num_processes == 1 and recipe.accumulate == 1
        model = compiled(whole, replay=replay) if recipe.compile else whole
        with warnings.catch_warnings():  # newer versions of torch call the setting otherwise; accelerate knows the older word
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            self.model, self._scaled = accelerator.prepare(model, self.optimizer)
        self.augmenter = augmenter
        self.average = None if recipe.ema is None else AveragedWeights(self.network, recipe.ema)
        self.best: dict[str, Tensor] | None = None
        self.best_link: dict[str, Tensor] = {}  # a running link as it was with these weights
        self._clock = time.perf_counter()
        self._told_of: set[str] = set()

    @property
    def kept(self) -> Network:
        """The network that is evaluated: the average of the weights where there is one."""
        return self.network if self.average is None else self.average.network

    def run(self) -> TrainingState:
        """Train to the end, and leave the best weights in :attr:`kept`; a person's Ctrl-C ends it between two steps."""
        state = self.state
        self.stage.callback.training_started(self.steps, self.sampler.steps_per_epoch, self.sampler.size, state.step)
        if not state.finished:
            with first_interrupt_waits() as stop:
                self._train(stop)
        if self.best is not None:
            self.kept.load_state_dict(self.best)
            self.criterion.restore_link(self.best_link)
        self.kept.eval()
        return state

    def _train(self, stop: Stop) -> None:
        """Steps until the last, or until somebody asks to stop; then the checkpoint."""
        state, epoch_steps = self.state, self.sampler.steps_per_epoch
        last_saved = time.monotonic()
        self.network.train()
        self._clock = time.perf_counter()
        for parts, batches in self._work(state.step, self.steps):
            self._step_unless_left(stop, parts, batches)
            state.step += 1
            if state.step % epoch_steps == 0 and self._epoch_ends(state.step // epoch_steps):
                break
            if self._stops(stop):
                self.save()
                raise self._interrupted()
            if time.monotonic() - last_saved >= self.stage.checkpoint_seconds:
                self.save()
                last_saved = time.monotonic()
        state.finished = True
        self.save()
        if self._stops(stop):
            raise self._interrupted()

    def _stops(self, stop: Stop) -> bool:
        """Whether to stop here: the first of several processes decides, as it is the one that writes."""
        return stop.asked and self.stage.accelerator.is_main_process

    def _step_unless_left(self, stop: Stop, parts: list[MicroBatch], batches: list[Batch]) -> None:
        """A step; where the first process has stopped and left the others waiting for it, they stop too."""
        try:
            self._step(self.state.step, parts, batches)
        except RuntimeError as error:
            if stop.asked and not self.stage.accelerator.is_main_process:
                raise self._interrupted() from error
            raise

    def _interrupted(self) -> Interrupted:
        step = self.state.step
        epoch = max(0, step - 1) // self.sampler.steps_per_epoch + 1
        return Interrupted(f"stopped after step {step:,} of {self.steps:,}, epoch {epoch} of {self.recipe.epochs}")

    def _work(self, first: int, end: int) -> Iterator[tuple[list[MicroBatch], list[Batch]]]:
        """The micro-batches of each step, made ready as the rows can be."""
        accelerator = self.stage.accelerator
        process, processes = accelerator.process_index, accelerator.num_processes
        planned = (part.rows for parts in self.sampler.steps(first, end, process, processes) for part in parts)
        ready = self.train.batches(planned)
        for parts in self.sampler.steps(first, end, process, processes):
            yield parts, [next(ready) for _ in parts]

    def _step(self, step: int, parts: list[MicroBatch], batches: list[Batch]) -> None:
        accelerator = self.stage.accelerator
        rate = self.rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # Dropout, noise of losses: a function of the seed, the step and the process, so that there is no state to save.
        own = step * accelerator.num_processes + accelerator.process_index
        seed_step(derived_seed(self.recipe.seed, Purpose.TRAINING_STEP, own), accelerator.device)
        before = BufferSnapshot(self._running()) if self.recipe.skip_nonfinite else None
        full = False
        try:
            loss = self._gradient(step, parts, batches)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            full = True  # asked further below: as long as the error is at hand it holds on to what did not fit
        if full:
            raise self._too_large(max(len(batch.rows) for batch in batches), batches[0])
        if loss != loss or loss in (float("inf"), float("-inf")):
            self._refuse(step, loss, batches, before)
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
        self.stage.callback.step_ended(step + 1, loss)

    def _gradient(self, step: int, parts: list[MicroBatch], batches: list[Batch]) -> float:
        """Forward and backward of a step; its loss, which is known before the backward pass has ended."""
        accelerator = self.stage.accelerator
        summed: Tensor | None = None
        told: PendingNumber | None = None
        for number, (part, batch) in enumerate(zip(parts, batches, strict=True)):
            last = number == len(parts) - 1
            with nullcontext() if last else accelerator.no_sync(self.model):
                draws: tuple[Tensor, ...] = ()
                if self.augmenter is not None:
                    draws = self.augmenter.draw(batch.inputs, step * len(parts) + number, part.start, part.together)
                output = self.model(batch.inputs, *draws)
                loss = self.criterion(output, batch.target, batch.rows, part.together, self.sampler.size)
                summed = loss.detach() if summed is None else summed + loss.detach()
                if last:
                    told = PendingNumber(accelerator.reduce(summed, "mean") if accelerator.num_processes > 1 else summed)
                self._backward(loss)
        assert told is not None
        return told.value()

    def _backward(self, loss: Tensor) -> None:
        """Of half precision through the scaler; else directly, which saves a quarter of a millisecond a step."""
        if self.stage.accelerator.scaler is None:
            loss.backward()
        else:
            self.stage.accelerator.backward(loss)

    def _refuse(self, step: int, loss: float, batches: list[Batch], before: BufferSnapshot | None) -> None:
        """Leave the step out, or stop."""
        self.state.skipped += 1
        self.criterion.skipped()
        if before is not None:
            before.restore()
        if self.state.skipped > self.recipe.skip_nonfinite:
            path = self.stage.run.failed_batch_path
            if self.stage.accelerator.is_main_process:
                batch = batches[-1]
                keep_batch(path, {"inputs": batch.inputs, "target": batch.target, "rows": batch.rows})
            raise nonfinite(step + 1, loss, path, self.state.skipped - 1)
        self.stage.callback.message(f"step {step + 1}: the loss is {loss}; the step is left out")

    def _running(self) -> list[nn.Module]:
        """Whatever keeps running statistics."""
        return [self.network] if self.criterion.link is None else [self.network, self.criterion.link]

    def _too_large(self, rows: int, batch: Batch) -> InputError:
        device = self.stage.accelerator.device
        self.optimizer.zero_grad()

        def peak(number: int) -> float:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            part = MicroBatch(batch.rows[:number], 0, number)
            self._gradient(0, [part], [Batch(batch.inputs[:number], batch.target[:number], batch.rows[:number])])
            self.optimizer.zero_grad()
            return float(torch.cuda.max_memory_reserved(device))

        if self.stage.accelerator.num_processes > 1:  # the others would have to try with this one
            return out_of_memory(rows, self.recipe.accumulate, max(1, rows // 2), str(device))
        try:
            free, _ = torch.cuda.mem_get_info(device)
            available = free + torch.cuda.memory_reserved(device)
            fits = largest_batch(rows, peak, float(available))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            fits = max(1, rows // 16)
        return out_of_memory(rows, self.recipe.accumulate, fits, str(device))

    def _epoch_ends(self, epoch: int) -> bool:
        """Validate, write the line of the epoch, and say whether to stop."""
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
        self._tell_problems()
        self.stage.callback.epoch_ended(line, state.history)
        self._clock = time.perf_counter()
        return last or (recipe.patience is not None and state.stale >= recipe.patience)

    def _tell_problems(self) -> None:
        """Pictures that could not be read on the way: named once, and fatal above the recipe's tolerance."""
        found = {problem.where: problem for problem in self.train.problems}
        for where, problem in found.items():
            if where not in self._told_of and len(self._told_of) < MOST_TOLD:
                self.stage.callback.message(str(problem))
            self._told_of.add(where)
        self.train.problems.clear()
        check_readable(list(found.values()), len(self.train), self.recipe)

    def _count_seconds(self) -> None:
        """Add the time since the last count to that of the epoch: of steps and of waiting for rows, not of validation."""
        now = time.perf_counter()
        self.state.running["seconds"] = self.state.running.get("seconds", 0.0) + now - self._clock
        self._clock = now

    def _validate(self, epoch: int) -> dict[str, Any]:
        self._share_buffers()
        self.kept.eval()
        scores, numbers = score_rows(self.kept, self.validation, batch_size=self.stage.validation_batch, dtype=self.stage.dtype)
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
            self.best = {name: tensor.clone() for name, tensor in self.kept.state_dict().items()}
            self.best_link = {name: tensor.clone() for name, tensor in self.criterion.link_tensors().items()}
        return {"monitor": self.monitor.deciding, "value": value, "best": better, "metrics": metrics}

    def _share_buffers(self) -> None:
        """Running statistics differ between processes, whose rows differ; the first process's count."""
        if self.stage.accelerator.num_processes > 1:
            for buffer in self.kept.buffers():
                torch.distributed.broadcast(buffer, 0)

    def save(self) -> None:
        """Write the checkpoint."""
        if not self.state.finished:
            self._count_seconds()
        if not self.stage.accelerator.is_main_process:
            return
        state, plain = optimizer_tensors(self.optimizer)
        tensors = under("network", self.network.state_dict()) | under("optimizer", state)
        tensors |= under("criterion", self.criterion.tensors())
        if self.average is not None:
            tensors |= under("average", self.average.network.state_dict())
        if self.best is not None:
            tensors |= under("best", self.best) | under("best_link", self.best_link)
        save_checkpoint(self.stage.run.checkpoint_path, self.state, tensors, {"optimizer": plain})

    def restore(self) -> bool:
        """Go on from the folder's checkpoint; False where there is none."""
        path = self.stage.run.checkpoint_path
        if not path.exists():
            return False
        device = self.stage.accelerator.device
        state, tensors, plain = load_checkpoint(path)
        states = {"network": self.network} | ({} if self.average is None else {"average": self.average.network})
        here = {name: tensor for part, module in states.items() for name, tensor in under(part, module.state_dict()).items()}
        there = {name: tensor for name, tensor in tensors.items() if name.split(".")[0] in states}
        differs = difference(there, here)
        if differs is not None:
            raise self._foreign(path, differs)
        try:
            self.network.load_state_dict(below("network", tensors))
            restore_optimizer(self.optimizer, below("optimizer", tensors), plain["optimizer"])
            self.criterion.restore(below("criterion", tensors))
            self.criterion.to(device)  # a link that had no numbers yet takes them from where the file was read to
            if self.average is not None:
                self.average.network.load_state_dict(below("average", tensors))
        except (RuntimeError, ValueError, KeyError) as error:
            raise self._foreign(path, str(error).strip().splitlines()[-1].strip()) from error
        self.state = state
        self.best = {name: tensor.to(device) for name, tensor in below("best", tensors).items()} or None
        self.best_link = {name: tensor.to(device) for name, tensor in below("best_link", tensors).items()}
        return True

    @staticmethod
    def _foreign(path: Path, how: str) -> InputError:
        return InputError(
            f"{path} belongs to another training: {how}; its data or its files were changed since: begin anew in another folder"
        )
