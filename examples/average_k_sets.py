"""Five labels on average, fitted without labels.

Sets of a fixed size waste labels on clear rows and lack them on ambiguous ones. `average_k(5)` chooses one threshold on the
probabilities so that sets have five labels on average: fewer where a row is clear, more where it is not.
"""

import numpy as np

import shortlist as sl

rng = np.random.default_rng(0)
sharpness = rng.choice([0.5, 3.0], size=(4000, 1))  # ambiguous rows and clear ones
scores = sharpness * rng.normal(size=(4000, 50))
probs = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
labels = np.array([rng.choice(50, p=row) for row in probs])

adaptive = sl.sets.average_k(5).fit(probs[:2000])
for name, rule in {"average-k:5": adaptive, "top-k:5": sl.sets.top_k(5)}.items():
    sets = rule.predict(probs[2000:])
    sizes = sets.sum(axis=1)
    covered = sl.metrics.coverage(sets, labels[2000:])
    print(f"{name:12} coverage {covered:.3f}, {sizes.mean():.2f} labels ({sizes.min()} to {sizes.max()})")
