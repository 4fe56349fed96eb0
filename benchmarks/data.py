"""Scores like those of a trained network: peaked, with confusable neighbours, in any size."""

import torch
from torch import Tensor


def single_label(rows: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Softmax probabilities and labels drawn from them."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, classes, generator=generator)
    label = torch.randint(classes, (rows,), generator=generator)
    scores[torch.arange(rows), label] += 6
    probs = torch.softmax(scores, dim=1)
    return probs, torch.multinomial(probs, 1, generator=generator).squeeze(1)


def multi_label(rows: int, labels: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sigmoid probabilities and labels drawn from them, about 3 in 80 positive as in MS-COCO."""
    generator = torch.Generator().manual_seed(seed)
    probs = torch.sigmoid(2.2 * torch.randn(rows, labels, generator=generator) - 5)
    return probs, torch.rand(rows, labels, generator=generator) < probs
