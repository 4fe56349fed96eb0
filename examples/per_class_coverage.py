"""The same coverage for every class.

One threshold for all classes covers frequent classes well and rare ones badly. `classwise` gives each class its own threshold,
so that every class reaches the requested coverage, at the price of larger sets.
"""

import numpy as np

import shortlist as sl

rng = np.random.default_rng(0)
prior = np.array([0.7, 0.2, 0.1])
labels = rng.choice(3, size=6000, p=prior)
scores = 1.5 * np.eye(3)[labels] + rng.normal(size=(6000, 3)) + np.log(prior)
probs = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
calibration, test = slice(0, 3000), slice(3000, None)

for rule in (sl.sets.lac(0.1), sl.sets.classwise(sl.sets.lac(0.1))):
    sets = rule.fit(probs[calibration], labels[calibration]).predict(probs[test])
    per_class = sl.metrics.coverage(sets, labels[test], average="none")
    size = sets.sum(axis=1).mean()
    print(f"{rule.text:18} coverage by class {np.round(per_class, 3)}, {size:.2f} labels on average")
