"""Cheng and Vasconcelos, "Towards calibrated multi-label deep neural networks"."""

from shortlist.claims.claim import Claim
from shortlist.claims.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
CLAIMS: tuple[Claim, ...] = ()
