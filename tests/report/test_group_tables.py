"""Tables by groups of classes, alone and on the page."""

import pytest

from shortlist.report import GroupSizeHistogram, render, shot_table, superclass_table
from shortlist.sets import top_k
from tests.report.cases import COUNTS, SUPERCLASSES, measured


def test_shot_groups_are_rows_with_the_numbers_of_the_evaluation():
    evaluation = measured(counts=COUNTS, shots=[19, 499])
    table = shot_table([evaluation])
    assert table.columns == ["long tail", "classes", "present", "rows", "macro coverage", "macro top-1", "mean size"]
    assert [row[0] for row in table.rows] == ["0-19", "20-499", "500+"]
    assert [row[1:] for row in table.rows] == evaluation.by_shots().to_numpy().tolist()


def test_several_evaluations_stand_group_by_group_under_their_names():
    evaluations = [measured(kind, name=kind, counts=COUNTS) for kind in ("single", "many", "none")]
    table = shot_table(evaluations)
    assert table.columns[:2] == ["long tail", "predictions"]
    assert [row[:2] for row in table.rows] == [
        [f"{group}-shot", name] for group in ("few", "medium", "many") for name in ("single", "many")
    ]
    coverage, recall = table.columns.index("macro coverage"), table.columns.index("macro recall")
    assert [(row[coverage] is None, row[recall] is None) for row in table.rows] == [(False, True), (True, False)] * 3
    assert shot_table([measured()]).rows == []


def test_superclasses_are_listed_from_the_worst():
    evaluation = measured(rule=top_k(1), rows=300, superclasses=["a", "b", "c", "a", "b", "d"])
    table = superclass_table(evaluation)
    assert table.columns == ["superclass", "classes", "rows", "superclass coverage", "class coverage"]
    frame = evaluation.by_superclass()
    shown = {row[0]: row[1:] for row in table.rows}
    assert shown == {name: frame.loc[name].tolist() for name in frame.index}
    coverages = [row[3] for row in table.rows]
    assert coverages == sorted(coverages)
    assert coverages[0] < coverages[-1]
    assert superclass_table(evaluation, 2).rows == table.rows[:2]
    assert superclass_table(measured("many", superclasses=SUPERCLASSES)).columns[3:] == ["superclass recall", "class recall"]
    assert superclass_table(measured()).rows == []


def test_a_superclass_without_rows_is_not_listed():
    evaluation = measured(superclasses=["absent", "b", "b", "b", "b", "b"])
    assert [row[0] for row in superclass_table(evaluation).rows] == ["b"]


def test_the_page_holds_both_tables_where_there_is_something_to_show():
    evaluation = measured(counts=COUNTS, superclasses=SUPERCLASSES, shots=[19, 499])
    page, plain = render(evaluation), render(measured())
    assert shot_table([evaluation]).html() in page
    assert superclass_table(evaluation).html() in page
    assert "number of rows with a label of the group" in page
    assert "share of rows with a label of the right superclass in their set" in page
    assert {"<h2>Long tail</h2>", "<h2>Superclasses</h2>"}.isdisjoint(plain.splitlines())
    assert {"<h2>Long tail</h2>", "<h2>Superclasses</h2>"} <= set(page.splitlines())


def test_names_of_superclasses_are_escaped():
    page = render(measured(superclasses=["<script>x</script>"] * 3 + ["b"] * 3))
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "<script>x" not in page


@pytest.mark.parametrize("edges", [(10, 50, 500, 2000), tuple(range(2, 30, 3))], ids=["five groups", "more than colours"])
def test_the_histogram_has_the_same_groups(edges):
    evaluation = measured(counts=COUNTS, shots=edges)
    display = GroupSizeHistogram(evaluation)
    legend = [text.get_text() for text in display.plot().get_legend().get_texts()]
    assert legend == [group.name for group in evaluation.shot_groups() if group.rows]
    assert "20" not in display.caption
    assert "fewer than 20" in GroupSizeHistogram(measured(counts=COUNTS)).caption
