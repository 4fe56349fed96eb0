"""``shortlist data votes``: three rules on a table of votes, what they write, what is refused."""

import pandas as pd
import pytest

from shortlist.data.votes import Votes, adaptive_majority, dawid_skene, plain_majority

ADAPTIVE = ("--b0", 0.7, "--theta", 0.5)
ROWS = [
    ("ann", "a", "oak"),
    ("bob", "a", "oak"),
    ("cyd", "a", "elm"),
    ("ann", "b", "elm"),
    ("bob", "b", "elm"),
    ("cyd", "b", "elm"),
    ("ann", "c", "ash"),
    ("bob", "c", "ash"),
    ("cyd", "c", "oak"),
    ("ann", "d", "oak"),
]
RULES = {
    "adaptive": (ADAPTIVE, lambda votes: adaptive_majority(votes, b0=0.7, theta=0.5)),
    "majority": ((), plain_majority),
    "dawid-skene": ((), dawid_skene),
}


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(",".join(row) for row in [("user", "item", "label"), *ROWS]))
    return path


@pytest.fixture
def tied(tmp_path):
    path = tmp_path / "tied.csv"
    path.write_text("user,item,label\nann,a,oak\nbob,a,elm\n")
    return path


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_each_rule_writes_its_labels_and_weights(run, votes, tmp_path, rule, suffix):
    options, aggregate = RULES[rule]
    out, users = f"deep/labels.{suffix}", f"users.{suffix}"
    outcome = run("data", "votes", votes, "--rule", rule, *options, "--out", out, "--users", users)
    assert outcome.code == 0
    expected = aggregate(Votes.read(votes))
    expected.save(tmp_path / f"expected.{suffix}")
    expected.save_users(tmp_path / f"expected-users.{suffix}")
    assert (tmp_path / out).read_bytes() == (tmp_path / f"expected.{suffix}").read_bytes()
    assert (tmp_path / users).read_bytes() == (tmp_path / f"expected-users.{suffix}").read_bytes()
    assert f"10 votes by 3 users: 4 items, 4 labelled, {int(expected.valid.sum())} valid" in outcome.err
    assert f"→ {out} → {users}\n" in outcome.err


def test_the_labels_are_those_that_most_gave(run, votes, tmp_path):
    run("data", "votes", votes, "--rule", "majority", "--theta", 1, "--out", "labels.csv")
    found = pd.read_csv(tmp_path / "labels.csv")
    assert found["item"].tolist() == ["a", "b", "c", "d"]
    assert found["label"].tolist() == ["oak", "elm", "ash", "oak"]
    assert found["valid"].tolist() == [True, True, True, False]


def test_without_files_only_a_summary_is_shown(run, votes, tmp_path):
    outcome = run("data", "votes", votes, "--rule", "majority")
    assert [line.split() for line in outcome.out.splitlines()] == [["items", "labelled", "valid", "tied"], ["4", "4", "4", "0"]]
    assert [path.name for path in tmp_path.iterdir()] == ["votes.csv"]


def test_adaptive_is_the_default_and_shows_its_rounds(run, votes):
    outcome = run("data", "votes", votes, *ADAPTIVE)
    lines = outcome.out.splitlines()
    assert lines[0].split("  ")[0] == "round"
    rounds = adaptive_majority(Votes.read(votes), b0=0.7, theta=0.5).rounds
    assert len(lines) == 1 + rounds
    assert f"{rounds} rounds" in outcome.err


def test_columns_go_by_the_names_that_are_given(run, votes, tmp_path):
    text = votes.read_text().replace("user,item,label", "who,what,which")
    (tmp_path / "other.csv").write_text(text)
    names = ("--user-column", "who", "--item-column", "what", "--label-column", "which")
    assert run("data", "votes", "other.csv", "--rule", "majority", *names, "--out", "one.csv").code == 0
    assert run("data", "votes", votes, "--rule", "majority", "--out", "two.csv").code == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_authors_are_read_where_there_is_such_a_column(run, votes, tmp_path):
    header, *rows = votes.read_text().splitlines()
    wrote = [f"{row},{int(row.startswith('cyd,a'))}" for row in rows]
    for name in ("author", "mine"):
        (tmp_path / f"{name}.csv").write_text("\n".join([f"{header},{name}", *wrote]))
    by_name = run("data", "votes", "mine.csv", *ADAPTIVE, "--author-column", "mine", "--users", "one.csv")
    by_default = run("data", "votes", "author.csv", *ADAPTIVE, "--users", "two.csv")
    ignored = run("data", "votes", "mine.csv", *ADAPTIVE, "--users", "three.csv")
    assert (by_name.code, by_default.code, ignored.code) == (0, 0, 0)
    one, two, three = ((tmp_path / f"{name}.csv").read_text() for name in ("one", "two", "three"))
    expected = adaptive_majority(Votes.read(tmp_path / "author.csv"), b0=0.7, theta=0.5).user_frame()
    assert one == two == expected.to_csv(index=False)
    assert three == adaptive_majority(Votes.read(votes), b0=0.7, theta=0.5).user_frame().to_csv(index=False)


def test_ties_and_replaced_votes_are_told_once(run, tied, tmp_path):
    outcome = run("data", "votes", tied, "--rule", "majority")
    assert outcome.err.count("warning: ties: 1 item has several labels") == 1
    (tmp_path / "twice.csv").write_text("user,item,label\nann,a,oak\nann,a,elm\n")
    outcome = run("data", "votes", "twice.csv", "--rule", "majority")
    assert outcome.code == 0
    assert outcome.err.count("1 row is replaced by a later vote") == 1
    assert run("data", "votes", "twice.csv", "--rule", "majority", "--strict").code == 3


def test_strict_is_content_where_nothing_was_odd(run, votes):
    assert run("data", "votes", votes, "--rule", "majority", "--strict").code == 0


def test_strict_heeds_every_warning(run, tied):
    assert run("data", "votes", tied, "--rule", "majority", "--strict").code == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--rule adaptive: expected --b0 and --theta, which have no published values; try --b0 0.7 --theta 2"),
        (("--b0", 0.7), "--rule adaptive: expected --b0 and --theta"),
        (("--theta", 2), "--rule adaptive: expected --b0 and --theta"),
        (("--b0", -1, "--theta", 2), "b0: expected a number from 0"),
        (("--b0", "nan", "--theta", 2), "b0: expected"),
        (("--b0", 0.7, "--theta", -1), "theta: expected a number from 0"),
        (("--rule", "plurality"), "--rule: expected adaptive, majority, dawid-skene, got plurality"),
        (("--rule", "majority", "--b0", 1), "--b0: expected only with --rule adaptive, got it with --rule majority"),
        (("--rule", "dawid-skene", "--b0", 1), "--b0: expected only with --rule adaptive, got it with --rule dawid-skene"),
        (("--rule", "majority", "--theta", -1), "theta: expected"),
        (("--rule", "majority", "--out", "labels.txt"), "--out: expected a name that ends in .csv or .parquet, got labels.txt"),
        (("--rule", "majority", "--users", "u.json"), "--users: expected a name that ends in .csv or .parquet, got u.json"),
        (("--rule", "majority", "--out", "votes.csv"), "votes.csv is read by this command and would be overwritten"),
        (("--rule", "majority", "--users", "./votes.csv"), "votes.csv is read by this command and would be overwritten"),
        (("--rule", "majority", "--out", "x.csv", "--users", "x.csv"), "expected different names"),
        (("--rule", "majority", "--label-column", "species"), "expected a column 'species' (label), got user, item, label"),
        (("--rule", "majority", "--author-column", "wrote"), "expected a column 'wrote' (author), got user, item, label"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_written(options, words, fails, votes, tmp_path):
    before = votes.read_bytes()
    assert words in fails("data", "votes", votes, *options)
    assert votes.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["votes.csv"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("missing.csv", None, "missing.csv: expected a table, got nothing"),
        ("empty.csv", "user,item,label\n", "expected at least one vote"),
        ("bare.csv", "", "bare.csv: expected a line with the names of the columns, got an empty file"),
        ("votes.txt", "user,item,label\na,b,c\n", "votes.txt: expected a .csv, .tsv or .parquet table"),
        ("broken.parquet", "no table", "broken.parquet: cannot be read as a table"),
        ("short.csv", "user,item\na,b\n", "short.csv: expected a column 'label' (label), got user, item"),
        ("short.csv", "user,item\na,b\n", "give its name as label"),
        ("gaps.csv", "user,item,label\na,b,c\na,,\n", "got 1 empty in 'item', 1 empty in 'label', the first in line 3"),
        ("odd.csv", "user,item,label,author\na,b,c,perhaps\n", "author: expected true or false"),
    ],
)
def test_tables_that_are_none_are_named(name, text, words, fails, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    assert words in fails("data", "votes", tmp_path / name, "--rule", "majority")


def test_rows_with_an_empty_cell_are_refused_or_dropped(run, fails, tmp_path):
    path = tmp_path / "holes.csv"
    path.write_text("user,item,label\nann,1,oak\nbob,1,\ncy,2,elm\n")
    fails("data", "votes", path, "--rule", "majority")
    outcome = run("data", "votes", path, "--rule", "majority", "--missing", "drop")
    assert outcome.code == 0
    assert "2 votes by" in outcome.err
    assert "--missing: expected refuse or drop, got keep" in fails("data", "votes", path, "--missing", "keep")
