from .building import PicturesOf as PicturesOf
from .engines import Candidates as Candidates, Engine as Engine, find_engine as find_engine
from .index import Index as Index
from .language import QueryError as QueryError
from .page import render as render, write_page as write_page
from .query import Query as Query, Reason as Reason
from .results import Result as Result, Results as Results
from .searched_file import DamagedError as DamagedError
from .sql import to_sql as to_sql
from .sql_text import explained_sql as explained_sql
