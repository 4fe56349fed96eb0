"""The garden: species with a known law, drawn as observations, pictures and plots."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import share as checked_share, whole
from shortlist.data.flora.abundance import Abundance, abundances
from shortlist.data.flora.blocks import in_blocks, picture_side
from shortlist.data.flora.cache import kept_pictures
from shortlist.data.flora.law import Law, every_observation
from shortlist.data.flora.limits import Limits, best_accuracies
from shortlist.data.flora.measurements import list_plants, posterior_of_readings, read_traits
from shortlist.data.flora.plots import draw_plots
from shortlist.data.flora.quadrats import Habitats
from shortlist.data.flora.species import grow
from shortlist.data.flora.specimens import draw_specimens
from shortlist.data.flora.traits import HIDDEN, TRAITS, VIEWS
from shortlist.data.randomness import Draws, Purpose, categories, check_seed, uniforms
from shortlist.errors import InputError
from shortlist.tensors import Array, as_tensor, one_hot, shape_of

BLOCK = 2**16  # rows drawn at once
SHOWN = np.array([[trait in view.shown for trait in TRAITS] for view in VIEWS])


class Flora:
    """A procedural garden of which everything is known: the default data of demos, tests and claims.

    Species are grouped in genera and have organs; those of a genus share most of them. A picture shows some organs of one
    individual, and individuals vary by a known law, so the probability of every species given the visible organs is exact.
    It is the limit *given the organs*: pictures are drawn from the visible organs and from chance alone (pose, light,
    background), so no classifier of pictures can do better, and one that reads the organs off the picture does as well.

    Args:
        species: how many species, the classes.
        genera: how many genera, the superclasses.
        seed: of the garden; different seeds give different species.
        abundance: ``"long-tailed"``, the rarest 80 % of the species have 11 % of the pictures, or ``"balanced"``.
        variation: scales how often an individual differs from its species, from 0 (never) to 2.

    >>> flora = Flora(seed=0)
    >>> target, posterior = flora.observe(1000, seed=1)
    >>> posterior.shape, bool((posterior.sum(1) - 1).abs().max() < 1e-6)
    (torch.Size([1000, 120]), True)
    """

    def __init__(
        self,
        species: int = 120,
        genera: int = 30,
        seed: int = 0,
        *,
        abundance: Abundance = "long-tailed",
        variation: float = 1.0,
    ):
        variation = _in_range("variation", variation, 0, 2)
        self.seed = check_seed(seed)
        draws = Draws(self.seed, Purpose.SPECIES)
        self.taxa = grow(species, genera, draws)
        shares = abundances(len(self.taxa.genus), abundance)
        self.prior = shares[draws.shuffled(len(shares))]
        self.abundance, self.variation = abundance, variation
        self.law = Law(self.taxa.typical, self.variation)
        self.habitats = Habitats(self.taxa, self.prior, self.law, draws)

    def __repr__(self) -> str:
        return (
            f"Flora(species={len(self.classes)}, genera={len(self.taxa.genera)}, seed={self.seed}, "
            f"abundance={self.abundance!r}, variation={self.variation})"
        )

    @property
    def classes(self) -> list[str]:
        """The name of each species."""
        return self.taxa.classes

    @property
    def superclasses(self) -> list[str]:
        """The name of the genus of each species."""
        return [self.taxa.genera[genus] for genus in self.taxa.genus]

    @property
    def superclass_of(self) -> Tensor:
        """The number of the genus of each species, int64 (species,)."""
        return torch.from_numpy(self.taxa.genus)

    def observe(self, n: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Draw individuals without drawing pictures: their species, int64 (n,), and the posterior, float32 (n, species).

        Row i is the same whatever n is, and the same as in :meth:`specimens`.
        """
        target, shown = self.observations(n, seed=seed)
        return target, self.posterior(shown)

    def observations(self, n: int, *, seed: int = 0, start: int = 0) -> tuple[Tensor, Tensor]:
        """The species of rows ``start`` to ``start + n``, int64 (n,), and what each shows, int64 (n, T), -1 where hidden."""
        n, start, seed = whole(0)("n", n), whole(0)("start", start), check_seed(seed)
        target, shown = np.empty(n, np.int64), np.empty((n, len(TRAITS)), np.int64)
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            target[begin:end], shown[begin:end] = self._drawn(seed, start + begin, end - begin)
        return torch.from_numpy(target), torch.from_numpy(shown)

    def _drawn(self, seed: int, start: int, rows: int) -> tuple[Array, Array]:
        chance = uniforms(seed, Purpose.OBSERVATION, start, rows, 2 + len(TRAITS))
        species = categories(chance[:, 0], np.cumsum(self.prior))
        view = categories(chance[:, 1], np.cumsum([view.share for view in VIEWS]))
        shown = self.law.individuals(species, chance[:, 2:])
        shown[~SHOWN[view]] = HIDDEN
        return species, shown

    def posterior(self, shown: Tensor) -> Tensor:
        """The exact probability of each species given what is shown, float32 (n, species)."""
        shown = as_tensor(shown, "shown")
        if shown.is_floating_point() or shown.dtype == torch.bool:
            raise InputError(f"shown: expected whole numbers, got {shape_of(shown)}")
        shown = shown.long()
        if shown.ndim != 2 or shown.shape[1] != len(TRAITS):
            raise InputError(f"shown: expected (n, {len(TRAITS)}), one value of each trait, got {tuple(shown.shape)}")
        for column, trait in enumerate(TRAITS):
            wrong = (shown[:, column] < HIDDEN) | (shown[:, column] >= len(trait.values))
            if wrong.any():
                row = int(wrong.nonzero()[0])
                raise InputError(
                    f"{trait.name}: expected values from 0 to {len(trait.values) - 1}, or {HIDDEN} where hidden, "
                    f"got {shown[row, column].item()} in row {row}"
                )
        return torch.from_numpy(self.law.posterior(shown.numpy(), self.prior, np.float32))

    def specimens(
        self, n: int, *, seed: int = 0, size: int = 32, cache: str | Path | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pictures of single plants, uint8 (n, 3, size, size), their species, int64 (n,), the posterior, float32 (n, species).

        Picture i is the same whatever n is.

        Args:
            n: how many.
            seed: other pictures of the same garden.
            size: side of a picture in pixels.
            cache: a folder where pictures are kept for the next time.
        """
        target, shown = self.observations(n, seed=seed)
        n, size = len(target), picture_side(size)

        def draw() -> Tensor:
            return in_blocks(lambda rows: draw_specimens(shown.numpy()[rows], seed, rows.start, size), n, size)

        return self._kept("specimens", draw, n, seed, size, cache), target, self.posterior(shown)

    def quadrats(
        self, n: int, *, seed: int = 0, size: int = 64, cache: str | Path | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Plots of 0 to 8 plants from above: uint8 (n, 3, size, size), bool (n, species), float32 (n, species).

        The second says which species are there, the third is the exact probability of that given what the plants show.
        """
        n, size = whole(0)("n", n), picture_side(size)
        plots = self.habitats.draw(n, check_seed(seed), 0)

        def draw() -> Tensor:
            return in_blocks(lambda rows: draw_plots(plots.shown[rows], seed, rows.start, size), n, size)

        images = self._kept("quadrats", draw, n, seed, size, cache)
        marginals = self.habitats.marginals(plots.shown).astype(np.float32)
        return images, torch.from_numpy(plots.target(len(self.classes))), torch.from_numpy(marginals)

    def measurements(self, n: int, *, seed: int = 0, noise: float = 0.25, spread: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of a table: float32 (n, 40), their species, int64 (n,), and the exact posterior of each, float32 (n, species).

        There is a reading for each value of each trait, 1 where it is shown and 0 elsewhere, with normal noise, and one of the
        noise of the row (its logarithm over ``noise``). Which traits are shown has to be read from them.

        Args:
            n: how many.
            seed: other rows of the same garden.
            noise: standard deviation of the readings; the larger, the more ambiguous are the rows.
            spread: how much rows differ in ambiguity: their noise is from ``noise / e^spread`` to ``noise * e^spread``.
        """
        noise, spread = _in_range("noise", noise, 0.05, 10), _in_range("spread", spread, 0, 3)
        target, shown = self.observations(n, seed=seed)
        readings, deviation = read_traits(shown.numpy(), check_seed(seed), 0, noise, spread)
        table = np.concatenate([readings, np.log(deviation / noise)[:, None]], axis=1)
        posterior = posterior_of_readings(readings, deviation, self.law, self.prior)
        return torch.from_numpy(table.astype(np.float32)), target, torch.from_numpy(posterior)

    def open_set_measurements(
        self, n: int, *, seed: int = 0, noise: float = 0.25, spread: float = 0.0, share: float = 0.4
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`measurements`, but a share of the species of each genus has no label, as in :meth:`open_set`."""
        table, target, posterior = self.measurements(n, seed=seed, noise=noise, spread=spread)
        known = self.labelled(share)
        return table, one_hot(target, len(self.classes))[:, known], posterior[:, known]

    def plant_lists(self, n: int, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """The plots of :meth:`quadrats` as rows of a table: float32 (n, columns), bool (n, species), float32 (n, species).

        The table says how many plants show each value of each trait that is seen from above, then what each plant shows.
        """
        plots = self.habitats.draw(whole(0)("n", n), check_seed(seed), 0)
        marginals = self.habitats.marginals(plots.shown).astype(np.float32)
        table, target = list_plants(plots.shown), plots.target(len(self.classes))
        return torch.from_numpy(table), torch.from_numpy(target), torch.from_numpy(marginals)

    def open_set(
        self, n: int, *, seed: int = 0, size: int = 32, share: float = 0.4, cache: str | Path | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`specimens`, but a share of the species of each genus has no label: target bool (n, L), posterior (n, L).

        Rows of unlabelled species have no label, and their posterior over the L labelled ones (:meth:`labelled`) sums to less
        than 1: what is missing is the probability that the plant is none of them.
        """
        images, target, posterior = self.specimens(n, seed=seed, size=size, cache=cache)
        known = self.labelled(share)
        return images, one_hot(target, len(self.classes))[:, known], posterior[:, known]

    def labelled(self, share: float = 0.4) -> Tensor:
        """The species that keep their label when this share of each genus loses it; at least one is lost and one kept."""
        share = checked_share("share", share)
        draws = Draws(self.seed, Purpose.UNLABELLED)
        kept: list[int] = []
        for genus in range(len(self.taxa.genera)):
            members = np.flatnonzero(self.taxa.genus == genus)
            lost = min(max(round(share * len(members)), 1 if share > 0 else 0), len(members) - 1)
            kept += members[draws.shuffled(len(members))[lost:]].tolist()
        return torch.tensor(sorted(kept))

    def _kept(self, kind: str, draw: Callable[[], Tensor], n: int, seed: int, size: int, cache: str | Path | None) -> Tensor:
        if cache is None:
            return draw()
        return kept_pictures(Path(cache), f"{kind} {self!r} n={n} seed={seed} size={size}", (n, 3, size, size), draw)

    def limits(self, ks: Sequence[int] | None = None) -> Limits:
        """The best accuracy of sets of k labels, and of k labels on average: exact, over everything that can be observed.

        Without ``ks``, for k from 1 to 10, or to the number of species where that is less.
        """
        ks = range(1, min(10, len(self.classes)) + 1) if ks is None else ks
        weights, posteriors = [], []
        for view, shown in every_observation():
            joint = self.law.likelihood(shown, view.columns) * self.prior
            mass = joint.sum(1)
            possible = mass > 0
            weights.append(view.share * mass[possible])
            posteriors.append(joint[possible] / mass[possible, None])
        return best_accuracies(np.concatenate(posteriors), self.prior, ks, np.concatenate(weights))


def _in_range(name: str, number: float, least: float, most: float) -> float:
    try:
        fits = not isinstance(number, bool) and least <= float(number) <= most
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InputError(f"{name}: expected a number from {least:g} to {most:g}, got {str(number)[:40]}")
    return float(number)
