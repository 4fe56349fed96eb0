"""The garden as a table: what an instrument reads of each trait, with noise, and the exact posterior of the readings."""

import numpy as np
import torch

from shortlist.data.flora.law import Law
from shortlist.data.flora.traits import FROM_ABOVE, HIDDEN, TRAITS, VIEWS
from shortlist.data.randomness import Purpose, uniforms
from shortlist.tensors import Array

# The first reading of each trait in the columns of the table.
FIRST = np.cumsum([0, *(len(trait.values) for trait in TRAITS)])
COLUMNS = [f"{trait.name}: {value}" for trait in TRAITS for value in trait.values]
QUALITY = "quality"  # the column that says how noisy the row is
# What a plant in a plot is seen by.
PLANT_COLUMNS = [f"{trait.name}: {value}" for trait in FROM_ABOVE.shown for value in trait.values]
BLOCK = 2**12  # rows of which the posterior is computed at once


def read_traits(shown: Array, seed: int, start: int, noise: float, spread: float) -> tuple[Array, Array]:
    r"""The readings of these observations, float64 (n, 39), and the noise of each row, float64 (n,).

    There is a reading for each value of each trait: 1 for the value shown, 0 for the others, and 0 for all values of a trait
    that is hidden; each plus normal noise of standard deviation :math:`noise_i = noise \cdot e^{spread \cdot u_i}`, u uniform
    in [-1, 1].
    """
    chance = uniforms(seed, Purpose.READINGS, start, len(shown), 1 + len(COLUMNS))
    deviation = noise * np.exp(spread * (2 * chance[:, 0] - 1))
    readings = torch.special.ndtri(torch.from_numpy(np.clip(chance[:, 1:], 2.0**-53, None))).numpy() * deviation[:, None]
    for column in range(len(TRAITS)):
        seen = np.flatnonzero(shown[:, column] != HIDDEN)
        readings[seen, FIRST[column] + shown[seen, column]] += 1.0
    return readings, deviation


def posterior_of_readings(readings: Array, deviation: Array, law: Law, prior: Array) -> Array:
    r"""The exact probability of each species given the readings and their noise, float32 (n, species).

    Relative to readings of nothing, those of a shown trait have the density
    :math:`r_t(s) = \sum_v P(v | typical_t(s))\, e^{(x_v - 1/2) / noise^2}`, and which traits are shown is not known:
    :math:`P(s | x) \propto prior_s \sum_{view} share_{view} \prod_{t\ \mathrm{in\ view}} r_t(s)`.
    """
    found = np.empty((len(readings), len(prior)), np.float32)
    for begin in range(0, len(readings), BLOCK):
        rows = slice(begin, begin + BLOCK)
        found[rows] = _posterior(readings[rows], deviation[rows], law, prior)
    return found


def list_plants(shown: Array) -> Array:
    """What is seen of the plants of each plot as numbers, float32 (n, (1 + plants) · values).

    First how many plants show each value of each trait that is seen from above, then for one plant after the other which
    values it shows, all 0 where there is no plant. Nothing that is seen is lost, so :meth:`Habitats.marginals` are exact.

    Args:
        shown: what is seen of each plant, int64 (n, plants, T), -1 where hidden or no plant.
    """
    sizes = [len(trait.values) for trait in FROM_ABOVE.shown]
    marks = [shown[:, :, column, None] == np.arange(size) for column, size in zip(FROM_ABOVE.columns, sizes, strict=True)]
    plants = np.concatenate(marks, axis=2).astype(np.float32)
    return np.concatenate([plants.sum(1), plants.reshape(len(plants), -1)], axis=1)


def _posterior(readings: Array, deviation: Array, law: Law, prior: Array) -> Array:
    evidence = (readings - 0.5) / deviation[:, None] ** 2
    logs = [_log_ratios(evidence[:, FIRST[t] : FIRST[t + 1]], table) for t, table in enumerate(law.tables)]
    views = np.stack([np.log(view.share) + sum(logs[column] for column in view.columns) for view in VIEWS])
    joint = views + np.log(prior)
    joint -= joint.max((0, 2), keepdims=True)
    mass = np.exp(joint).sum(0)
    shares: Array = mass / mass.sum(1, keepdims=True)
    return shares


def _log_ratios(evidence: Array, table: Array) -> Array:
    """Logarithm of the density of the readings of one trait under each species, relative to readings of nothing, (n, S)."""
    highest = evidence.max(1, keepdims=True)
    ratios: Array = np.log(np.exp(evidence - highest) @ table.T + np.finfo(float).tiny) + highest
    return ratios
