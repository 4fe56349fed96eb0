"""How much the gradient of each smoothing of the k-th largest varies from draw to draw, and what it costs."""

import time
from functools import partial

import torch

from benchmarks.harness import record
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value

CLASSES, ROWS, DRAWS, K = 100, 64, 200, 6


def run() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape, spread in (("flat", 0.01), ("spread 3", 3.0)):
        scores = (spread * torch.randn(ROWS, CLASSES, generator=generator, dtype=torch.float64)).requires_grad_()
        (truth,) = torch.autograd.grad(expected_top_value(scores, K).sum(), scores)
        kinds = {f"noised, {n} draws": partial(noised_top_value, samples=n) for n in (2, 10, 50)}
        kinds |= {f"antithetic, {n} draws": partial(noised_top_value, samples=n, antithetic=True) for n in (2, 10, 50)}
        kinds["soft"] = soft_top_value
        for name, smoothing in kinds.items():
            _measure(f"{ROWS} × {CLASSES}, k = 5, {shape}: {name}", smoothing, scores, truth, 1 if name == "soft" else DRAWS)


def _measure(setting: str, smoothing, scores: torch.Tensor, truth: torch.Tensor, draws: int) -> None:
    torch.manual_seed(0)
    start = time.perf_counter()
    gradients = [torch.autograd.grad(smoothing(scores, K).sum(), scores)[0] for _ in range(draws)]
    seconds = (time.perf_counter() - start) / draws
    found = torch.stack(gradients)
    scale = truth.square().sum(1).mean()
    variance = float(found.var(0, correction=0).sum(1).mean() / scale)
    bias = float((found.mean(0) - truth).square().sum(1).mean() / scale)
    record("gradient-variance", setting, {"draws": draws, "variance": variance, "bias": bias, "ms": 1e3 * seconds})
    print(f"{setting:52} variance {variance:9.4f}  squared bias {bias:9.4f}  {1e3 * seconds:7.2f} ms")
