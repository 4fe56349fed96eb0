"""Tables about a dataset, and the card of a benchmark."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
import torch

from shortlist.data import Built, Dataset, Flora, Problem, Split, flora_dataset
from shortlist.report.data_card import (
    columns_table,
    data_card,
    limits_table,
    problems_table,
    splits_table,
    summary_line,
    tail_table,
    write_card,
)


def split(labels):
    target = torch.tensor(labels, dtype=torch.int64)
    return Split(torch.zeros(len(labels), 1), target, [str(row) for row in range(len(labels))])


def garden(**more):
    parts = {"train": split([0] * 1000 + [1] * 234 + [2] * 10), "val": split([0, 0, 1, 2]), "test": split([0, 1, 1, 2])}
    return Dataset("garden", ["ash", "elm", "oak"], parts, **more)


def meadow():
    marks = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.bool)
    return Dataset("meadow", ["ash", "elm", "oak"], {"train": Split(torch.zeros(4, 1), marks, list("abcd"))})


def tables(text):
    """The tables of a Markdown text: lists of rows of cells, headings first; each checked to be one."""
    found = []
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines and lines[0].startswith("|"):
            cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
            assert len({len(row) for row in cells}) == 1
            assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
            assert all(re.fullmatch(r"-{3,}:?", cell) for cell in cells[1])
            found.append([cells[0], *cells[2:]])
    return found


# Tables


def test_a_line_for_each_split():
    assert splits_table(garden()).records() == [
        {
            "split": name,
            "rows": rows,
            "classes": 3,
            "labels a row": 1.0,
            "without label": 0,
            "rarest class": rarest,
            "median class": median,
            "commonest class": commonest,
        }
        for name, rows, rarest, median, commonest in (
            ("train", 1244, 10, 234.0, 1000),
            ("val", 4, 1, 1.0, 2),
            ("test", 4, 1, 1.0, 2),
        )
    ]
    assert splits_table(garden()).shown()[0] == ["train", "1,244", "3", "1", "0", "10", "234", "1,000"]


def test_rows_with_many_labels_and_with_none_are_counted():
    (record,) = splits_table(meadow()).records()
    assert (record["rows"], record["classes"], record["labels a row"], record["without label"]) == (4, 2, 0.75, 2)


def test_an_empty_split_has_dashes():
    data = garden().with_splits({"train": split([]), "bare": meadow().splits["train"].rows(torch.tensor([1]))})
    shown = splits_table(data).shown()
    assert shown[0] == ["train", "0", "0", "1", "0", "–", "–", "–"]
    assert shown[1] == ["bare", "1", "0", "0", "1", "–", "–", "–"]
    none = meadow().splits["train"].rows(torch.zeros(0, dtype=torch.int64))
    assert splits_table(data.with_splits({"none": none})).shown() == [["none", "0", "0", "–", "0", "–", "–", "–"]]


def test_the_median_of_an_even_number_of_classes_is_the_mean_of_two():
    data = Dataset("x", ["ash", "elm"], {"train": split([0, 1, 1, 1])})
    assert splits_table(data).records()[0]["median class"] == 2


def test_the_long_tail_in_words():
    assert tail_table(garden()).shown() == [
        ["commonest over rarest class", "100"],
        ["Gini coefficient", "0.531"],
        ["share of the rarest 80 % of the classes", "51.8%"],
    ]


def test_problems_are_counted_by_kind():
    problems = [Problem("empty class", name, "has no row") for name in ("a", "b")] + [Problem("odd | name", "c", "is odd")]
    assert problems_table(garden(problems=problems)).records() == [
        {"problem": "empty class", "count": 2},
        {"problem": "odd | name", "count": 1},
    ]


def test_a_dataset_in_one_line():
    assert summary_line(garden()) == "garden: 1,252 rows, 3 classes, one label a row, 1 feature"
    assert summary_line(garden(superclasses=["a", "b", "a"])).endswith(
        "3 classes in 2 superclasses, one label a row, 1 feature"
    )
    assert summary_line(meadow()) == "meadow: 4 rows, 3 classes, any number of labels a row, 1 feature"


# The card


def test_the_card_says_what_there_is():
    problems = [Problem("unreadable picture", f"{n}.png", "cut short: left out") for n in range(12)]
    built = Built(
        garden(reference="Me, 2020", problems=problems), ["From an archive.", "Split with seed 0."], ["Two are alike."]
    )
    card = data_card(built)
    assert card.startswith("# garden\n\n1,252 rows, 3 classes, one label a row, 1 feature.\n\n")
    splits, tail, odd = tables(card)
    assert splits[0][:2] == ["split", "rows"]
    assert [row[:2] for row in splits[1:]] == [["train", "1,244"], ["val", "4"], ["test", "4"]]
    assert tail[1:] == tail_table(garden()).shown()
    assert odd == [["problem", "count"], ["unreadable picture", "12"]]
    assert "- From an archive.\n- Split with seed 0.\n" in card
    assert "## Before you use it\n\n- Two are alike.\n" in card
    assert card.endswith("## Licence and citation\n\nMe, 2020\n")
    assert "![Lorenz curve](lorenz.svg)" in card


def test_what_there_is_nothing_to_say_about_is_left_out():
    card = data_card(Built(garden(), ["From an archive."], []))
    assert "Before you use it" not in card
    assert "## Problems" not in card
    assert len(tables(card)) == 2
    assert "To be filled in" in card


def test_headings_are_by_themselves():
    card = data_card(Built(garden(problems=[Problem("a", "b", "c")]), ["x"], ["y"]))
    lines = card.splitlines()
    headings = [place for place, line in enumerate(lines) if line.startswith("#")]
    assert len(headings) == 8
    for place in headings:
        assert lines[place + 1] == ""
        assert place == 0 or lines[place - 1] == ""
    assert "\n\n\n" not in card


def test_a_bar_in_a_name_does_not_break_a_table():
    data = garden(problems=[Problem("odd | kind\nof thing", "x", "is odd")])
    odd = tables(data_card(Built(data.with_splits({"a|b": data.splits["train"]}), ["x"], [])))
    assert [row[0] for row in odd[0]] == ["split", "a\\|b"]
    assert odd[2][1] == ["odd \\| kind of thing", "1"]


def test_card_and_curve_are_written_beside_each_other(tmp_path):
    built = Built(garden(), ["From an archive."], [])
    write_card(built, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "lorenz.svg"]
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == data_card(built)
    root = ElementTree.parse(tmp_path / "lorenz.svg").getroot()
    assert root.tag.endswith("svg")
    svg = (tmp_path / "lorenz.svg").read_text()
    assert "train: rarest 80 % hold 52%" in svg


def test_the_card_is_the_same_every_time(tmp_path):
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_card(Built(garden(), ["x"], []), tmp_path / name)
        written.append([(tmp_path / name / file).read_bytes() for file in ("README.md", "lorenz.svg")])
    assert written[0] == written[1]


def test_the_best_accuracy_is_told_where_the_posterior_is_known():
    data = flora_dataset(Flora(species=8, genera=2), train=300, val=0, test=50, size=8)
    table = limits_table(data)
    assert [row[0] for row in table.rows] == ["train", "test"]
    posterior = data.splits["train"].posterior.double()
    assert table.records()[0]["top-1"] == pytest.approx(float(posterior.max(1).values.mean()))
    assert limits_table(garden()) is None


def test_few_rows_and_few_classes_have_limits_too():
    few = flora_dataset(Flora(species=2, genera=1), train=3, val=1, test=0, size=8)
    assert list(limits_table(few).columns) == ["best possible", "top-1", "average-1"]
    assert [row[0] for row in limits_table(few).rows] == ["train", "val"]


def with_columns(values, split="train"):
    data = garden()
    rows = data.splits[split]
    return data.with_splits({**data.splits, split: replace(rows, columns={"licence": values(len(rows))})})


def test_columns_are_counted_by_split_in_the_card_and_the_most_frequent_values_first():
    assert columns_table(garden()) is None
    data = with_columns(lambda rows: ["cc-by", "", "cc-0", "cc-by"] * (rows // 4))
    records = columns_table(data).records()
    quarter = len(data.splits["train"]) // 4
    assert [(line["value"], line["train"]) for line in records] == [
        ("cc-by", 2 * quarter),
        ("unknown", quarter),
        ("cc-0", quarter),
    ]
    assert all(line[name] == 0 for line in records for name in data.splits if name != "train")
    assert "## Columns" in data_card(Built(data, [], []))
    assert "- a note" in data_card(Built(garden(notes=["a note"]), [], []))
    assert "## Columns" not in data_card(Built(garden(), [], []))


def test_the_rare_values_of_a_column_are_summed_up():
    data = with_columns(lambda rows: [str(row % 20) for row in range(rows)])
    records = columns_table(data).records()
    assert len(records) == 13
    assert records[-1]["value"] == "8 others"
    assert sum(line["train"] for line in records) == len(data.splits["train"])
