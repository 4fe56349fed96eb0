"""``shortlist data votes --counts``: votes beside the scores of their items, and the way from there to a rule."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shortlist import Predictions
from shortlist.sets import SetRule, lac

DOCS = Path(__file__).parents[2] / "docs"

NAMES = ["ash", "elm", "oak"]
COLUMNS = [f"votes_{name}" for name in NAMES]


def drawn(rows, seed, name):
    probs = np.random.default_rng(seed).dirichlet([0.6] * 3, rows)
    return Predictions(np.log(probs), classes=NAMES, link="softmax", ids=[f"{name}{row}" for row in range(rows)])


def given(rows, seed, most=6):
    """Votes on every tenth row less: users draw a label by the probabilities of the row."""
    random, probs = np.random.default_rng(seed), rows.probs().double().numpy()
    found = []
    for row in np.flatnonzero(np.arange(len(rows)) % 10):
        for user in range(random.integers(1, most)):
            label = random.choice(3, p=probs[row] / probs[row].sum())
            found += [(f"u{user}", rows.ids[row], NAMES[label])]
    order = random.permutation(len(found))
    return pd.DataFrame([found[place] for place in order], columns=["user", "item", "label"])


def counts_of(votes, ids):
    """By hand, one vote after the other."""
    found = np.zeros((len(ids), 3))
    for item, label in zip(votes["item"], votes["label"], strict=True):
        if item in ids and label in NAMES:
            found[ids.index(item), NAMES.index(label)] += 1
    return found


@pytest.fixture
def files(tmp_path):
    rows = drawn(300, 0, "a").with_columns({"site": ["north"] * 300})
    votes = given(rows, 1)
    votes.to_csv(tmp_path / "votes.csv", index=False)
    for suffix in ("parquet", "npz", "safetensors"):
        rows.save(tmp_path / f"calibration.{suffix}")
    return rows, votes


@pytest.mark.parametrize("suffix", ["parquet", "npz", "safetensors"])
def test_rows_with_votes_get_a_count_for_each_class(run, files, tmp_path, suffix):
    rows, votes = files
    outcome = run("data", "votes", "votes.csv", "--scores", f"calibration.{suffix}", "--counts", f"counted.{suffix}")
    assert (outcome.code, outcome.out) == (0, "")
    found = Predictions.load(tmp_path / f"counted.{suffix}")
    expected = counts_of(votes, rows.ids)
    voted = expected.any(1)
    assert found.ids == rows.rows(voted).ids
    np.testing.assert_array_equal(np.stack([found.columns[name] for name in COLUMNS], 1), expected[voted])
    np.testing.assert_array_equal(found.scores, rows.scores[voted])
    assert set(found.columns) == {"site", *COLUMNS}
    assert f"{len(votes):,} votes for 270 rows, 30 without votes left out → counted.{suffix}" in outcome.err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_scores_of_another_program_keep_their_columns(run, files, tmp_path, suffix):
    rows, votes = files
    frame = pd.DataFrame(rows.probs().double().numpy(), columns=[f"p_{name}" for name in NAMES]).assign(
        picture=rows.ids, note="007"
    )
    frame.to_csv(tmp_path / "s.csv", index=False) if suffix == "csv" else frame.to_parquet(tmp_path / "s.parquet")
    keys = ("--scores-key", "p_*", "--ids-key", "picture")
    assert run("data", "votes", "votes.csv", "--scores", f"s.{suffix}", "--counts", f"c.{suffix}", *keys).code == 0
    found = pd.read_csv(tmp_path / "c.csv", dtype={"note": str}) if suffix == "csv" else pd.read_parquet(tmp_path / "c.parquet")
    expected = counts_of(votes, rows.ids)
    np.testing.assert_array_equal(found[COLUMNS], expected[expected.any(1)])
    assert set(found["note"]) == {"007"}
    given = ("-c", f"c.{suffix}", "--votes-key", "votes_*", "--rule", "lac:0.2", "--link", "identity", *keys)
    outcome = run("sets", f"s.{suffix}", "--same-rows", *given, "--save-rule", "r.safetensors")
    assert outcome.code == 0, outcome.err
    voted = rows.rows(expected.any(1))
    rule = lac(0.2).fit(voted.probs().double(), expected[expected.any(1)])
    assert float(SetRule.load(tmp_path / "r.safetensors").threshold) == pytest.approx(float(rule.threshold), abs=1e-6)


def test_the_commands_of_the_page_go_from_votes_to_sets_that_cover_votes(run, files, tmp_path):
    rows, votes = files
    section = (DOCS / "votes.md").read_text(encoding="utf-8").split("## From votes to a rule")[1]
    lines = section.split("```sh\n")[1].split("```")[0].splitlines()
    assert len(lines) == 2
    rows = drawn(2000, 2, "b")
    rows.save(tmp_path / "calibration.parquet")
    votes = given(rows, 3)
    votes.to_csv(tmp_path / "votes.csv", index=False)
    new = drawn(2000, 4, "c")
    new.save(tmp_path / "new.parquet")
    for line in lines:
        outcome = run(*shlex.split(line)[1:])
        assert outcome.code == 0, outcome.err
    expected = counts_of(votes, rows.ids)
    voted = expected.any(1)
    rule = SetRule.load(tmp_path / "rule.safetensors")
    assert rule.threshold == lac(0.1).fit(rows.rows(voted), expected[voted]).threshold
    assert "one that is drawn from its votes" in rule.guarantee
    sets = pd.read_parquet(tmp_path / "sets.parquet")
    marks = np.array([[name in labels for name in NAMES] for labels in sets["labels"]])
    covered = (new.probs().double().numpy() * marks).sum(1).mean()
    majority = lac(0.1).fit(rows.rows(voted).probs(), expected[voted].argmax(1)).predict(new.probs()).numpy()
    assert abs(covered - 0.9) < 0.02
    assert (new.probs().double().numpy() * majority).sum(1).mean() < 0.87


def test_labels_are_aggregated_in_the_same_call_if_asked_for(run, files, tmp_path):
    given = ("data", "votes", "votes.csv", "--scores", "calibration.npz", "--counts", "counted.npz")
    assert run(*given, "--rule", "majority", "--out", "labels.csv").code == 0
    assert run("data", "votes", "votes.csv", "--rule", "majority", "--out", "alone.csv").code == 0
    assert (tmp_path / "labels.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert (tmp_path / "counted.npz").is_file()


def test_what_is_left_out_is_said(run, files, tmp_path):
    _, votes = files
    more = pd.concat(
        [votes, pd.DataFrame({"user": ["u9", "u9", "u8"], "item": ["a1", "z", "a0"], "label": ["yew", "ash", "yew"]})]
    )
    more.to_csv(tmp_path / "more.csv", index=False)
    given = ("data", "votes", "more.csv", "--scores", "calibration.npz", "--counts", "counted.npz")
    outcome = run(*given)
    assert outcome.code == 0
    assert "30 without votes left out, votes on 1 other item left out → counted.npz" in outcome.err
    assert "warning: 2 votes are for labels that the classes lack, the first for 'yew': left out" in outcome.err
    assert run(*given, "--strict").code == 3
    assert len(Predictions.load(tmp_path / "counted.npz")) == 270
    assert json.dumps(list(Predictions.load(tmp_path / "counted.npz").columns)).count("yew") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--counts", "c.npz"), "--counts: expected --scores FILE beside it, got none"),
        (("--scores", "calibration.npz"), "--scores: expected --counts FILE beside it, got none"),
        (("--counts", "c.csv", "--scores", "calibration.npz"), "--counts: cannot write c.csv: expected a name that ends in"),
        (
            ("--counts", "c.npz", "--scores", "calibratoin.npz"),
            "calibratoin.npz: there is no such file or folder: did you mean",
        ),
        (("--counts", "calibration.npz", "--scores", "calibration.npz"), "is read by this command and would be overwritten"),
        (("--counts", "c.npz", "--scores", "others.npz"), "others.npz: expected items of the votes, such as 'a"),
        (("--counts", "c.npz", "--scores", "nameless.npz"), "nameless.npz: expected rows with ids, which are the items"),
        (
            ("--counts", "c.npz", "--scores", "birds.npz"),
            "birds.npz: expected classes that the votes are for, got none of 3 labels",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(fails, files, tmp_path, options, message):
    rows, _ = files
    drawn(20, 5, "z").save(tmp_path / "others.npz")
    Predictions(rows.scores, classes=NAMES, link="softmax").save(tmp_path / "nameless.npz")
    Predictions(rows.scores, classes=["owl", "tit", "jay"], link="softmax", ids=rows.ids).save(tmp_path / "birds.npz")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert message in fails("data", "votes", "votes.csv", *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.fixture
def tables(tmp_path):
    """Scores of two classes under their own names, and votes on their rows."""
    for name in "cn":
        rows = [f"{name}{row},{row / 40},{1 - row / 40}\n" for row in range(40)]
        (tmp_path / f"{name}.csv").write_text("id,oak,elm\n" + "".join(rows))
    votes = [f"u{user},c{row},{['oak', 'elm'][(row + user) % 3 == 0]}\n" for row in range(40) for user in range(2)]
    (tmp_path / "v.csv").write_text("user,item,label\n" + "".join(votes))


def test_counts_beside_scores_under_any_name_are_no_scores(run, tables):
    every, then = ("--scores-key", "*"), ("sets", "n.csv", "--link", "identity", "--rule", "lac:0.1", "--out", "s.csv")
    assert run("data", "votes", "v.csv", "--scores", "c.csv", *every, "--counts", "o.csv").code == 0
    outcome = run(*then, *every, "-c", "o.csv", "--votes-key", "votes_*")
    assert outcome.code == 0, outcome.err
    assert run("data", "votes", "v.csv", "--scores", "c.csv", *every, "--votes-key", "*.n", "--counts", "p.csv").code == 0
    again = run(*then[:-1], "t.csv", *every, "-c", "p.csv", "--votes-key", "*.n")
    assert again.code == 0, again.err
    assert Path("s.csv").read_bytes() == Path("t.csv").read_bytes()


def test_counts_never_take_the_place_of_scores(run, fails, tables):
    text = Path("c.csv").read_text()
    Path("c.csv").write_text(text.replace("oak,elm", "votes_oak,votes_elm", 1))
    given = ("data", "votes", "v.csv", "--scores", "c.csv", "--scores-key", "votes_*", "--counts", "o.csv")
    message = "--votes-key: expected other names than those of c.csv that scores, labels, ids and quality are read from, got"
    assert f"{message} 'votes_oak', 'votes_elm': choose another name" in fails(*given)
    assert not Path("o.csv").exists()
    outcome = run(*given, "--votes-key", "n_*")
    assert outcome.code == 0
    assert "next: shortlist sets NEW -c o.csv --votes-key 'n_*' --rule lac:0.1" in outcome.err
    assert Path("o.csv").read_text().splitlines()[0] == "id,votes_oak,votes_elm,n_oak,n_elm"
    again = (
        "data",
        "votes",
        "v.csv",
        "--scores",
        "o.csv",
        "--scores-key",
        "votes_*",
        "--votes-key",
        "n_*",
        "--counts",
        "p.csv",
    )
    replaced = run(*again, "--strict")
    assert replaced.code == 3
    assert "o.csv: 2 columns are replaced in the copy ('n_oak', 'n_elm')" in replaced.err
    assert "--votes-key: expected a name with a * for the class, such as votes_*, got 'n'" in fails(*given, "--votes-key", "n")
