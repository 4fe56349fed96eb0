"""APS with a generator: the label at the boundary is in or out by chance."""

import numpy as np
import pytest
import torch

from shortlist import Predictions, evaluate, links
from shortlist.errors import InputError
from shortlist.sets import SetRule, aps, cap, classwise, floor, orderings, parse_rule, raps, rule_from_record
from shortlist.sets.draws import CalibrationDraws, RowDraws, digest_of
from shortlist.sets.lists import lists_of
from shortlist.tensors import row_blocks
from tests.references import sets as ref
from tests.sets.cases import draw


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


def test_one_uniform_draw_a_row_takes_that_share_of_the_own_probability_away():
    data = draw()
    rows = np.arange(150)
    own, share = data.calibration[rows, data.target], torch.rand(150, 1, generator=generator(), dtype=torch.float64).numpy()
    scores = ref.aps_scores(data.calibration)[rows, data.target] - share[:, 0] * own
    rule = aps(0.2, generator()).fit(data.calibration, data.target)
    assert rule.threshold.item() == pytest.approx(ref.conformal_quantile(scores.tolist(), 0.2), rel=1e-13)


@pytest.mark.parametrize("make", [aps, raps, lambda alpha, generator: classwise(aps(alpha, generator))])
def test_the_generator_is_the_only_chance(make):
    data = draw()
    first, second = (make(0.2, generator=generator()).fit(data.calibration, data.target) for _ in range(2))
    assert torch.equal(first.threshold, second.threshold)
    np.testing.assert_array_equal(first(data.new), second(data.new))


def test_two_calls_answer_differently_and_without_a_generator_the_same():
    data = draw()
    rule = aps(0.2, generator()).fit(data.calibration, data.target)
    assert (rule(data.new) != rule(data.new)).any()
    plain = aps(0.2, randomized=False).fit(data.calibration, data.target)
    np.testing.assert_array_equal(plain(data.new), plain(data.new))


def test_sets_are_the_first_labels_of_the_row():
    data = draw()
    sets = aps(0.2, generator()).fit(data.calibration, data.target)(data.new)
    for row, kept in zip(data.new, sets, strict=True):
        assert set(ref.ranked(row)[: kept.sum()]) == set(np.flatnonzero(kept))


def test_sets_are_smaller_than_without_chance():
    data = draw(rows=1000)
    rules = aps(0.1, generator()), aps(0.1, randomized=False)
    sizes = [rule.fit(data.calibration, data.target)(data.calibration).sum() for rule in rules]
    assert sizes[0] < sizes[1]


def test_chance_is_not_lost_on_disk(tmp_path):
    """Read back as the plain rule, a threshold that was fitted with chance covers too little."""
    data = draw()
    rule = aps(0.2, generator()).fit(data.calibration, data.target)
    try:
        rule.save(tmp_path / "rule")
        loaded = SetRule.load(tmp_path / "rule")
    except InputError:
        return
    assert loaded.ordering.randomized


DEFAULTS = [
    lambda: aps(0.1, randomized=True),
    lambda: parse_rule("aps:0.1:random"),
    lambda: aps(0.1, generator=7),
    lambda: raps(0.1, 0.01, 1, randomized=True),
]


def law(random, rows, classes=4, *, alike):
    """Rows with labels from their own probabilities; all rows the same, or all different."""
    probs = np.tile([0.4, 0.3, 0.2, 0.1], (rows, 1)) if alike else random.dirichlet(np.ones(classes), rows)
    return probs, (probs.cumsum(1) > random.uniform(size=(rows, 1))).argmax(1)


def test_the_ways_to_ask_for_chance_are_one():
    data = draw()
    thresholds = [
        make().fit(data.calibration, data.target).threshold for make in (*DEFAULTS[:2], lambda: aps(0.1, generator=0))
    ]
    assert torch.equal(thresholds[0], thresholds[1])
    assert torch.equal(thresholds[0], thresholds[2])


@pytest.mark.parametrize(("make", "alike"), [(DEFAULTS[0], False), (DEFAULTS[0], True), (DEFAULTS[-1], False)])
def test_coverage_on_average_over_calibrations_is_what_was_asked_for(make, alike):
    """With 9 rows and an error of 0.1 the coverage of a continuous score is exactly 0.9: the rank is 9 of 9.

    Two and a half standard errors of 3,000 calibrations of one new row each, so that even their draws are independent. With
    the same draws in every calibration it would be 0.88.
    """
    random, calibrations = np.random.default_rng(0), 3000
    covered = 0
    for _ in range(calibrations):
        probs, target = law(random, 10, alike=alike)
        sets = make().fit(probs[:9], target[:9])(probs[9:])
        covered += bool(sets[0, target[9]])
    assert covered / calibrations == pytest.approx(0.9, abs=2.5 * (0.9 * 0.1 / calibrations) ** 0.5)


@pytest.mark.parametrize("make", DEFAULTS)
def test_one_calibration_can_be_repeated_and_another_is_independent(make):
    data, other = draw(rows=400), draw(rows=400, seed=1)
    first, second = (make().fit(data.calibration, data.target) for _ in range(2))
    assert torch.equal(first.threshold, second.threshold)
    np.testing.assert_array_equal(first(data.new), second(data.new))
    assert first.ordering.seed == second.ordering.seed
    assert make().fit(other.calibration, other.target).ordering.seed != first.ordering.seed
    relabelled = (data.target + 1) % 5
    assert make().fit(data.calibration, relabelled).ordering.seed != first.ordering.seed


def test_seeds_are_honoured():
    data = draw()
    thresholds = {aps(0.2, generator=seed).fit(data.calibration, data.target).threshold.item() for seed in (0, 1, 2)}
    assert len(thresholds) == 3
    seeds = {aps(0.2, generator=seed).fit(data.calibration, data.target).ordering.seed.item() for seed in (0, 0, 1)}
    assert len(seeds) == 2


def test_neither_batches_nor_order_change_what_is_drawn():
    data = draw(rows=120)
    whole = aps(0.2, randomized=True).fit(data.calibration, data.target)
    parts = [(data.calibration[a : a + 7], data.target[a : a + 7]) for a in range(0, 120, 7)]
    for source in (parts, iter(parts)):
        streamed = aps(0.2, randomized=True).fit(source)
        assert torch.equal(streamed.threshold, whole.threshold)
        assert streamed.ordering.seed == whole.ordering.seed
    sets = whole(data.new)
    np.testing.assert_array_equal(np.concatenate([whole(row[None]) for row in data.new]), sets)
    np.testing.assert_array_equal(whole(data.new[::-1].copy()), sets[::-1])


def test_equal_rows_of_one_call_are_drawn_apart():
    data = draw()
    rule = aps(0.2, randomized=True).fit(data.calibration, data.target)
    sizes = rule(np.tile(data.new[:1], (500, 1))).sum(1)
    assert sizes.min() < sizes.max()
    assert sizes.mean() == pytest.approx(rule(np.tile(data.new[:1], (50_000, 1))).sum(1).mean(), abs=0.1)


@pytest.mark.parametrize("modified", [lambda rule: rule, classwise])
def test_equal_rows_are_drawn_apart_in_all_blocks_of_a_call(monkeypatch, modified):
    """Equal rows of one call are counted over the call, not over each block that is worked on at once."""
    data = draw()
    rule = modified(aps(0.2, randomized=True)).fit(data.calibration, data.target)
    alike = np.tile(data.new[:1], (60, 1))
    together = rule(alike)
    monkeypatch.setattr(orderings, "blocks_of", lambda probs, *_: row_blocks(*probs.shape, entries=100))  # 20 rows
    np.testing.assert_array_equal(rule(alike), together)
    assert (together[:20] != together[20:40]).any()


@pytest.mark.parametrize("division", [[60], [1] * 60, [7, 13, 40], [40, 0, 20], [2, 4, 8, 16, 30]])
def test_rows_that_come_in_blocks_get_the_sets_of_one_call(division):
    data = draw()
    rule = aps(0.2, randomized=True).fit(data.calibration, data.target)
    random = np.random.default_rng(0)
    rows = torch.from_numpy(data.new[random.integers(4, size=60)])  # each about 15 times
    sets_of = rule.in_blocks()
    np.testing.assert_array_equal(torch.cat([sets_of(part) for part in rows.split(division)]), rule(rows))


LINKS = [
    pytest.param(lambda: links.Softmax(), id="softmax"),
    pytest.param(lambda: links.Platt(), id="platt"),
    pytest.param(lambda: links.Isotonic(), id="isotonic"),
    pytest.param(lambda: links.Temperature(), id="temperature"),
]


@pytest.mark.parametrize("make_link", LINKS)
def test_the_set_of_a_row_of_predictions_does_not_depend_on_the_rows_beside_it(make_link):
    """A link may give probabilities that differ in the last digit between batches; the draws must not follow them."""
    random = torch.Generator().manual_seed(0)
    target = torch.randint(5, (400,), generator=random)
    scores = torch.randn(400, 5, generator=random) + 2 * torch.nn.functional.one_hot(target, 5)
    link = make_link()
    if hasattr(link, "fit"):
        link.fit(scores, target)
    predictions = Predictions(scores, target, link=link)
    rule = aps(0.2, randomized=True).fit(predictions)
    sets = rule(predictions)
    alone = [rule(predictions.rows(slice(row, row + 1))) for row in range(400)]
    assert torch.equal(torch.cat(alone), sets)
    listed = [sets for sets, _ in lists_of(predictions, rule)]
    assert torch.equal(torch.cat(listed), sets)


def test_equal_rows_of_predictions_are_drawn_apart_in_all_blocks(monkeypatch):
    """Measuring, listing and asking the rule at once see the same sets, also where equal rows are in different blocks."""
    data = draw()
    rule = aps(0.2, randomized=True).fit(data.calibration, data.target)
    alike = Predictions(np.tile(data.new[:1], (90, 1)), np.zeros(90, dtype=int), link="identity")
    sets = rule(alike)
    blocks = Predictions.blocks
    monkeypatch.setattr(Predictions, "blocks", lambda self: blocks(self, 100))
    assert len(list(alike.blocks())) > 2
    assert torch.equal(torch.cat([part for part, _ in lists_of(alike, rule)]), sets)
    assert evaluate(alike, rule=rule).size.mean == pytest.approx(sets.sum(1).double().mean().item())


def test_new_rows_are_drawn_apart_from_the_calibration_rows(tmp_path):
    """The same rows, asked about after they were calibrated on, get other numbers; so they do from a rule that was saved."""
    probs, target = law(np.random.default_rng(3), 2000, alike=False)
    rule = aps(0.1, randomized=True).fit(probs, target)
    numbers = torch.arange(2000)
    digest = digest_of(torch.from_numpy(probs), torch.from_numpy(target), numbers)
    calibration = CalibrationDraws.of(digest, 0, None).shares(numbers).numpy()
    new = RowDraws(rule.ordering.seed)(torch.from_numpy(probs)).squeeze(1).numpy()
    assert abs(np.corrcoef(calibration, new)[0, 1]) < 4 / 2000**0.5
    rule.save(tmp_path / "rule")
    np.testing.assert_array_equal(SetRule.load(tmp_path / "rule")(probs), rule(probs))


def test_draws_are_uniform_whatever_the_digits_of_the_rows():
    random = torch.Generator().manual_seed(0)
    rough = torch.randint(8, (20_000, 3), generator=random) / 8  # few bits: hundreds of different rows
    fine = torch.rand(20_000, 3, generator=random, dtype=torch.float64)
    for rows in (rough, fine, torch.zeros(20_000, 1)):
        drawn = RowDraws(torch.tensor(5))(rows).squeeze(1).sort().values
        steps = torch.arange(1, 20_001) / 20_000
        assert (drawn - steps).abs().max() < 1.95 / 20_000**0.5  # Kolmogorov–Smirnov at 0.001


@pytest.mark.parametrize("modified", [classwise, lambda rule: cap(rule, 3), floor])
def test_the_rule_that_a_modifier_started_from_keeps_its_draws(modified):
    data, other = draw(), draw(seed=1)
    rule = aps(0.2, randomized=True).fit(data.calibration, data.target)
    before = rule(data.new)
    modified(rule).fit(other.calibration, other.target)
    np.testing.assert_array_equal(rule(data.new), before)


@pytest.mark.parametrize("seed", [torch.tensor(1.5), torch.tensor([1]), torch.tensor(1, dtype=torch.int32)])
def test_a_saved_seed_of_another_type_is_refused(seed):
    data = draw()
    rule = aps(0.2, randomized=True).fit(data.calibration, data.target)
    with pytest.raises(InputError, match="seed: expected int64"):
        rule_from_record(rule.record(), {**rule.state_dict(), "ordering.seed": seed})
    plain = aps(0.2, randomized=False).fit(data.calibration, data.target)
    record = plain.record() | {"tensors": ["ordering.seed", "threshold"]}
    with pytest.raises(InputError, match="seed"):
        rule_from_record(record, {**plain.state_dict(), "ordering.seed": torch.tensor(1)})


@pytest.mark.filterwarnings("ignore:.*many tie at the threshold")
@pytest.mark.parametrize("rule", [lambda: aps(0.1, randomized=False), lambda: raps(0.1, 0.01, 2, randomized=False)])
def test_a_threshold_at_the_last_label_returns_every_label_whatever_the_rounding_of_the_row(rule):
    """Sums of float32 probabilities miss 1 by their rounding, on either side."""
    random = torch.Generator().manual_seed(0)
    probs = (4 * torch.randn(500, 7, generator=random)).softmax(1)
    assert (probs.double().sum(1) < 1).any()
    assert (probs.double().sum(1) > 1).any()
    last = probs.argmin(1)
    fitted = rule().fit(probs[:250], last[:250])
    assert fitted(probs).all()
    assert aps(0.1, randomized=False).fit(probs[:250], last[:250]).threshold == 1
