"""A loss of this library in a training loop of your own.

Each loss is a module that takes scores and labels like `torch.nn.CrossEntropyLoss`. Here the noised top-k hinge loss trains
a small network so that the true label is among the three highest scores.
"""

import torch
from torch import nn

from shortlist.losses import NoisedTopkHingeLoss
from shortlist.metrics import top_k_accuracy

torch.manual_seed(0)
inputs = torch.randn(2000, 16)
labels = (inputs @ torch.randn(16, 10) + torch.randn(2000, 10)).argmax(dim=1)

network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
criterion = NoisedTopkHingeLoss(k=3, epsilon=0.5)  # in place of nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)

for _ in range(5):
    for rows in torch.randperm(1500).split(100):
        loss = criterion(network(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    scores = network(inputs[1500:])
print(f"top-3 accuracy {top_k_accuracy(scores, labels[1500:], 3):.3f}")
