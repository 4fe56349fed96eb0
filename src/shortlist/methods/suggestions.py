"""Parameters to begin with, from what is known about the classes. Each comes with its reason."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shortlist.errors import InputError
from shortlist.losses import class_margins
from shortlist.methods.menu import Method, find_method
from shortlist.tensors import as_tensor, shape_of


@dataclass(frozen=True)
class ClassCounts:
    """What the suggestions look at."""

    classes: int
    rarest: int
    largest: int
    tail_share: float  # of the examples that the rarest 80 % of the classes hold

    @property
    def long_tailed(self) -> bool:
        """They would hold 80 % if all classes were equal; those of Pl@ntNet-300K hold 11 %."""
        return self.tail_share < 0.5


@dataclass(frozen=True)
class Suggestion:
    """Parameters, and why each of them; printed as a list."""

    method: Method
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Any]:
        """All of the method's parameters, the suggested ones among them."""
        return dict(self.method.parameters)

    def __str__(self) -> str:
        lines = [f"{name} = {value:g}: {self.reasons[name]}" for name, value in self.parameters.items() if name in self.reasons]
        lines = lines or ["nothing to suggest: its parameters depend on no counts"]
        return "\n".join([self.method.name, *(f"  {line}" for line in lines)])


def suggest_parameters(method: str | Method, counts: Any, **given: Any) -> Suggestion:
    """Parameters of a method that suit classes with these training counts, each with its reason.

    They are where to begin, and the middle of what to search: none replaces a look at validation data.

    Args:
        method: its name, or the method.
        counts: training examples of each class, (C,), all at least 1.
        given: parameters that are decided already; the others follow them.

    >>> print(suggest_parameters("expected-positive", [500] * 100, k=5))
    expected-positive
      beta = 0.01: 1/C, which is 0.01 for CIFAR-100's 100 classes and 0.001 for Pl@ntNet-300K's 1,081, the values of the paper
    """
    chosen = (find_method(method) if isinstance(method, str) else method).with_parameters(**given)
    known = _described(counts)
    suggested = {name: rule(known, chosen.parameters) for name, rule in RULES.get(chosen.name, {}).items() if name not in given}
    values = {name: value for name, (value, _) in suggested.items()}
    return Suggestion(chosen.with_parameters(**values), {name: reason for name, (_, reason) in suggested.items()})


def _described(counts: Any) -> ClassCounts:
    numbers = as_tensor(counts, "counts").double()
    class_margins(numbers)  # the same demands
    if len(numbers) < 2:
        raise InputError(f"counts: expected at least two classes, got {shape_of(numbers)}")
    ordered = numbers.sort().values
    tail = ordered[: math.floor(0.8 * len(ordered))].sum() / ordered.sum()
    return ClassCounts(len(numbers), int(ordered[0]), int(ordered[-1]), float(tail))


def _tail(known: ClassCounts) -> str:
    return f"the rarest 80 % of the classes hold {known.tail_share:.0%} of the examples"


def _alpha(known: ClassCounts, _: Any) -> tuple[float, str]:
    if known.long_tailed:
        return 5.0, f"{_tail(known)}, a long tail as Pl@ntNet-300K's (11 %), for which the paper found 5"
    return 0.3, f"{_tail(known)}, nearly balanced as CIFAR-100, for which the paper found 0.3"


def _epsilon(known: ClassCounts, _: Any) -> tuple[float, str]:
    flat = "from 0.1 to 10 top-5 accuracy on CIFAR-100 moves by 0.7 points, below 0.01 it collapses (Garcin 2022, Table 2)"
    if known.classes <= 200 and not known.long_tailed:
        return 0.2, f"the paper's on CIFAR-100, 100 balanced classes; {flat}"
    return 1.0, f"the paper's on Pl@ntNet-300K, 1,081 classes with a long tail; {flat}"


def _samples(known: ClassCounts, _: Any) -> tuple[int, str]:
    number = 10 if known.classes <= 200 and not known.long_tailed else 5
    return (
        number,
        "1 to 100 draws differ by 0.4 points on CIFAR-100, without a trend (Garcin 2022, Table 3)",
    )


def _beta(known: ClassCounts, _: Any) -> tuple[float, str]:
    reason = "1/C, which is 0.01 for CIFAR-100's 100 classes and 0.001 for Pl@ntNet-300K's 1,081, the values of the paper"
    return float(f"{1 / known.classes:.1g}"), reason


def _weight(known: ClassCounts, _: Any) -> tuple[float, str]:
    return 1 / known.classes, "1/C, Cole's own; 0 was best on CIFAR-100 (Garcin 2023)"


def _max_margin(known: ClassCounts, _: Any) -> tuple[float, str]:
    smallest = 0.2 * (known.largest / known.rarest) ** -0.25
    reason = f"the paper's on Pl@ntNet-300K; here margins then run from {smallest:.3f} (commonest class) to 0.2 (rarest)"
    return 0.2, reason


def _scale(least: float) -> Callable[[ClassCounts, Any], tuple[float, str]]:
    def rule(known: ClassCounts, _: Any) -> tuple[float, str]:
        # Cosines of the true class 1 and of the others 0 on average give it probability 0.999 from here on.
        needed = math.log(999 * (known.classes - 1))
        value = max(least, 10 * math.ceil(2 * needed / 10))
        return value, (
            f"the paper's {least:g}, or twice log(999 (C - 1)) = {needed:.1f} if that is more: at that scale a cosine of 1 "
            "against 0 means 99.9 %"
        )

    return rule


def _gamma(known: ClassCounts, _: Any) -> tuple[float, str]:
    return (
        2.0,
        f"the published value, whatever the number of classes ({known.classes} here); 0 is cross-entropy",
    )


def _temperature(known: ClassCounts, parameters: Any) -> tuple[float, str]:
    k = parameters["k"]
    return (
        1.0,
        f"the published value; scores are divided by k τ = {k:g}, so it takes {k:g} times as large ones to be sure",
    )


def _pair_weight(known: ClassCounts, _: Any) -> tuple[float, str]:
    return (
        1.0,
        f"the penalty is divided by the {known.classes * (known.classes - 1) // 2:,} pairs of labels, so that it stays small",
    )


RULES: dict[str, dict[str, Callable[[ClassCounts, Any], tuple[float, str]]]] = {
    "focal": {"gamma": _gamma},
    "ldam": {"max_margin": _max_margin, "scale": _scale(40.0)},
    "smooth-topk": {"temperature": _temperature},
    "noised-topk": {"epsilon": _epsilon, "samples": _samples},
    "noised-topk-imbalanced": {"max_margin": _max_margin, "scale": _scale(60.0)},
    "expected-positive": {"beta": _beta},
    "role": {"weight": _weight},
    "average-k": {"alpha": _alpha},
    "spa-label-pair": {"pair_weight": _pair_weight},
}
