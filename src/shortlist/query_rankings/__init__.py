"""Rankings of very many queries: which queries to ask, how each ranks the rows, and what the rankings add up to.

A query asks for some labels and excludes others. :mod:`shortlist.metrics.retrieval` turns the sums of this package into
metrics.

- ``ranking``: the average precision and the top ten of many queries at once;
- ``asking``: all queries, or a given list of them, ranked in parallel;
- ``sampling``: which queries to draw where there are too many, and what the sample says about all of them;
- ``totals``: sums over queries, by the number of labels asked for and excluded.
"""
