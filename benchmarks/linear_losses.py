"""A linear head and its loss together, some rows at a time, against computing the scores first: time and memory on a GPU.

``python -m benchmarks linear_losses`` takes half a minute once the kernels are compiled.
"""

import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from benchmarks.gpu_kernels import STEPS, kernels
from benchmarks.gpu_losses import Step, extra_bytes, recorded, waited
from benchmarks.harness import compare, in_turns, record
from shortlist import losses
from shortlist.losses import Loss, loss_of_linear

ROWS, FEATURES, CLASSES = 4096, 768, 43_000
OF_TORCH = "cross-entropy, scores first by F.cross_entropy"
LOSSES: dict[str, Loss] = {
    OF_TORCH: losses.CrossEntropyLoss(),
    "cross-entropy": losses.CrossEntropyLoss(),
    "noised top-5, 5 draws": losses.NoisedTopkHingeLoss(k=5),
    "average-5, two heads": losses.AverageKLoss(k=5),
    "SPA": losses.SpaLoss(),
    "asymmetric focal": losses.AsymmetricFocalLoss(),
}


ROWS_AT_ONCE = (512, 1024, 1408, 2048, 4096)


def run() -> None:
    """Measure forward and backward of each loss, float32 weights under autocast to bfloat16."""
    for name, loss in LOSSES.items():
        steps = _steps(loss, cross_entropy if name == OF_TORCH else loss)
        setting = f"{name}, {ROWS:,} × {FEATURES} → {CLASSES:,}, bfloat16"
        compare("linear-losses", setting, {way: waited(step) for way, step in steps.items()}, rounds=15, warm=True)
        memory = {way: extra_bytes(step) / 1e6 for way, step in steps.items()}
        record("linear-loss-memory", setting, {"extra_mb": memory})
        print(f"{'linear-loss-memory':28} {setting:60} {memory['together']:8.0f} of {memory['scores first']:.0f} MB")
        replayed = {way: waited(recorded(step)) for way, step in steps.items()}
        compare("linear-losses-replayed", setting, replayed, rounds=15, warm=True)
        for way, step in steps.items():
            times, launches = kernels(step)
            record("linear-loss-kernels", f"{setting}, {way}", {"steps": STEPS, "launches": launches, "microseconds": times})
        del steps, replayed
        torch.cuda.empty_cache()
    for name in ("cross-entropy", "noised top-5, 5 draws", "average-5, two heads"):
        _by_rows(name)
        torch.cuda.empty_cache()


def _by_rows(name: str) -> None:
    """What chunks of other sizes take: more rows read and write the gradient of the weight less often, and need more memory."""
    loss = LOSSES[name]
    ways = {rows: _steps(loss, loss, rows_at_once=rows)["together"] for rows in ROWS_AT_ONCE}
    memory = {rows: extra_bytes(step) / 1e6 for rows, step in ways.items()}
    times = in_turns({str(rows): waited(recorded(step)) for rows, step in ways.items()}, rounds=15, warm=True)
    found = {
        str(rows): {"median_ms": 1e3 * statistics.median(times[str(rows)]), "extra_mb": memory[rows]} for rows in ROWS_AT_ONCE
    }
    record("linear-loss-chunks", f"{name}, {ROWS:,} × {FEATURES} → {CLASSES:,}, bfloat16", {"rows_at_once": found})
    print(f"{'linear-loss-chunks':28} {name:60} {found}")
    torch.cuda.empty_cache()


def _steps(loss: Loss, of_scores: Callable[..., Tensor], rows_at_once: int | None = None) -> dict[str, Step]:
    generator = torch.Generator("cuda").manual_seed(0)
    draw = partial(torch.randn, generator=generator, device="cuda")
    heads = 2 if isinstance(loss, losses.AverageKLoss) else 1
    inputs = draw(ROWS, FEATURES).requires_grad_()
    weights = [draw(CLASSES, FEATURES).div_(FEATURES**0.5 / 3).requires_grad_() for _ in range(heads)]
    biases = [torch.zeros(CLASSES, device="cuda", requires_grad=True) for _ in range(heads)]
    target = torch.randint(CLASSES, (ROWS,), generator=generator, device="cuda")

    def first() -> Tensor:
        scores = [linear(inputs, weight, bias) for weight, bias in zip(weights, biases, strict=True)]
        return of_scores(tuple(scores) if heads == 2 else scores[0], target)

    def together() -> Tensor:
        if heads == 1:
            return loss_of_linear(loss, inputs, weights[0], biases[0], target, rows_at_once=rows_at_once)
        pairs = (weights[0], weights[1]), (biases[0], biases[1])
        return loss_of_linear(loss, inputs, *pairs, target, rows_at_once=rows_at_once)

    leaves = [inputs, *weights, *biases]
    return {"together": _step(together, leaves), "scores first": _step(first, leaves)}


def _step(loss: Callable[[], Tensor], leaves: list[Tensor]) -> Step:
    """Forward and backward."""

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        with torch.autocast("cuda", torch.bfloat16):
            value = loss()
        value.backward()

    return step
