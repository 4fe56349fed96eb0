"""The garden's law as loops over species, traits, habitats and plants; the best accuracies as linear programmes."""

import itertools
import math
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from shortlist.data.flora.quadrats import DENSITY, MOST_PLANTS
from shortlist.data.flora.traits import HIDDEN, TRAITS, VIEWS


def chance(trait, typical, value, variation):
    """P(value | typical): off by one with probability variation · shift, shared by the neighbours that exist."""
    off = Fraction(variation) * Fraction(trait.shift)
    if value == typical:
        return 1 - off
    neighbours = [other for other in (typical - 1, typical + 1) if 0 <= other < len(trait.values)]
    return off / len(neighbours) if value in neighbours else Fraction(0)


def likelihood(garden, species, shown):
    """P(shown | species) as a fraction: the product over the traits that are not hidden."""
    product = Fraction(1)
    for column, trait in enumerate(TRAITS):
        if shown[column] != HIDDEN:
            product *= chance(trait, int(garden.taxa.typical[species, column]), int(shown[column]), garden.variation)
    return product


def posterior(garden, shown):
    """P(species | shown) as fractions; None where no species can look like this."""
    joint = [Fraction(share) * likelihood(garden, species, shown) for species, share in enumerate(garden.prior.tolist())]
    return [value / sum(joint) for value in joint] if sum(joint) else None


def every_joint(garden):
    """{shown: P(view) · P(species) · P(shown | species) of each species}, in float64, of all that can be observed."""
    table = {}
    for view in VIEWS:
        for species, share in enumerate(garden.prior.tolist()):
            laws = []
            for column, trait in enumerate(TRAITS):
                if trait not in view.shown:
                    laws.append([(HIDDEN, 1.0)])
                    continue
                typical = int(garden.taxa.typical[species, column])
                values = [(value, float(chance(trait, typical, value, garden.variation))) for value in range(len(trait.values))]
                laws.append([(value, p) for value, p in values if p > 0])
            for combination in itertools.product(*laws):
                shown = tuple(value for value, _ in combination)
                row = table.setdefault(shown, [0.0] * len(garden.prior))
                row[species] += view.share * share * math.prod(p for _, p in combination)
    return table


def weights_and_posteriors(garden):
    """The probability of each observation, and the posterior of each."""
    rows = [row for row in every_joint(garden).values() if sum(row) > 0]
    return np.array([sum(row) for row in rows]), np.array([[value / sum(row) for value in row] for row in rows])


def count_chance(habitat, count):
    """P(so many plants | habitat): each of the eight is there or not."""
    density = float(DENSITY[habitat])
    return math.comb(MOST_PLANTS, count) * density**count * (1 - density) ** (MOST_PLANTS - count)


def plot_marginals(garden, plants):
    """P(species is in the plot | what its plants show), by every habitat and every assignment of species to plants."""
    habitats, classes = garden.habitats.composition.shape
    like = [[float(likelihood(garden, species, shown)) for species in range(classes)] for shown in plants]
    total, present = 0.0, [0.0] * classes
    for habitat in range(habitats):
        for assignment in itertools.product(range(classes), repeat=len(plants)):
            weight = count_chance(habitat, len(plants)) / habitats
            for plant, species in enumerate(assignment):
                weight *= float(garden.habitats.composition[habitat, species]) * like[plant][species]
            total += weight
            for species in set(assignment):
                present[species] += weight
    return [value / total for value in present]


def best_of_average_size(gain, weight, k):
    """max Σ weight · gain · z over 0 ≤ z ≤ 1 with Σ weight · z ≤ k: sets of k labels on average, labels may be split."""
    cost = np.repeat(weight, gain.shape[1])
    found = linprog(-cost * gain.ravel(), A_ub=cost[None], b_ub=[k], bounds=(0, 1), method="highs")
    return -found.fun


def best_of_exact_size(gain, weight, k):
    """The mean over rows of the most that k different labels can gain, by trying every set."""
    best = [max(sum(row[label] for label in labels) for labels in itertools.combinations(range(len(row)), k)) for row in gain]
    return sum(w * value for w, value in zip(weight, best, strict=True))


def best_accuracies(posteriors, prior, k, weight):
    """(top-k, average-k, macro top-k, macro average-k)."""
    classes = posteriors.shape[1]
    macro = np.array([[p / (classes * share) for p, share in zip(row, prior, strict=True)] for row in posteriors])
    return {
        "top_k": best_of_exact_size(posteriors, weight, k),
        "average_k": best_of_average_size(posteriors, weight, k),
        "macro_top_k": best_of_exact_size(macro, weight, k),
        "macro_average_k": best_of_average_size(macro, weight, k),
    }


def tail_share(shares, tail=Fraction(4, 5)):
    """What the rarest 4/5 of the species hold; of the species on the border as much as of it belongs to them."""
    wanted, held = tail * len(shares), Fraction(0)
    for share in sorted(map(Fraction, shares)):
        part = min(Fraction(1), wanted)
        held += part * share
        wanted -= part
    return held / sum(map(Fraction, shares))


def readings_posterior(garden, readings, noise):
    """P(species | readings of one row), from normal densities: views, then the traits of a view, then the values of a trait."""

    def density(values, shown):
        return math.prod(
            math.exp(-((x - (place == shown)) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
            for place, x in enumerate(values)
        )

    parts, start = [], 0
    for trait in TRAITS:
        parts.append([float(x) for x in readings[start : start + len(trait.values)]])
        start += len(trait.values)
    joint = []
    for species, share in enumerate(garden.prior.tolist()):
        total = 0.0
        for view in VIEWS:
            product = view.share
            for column, trait in enumerate(TRAITS):
                if trait in view.shown:
                    typical = int(garden.taxa.typical[species, column])
                    product *= sum(
                        float(chance(trait, typical, value, garden.variation)) * density(parts[column], value)
                        for value in range(len(trait.values))
                    )
                else:
                    product *= density(parts[column], None)
            total += product
        joint.append(share * total)
    return [value / sum(joint) for value in joint]
