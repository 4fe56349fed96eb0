"""Streams of coverage: the published updates, the bound that holds whatever comes, late labels, and resuming."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from shortlist.data.flora import Flora
from shortlist.errors import InputError
from shortlist.sets import CoverageStream, SizeStream, aps, average_k, by, cap, classwise, floor, gate, lac, pas, raps
from tests.references import streams as ref

CLASSES = 4
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
RULES = {  # with values that are larger where labels are less plausible
    "lac": (lac(0.2), lambda p: -p),
    "pas": (pas(0.2, PRIOR), lambda p: -p / PRIOR),
    "raps": (raps(0.2, 0.05, 1), lambda p: ref.mass_before(p, 0.05, 1)),  # its calibration alone is randomised
    "aps": (aps(0.2), ref.mass_before),
    "raps deterministic": (raps(0.2, 0.05, 1, randomized=False), None),
}


def rows(n, seed, shift=0.0):
    """Probabilities, and labels that follow them less and less as the shift grows."""
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.full(CLASSES, 0.7), n)
    true = (1 - shift) * probs + shift / CLASSES
    return probs, (true.cumsum(1) > random.uniform(size=(n, 1))).argmax(1)


def values_of(rule, probs):
    return rule.ordering.of_answers()(torch.as_tensor(probs)).numpy() * (-1 if rule.ordering.descending else 1)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("window", [None, 30, 200])
def test_sets_follow_the_published_update(name, window):
    rule, literal = RULES[name]
    probs, target = rows(60, 0)
    new, labels = rows(150, 1, shift=0.7)
    stream = CoverageStream(rule, probs, target, step=0.05, window=window)
    values = values_of(rule, new)
    if literal is not None:
        np.testing.assert_allclose(values, literal(new))
    own = values_of(rule, probs)[np.arange(60), target]
    errors, levels = ref.adaptive(own, values, labels, 0.2, 0.05, window)
    sets = stream.replay(new, labels)
    np.testing.assert_array_equal(~sets[np.arange(150), labels], errors)
    assert stream.level == pytest.approx(levels[-1] + 0.05 * (0.2 - errors[-1]), abs=1e-12)
    assert (stream.labelled, stream.missed) == (150, errors.sum())
    assert stream.error == errors.mean()


def test_experts_mix_as_published():
    probs, target = rows(40, 2)
    new, labels = rows(120, 3, shift=0.5)
    steps = [0.01, 0.1]
    stream = CoverageStream(lac(0.2), probs, target, step=0.02, experts=steps)
    own = -probs[np.arange(40), target]
    betas = [ref.p_value(own, -row[label]) for row, label in zip(new, labels, strict=True)]
    means = ref.experts(betas, 0.2, steps)
    missed = 0
    for t, (row, label) in enumerate(zip(new, labels, strict=True)):
        assert stream.level == pytest.approx(np.clip(means[t], 0, 1) + 0.02 * (0.2 * t - missed), abs=1e-9)
        missed += 1 - stream.replay(row[None], [label])[0, label]
    assert stream.experts.rate == pytest.approx(CoverageStream(lac(0.2), probs, target, experts=steps).experts.rate)


def test_the_published_constant_for_eight_experts_at_ten_percent():
    probs, target = rows(20, 0)
    assert CoverageStream(lac(0.1), probs, target, experts=True).experts.rate == pytest.approx(2.72, abs=0.005)


@pytest.mark.parametrize("rule", [lac(0.2), aps(0.2, randomized=False), pas(0.3, PRIOR)], ids=lambda rule: rule.text)
@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_the_first_sets_are_those_of_the_fitted_rule(rule):
    probs, target = rows(49, 4)
    new = rows(50, 5)[0]
    np.testing.assert_array_equal(CoverageStream(rule, probs, target).answer(new), rule.fit(probs, target).predict(new))


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 9), (0.1, 19), (0.2, 9), (0.05, 19), (0.3, 9), (0.7, 9)])
@pytest.mark.parametrize("experts", [True, [0.01] * 3, [0.1] * 7], ids=lambda experts: str(experts)[:5])
@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_experts_start_at_exactly_alpha(alpha, n, experts):
    """Where (n + 1)α is whole, a level one rounding below α has larger sets."""
    probs, target = rows(n, 4)
    new = rows(50, 5)[0]
    stream = CoverageStream(lac(alpha), probs, target, experts=experts)
    assert stream.level == alpha
    np.testing.assert_array_equal(stream.answer(new), lac(alpha).fit(probs, target).predict(new))


@pytest.mark.parametrize("make", [aps, lambda alpha: raps(alpha, 0.05, 1), lambda alpha: raps(alpha, 0.01, 0)])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_sets_that_hold_the_label_at_the_boundary_are_never_empty_below_level_1(make, alpha):
    """Most labels come first in their row, with nothing before them: they tie at 0, or at the penalty."""
    probs, target = rows(200, 4)
    new = rows(300, 5)[0]
    stream = CoverageStream(make(alpha), probs, target)
    sets = stream.answer(new)
    assert sets[np.arange(300), new.argmax(1)].all()
    fitted = make(alpha).fit(probs, target).predict(new)
    assert (sets <= fitted).all()
    stream.correction = 1 - alpha
    assert not stream.answer(new).any()


@pytest.mark.parametrize("bias", ["in", "out", "any"])
@pytest.mark.parametrize("alpha", [0.1, 0.8])
@pytest.mark.parametrize("step", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("experts", [False, [0.05, 0.5]], ids=["one step", "experts"])
@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_the_error_stays_within_its_bound_against_an_adversary(bias, alpha, step, experts):
    """Labels are chosen after the sets, in or out of them, and told late, in any order."""
    random = np.random.default_rng(5)
    probs, target = rows(12, 6)
    stream = CoverageStream(lac(alpha), probs, target, step=step, experts=experts, window=8)
    waiting = {}
    for t, row in enumerate(rows(60, 7)[0]):
        inside = stream.answer(row[None], ids=[t])[0]
        wanted = {"in": [True], "out": [False], "any": [False, True]}[bias]
        waiting[t] = random.choice([label for label in range(CLASSES) if inside[label] in wanted] or [0])
        for name in random.permutation(list(waiting))[: random.integers(4)].tolist():
            assert stream.learn([name], [waiting.pop(name)]) == 1
            assert abs(stream.error - alpha) <= stream.bound + 1e-12
            start = 1 if experts else max(alpha, 1 - alpha)
            assert stream.bound == pytest.approx((start + step * (stream.delay + 1)) / (step * stream.labelled))


def test_the_bound_is_nearly_reached():
    """So that a wrong constant would show: every label is missed until no set can miss."""
    probs, target = rows(50, 8)
    stream = CoverageStream(lac(0.1), probs, target, step=0.1)
    worst = np.array([[0.0, 0.4, 0.3, 0.3]])
    ratios = []
    for _ in range(200):
        stream.replay(worst, [0])
        ratios.append(abs(stream.error - 0.1) / stream.bound)
    assert 0.15 < max(ratios) <= 1


def drifting():
    """Rows of a garden, then of one whose individuals vary more than the classifier knows."""
    garden, wild = Flora(30, 6, seed=0, variation=0.5), Flora(30, 6, seed=0, variation=2.0)
    labels, probs = garden.observe(500, seed=1)
    later, shown = wild.observations(1200, seed=2)
    return probs, labels, garden.posterior(shown), later


@pytest.mark.parametrize("how", [{"step": 0.02}, {"experts": True}, {"step": 0.02, "window": 400}], ids=str)
def test_a_fixed_rule_fails_under_drift_where_the_stream_holds(how):
    probs, labels, new, later = drifting()
    fixed = lac(0.1).fit(probs, labels).predict(new)
    assert 1 - fixed[range(1200), later].double().mean() > 0.18
    stream = CoverageStream(lac(0.1), probs, labels, **how)
    sets = stream.replay(new, later)
    late = ~sets[range(1200), later][600:]
    assert abs(late.double().mean() - 0.1) < 0.02
    assert abs(stream.error - 0.1) <= stream.bound


def test_labels_that_come_late_and_seldom_still_hold():
    probs, labels, new, later = drifting()
    stream = CoverageStream(lac(0.1), probs, labels, step=0.02)
    missed = []
    for start in range(0, 1200, 50):
        block = slice(start, start + 50)
        sets = stream.answer(new[block], ids=range(start, start + 50))
        missed += (~sets[range(50), later[block]]).tolist()
        told = [row for row in range(start - 100, start - 50) if row >= 0 and row % 2]  # half of them, two blocks later
        stream.learn(told, later[told] if told else torch.empty(0, dtype=torch.int64))
    assert stream.labelled == 22 * 25
    assert abs(np.mean(missed[600:]) - 0.1) < 0.03
    assert stream.delay == 74  # of the last row of a block: 50 labels of the blocks before, and 24 of its own


def test_a_label_counts_once_and_against_the_set_that_was_given():
    probs, target = rows(30, 9)
    stream = CoverageStream(lac(0.2), probs, target, step=1.0)
    sets = stream.answer(np.array([[0.97, 0.01, 0.01, 0.01], [0.4, 0.3, 0.2, 0.1]]), ids=["a", "b"])
    assert sets[0].tolist() == [True, False, False, False]
    assert stream.learn(["a"], [3]) == 1
    assert stream.level == pytest.approx(0.2 - 0.8)  # now everything is returned
    assert stream.learn(["a", "nobody", "a"], [3, 1, 0]) == 0
    assert stream.learn(["b"], [int((~sets[1]).nonzero()[0][0])]) == 1
    assert stream.missed == 2  # although the present sets would not have missed it
    assert stream.answer(np.array([[0.97, 0.01, 0.01, 0.01]])).all()


def test_the_same_name_twice_in_one_call_counts_once():
    probs, target = rows(30, 9)
    stream = CoverageStream(lac(0.2), probs, target)
    stream.answer(probs[:2], ids=["a", "b"])
    assert stream.learn(["a", "a"], [0, 1]) == 1
    assert stream.labelled == 1


def test_rows_that_wait_too_long_are_forgotten():
    probs, target = rows(30, 10)
    stream = CoverageStream(lac(0.2), probs, target, pending=5)
    stream.answer(probs[:4])
    stream.answer(probs[4:8])
    assert (stream.forgotten, len(stream.waiting)) == (3, 5)
    assert stream.learn(range(8), target[:8]) == 5


@pytest.mark.parametrize("how", [{}, {"experts": True}, {"window": 20}, {"window": 50, "experts": [0.1]}], ids=str)
def test_a_resumed_stream_goes_on_bit_for_bit(how, tmp_path):
    probs, target = rows(40, 11)
    new, labels = rows(80, 12, shift=0.8)
    calm = CoverageStream(raps(0.2, 0.05, 1), probs.astype(np.float32), target, **how)
    resumed = CoverageStream(raps(0.2, 0.05, 1), probs.astype(np.float32), target, **how)
    for t in range(80):
        told = [name for name in (t - 7, t - 3) if name >= 0 and (name + t) % 3]
        for stream in (calm, resumed):
            stream.learn(told, labels[told].astype(np.int64))
        if t % 9 == 5:
            resumed.save(tmp_path / "stream.safetensors")
            resumed = CoverageStream.load(tmp_path / "stream.safetensors")
        row = new[t : t + 1].astype(np.float32)
        np.testing.assert_array_equal(calm.answer(row, ids=[t]), resumed.answer(row, ids=[t]))
        assert (calm.level, calm.error if t > 20 else 0, calm.delay) == (
            resumed.level,
            resumed.error if t > 20 else 0,
            resumed.delay,
        )
    assert repr(calm) == repr(resumed)
    assert [path.name for path in tmp_path.iterdir()] == ["stream.safetensors"]


def test_rows_that_wait_keep_their_precision(tmp_path):
    probs, target = rows(30, 11)
    new, labels = (part.astype(kind) for part, kind in zip(rows(40, 12), (np.float32, np.int64), strict=True))
    calm, saved = (CoverageStream(pas(0.3, PRIOR), probs, target, step=0.1, window=5) for _ in range(2))
    for stream in (calm, saved):
        stream.answer(new, ids=range(40))
        stream.answer(probs[:1])  # in double precision
    saved.save(tmp_path / "stream.safetensors")
    resumed = CoverageStream.load(tmp_path / "stream.safetensors")
    for stream in (calm, resumed):
        stream.learn(range(40), labels)
    assert resumed.reference.ordered.tolist() == calm.reference.ordered.tolist()


def test_damaged_files_are_refused(tmp_path):
    probs, target = rows(40, 11)
    stream = CoverageStream(lac(0.2), probs, target, experts=True)
    stream.answer(probs[:2])
    path = tmp_path / "stream.safetensors"
    stream.save(path)
    with pytest.raises(InputError, match=r"cannot read a stream from .*: expected a stream of size, got one of coverage"):
        SizeStream.load(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="cannot read a stream from .*: it is damaged or was edited"):
        CoverageStream.load(path)
    path.write_bytes(content)
    tensors = load_file(path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    del header["digest"]  # as in a file of an earlier version
    for name in ("reference", "waiting.probs", "experts.weights"):
        save_file({key: value for key, value in tensors.items() if key != name}, path, metadata=header)
        with pytest.raises(InputError, match=f"cannot read a stream from .*'{name}' is missing"):
            CoverageStream.load(path)
    for change in ({"labelled": -1}, {"oldest": 99}, {"window": 0}, {"ids": ["a"]}, {"experts": []}, {"correction": "x"}):
        numbers = json.loads(header["state"]) | change
        save_file(tensors, path, metadata=header | {"state": json.dumps(numbers)})
        with pytest.raises(InputError, match="cannot read a stream from"):
            CoverageStream.load(path)
    path.write_bytes(b"nothing")
    for kind in (CoverageStream, SizeStream):
        with pytest.raises(InputError, match="cannot read a stream from"):
            kind.load(path)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (classwise(lac(0.1)), "single conformal threshold.*lac:0.1,classwise"),
        (average_k(2), "single conformal threshold.*average-k:2"),
        ("lac:0.1", "single conformal threshold.*'lac:0.1'"),
        (cap(lac(0.1), 2), "without cap, floor and gate"),
        (floor(lac(0.1)), "without cap, floor and gate"),
        (gate(lac(0.1), 0.5), "without cap, floor and gate"),
        (aps(0.1, randomized=True), "draws nothing at random"),
        (by(lac(0.1), "site"), "one threshold for all rows.*lac:0.1,by:site"),
    ],
)
def test_rules_that_cannot_follow_are_refused(rule, words):
    with pytest.raises(InputError, match=words):
        CoverageStream(rule, *rows(30, 0))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"step": 0}, "step: expected .* above 0, got 0"),
        ({"step": float("nan")}, "step: "),
        ({"experts": []}, "experts: expected True, False or a list"),
        ({"experts": "fast"}, "experts: expected True, False or a list"),
        ({"experts": [0.1, -1]}, "experts: expected .* above 0, got -1"),
        ({"window": 0}, "window: "),
        ({"pending": 0}, "pending: "),
    ],
)
def test_parameters_out_of_range_are_refused(how, words):
    with pytest.raises(InputError, match=words):
        CoverageStream(lac(0.1), *rows(30, 0), **how)


def test_wrong_calls_change_nothing():
    probs, target = rows(30, 0)
    stream = CoverageStream(lac(0.1), probs, target)
    stream.answer(probs[:3], ids=["a", "b", "c"])
    before = repr(stream)
    for call, words in (
        (lambda: stream.learn(["a", "b"], [0, 4]), "target: expected labels from 0 to 3, got 4 in row 1"),
        (lambda: stream.learn(["a"], [0, 1]), "ids: expected a name for each of 2 rows, got 1"),
        (lambda: stream.learn(["a"], [[True, False, False, False]]), "target: expected one label a row"),
        (lambda: stream.answer(probs[:2], ids=["d"]), "ids: expected a name for each of 2 rows, got 1"),
        (lambda: stream.answer(probs[:2], ids=["d", "d"]), "ids: expected different names"),
        (lambda: stream.answer(probs[:, :3]), "probs: the stream was started with 4 classes, got 3"),
        (lambda: stream.answer(probs * np.nan), "probs: "),
        (lambda: CoverageStream(lac(0.1), probs[:0], target[:0]), "rows, got none"),
        (lambda: CoverageStream(lac(0.1), probs, np.eye(4, dtype=bool)[target]), "target: expected one label a row"),
    ):
        with pytest.raises(InputError, match=words):
            call()
        assert repr(stream) == before


def test_nothing_to_answer_and_nothing_to_learn():
    probs, target = rows(30, 0)
    stream = CoverageStream(lac(0.1), probs, target)
    assert stream.answer(probs[:0]).shape == (0, 4)
    assert stream.learn([], np.empty(0, np.int64)) == 0
    assert np.isnan(stream.error)
    assert stream.bound == np.inf
