"""Labels from simulated votes, of which the truth is known: three rules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shortlist.claims.experiment import Arm, Numbers

MAJORITY, WEIGHTED, DAWID_SKENE = "majority", "weighted", "Dawid–Skene"
# As many classes and genera as Pl@ntNet-300K has. b0 and θ are those of the public implementation of Pl@ntNet's later rule
# (Lefort et al. 2024), to three decimals: the thesis gives none.
SETTINGS: dict[str, Any] = {"items": 8000, "users": 800, "labels": 1081, "genera": 303, "b0": 0.742, "theta": 2.0}


def vote_numbers(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """How often each rule is right, in percent of all items; ``valid`` behind a name: of those that the rule calls valid.

    Classes have a long tail and random numbers, so that a tie, which the lower number wins, is not won by the prior.
    """
    import numpy as np

    from shortlist.data.votes import adaptive_majority, dawid_skene, plain_majority, simulate_votes

    labels = settings["labels"]
    random = np.random.default_rng(seed)
    rank = np.minimum(random.zipf(1.2, settings["items"]) - 1, random.integers(labels, size=settings["items"]))
    target = random.permutation(labels)[rank]
    simulated = simulate_votes(
        target,
        classes=labels,
        users=settings["users"],
        seed=seed,
        superclasses=np.arange(labels) % settings["genera"],
        votes_per_item=settings["votes"],
        engagement=settings["engagement"],
    )
    found = {
        MAJORITY: plain_majority(simulated.votes),
        WEIGHTED: adaptive_majority(simulated.votes, b0=settings["b0"], theta=settings["theta"]),
        DAWID_SKENE: dawid_skene(simulated.votes),
    }
    right = {name: one.label == target for name, one in found.items()}
    valid = found[WEIGHTED].valid
    numbers = {name: 100 * float(marks.mean()) for name, marks in right.items()}
    numbers |= {f"{name} valid": 100 * float(marks[valid].mean()) for name, marks in right.items()}
    return numbers | {"valid": 100 * float(valid.mean())}


def vote_arm(votes: float, engagement: float) -> Arm:
    """An arm with so many votes an item; ``engagement`` says how far users who vote more are better, from 0 to 1."""
    return Arm(vote_numbers, {**SETTINGS, "votes": votes, "engagement": engagement})
