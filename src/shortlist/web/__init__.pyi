from .app import make_app as make_app
from .identify import (
    Candidate as Candidate,
    Identification as Identification,
    Superclass as Superclass,
    combined as combined,
    identify as identify,
)
from .labels import read_votes as read_votes, write_dataset as write_dataset
from .opening import open_references as open_references
from .references import References as References
from .safety import Access as Access
from .service import Identifier as Identifier
from .site import Site as Site
from .votes import Observation as Observation, Vote as Vote, VoteStore as VoteStore
