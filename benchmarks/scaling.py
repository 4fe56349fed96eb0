"""Temperature scaling against netcal and scikit-learn: 10,000 rows of 100 classes."""

import warnings

from benchmarks.data import single_label
from benchmarks.harness import compare
from benchmarks.link_contenders import contenders
from shortlist.links import Identity, Temperature


def run() -> None:
    warnings.simplefilter("ignore")
    probs, target = single_label(10_000, 100)
    probs = (2 * probs.double().log()).softmax(1)  # overconfident: the temperature 2 is right
    given, labels, rivals = probs.numpy(), target.numpy(), contenders()
    compare(
        "temperature",
        "10,000 × 100, float64, fit",
        {
            "shortlist": lambda: Temperature(Identity()).fit(probs, target),
            "netcal": lambda: rivals["netcal temperature"](given, labels),
            "scikit-learn": lambda: rivals["scikit-learn temperature"](given, labels),
        },
        rounds=21,
    )
