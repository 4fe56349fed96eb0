"""Small tables of votes with everything that can be odd about them."""

import warnings

from hypothesis import strategies as st

from shortlist.data.votes import Votes


@st.composite
def tables(draw, users=4, items=5, labels=4, most=25, authors=True):
    """Rows (user, item, label, author), one author an item at most, with repeated and contradicting votes."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, users - 1), st.integers(0, items - 1), st.integers(0, labels - 1)),
            min_size=1,
            max_size=most,
        )
    )
    wrote = {}
    if authors:
        for user, item, _ in rows:
            if draw(st.booleans()):
                wrote.setdefault(item, user)
    return [(user, item, label, wrote.get(item) == user) for user, item, label in rows]


def votes_of(rows, **known):
    """The table, with the warning about contradicting votes left out."""
    user, item, label, author = zip(*rows, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Votes.from_arrays(user=user, item=item, label=label, author=author, **known)


def rounds_of(aggregate, *args, **kwargs):
    """The aggregation, with the warning about rounds that do not settle left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return aggregate(*args, **kwargs)
