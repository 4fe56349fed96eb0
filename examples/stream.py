"""A threshold that follows a stream.

Halfway through, labels begin to follow the probabilities less. A fixed rule misses more of them from then on; a stream moves
its threshold with each label that comes, and keeps the error at 10 % in the long run.
"""

import numpy as np

import shortlist as sl

rng = np.random.default_rng(0)


def rows(n, trust):
    """Probabilities, in place of your model's, and labels that follow them in this share of the rows."""
    probs = rng.dirichlet(np.full(10, 0.3), n)
    drawn = np.array([rng.choice(10, p=row) for row in probs])
    return probs, np.where(rng.random(n) < trust, drawn, rng.integers(10, size=n))


probs, labels = rows(1000, trust=1.0)
parts = [rows(1500, trust=1.0), rows(1500, trust=0.7)]
fixed = sl.sets.lac(0.1).fit(probs, labels)
stream = sl.sets.CoverageStream(sl.sets.lac(0.1), probs, labels, window=500)

for name, (new, later) in zip(["before", "after"], parts, strict=True):
    moving = stream.replay(new, later)  # in use: stream.answer(new, ids) now, stream.learn(ids, labels) when labels come
    for kind, sets in {"fixed": fixed.predict(new), "stream": moving}.items():
        missed = 1 - sl.metrics.coverage(sets, later)
        print(f"{name:6} {kind:6}: {missed:.1%} missed, {sets.sum(axis=1).mean():.2f} labels on average")

print(f"{stream.error:.1%} missed by the stream, at most {stream.bound:.1%} from 10 % whatever came")
