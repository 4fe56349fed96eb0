"""What a loss adds to an epoch of training, against k: Garcin et al. 2022, figure 3.

``python -m benchmarks epoch_time`` takes minutes on a GPU, hours without one. DenseNet 40-40 on random pictures of CIFAR-100's
shape, batches of 64 as in the paper. All losses share one network, and take turns of 40 steps in every round.
"""

import torch
from torch import Tensor

from benchmarks.harness import compare
from benchmarks.training_loop import SIDE, pictures, shuffled_batches
from shortlist.losses import CrossEntropyLoss, Loss, NoisedTopkHingeLoss, SmoothTopkHingeLoss
from shortlist.models import InputSpec, Network

BACKBONE, BATCH, CLASSES, STEPS, ROUNDS = "densenet-40-40", 64, 100, 40, 9
KS = (1, 2, 5, 10, 20)


def losses(k: int) -> dict[str, Loss]:
    """The contenders for one k; cross-entropy comes first, to which the others are compared."""
    noised = {f"noised, B = {n}": NoisedTopkHingeLoss(k=k, samples=n) for n in (3, 10, 50)}
    return {"cross-entropy": CrossEntropyLoss(), **noised, "smooth hinge": SmoothTopkHingeLoss(k=k)}


class Trainer:
    """One network and its optimiser; a turn is some steps with a loss."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        images, target = (tensor.to(self.device) for tensor in pictures(STEPS * BATCH, CLASSES))
        inputs = InputSpec("pictures", SIDE, (0.5, 0.5, 0.5), (0.29, 0.29, 0.29))
        network = Network(BACKBONE, "linear", inputs, CLASSES).to(self.device, memory_format=torch.channels_last)
        self.batches: list[tuple[Tensor, Tensor]] = list(shuffled_batches(images, target, BATCH))
        self.model = torch.compile(network) if images.is_cuda else network
        self.optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9, nesterov=True, weight_decay=1e-4, fused=True)

    def turn(self, loss: Loss) -> None:
        """Train with the loss for some steps, until the device is done."""
        for batch, labels in self.batches:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=batch.is_cuda):
                output = self.model(batch)
            value = loss(output.float(), labels)
            self.optimizer.zero_grad(set_to_none=True)
            value.backward()
            self.optimizer.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def run() -> None:
    """Measure every loss at every k."""
    trainer = Trainer()
    for k in KS:
        turns = {name: (lambda loss=loss: trainer.turn(loss)) for name, loss in losses(k).items()}
        compare("epoch-time", f"k = {k}", turns, rounds=ROUNDS)
