"""The training loop: steps, epochs, validation, checkpoints; the same for every method, in one process or several."""

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from shortlist.data.randomness import Purpose
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.training.augmentation import make_augmenter
from shortlist.training.augmented_network import AugmentedNetwork, FusedHead, MicroBatchLoss, compiled
from shortlist.training.averaging import AveragedWeights
from shortlist.training.checkpoint import Checkpoint, TrainingState, load_checkpoint, save_checkpoint
from shortlist.training.context import TrainingContext
from shortlist.training.criterion import Criterion
from shortlist.training.device_state import BufferSnapshot, PendingNumber, seed_step
from shortlist.training.failures import (
    is_out_of_memory,
    nonfinite,
    nonfinite_step,
    nonfinite_weights,
    only_overflows,
    out_of_memory_error,
    rows_that_fit,
    save_failed_batch,
)
from shortlist.training.fused_head import uses_fused_head
from shortlist.training.gradients import GradientWatch
from shortlist.training.history import normalizer_entry
from shortlist.training.interruption import Interrupted, Paused, StopRequest, Terminated, deferred_signals
from shortlist.training.loaded_data import check_readable
from shortlist.training.model_state import ModelState
from shortlist.training.monitor import Monitor
from shortlist.training.optimizers import make_optimizer
from shortlist.training.recipe import Recipe
from shortlist.training.row_sources import Batch, RowSource, is_worker_death
from shortlist.training.sampler import MicroBatch, StepSampler, derived_seed
from shortlist.training.schedules import learning_rate
from shortlist.training.scoring import score_rows

MOST_NAMED = 10  # unreadable pictures that are reported by name
MOST_OVERFLOWS = 50  # float16 steps in a row that overflow; the scale, which begins at 2**16, is halved after each

Step: TypeAlias = tuple[list[MicroBatch], list[Batch]]  # the micro-batches of a step, and their rows


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
        augmenter = make_augmenter(recipe, inputs) if inputs.is_pictures else None
        fused = uses_fused_head(recipe, self.network, self.criterion, accelerator)
        whole = AugmentedNetwork(self.network, inputs, augmenter, headless=fused)
        replay = accelerator.device.type == "cuda" and accelerator.num_processes == 1 and recipe.accumulate == 1
        recorded = recipe.compile and replay and self.criterion.recordable and not fused
        model: nn.Module = MicroBatchLoss(whole, self.criterion) if recorded else whole
        model = compiled(model, replay=replay) if recipe.compile else model
        with warnings.catch_warnings():  # accelerate uses the older name of a setting that torch has renamed
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            self.model, self._scaled = accelerator.prepare(model, self.optimizer)
        head = FusedHead(self.network.head, context.dtype) if fused else None
        self.loss_of = self.model if recorded else MicroBatchLoss(self.model, self.criterion, head)
        self.augmenter = augmenter
        average = None if recipe.ema is None else AveragedWeights(self.network, recipe.ema)
        self.held = ModelState(self.network, self.optimizer, self.criterion, average, accelerator.scaler)
        self._watch, self._overflows = GradientWatch(), 0
        self._clock = time.perf_counter()
        self._named: set[str] = set()

    @property
    def evaluated(self) -> Network:
        """The network that is validated and kept: the average of the weights if the recipe has one."""
        return self.held.evaluated

    def run(self) -> TrainingState:
        """Train to the end, and leave the best weights in :attr:`evaluated`; Ctrl-C and SIGTERM stop between two steps."""
        state = self.state
        self.context.callback.training_started(self.steps, self.sampler.steps_per_epoch, self.sampler.size, state.step)
        if not state.finished:
            with deferred_signals() as stop:
                self._train(stop)
        self.held.load_best()
        self.evaluated.eval()
        return state

    def _train(self, stop: StopRequest) -> None:
        """Take steps until the last one or until a stop is requested, then save a checkpoint."""
        state, epoch_steps = self.state, self.sampler.steps_per_epoch
        last_saved = time.monotonic()
        self.network.train()
        self._clock = time.perf_counter()
        ready = self._batches(state.step, self.steps)
        self._leave_if_asked(stop)
        while (found := self._next(stop, ready)) is not None:
            self._step_or_leave(stop, *found)
            state.step += 1
            if state.step % epoch_steps == 0 and self._end_epoch(state.step // epoch_steps):
                break
            self._leave_if_asked(stop)
            if time.monotonic() - last_saved >= self.context.checkpoint_seconds:
                self.save()
                last_saved = time.monotonic()
        state.finished = True
        self.save()
        if self._should_stop(stop):
            raise self._stopped(stop)

    def _leave_if_asked(self, stop: StopRequest) -> None:
        """Save a checkpoint and leave, after a signal or the epoch at which to pause."""
        until = self.context.until
        if self._should_stop(stop) or (until is not None and self.state.step >= until * self.sampler.steps_per_epoch):
            self.save()
            raise self._stopped(stop) if stop.requested else Paused(f"paused after epoch {until} of {self.recipe.epochs}")

    def _should_stop(self, stop: StopRequest) -> bool:
        """Whether to stop here; of several processes the first decides, because it writes the checkpoint."""
        return stop.requested and self.context.accelerator.is_main_process

    def _next(self, stop: StopRequest, ready: Iterator[Step]) -> Step | None:
        """The next step to take; None after the last."""
        try:
            return next(ready, None)
        except RuntimeError as error:
            if is_worker_death(error):  # a signal that asks to stop may have reached the workers as well
                self._leave_if_asked(stop)
            raise

    def _step_or_leave(self, stop: StopRequest, parts: list[MicroBatch], batches: list[Batch]) -> None:
        """Take a step; if the first process has stopped, the others fail while waiting for it and stop too."""
        try:
            self._step(self.state.step, parts, batches)
        except RuntimeError as error:
            if stop.requested and not self.context.accelerator.is_main_process:
                raise self._stopped(stop) from error
            raise

    def _stopped(self, stop: StopRequest) -> Interrupted | Terminated:
        step = self.state.step
        epoch = max(0, step - 1) // self.sampler.steps_per_epoch + 1
        return stop.exception(f"stopped after step {step:,} of {self.steps:,}, epoch {epoch} of {self.recipe.epochs}")

    def _batches(self, first: int, end: int) -> Iterator[Step]:
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
        link = [] if self.criterion.link is None else [self.criterion.link]
        before = BufferSnapshot([self.network, *link]) if self.recipe.skip_nonfinite else None  # of running statistics
        full = False
        try:
            loss = self._gradient(step, parts, batches)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            full = True  # handled below: while the exception is alive it keeps the tensors that did not fit
        if full:
            raise self._too_large(max(len(batch.rows) for batch in batches), batches[0])
        self._check_gradient()  # of the step before: known by now, since the loss of this one is
        if not math.isfinite(loss):
            self._skip_or_stop(step, loss, None, batches, before)
        elif (gradient := self._nonfinite_gradient(step, loss, batches)) is not None:
            self._skip_or_stop(step, loss, gradient, batches, before)
        else:
            self._update(step, rate)
            running = self.state.running
            running["loss"] = running.get("loss", 0.0) + loss
            running["steps"] = running.get("steps", 0.0) + 1
        self.optimizer.zero_grad()
        self.context.callback.step_ended(step + 1, loss)

    def _update(self, step: int, rate: float) -> None:
        """Let the optimiser, the loss and the average take their steps."""
        accelerator = self.context.accelerator
        if self.recipe.clip is not None:
            accelerator.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        if accelerator.scaler is None:
            self.optimizer.step()
        else:
            self._scaled.step()
            self._overflows = self._overflows + 1 if self._scaled.step_was_skipped else 0
            if self._overflows >= MOST_OVERFLOWS:
                raise only_overflows(step + 1, self._overflows)
        self.criterion.stepped(rate)
        if self.held.average is not None:
            self.held.average.update(self.network, step)

    def _nonfinite_gradient(self, step: int, loss: float, batches: list[Batch]) -> float | None:
        """The largest entry of the gradient, if it is known to be infinite or NaN.

        On a GPU it becomes known only after the step, to save waiting, unless such steps are to be skipped. The gradient scaler
        of float16 skips overflows itself.
        """
        accelerator = self.context.accelerator
        if accelerator.scaler is not None:
            return None
        self._watch.start([self.network, self.criterion], step, loss, batches)
        if accelerator.device.type == "cuda" and not self.recipe.skip_nonfinite:
            return None
        failed = self._watch.failed()
        return None if failed is None else failed.gradient

    def _check_gradient(self) -> None:
        """Stop if the gradient of the last step was not finite."""
        failed = self._watch.failed()
        if failed is not None:
            self._skip_or_stop(failed.step, failed.loss, failed.gradient, failed.batches, None)

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
                loss = self.loss_of(batch.inputs, batch.target, batch.rows, part.total, self.sampler.size, *draws)
                summed = loss.detach() if summed is None else summed + loss.detach()
                if last:
                    reported = PendingNumber(accelerator.reduce(summed, "mean") if accelerator.num_processes > 1 else summed)
                self._backward(loss)
        assert reported is not None
        return reported.value()

    def _backward(self, loss: Tensor) -> None:
        """Through the gradient scaler for float16, otherwise directly, which saves 0.25 ms per step."""
        accelerator = self.context.accelerator
        if accelerator.scaler is None:
            with torch.autograd.set_multithreading_enabled(accelerator.num_processes > 1):  # waking a thread takes 0.1 ms
                loss.backward()
        else:
            accelerator.backward(loss)

    def _skip_or_stop(
        self, step: int, loss: float, gradient: float | None, batches: Sequence[Batch], before: BufferSnapshot | None
    ) -> None:
        """Skip a step whose loss or gradient is not finite, or stop if there were too many."""
        self.state.skipped += 1
        self.criterion.skipped()
        if before is not None:
            before.restore()
        if self.state.skipped > self.recipe.skip_nonfinite:
            path = self.context.run.failed_batch_path
            if self.context.accelerator.is_main_process:
                batch = batches[-1]
                save_failed_batch(path, {"inputs": batch.inputs, "target": batch.target, "rows": batch.rows})
            raise nonfinite_step(step + 1, loss, gradient, path, self.state.skipped - 1)
        self.context.callback.message(f"{nonfinite(step + 1, loss, gradient)}; the step is skipped")

    def _too_large(self, rows: int, batch: Batch) -> InputError:
        accelerator = self.context.accelerator
        self.optimizer.zero_grad()

        def attempt(number: int) -> None:
            part = MicroBatch(batch.rows[:number], 0, number)
            self._gradient(0, [part], [Batch(batch.inputs[:number], batch.target[:number], batch.rows[:number])])
            self.optimizer.zero_grad()

        alone = accelerator.num_processes == 1  # others would have to take part in the measurement
        fits = rows_that_fit(rows, attempt, accelerator.device) if alone else max(1, rows // 2)
        return out_of_memory_error(rows, self.recipe.accumulate, fits, str(accelerator.device))

    def _end_epoch(self, epoch: int) -> bool:
        """Validate, add the epoch to the history, and return whether to stop."""
        recipe, state = self.recipe, self.state
        self._check_gradient()
        self._count_seconds()
        running, state.running = state.running, {}
        steps = running.get("steps", 0.0)
        line: dict[str, Any] = {
            "epoch": epoch,
            "step": state.step,
            "loss": running.get("loss", 0.0) / steps if steps else None,
            "lr": self.rate(state.step - 1),
            **normalizer_entry(self.criterion.link),
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
        found = self.train.problems
        for where, problem in found.items():
            if where not in self._named and len(self._named) < MOST_NAMED:
                self.context.callback.message(str(problem))
            self._named.add(where)
        check_readable(list(found.values()), len(self.train), self.recipe)

    def _count_seconds(self) -> None:
        """Add the time since the last call to that of the epoch; validation is not counted."""
        now = time.perf_counter()
        self.state.running["seconds"] = self.state.running.get("seconds", 0.0) + now - self._clock
        self._clock = now

    def _validate(self, epoch: int) -> dict[str, Any]:
        self._share_buffers()
        self.evaluated.eval()
        scores, numbers, _ = score_rows(
            self.evaluated, self.validation, batch_size=self.context.validation_batch, dtype=self.context.dtype
        )
        self.network.train()
        if not scores.isfinite().all():
            metrics = {self.monitor.deciding: float("nan")}
        else:
            metrics = self.monitor.measure(scores, self.validation.target[numbers])
        value = metrics[self.monitor.deciding]
        best = next((line["metrics"] for line in reversed(self.state.history) if line.get("best")), None)
        better = self.monitor.better(metrics, best)
        self.state.stale = 0 if better else self.state.stale + 1
        if better:
            self.state.best, self.state.best_epoch = value, epoch
            self.held.keep_best()
        return {"monitor": self.monitor.deciding, "value": value, "best": better, "metrics": metrics}

    def _share_buffers(self) -> None:
        """Broadcast running statistics, which differ between processes, from the first process."""
        if self.context.accelerator.num_processes > 1:
            for buffer in self.evaluated.buffers():
                torch.distributed.broadcast(buffer, 0)

    def save(self) -> None:
        """Write a checkpoint; raise an error instead if weights or optimiser state are not finite."""
        if not self.state.finished:
            self._count_seconds()
        self._check_gradient()
        if not self.context.accelerator.is_main_process:
            return
        path = self.context.run.checkpoint_path
        wrong = self.held.first_nonfinite()
        if wrong is not None:
            raise nonfinite_weights(self.state.step, wrong, path)
        held = (self.held.tensors(), self.held.plain(), self.context.data, self.recipe.record())
        save_checkpoint(path, Checkpoint(self.state, *held))

    def restore(self) -> bool:
        """Continue from the checkpoint in the folder; returns False if there is none."""
        path = self.context.run.checkpoint_path
        if not path.exists():
            return False
        found = load_checkpoint(path)
        found.check_recipe(self.recipe, self.context.run.path)
        try:
            if found.data != self.context.data:
                raise InputError("it was trained on other data")
            found.state.check_fits(self.steps, self.sampler.steps_per_epoch)
            self.held.restore(found.tensors, found.plain, self.context.accelerator.device)
        except InputError as error:
            advice = "the data or the code may have changed: start again in a new folder"
            raise InputError(f"{path} belongs to another training: {error}; {advice}") from error
        self.state = found.state
        return True
