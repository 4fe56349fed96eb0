"""The species of a garden: genera of unequal size, whose members share most organs and differ in few."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shortlist.checks import whole
from shortlist.data.flora.naming import binomials, genus_names
from shortlist.data.flora.traits import ORGANS, TRAITS
from shortlist.data.randomness import Draws
from shortlist.errors import InputError
from shortlist.tensors import Array

# One or two changed organs give a genus some 300 different species.
LARGEST_GENUS = 200
# There are 241,920 different plants; with far fewer species it never takes long to find one that is free.
MOST_SPECIES = 20_000


@dataclass(frozen=True, eq=False)
class Taxa:
    """Who grows in a garden.

    Args:
        genus: number of the genus of each species, int64 (S,).
        typical: the typical value of each trait of each species, int64 (S, T).
        genera: names of the genera.
        classes: names of the species.
    """

    genus: Array
    typical: Array
    genera: list[str]
    classes: list[str]


def grow(species: int, genera: int, draws: Draws) -> Taxa:
    """Species by genus: each genus has typical organs, each of its species changes a trait in one or two of them."""
    species, genera = whole(2)("species", species), whole(1)("genera", genera)
    if species > MOST_SPECIES:
        raise InputError(f"species: expected at most {MOST_SPECIES:,}, got {species:,}")
    if species < genera:
        raise InputError(f"genera: expected at most one for each of the {species} species, got {genera}")
    sizes = _genus_sizes(species, genera, draws)
    taken: set[tuple[int, ...]] = set()
    typical = [organs for size in sizes for organs in _genus(size, taken, draws)]
    genus = np.repeat(np.arange(genera), sizes)
    names = genus_names(genera, draws.below)
    return Taxa(genus, np.array(typical), names, binomials([names[place] for place in genus], draws.below))


def _genus_sizes(species: int, genera: int, draws: Draws) -> list[int]:
    """At least two species each where there are enough; the others fall where they find room, more often in large genera."""
    sizes = [min(2, species // genera)] * genera
    if species > LARGEST_GENUS * genera // 2:
        raise InputError(f"species: expected at most {LARGEST_GENUS // 2} for each of the {genera} genera, got {species}")
    for _ in range(species - sum(sizes)):
        place = draws.below(sum(sizes))  # in proportion to its size: the rich get richer (Yule, 1925)
        chosen = int(np.searchsorted(np.cumsum(sizes), place, side="right"))
        while sizes[chosen] >= LARGEST_GENUS:
            chosen = (chosen + 1) % genera
        sizes[chosen] += 1
    return sizes


def _genus(size: int, taken: set[tuple[int, ...]], draws: Draws) -> Iterator[list[int]]:
    base = [draws.below(len(trait.values)) for trait in TRAITS]
    while size:
        organs = list(base)
        for organ in draws.shuffled(len(ORGANS))[: 1 + draws.below(2)]:
            columns = [place for place, trait in enumerate(TRAITS) if trait.organ == ORGANS[organ]]
            column = columns[draws.below(len(columns))]
            organs[column] = draws.below(len(TRAITS[column].values))
        if tuple(organs) not in taken:
            taken.add(tuple(organs))
            size -= 1
            yield organs
