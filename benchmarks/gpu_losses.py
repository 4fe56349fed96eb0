"""What each loss costs on a GPU, as a multiple of ``F.cross_entropy`` in the same run, and the memory it needs.

Each is timed twice: called from Python, where small batches cost what the calls cost, and replayed from a CUDA graph, where
only the work of the device counts. ``python -m benchmarks gpu_losses`` takes a quarter of an hour the first time, when kernels
are compiled, and a minute after that.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from benchmarks.harness import compare, record
from shortlist import losses

MOST_LABEL_PAIRS = 2_000  # labels for which the penalty on pairs is tried

Step = Callable[[], None]


class Setting(NamedTuple):
    """Scores to measure on.

    Args:
        rows: the batch.
        classes: the number of classes.
        dtype: the precision of the scores.
        ks: the sizes of the losses that have one.
    """

    rows: int
    classes: int
    dtype: torch.dtype = torch.float32
    ks: tuple[int, ...] = (5, 50)

    def __str__(self) -> str:
        name = "" if self in SHAPES else f" {str(self.dtype).removeprefix('torch.')}"
        return f"{self.rows:,} × {self.classes:,}{name}"


# Pl@ntNet-300K, iNaturalist 2018, Pl@ntNet's species.
SHAPES = [Setting(1024, 1_081), Setting(4096, 8_142), Setting(1024, 43_000)]
CLASSES, DTYPES, KS = (100, 1_081, 10_000, 43_000), (torch.float32, torch.bfloat16, torch.float16), (1, 5, 50)
GRID = [Setting(1024, classes, dtype, KS) for dtype in DTYPES for classes in CLASSES]


def run() -> None:
    """Measure every loss at every shape, then over the grid of classes, precisions and k."""
    for setting in [*SHAPES, *GRID]:
        measure(setting)


def measure(setting: Setting) -> None:
    """Time called and replayed, and memory, of every loss."""
    steps, name = losses_at(setting), str(setting)
    compare("gpu-losses", name, {loss: waited(step) for loss, step in steps.items()}, rounds=25, warm=True)
    record("gpu-loss-memory", name, {"extra_mb": {loss: extra_bytes(step) / 1e6 for loss, step in steps.items()}})
    replayed = {loss: waited(recorded(step)) for loss, step in steps.items()}
    compare("gpu-losses-replayed", name, replayed, rounds=25, warm=True)
    record("gpu-loss-floor", name, {"floor_ms": _floor(setting.rows, setting.classes) * setting.dtype.itemsize / 4})
    torch.cuda.empty_cache()


def _floor(rows: int, classes: int) -> float:
    """Milliseconds to read as many float32 scores once and write them once, at the measured speed of a large copy."""
    source = torch.zeros(2**28, device="cuda")
    target = torch.empty_like(source)
    copies = 10
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    target.copy_(source)
    begin.record()
    for _ in range(copies):
        target.copy_(source)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / copies * rows * classes / source.numel()


def recorded(step: Step) -> Step:
    """The step as a CUDA graph that is replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def waited(step: Step) -> Step:
    """The step, until the device is done."""

    def until_done() -> None:
        step()
        torch.cuda.synchronize()

    return until_done


def losses_at(setting: Setting) -> dict[str, Step]:
    """Forward and backward of every loss on random scores."""
    rows, classes = setting.rows, setting.classes
    generator = torch.Generator("cuda").manual_seed(0)
    scores = (3 * torch.randn(rows, classes, generator=generator, device="cuda")).to(setting.dtype).requires_grad_()
    other = scores.detach().clone().requires_grad_()
    target = torch.randint(classes, (rows,), generator=generator, device="cuda")
    many = torch.rand(scores.shape, generator=generator, device="cuda") < 3 / classes
    margins = losses.class_margins(torch.arange(1, classes + 1)).cuda()
    single: dict[str, tuple[str, dict[str, Any]]] = {
        "cross-entropy": ("cross_entropy_loss", {}),
        "focal": ("focal_loss", {}),
        "LDAM": ("ldam_loss", {"margins": margins}),
        "smooth hinge, k = 5": ("smooth_topk_hinge_loss", {"k": 5}),
    }
    for k in (k for k in setting.ks if k < classes):
        single |= {
            f"noised top-{k}, 5 draws": ("noised_topk_hinge_loss", {"k": k}),
            f"soft top-{k}": ("noised_topk_hinge_loss", {"k": k, "smoothing": "soft"}),
            f"average-{k}": ("average_k_loss", {"k": k, "proposal_scores": other}),
        }
    several = {
        "SPA": "spa_loss",
        "asymmetric focal": "asymmetric_focal_loss",
        "quasibinary": "quasibinary_loss",
        "sparse-top": "sparse_top_loss",
        **({"label pair penalty": "label_pair_penalty"} if classes <= MOST_LABEL_PAIRS else {}),
    }
    steps = {
        "F.cross_entropy": _step(cross_entropy, scores, target),
        "F.binary_cross_entropy_with_logits": _step(binary_cross_entropy_with_logits, scores, many.to(setting.dtype)),
    }
    steps |= {name: _step(getattr(losses, function), scores, target, **more) for name, (function, more) in single.items()}
    return steps | {name: _step(getattr(losses, function), scores, many) for name, function in several.items()}


def _step(loss: Callable[..., Tensor], scores: Tensor, target: Tensor, **more: Any) -> Step:
    """Forward and backward."""
    leaves = [scores, *(value for value in more.values() if isinstance(value, Tensor) and value.requires_grad)]

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss(scores, target, **more).backward()

    return step


def extra_bytes(step: Step) -> int:
    """The peak of a step above the scores and their gradients, which are there before it."""
    step()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    return torch.cuda.max_memory_allocated() - before
