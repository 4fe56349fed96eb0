"""Search scored pictures by what they show.

Probabilities of many labels become an index on disk. A query combines labels; results are ranked by the probability that the
whole query holds.
"""

import tempfile

import torch

from shortlist import Predictions
from shortlist.retrieval import Index

torch.manual_seed(0)
classes = ["fork", "knife", "apple", "table"]
scores = 2 * torch.randn(10_000, 4)
predictions = Predictions(scores, classes=classes, link="sigmoid", ids=[f"photo-{row}" for row in range(10_000)])

with tempfile.TemporaryDirectory() as folder:
    index = Index.build(predictions, f"{folder}/index")
    for query in ("fork and apple and not knife", "at least 2 of (fork, knife, apple)", "table > 0.9 and count <= 1"):
        best = index.search(query, 3)
        print(query, [f"{result.id} {result.probability:.3f}" for result in best])
