"""How common each species is: all alike, or a long tail like Pl@ntNet-300K's."""

from typing import Literal, TypeAlias

import numpy as np

from shortlist.data.statistics import LongTail
from shortlist.errors import InputError
from shortlist.tensors import Array

Abundance: TypeAlias = Literal["long-tailed", "balanced"]
# Of Pl@ntNet-300K: the rarest 80 % of the species hold 11 % of the pictures.
TAIL_SPECIES, TAIL_SHARE = 0.8, 0.11
# Spread evenly over all species, so that the rarest is still met: it has one picture where the average species has fifty.
EVEN = 0.02
# Below five species 20 % of them are less than one.
FEWEST = 5


def abundances(species: int, law: Abundance) -> Array:
    r"""The share of each species, commonest first, float64 (species,).

    Long-tailed: 98 % fall off geometrically, :math:`share_r \propto q^r`, 2 % are spread evenly, and q is the one for which the
    rarest 80 % of the species hold 11 %.

    >>> abundances(4, "balanced")
    array([0.25, 0.25, 0.25, 0.25])
    >>> round(float(abundances(120, "long-tailed")[24:].sum()), 3)
    0.11

    Garcin et al., "Pl@ntNet-300K", 2021.
    """
    if law == "balanced":
        return np.full(species, 1 / species)
    if law != "long-tailed":
        raise InputError(f"abundance: expected 'long-tailed' or 'balanced', got {law!r}")
    if species < FEWEST:
        few = abundances(FEWEST, law)[:species]
        few /= few.sum()
        return few
    from scipy.optimize import brentq

    # In terms of the logarithm of the last weight, the search has the same bounds for any number of species.
    fall = brentq(lambda fall: _tail(species, fall) - TAIL_SHARE, 1e-3, 1e3, xtol=1e-12)
    return _geometric(species, float(fall))


def _tail(species: int, fall: float) -> float:
    return LongTail(_geometric(species, fall)).share_of_rarest(TAIL_SPECIES)


def _geometric(species: int, fall: float) -> Array:
    weight = np.exp(-fall * np.linspace(0.0, 1.0, species))
    weight /= weight.sum()
    return weight * (1 - EVEN) + EVEN / species
