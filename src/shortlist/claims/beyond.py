"""Ideas of our own, judged by the same rules."""

from shortlist.claims.claim import Claim
from shortlist.claims.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
CLAIMS: tuple[Claim, ...] = ()
