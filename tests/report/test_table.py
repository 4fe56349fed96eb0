"""Table: the same values as Markdown, HTML, CSV, records and a frame."""

import csv
import io
import math

import pytest
from hypothesis import example, given, settings, strategies as st

from shortlist.report import Table

TABLE = Table(["name", "share", "rows"], [["ash", 0.12345, 1234], ["elm", math.nan, None]], ["", ".1%", ",d"])


def test_formats_apply_to_numbers_and_a_dash_stands_for_what_is_missing():
    assert TABLE.shown() == [["ash", "12.3%", "1,234"], ["elm", "–", "–"]]


def test_columns_without_a_format_are_shown_as_they_are():
    assert Table(["a", "b"], [[0.12345, "x"]]).shown() == [["0.12345", "x"]]
    assert Table(["a", "b"], [[0.5, 0.5]], [".0%"]).shown() == [["50%", "0.5"]]


def test_markdown_is_a_table_with_numbers_flush_right():
    assert TABLE.markdown().splitlines() == [
        "| name | share | rows |",
        "| --- | ---: | ---: |",
        "| ash | 12.3% | 1,234 |",
        "| elm | – | – |",
    ]


@pytest.mark.parametrize("name", ["a|b", "a\nb", "a\r\nb"])
def test_markdown_keeps_one_line_a_row_and_one_cell_a_value_whatever_the_text(name):
    lines = Table(["class", "n"], [[name, 1]]).markdown().splitlines()
    assert len(lines) == 3
    assert lines[2].replace("\\|", "").count("|") == 3


def test_html_escapes_text_in_cells_and_names():
    page = Table(['<b>"x"</b>', "n"], [["<script>alert(1)</script> & 'co'", 1]]).html()
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#x27;co&#x27;" in page
    assert "<th>&lt;b&gt;&quot;x&quot;&lt;/b&gt;</th>" in page


def test_html_marks_columns_of_numbers():
    page = TABLE.html()
    assert page.startswith('<table><thead><tr><th>name</th><th class="number">share</th><th class="number">rows</th></tr>')
    assert '<tr><td>ash</td><td class="number">12.3%</td><td class="number">1,234</td></tr>' in page


def test_flush_right_follows_the_values_unless_it_is_given():
    rows = [["x", 1, 2, None], ["y", 2.5, "z", None]]
    assert list(Table("abcd", rows).right()) == [False, True, False, False]
    assert list(Table("abcd", rows, flush_right=[True] * 4).right()) == [True] * 4


@example([("oak\rtree", 0.5)])
@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), st.floats(allow_nan=False)), max_size=5
    )
)
def test_csv_gives_every_value_back_in_full(rows):
    text = Table(["name", "value"], rows, ["", ".1f"]).csv()
    head, *body = csv.reader(io.StringIO(text, newline=""))
    assert head == ["name", "value"]
    assert [(name, float(value)) for name, value in body] == rows


def test_csv_and_records_hold_no_nan():
    assert TABLE.csv() == "name,share,rows\nash,0.12345,1234\nelm,,\n"
    assert TABLE.records() == [{"name": "ash", "share": 0.12345, "rows": 1234}, {"name": "elm", "share": None, "rows": None}]


def test_frame_holds_the_values_themselves():
    frame = TABLE.frame()
    assert list(frame.columns) == ["name", "share", "rows"]
    assert frame["share"].iloc[0] == 0.12345
    assert frame["share"].isna().tolist() == [False, True]


def test_transposed_turns_rows_into_columns_named_by_the_first():
    turned = TABLE.transposed()
    assert list(turned.columns) == ["name", "ash", "elm"]
    assert turned.shown() == [["share", "12.3%", "–"], ["rows", "1,234", "–"]]
    assert list(turned.right()) == [False, True, True]


def test_transposed_of_no_rows_still_names_its_lines():
    assert Table(["name", "share"], []).transposed().shown() == [["share"]]


def test_rows_of_another_length_are_refused():
    with pytest.raises(ValueError):
        Table(["a", "b"], [[1]]).shown()
    with pytest.raises(ValueError):
        Table(["a", "b"], [[1]]).records()
