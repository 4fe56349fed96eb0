from .connecting import session as session
from .indexing import build_index as build_index
from .linking import fit_temperature as fit_temperature
from .measuring import fit as fit, list_sets as list_sets, measure as measure
from .pooling import Pool as Pool, pool as pool
from .rows import Rows as Rows
from .training import train as train
from .tuning import tune as tune
