"""A network of your own: trained, calibrated, saved and loaded.

Any module that maps a batch to scores (N, C) will do. Training, calibration, the rule, the report and the saved folder are the
same as for the networks of this library.
"""

import tempfile

import torch
from torch import nn

import shortlist as sl


def small_network(classes: int) -> nn.Module:
    """Any module whose output is scores (N, classes)."""
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, classes))


torch.manual_seed(0)
inputs = torch.randn(1200, 8)
labels = (inputs @ torch.randn(8, 6) + torch.randn(1200, 6)).argmax(dim=1)

with tempfile.TemporaryDirectory() as folder:
    run = sl.train(
        (inputs, labels),
        network=small_network,
        method="cross-entropy",
        k=2,
        epochs=3,
        folder=f"{folder}/run",
    )
    run.classifier.save(f"{folder}/saved")
    classifier = sl.Classifier.load(f"{folder}/saved", network=small_network)

print(classifier.rule)
print(classifier.predict(inputs[:3]))
