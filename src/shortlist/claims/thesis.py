"""The thesis of Garcin, "Set-valued classification with applications to citizen science"."""

from shortlist.claims.claim import Claim
from shortlist.claims.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
CLAIMS: tuple[Claim, ...] = ()
