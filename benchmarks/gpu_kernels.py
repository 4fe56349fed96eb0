"""Where the time of a loss goes on a GPU: the kernels of one forward and backward pass, by torch's profiler.

``python -m benchmarks gpu_kernels`` takes a minute, most of it compilation.
"""

from collections import Counter

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu_losses import SHAPES, Step, losses_at
from benchmarks.harness import record

LOSSES = (
    *("F.cross_entropy", "cross-entropy", "noised top-5, 5 draws", "noised top-50, 5 draws", "soft top-5", "average-5", "SPA"),
    *("quasibinary", "sparse-top"),
)
STEPS = 5
TORCH = ("void ", "Mem")  # how the names of torch's own kernels begin, which are counted together


def run() -> None:
    """Profile each loss at each shape."""
    for setting in SHAPES:
        steps = losses_at(setting)
        for loss in LOSSES:
            found = kernels(steps[loss])
            record("gpu-kernels", f"{loss}, {setting}", {"steps": STEPS, "launches": found[1], "microseconds": found[0]})
            print(f"{loss}, {setting}: {found[1]:g} launches, {sum(found[0].values()):.0f} µs", flush=True)
        torch.cuda.empty_cache()


def kernels(step: Step) -> tuple[dict[str, float], float]:
    """Microseconds of each kernel in one step, by name, and the number of launches."""
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    times: Counter[str] = Counter()
    launches = 0
    for event in trace.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times["of torch" if event.name.startswith(TORCH) else event.name] += event.device_time_total
            launches += 1
    return {name: round(total / STEPS, 2) for name, total in times.items()}, launches / STEPS
