"""Liao et al., "Quasibinary classifier for images with zero and multiple labels"."""

from shortlist.claims.claim import Claim
from shortlist.claims.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
CLAIMS: tuple[Claim, ...] = ()
