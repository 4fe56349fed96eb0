"""Numbers and a plot from arrays, in one call."""

import matplotlib as mpl
import numpy as np

import shortlist as sl

mpl.use("Agg")  # in a notebook leave this out
rng = np.random.default_rng(0)
probs = rng.dirichlet(0.4 * np.ones(8), size=2000)
labels = np.array([rng.choice(8, p=row) for row in probs])

rule = sl.sets.average_k(2).fit(probs[:1000])
evaluation = sl.evaluate(probs[1000:], labels[1000:], rule)
print(evaluation)
evaluation.plot()
