"""Plots with several plants or none: habitats make species occur together, and the probability of each species is exact."""

from dataclasses import dataclass

import numpy as np
from scipy.special import comb, softmax

from shortlist.data.flora.law import Law, every_observation
from shortlist.data.flora.species import Taxa
from shortlist.data.flora.traits import FROM_ABOVE, HIDDEN, TRAITS
from shortlist.data.randomness import Draws, Purpose, categories, uniforms
from shortlist.errors import InputError
from shortlist.tensors import Array, row_blocks

MOST_PLANTS = 8
HABITATS = ("scree", "dune", "heath", "wood", "meadow")
# The chance of each of the eight possible plants to be there: from bare ground to lush.
DENSITY = np.array([0.12, 0.25, 0.40, 0.55, 0.70])
# A species has a home, mostly that of its genus, and is that many times as frequent there as in any other habitat.
KEEPS_HOME_OF_GENUS = 0.7
AT_HOME = 12.0
NO_PLANT = -1


@dataclass(frozen=True, eq=False)
class Plots:
    """What grows in each of n plots.

    Args:
        species: of each plant, int64 (n, 8), -1 where there is none; the plants that are there come first.
        shown: what is seen of each plant, int64 (n, 8, T), -1 where hidden or no plant.
    """

    species: Array
    shown: Array

    def target(self, classes: int) -> Array:
        """Which species are there, bool (n, S)."""
        found = np.zeros((len(self.species), classes + 1), bool)
        np.put_along_axis(found, self.species, True, axis=1)  # -1 marks the extra column
        return found[:, :classes]


class Habitats:
    r"""The law of plots: a habitat, a number of plants, and given the habitat each plant on its own.

    With :math:`q_{hi}(s)` the posterior of species s given what plant i shows and habitat h, and :math:`P(h | plot)` the
    posterior of the habitat given all plants and their number, the probability that s is in the plot is

    .. math:: 1 - \sum_h P(h | plot) \prod_i (1 - q_{hi}(s)).
    """

    def __init__(self, taxa: Taxa, prior: Array, law: Law, draws: Draws):
        genus_home = [draws.below(len(HABITATS)) for _ in taxa.genera]
        homes = [
            genus_home[genus] if draws.below(1000) < 1000 * KEEPS_HOME_OF_GENUS else draws.below(len(HABITATS))
            for genus in taxa.genus
        ]
        weight = np.ones((len(HABITATS), len(prior)))
        weight[homes, np.arange(len(prior))] = AT_HOME
        self.composition = weight * prior / (weight * prior).sum(1, keepdims=True)
        counts = np.arange(MOST_PLANTS + 1)
        self.count_law = (
            comb(MOST_PLANTS, counts) * DENSITY[:, None] ** counts * (1 - DENSITY[:, None]) ** (MOST_PLANTS - counts)
        )
        self.law = law

    def draw(self, n: int, seed: int, start: int) -> Plots:
        """Plots ``start`` to ``start + n`` of this seed."""
        chance = uniforms(seed, Purpose.PLOT, start, n, 2)
        habitat = (chance[:, 0] * len(HABITATS)).astype(int)
        count = categories(chance[:, 1], np.cumsum(self.count_law, axis=1)[habitat])
        width = 1 + len(TRAITS)
        chance = uniforms(seed, Purpose.PLANTS, start, n, MOST_PLANTS * width).reshape(n * MOST_PLANTS, width)
        of_plant = np.repeat(habitat, MOST_PLANTS)
        species = np.empty(len(chance), np.int64)
        for place, shares in enumerate(self.composition):
            here = of_plant == place
            species[here] = categories(chance[here, 0], np.cumsum(shares))
        shown = self.law.individuals(species, chance[:, 1:])
        absent = np.tile(np.arange(MOST_PLANTS), n) >= np.repeat(count, MOST_PLANTS)
        shown[:, [column for column in range(len(TRAITS)) if column not in FROM_ABOVE.columns]] = HIDDEN
        shown[absent] = HIDDEN
        species[absent] = NO_PLANT
        return Plots(species.reshape(n, MOST_PLANTS), shown.reshape(n, MOST_PLANTS, len(TRAITS)))

    def marginals(self, shown: Array) -> Array:
        """The probability that each species is in each plot given what its plants show, float64 (n, S)."""
        sizes, evidence, log_absent = self._tables()
        seen = shown[:, :, FROM_ABOVE.columns]
        there = seen[:, :, 0] != HIDDEN
        places = np.ravel_multi_index(tuple(np.moveaxis(np.maximum(seen, 0), 2, 0)), sizes)
        places[~there] = len(evidence) - 1
        with np.errstate(divide="ignore"):  # what cannot grow in a habitat rules it out
            log_habitat = np.log(self.count_law.T[there.sum(1)]) + np.log(evidence)[places].sum(1)
        impossible = np.isneginf(log_habitat).all(1)
        if impossible.any():
            raise InputError(f"plot {impossible.argmax()}: no species of this garden can look like one of its plants")
        habitat = softmax(log_habitat, axis=1)
        present = np.ones((len(shown), log_absent.shape[2]))
        for rows in row_blocks(len(shown), MOST_PLANTS * log_absent.shape[2]):
            for place in range(len(HABITATS)):
                present[rows] -= habitat[rows, place, None] * np.exp(log_absent[place][places[rows]].sum(1))
        np.clip(present, 0, 1, out=present)
        return present

    def _tables(self) -> tuple[tuple[int, ...], Array, Array]:
        """For all that a plant can show, and last for no plant: its probability by habitat, and log(1 - q) of each species."""
        ((view, every),) = every_observation((FROM_ABOVE,))
        likelihood = self.law.likelihood(every, view.columns)
        evidence = np.ones((len(every) + 1, len(HABITATS)))
        log_absent = np.zeros((len(HABITATS), len(every) + 1, likelihood.shape[1]))
        for habitat, shares in enumerate(self.composition):
            joint = likelihood * shares
            mass = joint.sum(1)
            evidence[:-1, habitat] = mass
            with np.errstate(divide="ignore", invalid="ignore"):
                log_absent[habitat, :-1] = np.log1p(-np.minimum(np.nan_to_num(joint / mass[:, None]), 1))
        return tuple(len(trait.values) for trait in view.shown), evidence, log_absent
