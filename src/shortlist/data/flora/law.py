"""The law of what is seen, and with it the exact posterior of every observation."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from shortlist.data.flora.traits import HIDDEN, TRAITS, VIEWS, View
from shortlist.data.randomness import categories
from shortlist.errors import InputError
from shortlist.tensors import Array


class Law:
    r"""How species look: :math:`P(shown | species) = \prod_{t\ \mathrm{shown}} P(shown_t | typical_t)`.

    Given the species, the traits of an individual are independent, and which of them a picture shows depends on nothing. So the
    posterior needs only the shown traits: :math:`P(species | shown) \propto prior \cdot P(shown | species)`.

    Args:
        typical: the typical value of each trait of each species, int64 (S, T).
        variation: scales how often an individual differs from its species; 0 for never.
    """

    def __init__(self, typical: Array, variation: float = 1.0):
        self.tables = [_scaled(trait.variation, variation)[typical[:, column]] for column, trait in enumerate(TRAITS)]

    def likelihood(self, shown: Array, columns: Sequence[int] = range(len(TRAITS))) -> Array:
        """The probability of each observation under each species, float64 (n, S); hidden traits contribute nothing."""
        found = np.ones((len(shown), len(self.tables[0])))
        for column in columns:
            seen = shown[:, column] != HIDDEN
            found[seen] *= self.tables[column][:, shown[seen, column]].T
        return found

    def individuals(self, species: Array, chance: Array) -> Array:
        """All traits of an individual of each species, from a uniform number for each trait, int64 (n, T)."""
        columns = [categories(chance[:, column], np.cumsum(table, axis=1)[species]) for column, table in enumerate(self.tables)]
        return np.stack(columns, axis=1)

    def posterior(self, shown: Array, prior: Array, dtype: type[np.floating[Any]] = np.float64) -> Array:
        """The probability of each species given each observation, (n, S); rounded to ``dtype`` before rows are repeated."""
        codes, places = np.unique(_codes(shown), return_inverse=True)
        first = np.empty(len(codes), np.int64)
        first[places] = np.arange(len(shown))
        joint = self.likelihood(shown[first]) * prior
        mass = joint.sum(1, keepdims=True)
        if not (mass > 0).all():
            row = int(np.flatnonzero(places == int((mass[:, 0] == 0).argmax()))[0])
            raise InputError(f"observation {row}: no species of this garden can look like this")
        found: Array = (joint / mass).astype(dtype)[places]
        return found


def _scaled(variation: Array, scale: float) -> Array:
    """The same law with deviations so many times as frequent."""
    return np.eye(len(variation)) * (1 - scale) + variation * scale


def _codes(shown: Array) -> Array:
    """One number for each observation."""
    code = np.zeros(len(shown), np.int64)
    for column, trait in enumerate(TRAITS):
        code = code * (len(trait.values) + 1) + (shown[:, column] + 1)
    return code


def every_observation(views: Sequence[View] = VIEWS) -> Iterator[tuple[View, Array]]:
    """Each view with everything that it could show, int64 (n, T)."""
    for view in views:
        grid = np.indices([len(trait.values) for trait in view.shown]).reshape(len(view.shown), -1).T
        shown = np.full((len(grid), len(TRAITS)), HIDDEN)
        shown[:, view.columns] = grid
        yield view, shown
