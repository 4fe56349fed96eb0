"""Labels from votes: who gave which label to what, and the label that follows by one rule or another."""

from shortlist.data.votes.aggregation import Aggregation, Changes, Round
from shortlist.data.votes.annotators import SimulatedVotes, simulate_votes
from shortlist.data.votes.dawid_skene import dawid_skene
from shortlist.data.votes.majority import plain_majority
from shortlist.data.votes.table import Votes
from shortlist.data.votes.weighted import adaptive_majority, enough_alone, user_weight

__all__ = [
    "Aggregation",
    "Changes",
    "Round",
    "SimulatedVotes",
    "Votes",
    "adaptive_majority",
    "dawid_skene",
    "enough_alone",
    "plain_majority",
    "simulate_votes",
    "user_weight",
]
