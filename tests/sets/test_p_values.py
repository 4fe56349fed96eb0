"""P-values of labels and rules for several errors, from the values that a fit kept."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, NotFittedError
from shortlist.sets import SetRule, aps, average_k, classwise, gate, lac, nested, parse_rule, pas, raps, sure_node
from shortlist.sets.p_values import PValuesInBlocks
from tests.references import sets as ref
from tests.sets.cases import SUPERCLASSES, draw

RULES = {
    "lac": lambda alpha: lac(alpha),
    "aps": lambda alpha: aps(alpha),
    "aps deterministic": lambda alpha: aps(alpha, randomized=False),
    "raps": lambda alpha: raps(alpha, 0.05, 1),
    "raps auto": lambda alpha: raps(alpha, "auto"),
    "pas": lambda alpha: pas(alpha, [0.1, 0.2, 0.3, 0.2, 0.2]),
    "sure node": lambda alpha: sure_node(alpha, SUPERCLASSES),
    "classwise": lambda alpha: classwise(lac(alpha)),
    "classwise aps": lambda alpha: classwise(aps(alpha)),
}
ALPHAS = (0.01, 0.05, 0.1, 0.25, 0.3, 0.5, 0.9)
pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")


def tied(seed=0):
    """Probabilities in sixteenths: many tie with each other and with thresholds."""
    data = draw(seed=seed)
    return np.round(data.calibration * 16) / 16, data.target, np.round(data.new * 16) / 16


@pytest.mark.parametrize("many_ties", [False, True])
def test_p_values_are_those_of_the_definition(many_ties):
    data = draw()
    probs, target, new = tied() if many_ties else (data.calibration, data.target, data.new)
    found = lac(0.1).fit(probs, target, keep=True).p_values(new)
    own = [probs[i, target[i]] for i in range(len(target))]
    expected = [[(1 + sum(value <= p for value in own)) / (len(own) + 1) for p in row] for row in new]
    np.testing.assert_array_equal(found, expected)
    found = aps(0.1, randomized=False).fit(data.calibration, data.target, keep=True).p_values(data.new)
    scores, new = ref.aps_scores(data.calibration), ref.aps_scores(data.new)
    own = [scores[i, data.target[i]] for i in range(150)]
    expected = np.array([[(1 + sum(v >= s for v in own)) / 151 for s in row] for row in new])
    np.testing.assert_array_equal(found[new < 1 - 1e-9], expected[new < 1 - 1e-9])  # sums of whole rows are rounded apart


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_label_is_in_the_set_if_and_only_if_its_p_value_exceeds_alpha(name, dtype):
    probs, target, new = (torch.from_numpy(part) for part in tied())
    probs, new = probs.to(dtype), new.to(dtype)
    if name not in ("lac", "classwise"):
        probs, new = (part / part.sum(1, keepdim=True) for part in (probs, new))
    kept = RULES[name](0.2).fit(probs, target, keep=True)
    found = kept.p_values(new)
    for alpha in (0.2,) if name == "raps auto" else ALPHAS:  # which is tuned for its alpha
        assert torch.equal(RULES[name](alpha).fit(probs, target)(new), found > alpha), alpha


@pytest.mark.parametrize("name", [name for name in RULES if name != "raps auto"])
def test_nested_rules_are_those_of_a_fit_for_each_error(name):
    data = draw()
    kept = RULES[name](0.2).fit(data.calibration, data.target, keep=True)
    last = np.ones((60, 5), bool)
    for alpha, rule in zip(ALPHAS, nested(kept, ALPHAS), strict=True):
        fitted = RULES[name](alpha).fit(data.calibration, data.target)
        assert torch.equal(rule.threshold, fitted.threshold)
        assert (rule.text, rule.alpha, rule.guarantee) == (fitted.text, alpha, fitted.guarantee)
        sets = rule(data.new)
        np.testing.assert_array_equal(sets, fitted(data.new))
        assert (sets <= last).all()
        last = sets
    assert kept.alpha == 0.2


def test_p_values_of_the_label_are_uniform_in_their_law():
    """Of n values and a new one that do not tie the p-value is uniform over 1/(n + 1), …, 1: here each place once."""
    values = torch.arange(1, 11, dtype=torch.float64) / 11
    found = []
    for left_out in range(10):
        others = torch.cat([values[:left_out], values[left_out + 1 :]])[:, None]
        rule = lac(0.2).fit(others, torch.zeros(9, dtype=torch.int64), keep=True)
        found.append(float(rule.p_values(values[left_out, None, None])))
    assert sorted(Fraction(p).limit_denominator(100) for p in found) == [Fraction(i, 10) for i in range(1, 11)]


def test_values_are_saved_with_the_rule(tmp_path):
    data = draw()
    for make in (lac, lambda alpha: classwise(aps(alpha))):
        rule = make(0.2).fit(data.calibration, data.target, keep=True)
        rule.save(tmp_path / "rule")
        np.testing.assert_array_equal(SetRule.load(tmp_path / "rule").p_values(data.new), rule.p_values(data.new))


def test_another_fit_forgets_them():
    data = draw()
    rule = lac(0.2).fit(data.calibration, data.target, keep=True)
    with pytest.raises(NotFittedError, match=r"keep=True"):
        rule.fit(data.calibration, data.target).p_values(data.new)
    with pytest.raises(NotFittedError, match=r"keep=True"):
        nested(rule, [0.1])


def test_answers_have_the_form_of_the_question():
    data = draw()
    rule = lac(0.2).fit(data.calibration, data.target, keep=True)
    found = rule.p_values(torch.from_numpy(data.new))
    predictions = Predictions(data.new, np.zeros(60, dtype=int), link="identity")
    assert torch.equal(rule.p_values(predictions), found)
    np.testing.assert_array_equal(rule.p_values(data.new.tolist()), found.numpy())
    assert rule.p_values(data.new[:0]).shape == (0, 5)
    with pytest.raises(InputError, match="fitted on 5 classes"):
        rule.p_values(data.new[:, :4])
    with pytest.raises(InputError, match="nan"):
        rule.p_values(np.full((1, 5), np.nan))


def test_behind_a_gate_the_values_are_those_of_the_rows_that_calibrate():
    data = draw(many_labels=True)
    rows, target = data.calibration, np.eye(5, dtype=bool)[np.arange(150) % 5]
    target[::4] = False
    rule = gate(lac(0.2), 0.5).fit(rows, target, keep=True)
    assert len(rule.kept) == int(rule.fitted_labels)
    found = torch.from_numpy(rule.p_values(data.new)) > 0.2
    assert torch.equal(rule.unbounded(torch.from_numpy(data.new)), found)


@pytest.mark.parametrize("text", ["average-k:2", "lac:0.1,interpolated:0.5", "lac:0.1,pac:0.1", "top-k:1"])
def test_only_conformal_rules_keep_values(text):
    data = draw()
    with pytest.raises(InputError, match="keep: expected a conformal rule"):
        parse_rule(text).fit(data.calibration, data.target, keep=True)


def test_draws_that_cannot_be_repeated_and_rows_that_cannot_be_read_again_are_refused():
    data = draw()
    with pytest.raises(InputError, match="keep: .*a seed"):
        aps(0.2, torch.Generator()).fit(data.calibration, data.target, keep=True)
    with pytest.raises(InputError, match="keep: .*read twice"):
        lac(0.2).fit((part for part in [(data.calibration, data.target)]), keep=True)
    assert average_k(2).fit(data.calibration).kept is None


def test_rows_that_come_in_blocks_draw_as_all_of_them_do():
    random = np.random.default_rng(0)
    scores = random.normal(size=(300, 4))
    old = Predictions(scores, random.integers(0, 4, 300), link="softmax")
    rule = parse_rule("aps:0.3:random").fit(old, keep=True)
    new = old.rows([*range(50), *range(50)])
    whole, in_blocks = rule.p_values(new), PValuesInBlocks(rule)
    parts = [
        in_blocks(part.probs(), part.scores)
        for part in (new.rows(slice(0, 7)), new.rows(slice(7, 60)), new.rows(slice(60, 100)))
    ]
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(rule(new), whole > 0.3)
    assert (whole[:50] != whole[50:]).any()  # equal rows are drawn apart
