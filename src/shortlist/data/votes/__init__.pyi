from .aggregation import Aggregation as Aggregation, Changes as Changes, Round as Round
from .annotators import SimulatedVotes as SimulatedVotes, simulate_votes as simulate_votes
from .dawid_skene import dawid_skene as dawid_skene
from .majority import plain_majority as plain_majority
from .table import Votes as Votes
from .weighted import adaptive_majority as adaptive_majority, enough_alone as enough_alone, user_weight as user_weight
