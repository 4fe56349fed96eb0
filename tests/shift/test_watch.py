"""A watch: quiet on exchangeable rows, alarms with since when on others, and the same however it is divided and resumed."""

import json
import random
from contextlib import suppress

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy.stats import binom

import shortlist as sl
from shortlist import Predictions
from shortlist.data.flora import Flora
from shortlist.errors import InputError
from shortlist.sets import average_k, gate, lac, parse_rule, top_k
from shortlist.shift import Watch

CLASSES = 5


def rows(n, seed, *, flat=0.4, trust=1.0, tilt=None):
    """Probabilities, and labels that follow them in this share of the rows."""
    random = np.random.default_rng(seed)
    spread = np.full(CLASSES, flat) if tilt is None else flat * np.array(tilt)
    probs = random.dirichlet(spread, n)
    drawn = (probs.cumsum(1) > random.uniform(size=(n, 1))).argmax(1).clip(max=CLASSES - 1)
    return probs, np.where(random.uniform(size=n) < trust, drawn, random.integers(CLASSES, size=n))


def calm_watch(seed, text):
    """A watch at level 0.2 whose rule was fitted on the reference rows, of rows like them."""
    probs, target = rows(80, seed)
    if text.startswith("risk"):  # several labels a row
        target = np.random.default_rng(seed).uniform(size=probs.shape) < probs
    rule = parse_rule(text).fit(probs[:40], target[:40])
    watch = Watch(rule, probs[:40], target[:40], level=0.2)
    watch.add(probs[40:], target[40:])
    return watch


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_false_alarms_are_as_rare_as_stated():
    """20 % of 300 watches at most, and 5 % by each signal: more alarms than allowed here are a chance of 1 in 1,000 each."""
    texts = ("lac:0.2", "average-k:2", "risk-control:recall:0.2")
    watches = [calm_watch(seed, texts[seed % 3]) for seed in range(300)]
    assert sum(bool(watch.alarms) for watch in watches) <= binom.ppf(0.999, 300, 0.2)  # 82
    for signal in ("confidence", "size", "class", "label"):
        alarms = sum(signal in {alarm.signal for alarm in watch.alarms} for watch in watches)
        assert alarms <= binom.ppf(0.999, 300, 0.2 / 4), signal  # 28


def garden():
    """The rows of a garden, and of one whose individuals vary more than its classifier knows."""
    own, wild = Flora(30, 6, seed=0, variation=0.5), Flora(30, 6, seed=0, variation=2.0)

    def drawn(flora, n, seed):
        target, shown = flora.observations(n, seed=seed)
        return Predictions(own.posterior(shown), target, own.classes, "identity")

    return drawn(own, 500, 1), drawn(own, 300, 2), drawn(wild, 400, 3)


def test_a_changed_garden_is_noticed_and_dated():
    reference, calm, wild = garden()
    rule = lac(0.1).fit(reference)
    assert sl.metrics.coverage(rule(wild), wild.target) < 0.83  # what the rule alone does not say
    watch = Watch(rule, reference)
    assert watch.add(calm, name="june.parquet") == []
    assert watch.sentences()[0] == "nothing has changed on 300 rows (false alarms: 1.00% of such watches)"
    alarms = {alarm.signal: alarm for alarm in watch.add(wild, name="july.parquet")}
    assert "label" in alarms
    assert abs(alarms["label"].since - 300) < 60
    assert "coverage is " in alarms["label"].sentence
    assert "fit the rule again on 865 labelled rows" in alarms["label"].sentence
    assert alarms["label"].place.endswith((" of july.parquet", " of june.parquet"))
    share, low, high = watch.coverage
    assert low < share < high < 0.9
    assert watch.add(wild, name="again") == []  # each signal once


def test_without_labels_too():
    flora = Flora(30, 6, seed=0)
    parts = [flora.measurements(300, seed=seed, noise=noise)[2] for seed, noise in ((1, 0.25), (2, 0.25), (3, 0.6))]
    watch = sl.watch(average_k(2).fit(parts[0]), *parts)
    alarms = {alarm.signal: alarm for alarm in watch.alarms}
    assert {"confidence"} <= alarms.keys()
    assert abs(alarms["confidence"].since - 300) < 40
    assert alarms["confidence"].place.startswith("row ")
    assert watch.coverage is None
    assert watch.labelled == 0


def test_labels_alone_may_change():
    """The probabilities are what they were; only labels can tell."""
    probs, target = rows(400, 0)
    watch = Watch(lac(0.1).fit(probs, target), probs, target)
    assert watch.add(rows(400, 1)[0]) == []
    (alarm,) = watch.add(*rows(400, 2, trust=0.6))
    assert alarm.signal == "label"
    assert 400 <= alarm.since < 480


def test_the_shares_of_classes_may_change():
    probs, target = rows(600, 0)
    tilted, labels = rows(600, 1, tilt=[3, 1, 1, 0.5, 0.5])
    watch = Watch(average_k(2).fit(probs), Predictions(probs, target, list("abcde"), "identity"))
    alarms = {alarm.signal: alarm for alarm in watch.add(tilted, labels)}
    assert alarms["class"].change.startswith("a is the most probable class of ")
    assert "re-weight" in alarms["class"].advice


def test_sets_may_change_where_only_their_sizes_tell():
    probs, _ = rows(500, 0, flat=1.0)
    watch = Watch(average_k(2).fit(probs), probs)
    changed = np.sort(rows(500, 1, flat=1.0)[0], axis=1)[:, ::-1]
    changed[:, 1:] = changed[:, 1:].sum(1, keepdims=True) / 4  # the same largest probabilities, and the rest alike
    random = np.random.default_rng(0)
    assert "size" in {alarm.signal for alarm in watch.add(random.permuted(changed, axis=1))}


@pytest.mark.parametrize("text", ["lac:0.2", "aps:0.2", "top-k:2", "threshold:0.3", "lac:0.2,classwise", "average-k:2,cap:3"])
@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_division_and_resuming_change_nothing(text, tmp_path):
    probs, target = rows(120, 0)
    new, labels = rows(90, 1, flat=0.6)
    rule = parse_rule(text).fit(probs, target)
    whole = Watch(rule, probs, target)
    whole.add(new, labels)
    parts = Watch(rule, [(probs[:50], target[:50]), (probs[50:], target[50:])])
    for start, stop in ((0, 1), (1, 1), (1, 60), (60, 90)):
        parts.add(new[start:stop], labels[start:stop], name=f"part {start}")
        parts.save(tmp_path / "watch.safetensors")
        parts = Watch.load(tmp_path / "watch.safetensors")
    for name, bets in whole.bets.items():
        for part, values in bets.state().items():
            np.testing.assert_array_equal(parts.bets[name].state()[part], values, err_msg=f"{name} {part}")
    assert (parts.rows, parts.labelled, parts.missed) == (whole.rows, whole.labelled, whole.missed)
    assert parts.capital == whole.capital
    assert repr(parts) == repr(whole)
    assert parts.coverage == whole.coverage


def test_damaged_files_are_refused(tmp_path):
    watch = Watch(top_k(2), *rows(50, 0))
    watch.add(*rows(20, 1))
    path = tmp_path / "watch.safetensors"
    watch.save(path)
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    del header["digest"]  # as in a file of an earlier version
    for name in ("ranks.size", "bets.label.weights", "recent"):
        save_file({key: value for key, value in tensors.items() if key != name}, path, metadata=header)
        with pytest.raises(InputError, match=f"cannot read a watch from .*{name}. is missing"):
            Watch.load(path)
    for change in ({"rows": -1}, {"level": 2}, {"alarms": [{}]}, {"sources": 3}):
        numbers = json.loads(header["state"]) | change
        save_file(tensors, path, metadata=header | {"state": json.dumps(numbers)})
        with pytest.raises(InputError, match="cannot read a watch from"):
            Watch.load(path)
    lac(0.1).fit(*rows(50, 0)).save(path)
    with pytest.raises(InputError, match="cannot read a watch from .*: expected the format shortlist-watch/1"):
        Watch.load(path)


def test_a_bit_that_changes_anywhere_is_noticed_or_harmless(tmp_path):
    """Without its digest a watch goes on with other numbers."""

    def held(watch):
        bets = {name: [*map(np.ndarray.tolist, map(np.asarray, one.state().values()))] for name, one in watch.bets.items()}
        ranks = {name: one.counts.tolist() for name, one in watch.ranks.items()}
        numbers = watch.rows, watch.labelled, watch.missed, watch.level, watch.sources, watch.names, watch.recent.tolist()
        return repr((watch.rule.record(), watch.rule.threshold, bets, ranks, numbers, watch.sentences(), watch.capital))

    probs, target = rows(50, 0)
    watch, path, draw = Watch(lac(0.2).fit(probs, target), probs, target), tmp_path / "watch.safetensors", random.Random(0)
    watch.add(*rows(20, 1), name="june")
    watch.save(path)
    before, content = held(Watch.load(path)), path.read_bytes()
    for _ in range(80):
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        with suppress(InputError):
            assert held(Watch.load(path)) == before
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        InputError, match=r"cannot read a watch from .*: it is damaged or was edited .*begin again in a new file"
    ):
        Watch.load(path)


def test_what_cannot_be_watched_is_refused_and_changes_nothing():
    probs, target = rows(50, 0)
    rule = lac(0.1).fit(probs, target)
    for make, words in (
        (lambda: Watch(lac(0.1)), "rule: expected a fitted rule, got lac:0.1"),
        (lambda: Watch("lac:0.1"), "rule: expected a set rule, got 'lac:0.1'"),
        (lambda: Watch(gate(top_k(1), 0.5)), "rule: expected a fitted rule"),
        (lambda: Watch(rule, level=0), "level: "),
        (lambda: Watch(rule, level=1), "level: "),
    ):
        with pytest.raises(InputError, match=words):
            make()
    watch = Watch(rule, probs, target)
    for call, words in (
        (lambda: watch.add([(probs, target), (probs * np.nan, target)]), "probs: .*nan"),
        (lambda: watch.add(probs[:, :3]), "rows: expected 5 classes, got 3"),
        (lambda: watch.add(Predictions(np.log(probs + 1e-9), target)), "link"),
        (lambda: watch.add(probs, target[:3]), "target: "),
    ):
        with pytest.raises(InputError, match=words):
            call()
        assert repr(watch) == "Watch(lac:0.1, 0 rows, 0 labels, no alarm)"


def test_nothing_is_nothing_and_one_row_is_one():
    watch = Watch(top_k(2))
    assert watch.add(np.empty((0, 5))) == []
    watch.add([[0.5, 0.2, 0.1, 0.1, 0.1]], [0])
    assert (watch.rows, watch.labelled, watch.missed) == (1, 1, 0)
    several = Watch(top_k(2))
    several.add(*(np.full((4, 5), 0.3), np.eye(5, dtype=bool)[:4]))  # several labels a row: recall, and no coverage
    assert (several.coverage, several.recall[0]) == (None, 0.5)


def test_labels_that_come_later_are_the_same_bets_and_dated_by_the_rows_so_far():
    probs, target = rows(300, 0)
    rule = lac(0.1).fit(probs, target)
    watch = Watch(rule, probs)
    new, labels = rows(500, 1, trust=1.0)
    wrong = rows(500, 2, trust=0.3)[1]
    watch.add(new[:250])
    assert watch.add_labels(new[:250], labels[:250]) == []
    assert (watch.rows, watch.labelled, watch.reference_labelled) == (250, 250, 0)
    watch.add(new[250:])
    assert watch.labelled == 250
    (alarm,) = watch.add_labels(new[250:], wrong[250:])
    assert alarm.signal == "label"
    assert alarm.since in (250, 500)  # how many rows had come with a label
    covered = float(sl.metrics.coverage(rule(new), np.concatenate([labels[:250], wrong[250:]])))
    assert watch.coverage[0] == pytest.approx(covered)


def test_labels_that_come_later_raise_false_alarms_as_rarely_as_stated():
    """At most 20 % / 4 of 40 watches; more than 7 would be a chance of 1 in 700. Without rows or a reference, too."""
    false = 0
    for seed in range(40):
        probs, target = rows(150, seed)
        watch = Watch(top_k(2), level=0.2)
        for start in range(0, 150, 30):
            watch.add_labels(probs[start : start + 30], target[start : start + 30])
        assert watch.rows == 0
        false += bool(watch.alarms)
    assert false <= 7


def test_labels_that_come_later_do_not_depend_on_their_division_and_must_be_there(tmp_path):
    probs, target = rows(90, 3)
    whole, parts = Watch(top_k(2), probs), Watch(top_k(2), probs)
    whole.add_labels(probs, target)
    for start, stop in ((0, 1), (1, 60), (60, 90)):
        parts.add_labels(probs[start:stop], target[start:stop])
        parts.save(tmp_path / "watch.safetensors")
        parts = Watch.load(tmp_path / "watch.safetensors")
    assert parts.capital == whole.capital
    assert parts.coverage == whole.coverage
    with pytest.raises(InputError, match="target"):
        whole.add_labels(probs)


def test_rows_of_one_name_are_numbered_together():
    watch = Watch(top_k(2), *rows(50, 0))
    for n in range(4):
        watch.add(rows(10, n)[0], name="monday" if n < 3 else "tuesday")
    assert watch.sources == [("monday", 0), ("tuesday", 30)]


def test_the_place_in_a_stream_that_comes_in_batches_is_counted_from_its_start():
    watch = Watch(top_k(1), rows(300, 0)[0])
    for start in range(0, 200, 10):
        watch.add(rows(10, start + 1)[0])
    for start in range(0, 600, 10):
        watch.add(rows(10, start + 1, flat=20.0)[0])
    alarm = watch.alarms[0]
    assert alarm.since > 100
    assert alarm.place == f"row {alarm.since} of the stream"
    assert watch.sources == [("the stream", 0)]


def test_rows_of_other_classes_are_refused_and_change_nothing():
    probs, _ = rows(20, 0)
    watch = Watch(top_k(1))
    with pytest.raises(InputError):
        watch.add([probs[:5, :3] / 2, np.full((1, 3), np.nan)])
    watch.add(Predictions(probs, classes=list("abcde"), link="identity"))
    with pytest.raises(InputError, match="column 0 was 'a' and is 'b'"):
        watch.add(Predictions(probs, classes=list("bacde"), link="identity"))
    assert (watch.rows, watch.names) == (20, tuple("abcde"))
