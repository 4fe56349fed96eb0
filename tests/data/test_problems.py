"""Odd things about files: told in a line each, counted, and fatal only together."""

import pytest

from shortlist.data.names import check_names, is_utf8, superclasses_of
from shortlist.data.problems import Problem, check_tolerance, count_problems, problem_lines, summarise_problems
from shortlist.errors import InputError
from shortlist.words import printable

MANY = [Problem("absent", f"{number}.jpg", "left out") for number in range(1234)]
TWO_KINDS = [Problem("absent", "a", "left out"), Problem("empty", "b", "holds nothing"), Problem("absent", "c", "left out")]


def test_a_problem_is_a_line_with_its_place_first():
    assert (
        str(Problem("absent", "oak/7.jpg", "there is no such file: left out")) == "oak/7.jpg: there is no such file: left out"
    )


@pytest.mark.parametrize(
    ("path", "shown"), [("oak.jpg", "oak.jpg"), ("chêne/é.jpg", "chêne/é.jpg"), ("caf\udce9.jpg", "caf\\xe9.jpg"), ("", "")]
)
def test_paths_can_always_be_shown(path, shown):
    assert printable(path) == shown
    printable(path).encode("utf-8")


def test_half_a_character_can_be_shown():
    printable("\ud800.jpg").encode("utf-8")


def test_kinds_are_counted_in_the_order_in_which_they_came_up():
    assert list(count_problems(TWO_KINDS).items()) == [("absent", 2), ("empty", 1)]
    assert count_problems([]) == {}


def test_lines_are_grouped_by_kind_and_cut_off():
    assert problem_lines(TWO_KINDS) == ["a: left out", "c: left out", "b: holds nothing"]
    assert problem_lines(TWO_KINDS, most=1) == ["a: left out", "… and 1 more of this kind (absent)", "b: holds nothing"]
    assert problem_lines(MANY)[-1] == "… and 1,224 more of this kind (absent)"
    assert len(problem_lines(MANY, most=1234)) == 1234
    assert problem_lines([]) == []


def test_the_summary_counts_with_the_right_number():
    assert summarise_problems([]) == "no problems"
    assert summarise_problems(TWO_KINDS[:1]) == "1 problem: absent 1"
    assert summarise_problems(TWO_KINDS) == "3 problems: absent 2, empty 1"
    assert summarise_problems(MANY) == "1,234 problems: absent 1,234"


@pytest.mark.parametrize(
    ("failures", "total", "tolerance"), [(0, 0, 0.0), (0, 5, 0.0), (1, 100, 0.01), (5, 5, 1.0), (1, 4, 0.25)]
)
def test_the_tolerated_share_is_tolerated(failures, total, tolerance):
    check_tolerance(MANY[:failures], total, tolerance)


def test_every_share_of_a_hundred_is_tolerated_at_its_boundary():
    for percent in range(101):
        check_tolerance(MANY[:percent], 100, percent / 100)


@pytest.mark.parametrize(("failures", "total", "tolerance"), [(1, 5, 0.0), (2, 100, 0.01), (1, 0, 1.0), (1, 3, 0.33)])
def test_more_than_the_tolerated_share_is_refused(failures, total, tolerance):
    with pytest.raises(InputError, match=f"{failures} of {total} pictures could not be used, .* first is 0.jpg: left out"):
        check_tolerance(MANY[:failures], total, tolerance)


def test_what_could_not_be_used_is_named():
    with pytest.raises(InputError, match=r"1,234 of 2,000 rows could not be used, more than the tolerated 1\.0%"):
        check_tolerance(MANY, 2000, 0.01, "rows")


def test_a_refusal_says_what_to_do():
    with pytest.raises(InputError, match=r"; repair or remove such rows, or raise the tolerance$"):
        check_tolerance(MANY, 2000, 0.01, "rows")
    with pytest.raises(InputError, match=r"; look again$"):
        check_tolerance(MANY, 2000, 0.01, advice="look again")


@pytest.mark.parametrize("tolerance", [-0.1, 1.1, float("nan"), "a", None, True])
def test_a_tolerance_is_a_share(tolerance):
    with pytest.raises(InputError, match="tolerance: expected a number from 0 to 1"):
        check_tolerance([], 5, tolerance)


# Names of classes


@pytest.mark.parametrize(("name", "text"), [("oak", True), ("chêne", True), ("caf\udce9", False), ("", True)])
def test_names_that_are_no_text_are_told(name, text):
    assert is_utf8(name) is text


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (["oak", "elm"], []),
        (["Oak", "oak"], ["oak"]),
        (["red oak", "red_oak", "red  oak", " red oak"], ["red_oak", "red  oak", " red oak"]),
        (["straße", "STRASSE"], ["STRASSE"]),
        (["h\u00eatre", "he\u0302tre", "HE\u0302TRE"], ["he\u0302tre", "HE\u0302TRE"]),
        ([], []),
    ],
)
def test_names_alike_are_noted_but_the_first(names, alike):
    assert [problem.where for problem in check_names(names)] == alike


def test_names_in_two_unicode_forms_are_told_apart_in_ascii():
    (problem,) = check_names(["h\u00eatre", "he\u0302tre"])
    assert r"'h\xeatre' and 'he\u0302tre'" in problem.what
    assert "two classes" in problem.what


def test_superclasses_by_the_first_word():
    assert superclasses_of(["Quercus robur", "Quercus_ilex", "  Ilex", "", " "], "first-word") == [
        "Quercus",
        "Quercus",
        "Ilex",
        "",
        " ",
    ]
    assert superclasses_of(["Quercus robur"], None) is None
    with pytest.raises(InputError, match="superclass: .*got 'genus'"):
        superclasses_of(["Quercus robur"], "genus")


def test_names_stay_on_one_line():
    assert str(Problem("odd", "a\nb\x1b[31m.jpg", "left out")) == "a\\nb\\x1b[31m.jpg: left out"
