"""Metrics over batches.

Most metrics are also a `torchmetrics.Metric`: update it with each batch, compute it once, on one process or several.
"""

import torch

from shortlist.metrics import CalibrationError, Coverage, SetSize, coverage
from shortlist.sets import threshold

torch.manual_seed(0)
probs = torch.randn(5000, 10).mul(2).softmax(dim=1)
labels = torch.multinomial(probs, 1).squeeze(1)
rule = threshold(0.1)

covered, size, calibration = Coverage(), SetSize(), CalibrationError()
for batch, target in zip(probs.split(512), labels.split(512), strict=True):
    sets = rule(batch)
    covered.update(sets, target)
    size.update(sets)
    calibration.update(batch, target)

print(f"coverage {covered.compute():.4f}, {size.compute():.3f} labels, calibration error {calibration.compute():.4f}")
print(f"the same over all rows at once: coverage {coverage(rule(probs), labels):.4f}")
