from .identify import Candidate as Candidate, Identification as Identification, Superclass as Superclass, identify as identify
from .references import References as References
from .service import Identifier as Identifier
