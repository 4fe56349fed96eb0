"""Shift: have new rows changed, how, and what to do about it.

A :class:`Watch` says when rows are not what the calibration rows were.
"""

from shortlist.shift.alarms import Alarm
from shortlist.shift.coverage import coverage_interval
from shortlist.shift.watch import Watch, watch

__all__ = ["Alarm", "Watch", "coverage_interval", "watch"]
