"""Metrics against their literal definition, whole and in pieces; and values that no metric may accept."""

import random

import numpy as np

from shortlist.errors import InputError
from tests.fuzz.values import many_labels, one_label, probabilities
from tests.metrics.cases import CASES, CLASSES, as_numbers

# Sums of logarithms cannot order rows of numbers that differ in the last digit.
ORDERED_EXACTLY = [case for case in CASES if case.keywords.get("by") != "any-label"]


def metric_equals_its_definition(draw: random.Random, folder) -> None:
    """A function and its streaming form, in random pieces, give what the loop over rows gives."""
    case = draw.choice(ORDERED_EXACTLY)
    values, target = _drawn(draw, case)
    expected = as_numbers(case.expected(values.astype(float), target))
    close = {"rtol": 1e-9, "atol": 1e-12, "err_msg": str(case)}
    np.testing.assert_allclose(as_numbers(case.function(values, target)), expected, **close)
    metric = case.streaming()
    start = 0
    while start < len(values):
        end = start + draw.randint(1, len(values))
        metric.update(values[start:end], target[start:end])
        start = end
    np.testing.assert_allclose(as_numbers(metric.compute()), expected, **close)


def bad_values_are_refused(draw: random.Random, folder) -> None:
    """NaN among the values, or a label that is none, ends in an InputError, not in a number."""
    case = draw.choice([case for case in CASES if case.takes != "sets"])
    values, target = _drawn(draw, case)
    values, target = values.copy(), target.copy()
    if draw.random() < 0.5 or target.ndim == 2:
        values[draw.randrange(len(values)), draw.randrange(CLASSES)] = draw.choice([np.nan, -np.nan])
    else:
        target[draw.randrange(len(target))] = draw.choice([-1, CLASSES, 2**40, -(2**40)])
    for measure in (case.function, _streamed(case)):
        try:
            answer = measure(values, target)
        except InputError:
            continue
        raise AssertionError(f"{case} accepts {values} with {target} and answers {answer}")


def _streamed(case):
    def measure(values, target):
        metric = case.streaming()
        metric.update(values, target)
        return metric.compute()

    return measure


def _drawn(draw, case):
    rows = draw.choice([1, 2, 7, 40])
    several = case.takes == "many" or draw.random() < 0.5
    values = probabilities(draw, rows, CLASSES, sum_to_1=not several)
    if case.takes == "sets":
        values = values > draw.choice([-1.0, 0.2, 0.5, 2.0])
    return values, (many_labels if several else one_label)(draw, rows, CLASSES)
