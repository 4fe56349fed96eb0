"""Labels from the votes of many people.

Simulated annotators of different skill vote on items. A plain majority counts all votes alike; Dawid-Skene estimates from the
votes alone how reliable each annotator is.
"""

import numpy as np

from shortlist.data.votes import dawid_skene, plain_majority, simulate_votes

truth = np.random.default_rng(0).integers(6, size=1000)
simulated = simulate_votes(truth, classes=6, users=40, votes_per_item=3, seed=0)
print(simulated.votes)
for name, aggregate in {"majority": plain_majority, "Dawid-Skene": dawid_skene}.items():
    print(f"{name:12} {simulated.accuracy(aggregate(simulated.votes).label):.3f} of the labels are right")
