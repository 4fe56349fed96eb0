"""Suggested parameters, from the class counts, each with a reason."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shortlist.class_names import by_class
from shortlist.errors import InputError
from shortlist.losses import class_margins
from shortlist.methods.menu import Method, find_method
from shortlist.tensors import as_tensor, shape_of


@dataclass(frozen=True)
class ClassCounts:
    """The properties of the class counts that suggestions depend on."""

    classes: int
    rarest: int
    largest: int
    tail_share: float  # share of the examples in the rarest 80 % of the classes

    @property
    def long_tailed(self) -> bool:
        """Whether the rarest 80 % of the classes have less than half of the examples (in Pl@ntNet-300K 11 %)."""
        return self.tail_share < 0.5


@dataclass(frozen=True)
class Suggestion:
    """A method with suggested parameters, and the reason for each; prints as a list."""

    method: Method
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters of the method, including the suggested ones."""
        return dict(self.method.parameters)

    def __str__(self) -> str:
        lines = [f"{name} = {value:g}: {self.reasons[name]}" for name, value in self.parameters.items() if name in self.reasons]
        lines = lines or ["no suggestions: its parameters do not depend on class counts"]
        return "\n".join([self.method.name, *(f"  {line}" for line in lines)])


def suggest_parameters(method: str | Method, counts: Any, **given: Any) -> Suggestion:
    """Suggest parameters of a method for classes with these training counts, each with a reason.

    Use them as a starting point, and as the centre of a search on validation data.

    Args:
        method: a method or its name.
        counts: training examples of each class, (C,), all at least 1.
        given: parameters that are fixed already; the others may depend on them.

    >>> print(suggest_parameters("expected-positive", [500] * 100, k=5))
    expected-positive
      beta = 0.01: 1/C: 0.01 for the 100 classes of CIFAR-100 and 0.001 for the 1,081 of Pl@ntNet-300K, as in the paper
    """
    chosen = (find_method(method) if isinstance(method, str) else method).with_parameters(**given)
    known = _described(counts)
    suggested = {name: rule(known, chosen.parameters) for name, rule in RULES.get(chosen.name, {}).items() if name not in given}
    values = {name: value for name, (value, _) in suggested.items()}
    return Suggestion(chosen.with_parameters(**values), {name: reason for name, (_, reason) in suggested.items()})


def _described(counts: Any) -> ClassCounts:
    numbers = as_tensor(by_class("counts", counts), "counts").double()
    class_margins(numbers)  # makes the same checks
    if len(numbers) < 2:
        raise InputError(f"counts: expected at least two classes, got {shape_of(numbers)}")
    ordered = numbers.sort().values
    tail = ordered[: math.floor(0.8 * len(ordered))].sum() / ordered.sum()
    return ClassCounts(len(numbers), int(ordered[0]), int(ordered[-1]), float(tail))


def _tail(known: ClassCounts) -> str:
    return f"the rarest 80 % of the classes have {known.tail_share:.0%} of the examples"


def _alpha(known: ClassCounts, _: Any) -> tuple[float, str]:
    if known.long_tailed:
        return 5.0, f"{_tail(known)}, a long tail as in Pl@ntNet-300K (11 %), where the paper found 5"
    return 0.3, f"{_tail(known)}, nearly balanced as in CIFAR-100, where the paper found 0.3"


def _epsilon(known: ClassCounts, _: Any) -> tuple[float, str]:
    flat = "from 0.1 to 10, top-5 accuracy on CIFAR-100 varies by 0.7 points; below 0.01 it collapses (Garcin 2022, Table 2)"
    if known.classes <= 200 and not known.long_tailed:
        return 0.2, f"the paper's value for CIFAR-100, 100 balanced classes; {flat}"
    return 1.0, f"the paper's value for Pl@ntNet-300K, 1,081 classes with a long tail; {flat}"


def _samples(known: ClassCounts, _: Any) -> tuple[int, str]:
    number = 10 if known.classes <= 200 and not known.long_tailed else 5
    return (
        number,
        "from 1 to 100 draws, accuracy on CIFAR-100 varies by 0.4 points without a trend (Garcin 2022, Table 3)",
    )


def _beta(known: ClassCounts, _: Any) -> tuple[float, str]:
    reason = "1/C: 0.01 for the 100 classes of CIFAR-100 and 0.001 for the 1,081 of Pl@ntNet-300K, as in the paper"
    return float(f"{1 / known.classes:.1g}"), reason


def _weight(known: ClassCounts, _: Any) -> tuple[float, str]:
    return 1 / known.classes, "1/C, Cole's choice; 0 was best on CIFAR-100 (Garcin 2023)"


def _max_margin(known: ClassCounts, _: Any) -> tuple[float, str]:
    smallest = 0.2 * (known.largest / known.rarest) ** -0.25
    reason = f"the paper's value for Pl@ntNet-300K; here it gives margins from {smallest:.3f} (largest class) to 0.2 (rarest)"
    return 0.2, reason


def _scale(least: float) -> Callable[[ClassCounts, Any], tuple[float, str]]:
    def rule(known: ClassCounts, _: Any) -> tuple[float, str]:
        # From this scale on, a cosine of 1 for the true class and 0 for the others gives it probability 0.999.
        needed = math.log(999 * (known.classes - 1))
        value = max(least, 10 * math.ceil(2 * needed / 10))
        return value, (
            f"the paper's {least:g}, or twice log(999 (C - 1)) = {needed:.1f} if that is more: at that scale a cosine of 1 "
            "against 0 gives 99.9 %"
        )

    return rule


def _gamma(known: ClassCounts, _: Any) -> tuple[float, str]:
    return (
        2.0,
        f"the published value, for any number of classes ({known.classes} here); 0 is cross-entropy",
    )


def _temperature(known: ClassCounts, parameters: Any) -> tuple[float, str]:
    k = parameters["k"]
    return (
        1.0,
        f"the published value; scores are divided by k τ = {k:g}, so the same confidence needs scores {k:g} times as large",
    )


def _pair_weight(known: ClassCounts, _: Any) -> tuple[float, str]:
    return (
        1.0,
        f"the penalty is divided by the {known.classes * (known.classes - 1) // 2:,} pairs of labels, so it stays small",
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
    **{f"{name}-label-pair": {"pair_weight": _pair_weight} for name in ("spa", "bce", "focal", "asymmetric")},
}
