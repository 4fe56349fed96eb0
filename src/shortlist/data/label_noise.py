"""Label noise: wrong labels, and the posterior of the noisy label."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_labels, share
from shortlist.data.randomness import Purpose, uniforms
from shortlist.errors import InputError
from shortlist.tensors import Array, Target, as_target, check_scores, is_single_label, shape_of


def superclass_noise(target: Target, superclass_of: Any, p: float, *, seed: int) -> Target:
    r"""With probability ``p`` a label is drawn again, uniformly among the classes of its superclass, itself included.

    .. math:: P(\mathrm{noisy} = j \mid target) = (1 - p)\,1[j = target] + p\,\frac{1[j \sim target]}{|\{c : c \sim target\}|}

    where :math:`j \sim target` says that the two have the same superclass. In superclasses of 5 classes, p = 0.5 changes 40 %
    of the labels. The draw for row i depends on the seed and on i only.

    Args:
        target: one label a row, int64 (N,).
        superclass_of: number of the superclass of each class, int64 (C,).
        p: how often a label is drawn again.
        seed: of the draw.

    >>> superclass_noise(torch.arange(6), torch.tensor([0, 0, 0, 1, 1, 1]), 1.0, seed=0)
    tensor([1, 1, 2, 4, 4, 5])

    Garcin, Servajean, Joly, Salmon, "Stochastic smoothing of the top-K calibrated hinge loss for deep imbalanced
    classification", 2022, Section 4.4; there a label that is drawn again always changes.
    """
    p = share("p", p)
    groups = _checked(superclass_of)
    target = as_target(target)
    if not is_single_label(target) or target.dtype != torch.int64:
        raise InputError(f"target: expected int64 (N,), one label a row, got {shape_of(target)}")
    check_labels(target, len(groups))
    if not len(target):
        return target.clone()
    again, place = uniforms(seed, Purpose.LABEL_NOISE, 0, len(target), 2).T
    members = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    first = sizes.cumsum() - sizes
    labels = target.cpu().numpy()
    group = groups[labels]
    drawn = members[first[group] + (place * sizes[group]).astype(np.int64)]
    noisy = np.where(again < p, drawn, labels)
    return torch.from_numpy(noisy).to(target.device)


def noisy_posterior(posterior: Tensor, superclass_of: Any, p: float) -> Tensor:
    r"""The distribution of the noisy label, given that of the true one.

    .. math:: (1 - p)\,posterior_j + p\,\frac{\sum_{c \sim j} posterior_c}{|\{c : c \sim j\}|}

    Args:
        posterior: floating point (N, C).
        superclass_of: number of the superclass of each class, int64 (C,).
        p: as for :func:`superclass_noise`.

    >>> noisy_posterior(torch.tensor([[0.75, 0.0, 0.25]]), torch.tensor([0, 0, 1]), 0.5)
    tensor([[0.5625, 0.1875, 0.2500]])
    """
    p = share("p", p)
    check_scores(posterior, "posterior")
    groups = torch.from_numpy(_checked(superclass_of)).to(posterior.device)
    if posterior.shape[1] != len(groups):
        raise InputError(f"superclass_of: expected one for each of the {posterior.shape[1]} classes, got {len(groups)}")
    sizes = groups.bincount()
    mass = posterior.new_zeros(len(posterior), len(sizes)).index_add_(1, groups, posterior)
    return (1 - p) * posterior + p * (mass / sizes.clamp(min=1))[:, groups]


def _checked(superclass_of: Any) -> Array:
    groups = as_target(superclass_of)
    if groups.dtype != torch.int64 or groups.ndim != 1 or bool((groups < 0).any()):
        raise InputError(f"superclass_of: expected int64 (C,) from 0, got {shape_of(groups)}")
    return np.asarray(groups.cpu().numpy())
