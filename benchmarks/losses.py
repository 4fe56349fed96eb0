"""What each loss costs, as a multiple of ``F.cross_entropy`` in the same run: forward and backward, two threads."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from benchmarks.harness import compare, record
from shortlist import losses
from shortlist.operators import sparse_top

ROWS = 256
SPREADS = {"flat": 0.01, "spread 3": 3.0}


def run() -> None:
    torch.manual_seed(0)
    _topk()
    _every_loss()
    _label_pairs()
    _sparse()
    _memory()


def _data(classes: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = spread * torch.randn(ROWS, classes, generator=generator)
    return scores.requires_grad_(), torch.randint(classes, (ROWS,), generator=generator)


def _trained(loss: Callable[..., torch.Tensor], scores: torch.Tensor, target: Any, **keywords: Any) -> Callable[[], None]:
    """Forward and backward."""

    def step() -> None:
        scores.grad = None
        loss(scores, target, **keywords).backward()

    return step


def _topk() -> None:
    """Smoothed hinges against cross-entropy, over classes, k and how flat the scores are."""
    for classes in (100, 1081, 43_000):
        for shape, spread in SPREADS.items():
            scores, target = _data(classes, spread)
            for k in (1, 5, 20, 50):
                contenders = {
                    "F.cross_entropy": _trained(cross_entropy, scores, target),
                    "noised, 5 draws": _trained(losses.noised_topk_hinge_loss, scores, target, k=k),
                    "soft": _trained(losses.noised_topk_hinge_loss, scores, target, k=k, smoothing="soft"),
                }
                if classes < 2000:
                    contenders["smooth hinge"] = _trained(losses.smooth_topk_hinge_loss, scores, target, k=k)
                    contenders |= _pytopk(scores, target, k)
                setting = f"{ROWS} × {classes:,}, k = {k}, {shape}"
                compare("topk-losses", setting, contenders, rounds=7 if classes > 2000 else 31, warm=True)


def _pytopk(scores: torch.Tensor, target: torch.Tensor, k: int) -> dict[str, Callable[[], None]]:
    try:
        from pytopk import BalNoisedTopK
    except ImportError:
        return {}
    rival = BalNoisedTopK(k=k, epsilon=1.0, n_sample=5)
    return {"pytopk noised, 5 draws": _trained(rival, scores, target)}


def _every_loss() -> None:
    """Each loss at its defaults."""
    scores, target = _data(1081, 3.0)
    many = torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) < 0.003
    margins = losses.class_margins(torch.arange(1, 1082))
    single: dict[str, Any] = {
        "cross_entropy_loss": {},
        "focal_loss": {},
        "ldam_loss": {"margins": margins},
        "topk_hinge_loss": {"k": 5},
        "convex_topk_hinge_loss": {"k": 5},
        "calibrated_topk_hinge_loss": {"k": 5},
        "smooth_topk_hinge_loss": {"k": 5},
        "noised_topk_hinge_loss": {"k": 5},
        "assume_negative_loss": {},
        "expected_positive_loss": {"k": 5},
        "role_loss": {"k": 5, "estimates": torch.zeros(ROWS, 1081, requires_grad=True)},
        "conformal_training_loss": {},
        "cardinality_aware_loss": {"size_scores": torch.zeros(ROWS, 4, requires_grad=True)},
        "average_k_loss": {"k": 5, "proposal_scores": scores.detach().clone().requires_grad_()},
    }
    several = ("sparse_top_loss", "binary_cross_entropy_loss", "asymmetric_focal_loss", "spa_loss", "two_way_loss")
    several += ("label_pair_penalty", "quasibinary_loss", "uniform_outlier_loss", "confidence_outlier_loss")
    cases = [(name, target, keywords) for name, keywords in single.items()] + [(name, many, {}) for name in several]
    contenders = {"F.cross_entropy": _trained(cross_entropy, scores, target)}
    for name, labels, keywords in cases:
        contenders[name] = _trained(getattr(losses, name), scores, labels, **keywords)
    compare("losses", f"{ROWS} × 1,081, spread 3", contenders, rounds=31, warm=True)


def _label_pairs() -> None:
    """Labels as in COCO (80, 2.9 a row) and corel5k (374, 3.5 a row)."""
    for labels, present in ((80, 2.9), (374, 3.5)):
        scores, _ = _data(labels, 3.0)
        target = torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) < present / labels
        floats = target.float()
        contenders = {
            "BCE": _trained(binary_cross_entropy_with_logits, scores, floats),
            "label_pair_penalty": _trained(losses.label_pair_penalty, scores, target),
        }
        compare("label-pairs", f"{ROWS} × {labels}, {present} labels a row", contenders, rounds=51, warm=True)


def _sparse() -> None:
    try:
        from entmax import budget_bisect
    except ImportError:
        return
    for shape, spread in SPREADS.items():
        scores = _data(1081, spread)[0].detach()
        for k in (1, 5, 20, 50):
            contenders = {
                "sparse_top": partial(sparse_top, scores, k),
                "entmax budget_bisect": partial(budget_bisect, scores, k),
            }
            compare("sparse-top", f"{ROWS} × 1,081, k = {k}, {shape}", contenders, rounds=31, warm=True)


MEMORY = """
import torch
from shortlist.losses import noised_topk_hinge_loss

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024

torch.manual_seed(0)
target = torch.zeros({rows}, dtype=torch.int64)
with torch.no_grad():
    noised_topk_hinge_loss(torch.randn(2, {classes}), target[:2], k=5)
    scores = torch.empty({rows}, {classes}).normal_().mul_(3)
    before = peak()
    noised_topk_hinge_loss(scores, target, k=5)
print((peak() - before) / (scores.numel() * 4))
"""


def _memory() -> None:
    """The most memory beyond the scores while the noised hinge is computed, as a multiple of them, in a process of its own."""
    for rows, classes in ((ROWS, 43_000), (4 * ROWS, 1081)):
        code = MEMORY.format(rows=rows, classes=classes)
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        record("noised-memory", f"{rows} × {classes:,}, k = 5", {"extra_over_scores": float(found.stdout)})
        print(f"noised-memory {rows} × {classes:,}: {float(found.stdout):.2f} × the scores")
