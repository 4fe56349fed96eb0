"""What a plant looks like: organs, their traits, the values of each trait, and how individuals vary.

An individual shows the typical value of its species, or with a known probability a neighbouring one: a petal more or less, a
colour shifted to the next. What a photograph shows depends on its view, and the view on nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shortlist.tensors import Array


@dataclass(frozen=True)
class Trait:
    """One trait: its values in an order in which neighbours look alike, and how often an individual is off by one.

    >>> Trait("petals", "flower", ("3", "4", "5"), 0.2).variation
    array([[0.8, 0.2, 0. ],
           [0.1, 0.8, 0.1],
           [0. , 0.2, 0.8]])
    """

    name: str
    organ: str
    values: Sequence[str]
    shift: float

    @cached_property
    def variation(self) -> Array:
        """The probability of each shown value (columns) given the typical one (rows), float64 (V, V)."""
        count = len(self.values)
        law = np.eye(count) * (1 - self.shift)
        for typical in range(count):
            neighbours = [value for value in (typical - 1, typical + 1) if 0 <= value < count]
            law[typical, neighbours] = self.shift / len(neighbours)
        return law


PETALS = Trait("petals", "flower", ("3", "4", "5", "6", "7", "8"), 0.24)
PETAL_SHAPE = Trait("petal shape", "flower", ("notched", "round", "pointed", "narrow"), 0.12)
PETAL_COLOUR = Trait("petal colour", "flower", ("white", "yellow", "orange", "red", "pink", "purple", "blue"), 0.20)
CENTRE = Trait("centre", "flower", ("small yellow", "large yellow", "large dark", "small dark"), 0.12)
OUTLINE = Trait("leaf outline", "leaf", ("linear", "lance", "oval", "round", "heart", "lobed"), 0.14)
MARGIN = Trait("leaf margin", "leaf", ("smooth", "scalloped", "toothed"), 0.12)
FRUIT = Trait("fruit", "fruit", ("red berries", "black berries", "plum", "cone", "pod"), 0.08)
HABIT = Trait("habit", "habit", ("rosette", "upright", "bush", "climber"), 0.08)

TRAITS = (PETALS, PETAL_SHAPE, PETAL_COLOUR, CENTRE, OUTLINE, MARGIN, FRUIT, HABIT)
ORGANS = tuple(dict.fromkeys(trait.organ for trait in TRAITS))
HIDDEN = -1


@dataclass(frozen=True)
class View:
    """What a photograph shows, and how often such a one is taken."""

    name: str
    shown: tuple[Trait, ...]
    share: float

    @cached_property
    def columns(self) -> list[int]:
        """The places of the shown traits in :data:`TRAITS`."""
        return [TRAITS.index(trait) for trait in self.shown]


# From afar a plant shows its habit, its colour and the outline of its leaves; petals cannot be counted there.
VIEWS = (
    View("flower", (PETALS, PETAL_SHAPE, PETAL_COLOUR, CENTRE), 0.25),
    View("leaf", (OUTLINE, MARGIN), 0.20),
    View("flower and leaf", (PETALS, PETAL_SHAPE, PETAL_COLOUR, CENTRE, OUTLINE, MARGIN), 0.25),
    View("fruit and leaf", (OUTLINE, MARGIN, FRUIT), 0.15),
    View("whole plant", (PETAL_COLOUR, OUTLINE, HABIT), 0.15),
)
# From above, in a plot, a plant shows its flower and the outline of its leaves.
FROM_ABOVE = View("from above", (PETALS, PETAL_COLOUR, OUTLINE), 1.0)
