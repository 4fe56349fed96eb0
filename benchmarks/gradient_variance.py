"""How much the gradient of each smoothing of the k-th largest varies from draw to draw, and what it costs."""

import time

import torch

from benchmarks.harness import record
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value

CLASSES, ROWS, DRAWS, K = 100, 64, 200, 6


def run() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape, spread in (("flat", 0.01), ("spread 3", 3.0)):
        scores = (spread * torch.randn(ROWS, CLASSES, generator=generator, dtype=torch.float64)).requires_grad_()
        (truth,) = torch.autograd.grad(expected_top_value(scores, K).sum(), scores)
        kinds = {f"noised, {n} draws": lambda n=n: noised_top_value(scores, K, 1.0, n) for n in (2, 10, 50)}
        kinds |= {
            f"antithetic, {n} draws": lambda n=n: noised_top_value(scores, K, 1.0, n, antithetic=True) for n in (2, 10, 50)
        }
        kinds["soft"] = lambda: soft_top_value(scores, K)
        for name, value in kinds.items():
            _measure(f"{ROWS} × {CLASSES}, k = 5, {shape}: {name}", value, scores, truth, 1 if name == "soft" else DRAWS)


def _measure(setting: str, value, scores: torch.Tensor, truth: torch.Tensor, draws: int) -> None:
    torch.manual_seed(0)
    gradients, start = [], time.perf_counter()
    for _ in range(draws):
        gradients.append(torch.autograd.grad(value().sum(), scores)[0])
    seconds = (time.perf_counter() - start) / draws
    found = torch.stack(gradients)
    scale = truth.square().sum(1).mean()
    variance = float(found.var(0, correction=0).sum(1).mean() / scale)
    bias = float((found.mean(0) - truth).square().sum(1).mean() / scale)
    record("gradient-variance", setting, {"draws": draws, "variance": variance, "bias": bias, "ms": 1e3 * seconds})
    print(f"{setting:52} variance {variance:9.4f}  squared bias {bias:9.4f}  {1e3 * seconds:7.2f} ms")
