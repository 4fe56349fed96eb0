"""Retrieval: search scored rows by queries such as ``fork and apple and not knife``, ranked by the probability of the query.

What is asked: ``names`` and ``tokens`` → ``language`` (parser) → ``tree`` → ``plans`` and ``expansion`` (independent parts) →
``probability``, or ``exclusive`` for rows with one label; ``query`` puts them together. What answers: ``parquet`` →
``manifest``, ``columns``, ``segments`` → ``snapshot`` → ``building``, ``changes`` → ``index``. How rows are found: ``engines``
(built in), ``duckdb_engine`` and ``sql``. What comes back: ``results``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
