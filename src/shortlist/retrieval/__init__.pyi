from .columns import Thumbnails as Thumbnails
from .engines import Candidates as Candidates, Engine as Engine, find_engine as find_engine
from .index import Index as Index
from .parquet import DamagedError as DamagedError
from .query import Query as Query, Reason as Reason
from .results import Result as Result, Results as Results, render as render, write_page as write_page
from .sql import explained_sql as explained_sql, to_sql as to_sql
from .tokens import QueryError as QueryError
