"""Shift: have new rows changed, how, and what to do about it.

A :class:`Watch` says when rows are not what the calibration rows were. Where only the shares of the classes changed,
:func:`class_shares` estimates them; where inputs moved, :func:`input_weights` says what each calibration row counts.
"""

from shortlist.shift.alarms import Alarm
from shortlist.shift.comparison import Compared, compared
from shortlist.shift.coverage import coverage_interval
from shortlist.shift.inputs import InputWeights, input_weights
from shortlist.shift.shares import ClassShares, class_shares, thinned
from shortlist.shift.watch import Watch, watch

__all__ = [
    "Alarm",
    "ClassShares",
    "Compared",
    "InputWeights",
    "Watch",
    "class_shares",
    "compared",
    "coverage_interval",
    "input_weights",
    "thinned",
    "watch",
]
