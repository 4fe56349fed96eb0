"""Wording of messages: suggestions, lists, counts, values, and keywords by the names of other libraries."""

import pytest

from shortlist.data import open_dataset
from shortlist.errors import InputError
from shortlist.methods import find_method
from shortlist.recipes import find_recipe
from shortlist.words import counted, did_you_mean, expected_one_of, listed, printable, quoted, shown, similar, understands


@understands(n_bins="bins", confidence_level=("alpha", lambda level: 1 - level))
def measure(*, bins=15, alpha=0.1):
    return bins, alpha


def test_foreign_keywords_are_translated_and_converted():
    assert measure() == (15, 0.1)
    assert measure(n_bins=3) == (3, 0.1)
    assert measure(bins=4, confidence_level=0.75) == (4, 0.25)


@pytest.mark.parametrize("keywords", [{"bins": 1, "n_bins": 1}, {"n_bins": 1, "bins": 1}])
def test_a_keyword_given_under_two_names_is_refused(keywords):
    with pytest.raises(TypeError, match="bins: given twice"):
        measure(**keywords)


def test_unknown_keywords_stay_errors():
    with pytest.raises(TypeError, match="bin_count"):
        measure(bin_count=3)


def test_names_are_compared_without_case_and_underscores():
    assert similar("Average_K", ["top-k", "average-k"]) == ["average-k"]
    assert similar("nothing like it", ["top-k"]) == []
    assert similar("x" * 1000, ["x" * 1000]) == []
    assert similar(3, ["3"]) == []


def test_several_suggestions_are_joined():
    assert did_you_mean("resnet1", ["resnet18", "resnet10", "vit"], 2) == "did you mean 'resnet18' or 'resnet10'? "
    assert did_you_mean("zebra", ["vit"]) == ""


def test_lists_are_cut():
    assert listed([]) == ""
    assert listed(["a", "b", "c"], most=3) == "a, b, c"
    assert listed(["a", "b", "c", "d"], most=3) == "a, b, c and 1 more"
    assert quoted(["a b", "c"], most=1) == "'a b' and 1 more"


def test_counts_agree_with_their_noun():
    assert [counted(number, "class", "classes") for number in (0, 1, 1000)] == ["0 classes", "1 class", "1,000 classes"]


def test_values_stay_on_one_short_line():
    assert shown("a\nb") == "'a\\nb'"
    assert shown(10**5000) == "a number of thousands of digits"
    assert len(shown("x" * 1000)) == 61
    assert printable("\x1b[31mred") == "\\x1b[31mred"


def test_a_long_list_of_names_is_cut_short_and_the_similar_one_comes_first():
    names = [f"name-{number}" for number in range(13)]
    message = expected_one_of("nam-12", names, "the manual")
    assert message.startswith("did you mean 'name-12'? expected one of name-0, ")
    assert message.endswith("name-11 and 1 more (the manual lists them)")
    assert expected_one_of("zzz", names[:12], "the manual") == f"expected one of {', '.join(names[:12])}"


@pytest.mark.parametrize(
    ("find", "shown", "left_out"),
    [
        (lambda: find_method("zzz"), "cross-entropy", "softmax-confidence"),
        (lambda: find_recipe("zzz"), "pictures", "mulan-yeast"),
        (lambda: find_recipe("pictures").with_settings(zzz=1), "method", "beta"),
        (lambda: open_dataset("zzz"), "flora", "omniglot"),
    ],
)
def test_menus_of_many_names_are_cut_short(find, shown, left_out):
    with pytest.raises(InputError, match=r" and \d+ more \(.* lists them\)") as error:
        find()
    assert shown in str(error.value)
    assert left_out not in str(error.value)
