"""Metrics: each a function of (sets or probs, target) and a streaming ``torchmetrics.Metric`` of the same name.

Functions take tensors, arrays, lists and data frames, and return a tensor for tensors, a float (or an array) otherwise. The
state of a streaming metric has constant size, except where exactness needs every score (:class:`MeanAveragePrecision` over
classes, :class:`CalibrationError` in bins of equal mass,
:class:`BrierDecomposition` without bins, :class:`AverageKAccuracy` without calibration rows,
:class:`RetrievalMap`); each of these names an alternative of constant size.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
