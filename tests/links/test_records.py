"""Links from files: values that no fit gives are refused in a sentence that names the field."""

import json
import math

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from shortlist.errors import InputError
from shortlist.links import (
    LDAM,
    Beta,
    Dirichlet,
    Identity,
    Isotonic,
    Platt,
    Quasibinary,
    Softmax,
    Temperature,
    VectorScaling,
    VennAbers,
    link_from_config,
)
from shortlist.predictions import Predictions

GENERATOR = torch.Generator().manual_seed(0)
SCORES = torch.randn(60, 3, generator=GENERATOR)
LABELS = torch.softmax(2 * SCORES, 1).multinomial(1, generator=GENERATOR).squeeze(1)


def updated():
    link = Quasibinary()
    link.update(SCORES, LABELS)
    return link


FITTED = {
    "temperature": lambda: Temperature().fit(SCORES, LABELS),
    "platt": lambda: Platt().fit(SCORES, LABELS),
    "beta": lambda: Beta().fit(SCORES, LABELS),
    "isotonic": lambda: Isotonic().fit(SCORES, LABELS),
    "venn-abers": lambda: VennAbers().fit(SCORES, LABELS),
    "vector-scaling": lambda: VectorScaling().fit(SCORES, LABELS),
    "dirichlet": lambda: Dirichlet().fit(SCORES, LABELS),
    "ldam": lambda: LDAM(torch.tensor([0.1, 0.2, 0.3])),
    "quasibinary": updated,
}
F64 = torch.float64
KNOTS = torch.arange(3, dtype=F64).repeat(3, 1)
LEVELS = torch.tensor([[0.0, 0.5, 1.0]] * 3, dtype=F64)

WRONG = [
    *(("temperature", {"temperature": torch.tensor(value, dtype=F64)}, r"temperature: .*above 0, got") for value in
      (math.nan, 0.0, -1.0, math.inf)),
    ("temperature", {"temperature": torch.tensor([1.0, 2.0])}, r"temperature: .* \(\), got float32 \(2,\)"),
    ("temperature", {"temperature": torch.tensor(2)}, r"temperature: .*got int64"),
    ("platt", {"slope": torch.tensor([1.0, math.nan, 1.0], dtype=F64)}, "slope: .*got nan"),
    ("platt", {"intercept": torch.tensor([1.0, math.inf, 1.0], dtype=F64)}, "intercept: .*got inf"),
    ("platt", {"intercept": torch.zeros(2, dtype=F64)}, "one shape"),
    ("platt", {"slope": torch.ones((), dtype=F64), "intercept": torch.ones((), dtype=F64)}, "one row per class"),
    ("platt", {"slope": torch.ones(3, 2), "intercept": torch.ones(3, 2)}, r"slope: expected floating point \(C,\)"),
    ("platt", {"slope": torch.ones(3, dtype=torch.bool)}, "slope: .*got bool"),
    ("isotonic", {"knots": KNOTS, "levels": LEVELS + 0.5}, "levels: expected probabilities from 0 to 1, got 1.5"),
    ("isotonic", {"knots": KNOTS, "levels": LEVELS - 0.25}, "levels: expected probabilities from 0 to 1, got -0.25"),
    ("isotonic", {"knots": KNOTS, "levels": LEVELS.flip(1)}, "levels: .*do not decrease"),
    ("isotonic", {"knots": KNOTS.flip(1), "levels": LEVELS}, "knots: .*do not decrease"),
    ("isotonic", {"knots": KNOTS / 0, "levels": LEVELS}, "knots: expected finite"),
    ("isotonic", {"knots": KNOTS * math.nan, "levels": LEVELS}, "levels: expected NaN"),
    ("isotonic", {"knots": KNOTS[0], "levels": LEVELS[0]}, r"knots: expected floating point \(C, K\)"),
    ("isotonic", {"knots": KNOTS[:, :0], "levels": LEVELS[:, :0]}, r"knots: expected floating point \(C, K\)"),
    ("isotonic", {"knots": KNOTS[:, :2], "levels": LEVELS}, "one shape"),
    ("beta", {"a": torch.tensor([1.0, -0.5, 1.0], dtype=F64)}, "a: expected numbers from 0, got -0.5"),
    ("beta", {"b": torch.tensor([1.0, math.nan, 1.0], dtype=F64)}, "b: .*got nan"),
    ("beta", {"c": torch.zeros(2, dtype=F64)}, "one shape"),
    ("venn-abers", {"steps": KNOTS, "lower": LEVELS + 0.5, "upper": LEVELS}, "0 ≤ lower ≤ upper ≤ 1"),
    ("venn-abers", {"steps": KNOTS, "lower": LEVELS / 2, "upper": LEVELS / 4 + 1}, "0 ≤ lower ≤ upper ≤ 1"),
    ("venn-abers", {"steps": KNOTS, "lower": LEVELS, "upper": LEVELS + 0}, "upper above 0"),
    ("venn-abers", {"steps": KNOTS, "lower": LEVELS.flip(1) / 2, "upper": LEVELS / 2 + 0.5}, "lower: .*do not decrease"),
    ("venn-abers", {"steps": KNOTS / 0, "lower": LEVELS, "upper": LEVELS + 0}, "steps: expected finite"),
    ("venn-abers", {"steps": KNOTS, "lower": LEVELS * math.nan, "upper": LEVELS}, "lower: expected finite"),
    ("venn-abers", {"steps": KNOTS[0], "lower": LEVELS[0], "upper": LEVELS[1]}, r"steps: expected floating point \(C, K\)"),
    ("venn-abers", {"steps": KNOTS[:, :2], "lower": LEVELS, "upper": LEVELS + 0}, "one shape"),
    ("vector-scaling", {"weight": torch.tensor([1.0, math.nan, 1.0])}, "weight: expected finite numbers, got nan"),
    ("vector-scaling", {"weight": torch.ones(3, 3)}, r"weight: expected floating point \(3,\), got float32 \(3, 3\)"),
    ("vector-scaling", {"intercept": torch.tensor([1.0, math.inf, 1.0])}, "intercept: .*got inf"),
    ("dirichlet", {"weight": torch.ones(3)}, r"weight: expected floating point \(3, 3\), got float32 \(3,\)"),
    ("dirichlet", {"weight": torch.ones(3, 3, dtype=torch.int64)}, "weight: .*got int64"),
    ("dirichlet", {"weight": torch.full((3, 3), -math.inf)}, "weight: .*got -inf"),
    ("ldam", {"margins": torch.tensor([0.1, math.nan, 0.3])}, "margins: .*got nan"),
    ("ldam", {"margins": torch.ones(3, 1)}, r"margins: expected floating point \(C,\)"),
    ("quasibinary", {"log_normalizer": torch.tensor(math.nan)}, "log_normalizer: .*got nan"),
    ("quasibinary", {"log_normalizer": torch.tensor([1.0])}, r"log_normalizer: expected floating point \(\)"),
]  # fmt: skip


@pytest.mark.parametrize("name", FITTED)
def test_what_a_fit_gives_is_read_back(name):
    link = FITTED[name]()
    again = link_from_config(json.loads(json.dumps(link.config())), dict(link.state_dict()))
    assert torch.equal(again.probs(SCORES), link.probs(SCORES))


@pytest.mark.parametrize(("name", "tensors", "message"), WRONG)
def test_tensors_that_no_fit_gives_are_refused_with_file_and_field(name, tensors, message, tmp_path):
    link = FITTED[name]()
    with pytest.raises(InputError, match=rf"link {name}: .*{message}"):
        link_from_config(link.config(), {**link.state_dict(), **tensors})
    path = tmp_path / "scores.safetensors"
    Predictions(SCORES, link=link).save(path)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    save_file({**load_file(path), **{f"link.{key}": value.contiguous() for key, value in tensors.items()}}, path, header)
    with pytest.raises(InputError, match=rf"scores.safetensors: link {name}: .*{message}") as error:
        Predictions.load(path)
    assert "\n" not in str(error.value)


def test_the_tensors_of_a_base_are_checked_too():
    link = Platt(Temperature().fit(SCORES, LABELS)).fit(SCORES, LABELS)
    tensors = {**link.state_dict(), "base.temperature": torch.tensor(0.0, dtype=F64)}
    with pytest.raises(InputError, match="link platt: temperature: .*above 0, got 0"):
        link_from_config(link.config(), tensors)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "link: expected a kind and its parameters, got None"),
        ([], "link: expected a kind"),
        ({"kind": 3}, "link: expected one of .*got 3"),
        ({"kind": "temperature", "base": "softmax", "single": True}, "link temperature: base: expected a link or None"),
        (
            {"kind": "temperature", "base": {"kind": "none"}, "single": True},
            "link temperature: link: .*expected one of .*got 'none'",
        ),
        ({"kind": "temperature", "base": None, "single": "yes"}, "link temperature: single: expected True or False"),
        ({"kind": "softmax", "temperature": 2}, "link softmax: expected .*got temperature"),
        ({"kind": "focal-recovery", "gamma_pos": "4"}, "link focal-recovery: gamma_pos: expected a number"),
        ({"kind": "ldam", "scale": math.nan}, "link ldam: scale: .*got nan"),
        ({"kind": "dirichlet", "penalty": 0}, "link dirichlet: penalty: .*got 0"),
        ({"kind": "isotonic", "pseudo_counts": -1.0}, "link isotonic: pseudo_counts: .*got -1"),
        ({"kind": "quasibinary", "momentum": 1.5}, "link quasibinary: momentum: .*got 1.5"),
        ({"kind": "sparse-top", "k": -1}, "link sparse-top: k: .*got -1"),
    ],
)
def test_configurations_that_no_link_wrote_are_refused(config, message):
    with pytest.raises(InputError, match=message):
        link_from_config(config, {})


@pytest.mark.parametrize("base", [Softmax(), Identity()])
def test_a_link_fitted_on_other_classes_is_refused_with_the_file(base, tmp_path):
    probs = SCORES.softmax(1)
    link = Platt(base).fit(probs, LABELS)
    path = tmp_path / "scores.safetensors"
    Predictions(probs, link=link).save(path)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    tensors = load_file(path)
    save_file(tensors | {"scores": tensors["scores"][:, :2].contiguous()}, path, header)
    with pytest.raises(InputError, match="scores.safetensors: scores: .*fitted on 3 classes, got 2"):
        Predictions.load(path)
