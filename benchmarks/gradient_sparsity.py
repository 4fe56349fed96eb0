"""How many coordinates of the gradient with respect to the scores are not zero: Garcin et al. 2022, figure 2.

``python -m benchmarks.gradient_sparsity PATH`` trains one epoch of CIFAR-100 for each epsilon with the paper's network and
optimiser (DenseNet 40-40, SGD, batch 64) and averages over all training rows; PATH is the folder that ``cifar100:PATH`` reads;
a number after it is another batch size.
Cross-entropy and the smooth hinge come along: the paper says that none of their coordinates is zero.
"""

import sys

import torch
from torch import Tensor

from benchmarks.harness import record
from benchmarks.training_loop import SIDE, shuffled_batches
from shortlist.data import PictureArray, read_cifar100
from shortlist.losses import CrossEntropyLoss, Loss, NoisedTopkHingeLoss, SmoothTopkHingeLoss
from shortlist.models import InputSpec, Network

BACKBONE, BATCH, K, SAMPLES = "densenet-40-40", 64, 5, 3
EPSILONS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)


def losses() -> dict[str, Loss]:
    """The series of the figure, and the two losses it is compared with."""
    noised = {
        f"noised top-{K}, ε = {e:g}, B = {SAMPLES}": NoisedTopkHingeLoss(k=K, epsilon=e, samples=SAMPLES) for e in EPSILONS
    }
    return noised | {"cross-entropy": CrossEntropyLoss(), "smooth hinge": SmoothTopkHingeLoss(k=K)}


def one_epoch(loss: Loss, images: Tensor, target: Tensor, classes: int, batch_size: int) -> dict[str, float]:
    """Train for one epoch; means over its rows of the non-zero coordinates, and the training top-5 accuracy on the way."""
    torch.manual_seed(0)
    inputs = InputSpec("pictures", SIDE, (0.5, 0.5, 0.5), (0.29, 0.29, 0.29))
    network = Network(BACKBONE, "linear", inputs, classes).to(images.device, memory_format=torch.channels_last)
    model = torch.compile(network) if images.is_cuda else network
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    nonzero = correct = torch.zeros((), dtype=torch.int64, device=images.device)
    rows = 0
    for batch, labels in shuffled_batches(images, target, batch_size):
        with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
            output = model(batch)
        scores = output.float()
        scores.retain_grad()
        optimizer.zero_grad(set_to_none=True)
        loss(scores, labels).backward()
        optimizer.step()
        gradient = scores.grad
        assert gradient is not None
        nonzero = nonzero + gradient.count_nonzero()
        correct = correct + (scores.detach().topk(K).indices == labels[:, None]).sum()
        rows += len(labels)
    return {"rows": rows, "nonzero": float(nonzero) / rows, f"training top-{K}": 100 * float(correct) / rows}


def run(path: str, batch_size: int = BATCH) -> None:
    """Measure every loss and record it."""
    dataset = read_cifar100(path)
    split = dataset.splits["train"]
    assert isinstance(split.inputs, PictureArray)
    assert split.target is not None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, target = split.inputs.images.to(device), split.target.to(device)
    for name, loss in losses().items():
        found = one_epoch(loss, images, target, len(dataset.classes), batch_size)
        record(
            "gradient-sparsity",
            name,
            {"backbone": BACKBONE, "k": K, "samples": SAMPLES, "classes": len(dataset.classes), **found},
        )
        print(f"{name:34} {found['nonzero']:7.2f} of {len(dataset.classes)}", found, flush=True)


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
