"""Conformal sets from numpy arrays.

You have the probabilities of any classifier for labelled calibration rows. `lac(0.1)` finds the threshold for which the sets of
new rows contain the true label with probability 0.9 or more.
"""

import numpy as np

import shortlist as sl

rng = np.random.default_rng(0)
scores = rng.normal(size=(3000, 20))  # in place of your model's
probs = np.exp(2 * scores) / np.exp(2 * scores).sum(axis=1, keepdims=True)
labels = np.array([rng.choice(20, p=row) for row in probs])

rule = sl.sets.lac(0.1).fit(probs[:1000], labels[:1000])
sets = rule.predict(probs[1000:])  # bool (2000, 20)

print(rule.guarantee)
covered = sl.metrics.coverage(sets, labels[1000:])
print(f"coverage {covered:.3f}, {sets.sum(axis=1).mean():.2f} labels on average")
