"""The posterior of a million drawn plants means what it says, and is as sharp as it can be.

False alarms: below 1e-6 for calibration (``calibration.py``), 6e-7 for sharpness (5 standard errors). Power: the same test is
handed posteriors that are wrong by 0.002, or come from a law that is slightly off, and fails.
"""

from functools import cache

import numpy as np
import pytest
import torch

from shortlist.data.flora import Flora
from shortlist.data.flora.traits import HIDDEN, MARGIN, TRAITS
from tests.data.flora import calibration

FLORA = Flora(seed=0)
CLASSES = len(FLORA.classes)
ROWS, BLOCK, SEED = 1_000_000, 100_000, 20
SIZES = [len(trait.values) + 1 for trait in TRAITS]


@cache
def million():
    """All different observations among a million, int64 (O, T), and how often each came with each species, (O, species).

    The posterior is a function of what is shown, so this table holds all that the million says about it.
    """
    codes, targets = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    for start in range(0, ROWS, BLOCK):
        target, shown = FLORA.observations(BLOCK, seed=SEED, start=start)
        codes[start : start + BLOCK] = np.ravel_multi_index(tuple(shown.numpy().T + 1), SIZES)
        targets[start : start + BLOCK] = target.numpy()
    different, places = np.unique(codes, return_inverse=True)
    counts = np.bincount(places * CLASSES + targets, minlength=len(different) * CLASSES).reshape(-1, CLASSES)
    return np.stack(np.unravel_index(different, SIZES), axis=1) - 1, counts.astype(np.float64)


def answers(garden, shown):
    return garden.posterior(torch.from_numpy(shown)).numpy().astype(np.float64)


def scaled(probs):
    return probs / probs.sum(1, keepdims=True)


def alarm(probs):
    """The largest surplus as a multiple of what raises an alarm."""
    return calibration.of_one_label(probs, million()[1]).excess()


def dullness(probs):
    """By how many standard errors the mean top probability of the million lies below the best possible accuracy."""
    counts = million()[1].sum(1)
    top = probs.max(1)
    mean = counts @ top / ROWS
    spread = np.sqrt(counts @ (top - mean) ** 2 / ROWS)
    return abs(FLORA.limits([1]).top_k[0] - mean) / max(spread / np.sqrt(ROWS), 1e-12)


def test_the_table_holds_the_answer_to_every_row():
    shown, counts = million()
    assert counts.sum() == ROWS
    target, rows = FLORA.observations(BLOCK, seed=SEED, start=3 * BLOCK)
    codes = (np.ravel_multi_index(tuple(part.T + 1), SIZES) for part in (shown, rows.numpy()))
    places = np.searchsorted(*codes)
    assert (shown[places] == rows.numpy()).all()
    assert (FLORA.posterior(rows).numpy() == answers(FLORA, shown)[places]).all()
    assert (counts[places, target.numpy()] >= 1).all()


def test_the_posterior_is_calibrated():
    assert alarm(answers(FLORA, million()[0])) < 1


def test_the_posterior_is_sharp():
    assert dullness(answers(FLORA, million()[0])) < 5


def test_the_surprise_is_the_entropy():
    """-log posterior of the truth has the mean of the entropy; 5 standard errors."""
    shown, counts = million()
    probs = answers(FLORA, shown)
    bits = -np.log(np.maximum(probs, 1e-30))
    entropy = (probs * bits).sum(1)
    variance = (probs * bits**2).sum(1) - entropy**2
    surplus = (counts * bits).sum() - counts.sum(1) @ entropy
    assert abs(surplus) < 5 * np.sqrt(counts.sum(1) @ variance)


def shifted(probs, amount, spread):
    """So much probability from the most probable label to the others in the shares of ``spread``; negative: from them."""
    top = np.eye(CLASSES, dtype=bool)[probs.argmax(1)]
    others = np.where(top, 0, spread)
    total = others.sum(1)
    others = others / np.maximum(total, 1e-300)[:, None]
    # No label can give more than it has, and where the top is certain nothing can be shared in proportion.
    most = probs.max(1) if amount > 0 else np.where(others > 0, probs / np.maximum(others, 1e-300), 1).min(1)
    moved = np.where(total > 0, np.minimum(abs(amount), most), 0) * np.sign(amount)
    return probs + moved[:, None] * (others - top)


def second_only(probs):
    return np.eye(CLASSES)[np.argsort(-probs, axis=1)[:, 1]]


def commonest_times(factor):
    weight = np.ones(CLASSES)
    weight[FLORA.prior.argmax()] = factor
    return weight


WRONG = {
    "0.002 from the top to all others": lambda p, _: shifted(p, 0.002, np.ones_like(p)),
    "0.002 from the top to others in proportion": lambda p, _: shifted(p, 0.002, p),
    "0.002 from the top to the second": lambda p, _: shifted(p, 0.002, second_only(p)),
    "0.002 from others to the top": lambda p, _: shifted(p, -0.002, p),
    "0.002 from the second to the top": lambda p, _: shifted(p, -0.002, second_only(p)),
    "prior of the commonest times 1.1": lambda p, _: scaled(p * commonest_times(1.1)),
    "prior of the commonest times 0.9": lambda p, _: scaled(p * commonest_times(0.9)),
    "balanced prior": lambda p, _: scaled(p / FLORA.prior),
    "variation 5 % too large": lambda _, shown: answers(Flora(seed=0, variation=1.05), shown),
    "variation 5 % too small": lambda _, shown: answers(Flora(seed=0, variation=0.95), shown),
    "power 1.02": lambda p, _: scaled(p**1.02),
    "power 0.98": lambda p, _: scaled(p**0.98),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_posterior_that_is_slightly_wrong_is_found_out(name):
    shown, counts = million()
    right = answers(FLORA, shown)
    wrong = WRONG[name](right, shown)
    np.testing.assert_allclose(wrong.sum(1), 1, atol=1e-6)
    if name.startswith("0.002"):
        assert (counts.sum(1) @ np.abs(wrong - right).max(1)) / ROWS < 0.00201
    # Four thirds of what raises an alarm: at least two standard deviations to spare, so this is no luck of the seed.
    assert alarm(wrong) > 4 / 3


def margin_unseen(shown):
    blind = shown.copy()
    blind[:, TRAITS.index(MARGIN)] = HIDDEN
    return answers(FLORA, blind)


@pytest.mark.parametrize("dull", [lambda shown: np.tile(FLORA.prior, (len(shown), 1)), margin_unseen], ids=["prior", "blind"])
def test_an_honest_answer_from_less_is_calibrated_and_not_sharp(dull):
    """Always answering with the prior, or never looking at the margin of leaves: never wrong, and found out all the same."""
    probs = dull(million()[0])
    assert alarm(probs) < 1
    assert dullness(probs) > 50
