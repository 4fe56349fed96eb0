"""Random queries as nested tuples (see tests.references.retrieval), for the tests of this room."""

from hypothesis import strategies as st

SIGNS = [">", ">=", "<", "<="]


def queries(labels, thresholds=(), most_leaves=10):
    """Any query of so many labels; conditions only with these thresholds."""
    one = st.integers(0, labels - 1)
    leaves = [st.tuples(st.just("label"), one)] * 4
    leaves.append(st.tuples(st.just("count"), st.sampled_from([*SIGNS, "="]), st.integers(0, labels + 1)))
    if thresholds:
        leaves.append(st.tuples(st.just("condition"), one, st.sampled_from(SIGNS), st.sampled_from(thresholds)))
    return st.recursive(st.one_of(leaves), _larger, max_leaves=most_leaves)


def _larger(part):
    parts = st.lists(part, min_size=2, max_size=4)
    joined = st.builds(lambda kind, parts: (kind, *parts), st.sampled_from(["and", "or"]), parts)
    negated = st.tuples(st.just("not"), part)
    return st.one_of(
        joined, negated, st.builds(_how_many, st.sampled_from(["at least", "at most", "exactly"]), parts, st.floats(0, 1))
    )


def _how_many(kind, parts, where):
    least = 1 if kind == "at least" else 0
    return (kind, least + round(where * (len(parts) - least)), *parts)
