"""A fitted rule answers rows with the classes and the link of its calibration rows, and no others."""

import pandas as pd
import pytest
import torch

from shortlist import Predictions, evaluate
from shortlist.errors import InputError
from shortlist.evaluation import measure
from shortlist.sets import SetRule, average_k, classwise, lac, top_k
from shortlist.sets.lists import lists_of

NAMES = ["ash", "elm", "oak"]


def draw(seed=0, rows=300):
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(rows, 3, generator=generator)
    return scores, torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)


def predictions(names=NAMES, link="softmax", columns=(0, 1, 2), **more):
    scores, target = draw(**more)
    return Predictions(scores[:, list(columns)], torch.tensor(columns).argsort()[target], classes=names, link=link)


ASKED = {
    "called": lambda rule, rows: rule(rows),
    "measured": lambda rule, rows: measure(rows, rule),
    "listed": lambda rule, rows: list(lists_of(rows, rule)),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("make", [lac, lambda alpha: classwise(lac(alpha)), lambda alpha: average_k(1.5)])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda: predictions(["oak", "ash", "elm"], columns=(2, 0, 1)), "column 0 was 'ash' and is 'oak' here"),
        (lambda: predictions(["ash", "elm", "fir"]), "column 2 was 'oak' and is 'fir' here"),
        (lambda: predictions(link="sigmoid"), "another link .*sigmoid"),
        (lambda: predictions(link=None), "another link|cannot be interpreted as probabilities"),
        (lambda: Predictions(torch.randn(4, 5), link="softmax"), "3 classes, got .* 5|fitted on 3 classes"),
    ],
)
def test_rows_of_another_origin_are_refused(make, rows, message, ask, tmp_path):
    rule = make(0.1).fit(predictions())
    rule.save(tmp_path / "rule")
    for fitted in (rule, SetRule.load(tmp_path / "rule")):
        assert len(fitted(predictions(seed=1))) == 300
        with pytest.raises(InputError, match=message):
            ask(fitted, rows())


def test_rows_without_names_and_rules_without_a_fit_are_answered():
    scores, _ = draw()
    assert lac(0.1).fit(predictions())(Predictions(scores, link="softmax")).shape == (300, 3)
    assert lac(0.1).fit(predictions(names=None))(predictions()).shape == (300, 3)
    assert top_k(2)(predictions(link="sigmoid")).shape == (300, 3)


def test_columns_of_a_data_frame_are_compared_by_name():
    scores, target = draw()
    frame = pd.DataFrame(scores.softmax(1).numpy(), columns=NAMES)
    rule = classwise(lac(0.1)).fit(frame, target)
    sets = rule(frame)
    with pytest.raises(InputError, match="column 0 was 'ash' and is 'oak' here"):
        rule(frame[NAMES[::-1]])
    pd.testing.assert_frame_equal(rule(frame[NAMES[::-1]][NAMES]), sets)
    assert (rule(frame.to_numpy()) == sets.to_numpy()).all()
    plain = pd.DataFrame(frame.to_numpy())
    assert (classwise(lac(0.1)).fit(plain, target)(frame).to_numpy() == sets.to_numpy()).all()


def test_what_is_told_of_the_calibration_rows_is_about_the_sets_that_a_rule_answers():
    """Randomised rules draw by the scores behind probabilities, also where they measure themselves."""
    from shortlist.sets import bound_cost, cap, raps

    rows = predictions()
    rule = cap(raps(0.2, randomized=True), 2).fit(rows)
    sizes = rule(rows).sum(1).double().mean().item()
    assert rule.calibrated.mean == pytest.approx(sizes)
    assert bound_cost(rule, rows).size_after == pytest.approx(sizes)
    assert evaluate(rows, rule=rule).size.mean == pytest.approx(sizes)


@pytest.mark.parametrize("columns", [[0, 1, 2], ["0", "1", "2"], NAMES], ids=str)
@pytest.mark.parametrize("kind", ["frame", "list of batches", "function", "array"])
def test_columns_in_another_order_are_refused_however_the_rule_was_fitted(columns, kind, tmp_path):
    scores, target = draw()
    frame = pd.DataFrame(scores.softmax(1).numpy(), columns=columns)
    labels = target.numpy()
    parts = [(frame[:150], labels[:150]), (frame[150:], labels[150:])]
    sources = {
        "frame": (frame, labels),
        "list of batches": (parts,),
        "function": (lambda: iter(parts),),
        "array": (frame.to_numpy(), labels),
    }
    if kind == "array" and columns is NAMES:
        pytest.skip("an array has no names to compare")
    rule = classwise(lac(0.1)).fit(*sources[kind])
    rule.save(tmp_path / "rule")
    for fitted in (rule, SetRule.load(tmp_path / "rule")):
        assert fitted(frame).shape == (300, 3)
        assert fitted(frame.to_numpy()).shape == (300, 3)
        for order in ([2, 1, 0], [0, 2, 1]):
            with pytest.raises(InputError, match=f"column {order.index(2) and 1} was .* here"):
                fitted(frame[[columns[place] for place in order]])


def test_a_rule_fitted_on_numbered_columns_in_another_order_refuses_them_in_their_own():
    scores, _ = draw()
    frame = pd.DataFrame(scores.softmax(1).numpy())
    rule = average_k(1.5).fit(frame[[2, 1, 0]])
    with pytest.raises(InputError, match="column 0 was '2' and is '0' here"):
        rule(frame)


def test_batches_whose_columns_differ_in_order_are_refused():
    scores, target = draw()
    frame = pd.DataFrame(scores.softmax(1).numpy(), columns=NAMES)
    parts = [(frame[:150], target[:150].numpy()), (frame[150:][NAMES[::-1]], target[150:].numpy())]
    for source in (parts, lambda: iter(parts), iter(parts)):
        with pytest.raises(InputError, match="probs: .*'ash' and 'oak' in column 0"):
            lac(0.1).fit(source)


def test_a_bound_is_not_costed_on_columns_in_another_order():
    from shortlist.sets import bound_cost, cap

    scores, target = draw()
    frame = pd.DataFrame(scores.softmax(1).numpy(), columns=NAMES)
    rule = cap(lac(0.1), 2).fit(frame, target)
    assert bound_cost(rule, frame, target).rows == 300
    with pytest.raises(InputError, match="column 0 was 'ash' and is 'oak' here"):
        bound_cost(rule, frame[NAMES[::-1]], target)
