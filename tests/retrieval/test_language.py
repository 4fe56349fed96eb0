"""The query language: what it reads, and that every mistake is a sentence with a caret under the place."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import example, given, settings, strategies as st

from shortlist.errors import InputError
from shortlist.retrieval.language import parse
from shortlist.retrieval.names import is_bare
from shortlist.retrieval.tokens import MOST_DEPTH, MOST_TERMS, WIDTH, QueryError
from shortlist.retrieval.tree import And, Condition, Count, Label, Not, Of, Or, text_of

CLASSES = ["fork", "apple", "knife", "dining table", "salt and pepper", "count", "2", "AT&T", "Dog", "cat", "CAT", "car", "bus"]
FORK, APPLE, KNIFE, TABLE = Label(0), Label(1), Label(2), Label(3)


def tree(query, classes=CLASSES):
    return parse(query, classes)[0]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("fork", FORK),
        ("fork and apple and not knife", And((FORK, APPLE, Not(KNIFE)))),
        ("(fork or apple) and not knife", And((Or((FORK, APPLE)), Not(KNIFE)))),
        ("fork or apple and knife", Or((FORK, And((APPLE, KNIFE))))),
        ("fork and apple or knife", Or((And((FORK, APPLE)), KNIFE))),
        ("not fork and apple", And((Not(FORK), APPLE))),
        ("not (fork and apple)", Not(And((FORK, APPLE)))),
        ("not not fork", Not(Not(FORK))),
        ("fork and (apple and knife)", And((FORK, And((APPLE, KNIFE))))),
        ("FORK AND Apple oR NOT knife", Or((And((FORK, APPLE)), Not(KNIFE)))),
        ("((fork))", FORK),
        (" \t fork\nand\tapple ", And((FORK, APPLE))),
        ("\"dining table\" or 'salt and pepper'", Or((TABLE, Label(4)))),
        ('"count" and "2" and "AT&T"', And((Label(5), Label(6), Label(7)))),
        ('"FORK"', FORK),
        ("dog", Label(8)),
        ("cat or CAT", Or((Label(9), Label(10)))),
        ("at least 2 of (car, bus, fork)", Of(2, 3, (Label(11), Label(12), FORK))),
        ("At Most 1 Of (car, bus)", Of(0, 1, (Label(11), Label(12)))),
        ("exactly 1 of (car, bus)", Of(1, 1, (Label(11), Label(12)))),
        ("at most 0 of (car)", Of(0, 0, (Label(11),))),
        ("at least 1 of (car and bus, not fork or apple)", Of(1, 2, (And((Label(11), Label(12))), Or((Not(FORK), APPLE))))),
        ("at least 1 of (at least 1 of (car))", Of(1, 1, (Of(1, 1, (Label(11),)),))),
        ("not at least 1 of (car) and bus", And((Not(Of(1, 1, (Label(11),))), Label(12)))),
        ("count >= 3", Count(">=", 3)),
        ("COUNT>2 or count<1", Or((Count(">", 2), Count("<", 1)))),
        ("count <= 3 and count = 2 and count == 2", And((Count("<=", 3), Count("=", 2), Count("=", 2)))),
        ("count ≥ 3 or count ≤ 1", Or((Count(">=", 3), Count("<=", 1)))),
        ("fork > 0.8", Condition(0, ">", 0.8)),
        ("fork>=80%", Condition(0, ">=", 0.8)),
        ("fork < 7 %", Condition(0, "<", 0.07)),
        ("fork <= .5 or fork < 1e-3", Or((Condition(0, "<=", 0.5), Condition(0, "<", 0.001)))),
        (
            "fork > 0 and fork <= 1 and fork > 1e1%",
            And((Condition(0, ">", 0.0), Condition(0, "<=", 1.0), Condition(0, ">", 0.1))),
        ),
        ("not fork > 0.8", Not(Condition(0, ">", 0.8))),
        ('"dining table" > 0.5', Condition(3, ">", 0.5)),
    ],
)
def test_queries_and_their_trees(query, expected):
    assert tree(query) == expected


@pytest.mark.parametrize(
    "name",
    [
        "bird's",
        "c++",
        "x-ray",
        "3d-print",
        "7up",
        "a.b/c:d",
        "naïve",
        "水",
        "हिन्दी",
        "קפה",
        "🍎",
        "#1",
        "@home",
        "_x",
        "inf",
        "nan",
        "d’or",
    ],
)
def test_bare_words_of_any_script(name):
    assert is_bare(name)
    assert tree(f"{name} and not({name})", [name]) == And((FORK, Not(FORK)))


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "two words",
        "AND",
        "of",
        "3",
        "-1",
        "1e5",
        ".5",
        "a,b",
        "a(b",
        "50%",
        "x>1",
        "-a",
        "'a",
        '"',
        "\\",
        "a;b",
        "\n",
        "＆",
    ],
)
def test_other_names_need_quotes_and_can_have_them(name):
    assert not is_bare(name)
    escaped = name.replace("\\", "\\\\")
    double, single = escaped.replace('"', '\\"'), escaped.replace("'", "\\'")
    for query in (f'"{double}"', f"'{single}'", text_of(FORK, [name])):
        assert tree(query, [name]) == FORK


def test_letters_are_the_same_composed_or_not_but_an_exact_name_comes_first():
    assert tree("caf\u00e9", ["x", "cafe\u0301"]) == Label(1)
    assert tree("cafe\u0301", ["caf\u00e9", "cafe\u0301"]) == Label(1)


# query, the place of the caret, and what the sentence says.
MISTAKES = [
    ("", 0, "the query is empty"),
    ("  \t", 0, "the query is empty"),
    ("fork and", 8, "a label is missing after 'and'"),
    ("fork or  ", 7, "a label is missing after 'or'"),
    ("and fork", 0, "a label is missing before 'and'"),
    ("not", 3, "a label is missing after 'not'"),
    ("fork and or apple", 9, "a label is missing after 'and'"),
    ("> 0.5", 0, "a label is missing before '>'"),
    ("()", 1, r"a label is missing after '\('"),
    ("(fork and apple", 0, "this bracket is not closed"),
    ("((fork)", 0, "this bracket is not closed"),
    ("fork and (apple or (knife)", 9, "this bracket is not closed"),
    ("fork)", 4, "this bracket has no opening bracket"),
    ("(fork)) and (apple", 6, "this bracket has no opening bracket"),
    ('fork and "apple', 9, "this quote is not closed"),
    ("'fork\\'", 0, "this quote is not closed"),
    ("fork apple", 5, "expected \"and\" or \"or\" between 'fork' and 'apple'"),
    ("(fork) (apple)", 7, 'expected "and" or "or"'),
    ("(fork apple)", 6, 'expected "and" or "or"'),
    ("fork not apple", 5, 'expected "and" or "or"'),
    ("dining table", 0, 'unknown label .*; write the label "dining table" in quotes'),
    ("fork and Dining  Table or apple", 9, 'write the label "dining table" in quotes'),
    ("salt and pepper", 0, 'write the label "salt and pepper" in quotes'),
    ("dining tabel", 0, 'did you mean "dining table"'),
    ("forkk", 0, "unknown label 'forkk'; did you mean \"fork\"\\?"),
    ("fork and knive", 9, 'did you mean "knife"'),
    ("zzz", 0, "unknown label 'zzz'\n"),
    ("Cat", 0, '\'Cat\' is ambiguous: it may be "cat" or "CAT"; write it exactly\n'),
    ("fork, apple", 4, 'commas separate only .* write "and" or "or"'),
    (", fork", 0, "commas separate only"),
    ("(fork, apple)", 5, "commas separate only"),
    ("fork & apple", 5, "'&' is not allowed here; write and"),
    ("fork || apple", 5, "write or"),
    ("!fork", 0, "write not"),
    ("-fork", 0, "write not"),
    ("AT&T", 2, 'write the label "AT&T" in quotes'),
    ("“fork”", 0, "write straight quotes"),
    ("[fork]", 0, "write parentheses"),
    ("fork $ apple", 5, r"'\$' is not allowed here; a name that contains it is written in quotes"),
    ('fork"; drop table x; --', 4, "this quote is not closed"),
    ("fork; drop table x; --", 4, "';' is not allowed here"),
    ("'fork\"; drop table x; --'", 0, "unknown label"),
    ("2", 0, "got the number '2'; the label \"2\" must be written in quotes"),
    ("0.8 < fork", 0, "expected a label, got the number '0.8'; write the label of a condition first"),
    ("fork and 5", 9, "expected a label, got the number '5'"),
    ("fork 0.8", 5, "expected a comparison between 'fork' and '0.8'"),
    ("fork > 1.5", 7, "expected a probability from 0 to 1"),
    ("fork > 80", 7, "in percent it is 80%"),
    ("fork > -0.1", 7, "expected a probability from 0 to 1, .* got '-0.1'"),
    ("fork >= 101%", 8, "got '101%'"),
    ("fork > 1e999", 7, "expected a probability from 0 to 1"),
    ("fork >", 6, "expected a probability"),
    ("fork > apple", 7, "expected a probability, such as"),
    ("fork = 0.5", 5, "not with ="),
    ("fork != 0.5", 5, "'!=' is not a comparison"),
    ("fork => 0.5", 5, "'=>' is not a comparison"),
    ("(fork or apple) > 0.5", 16, "one label and one number"),
    ("fork > 0.2 < 0.8", 11, "one label and one number"),
    ("fork %", 5, "% is allowed only after the number"),
    ("count", 0, 'count needs a comparison, .*; the label "count" must be written in quotes'),
    ("count and fork", 0, "count needs a comparison"),
    ("count > 2.5", 8, "expected a whole number from 0, got '2.5'"),
    ("count > 50%", 8, "expected a whole number from 0, got '50%'"),
    ("count >= -1", 9, "got '-1'"),
    ("count >= fork", 9, "got 'fork'"),
    ("count >=", 8, "expected a whole number"),
    ("at least 3 of (car, bus)", 9, "at least 3 of 2 parts: expected at most 2"),
    ("at least 2 of (car or bus)", 9, "at least 2 of 1 part: expected at most 1; parts are separated by commas"),
    ("at most 9 of (car, bus)", 8, "at most 9 of 2 parts"),
    ("exactly 9999999999999999999999999 of (car, bus)", 8, "of 2 parts"),
    ("at least 0 of (car)", 9, "at least: expected a whole number from 1, got '0'"),
    ("at least -2 of (car)", 9, "from 1, got '-2'"),
    ("at least 1.0 of (car)", 9, "whole number"),
    ("at least two of (car)", 9, "got 'two'"),
    ("at least", 8, "expected a whole number"),
    ("at 2 of (car)", 3, 'expected "least" or "most" after "at"'),
    ("at least 2 (car)", 11, "expected of"),
    ("at least 2 of car", 14, r"expected \("),
    ("at least 1 of ()", 15, "a label is missing after"),
    ("at least 1 of (car,)", 19, "a label is missing after ','"),
    ("at least 1 of (car bus)", 19, 'expected "and" or "or"'),
    ("of", 0, "'of' is a keyword"),
    ("fork and " * 12 + "(apple", 108, "not closed"),
]


@pytest.mark.parametrize(("query", "position", "sentence"), MISTAKES, ids=[query[:30] for query, *_ in MISTAKES])
def test_mistakes_are_a_sentence_the_query_and_a_caret(query, position, sentence):
    with pytest.raises(QueryError, match=sentence) as caught:
        parse(query, CLASSES)
    error = caught.value
    assert isinstance(error, InputError)
    assert (error.query, error.position) == (query, position)
    said, line, caret = str(error).split("\n")
    assert said == error.sentence
    assert set(caret) <= {" ", "^"}
    assert caret[-1] == "^"
    if len(query) <= WIDTH - 2:
        assert line == query.replace("\t", " ")
        assert len(caret) - 1 == position
    assert len(line) <= WIDTH


def test_up_to_three_names_are_suggested():
    with pytest.raises(QueryError, match=r'did you mean "fork\d", "fork\d" or "fork\d"\?'):
        parse("fork5", ["fork1", "fork2", "fork3", "fork4", "spoon"])


def test_names_that_occur_twice_are_told():
    with pytest.raises(QueryError, match="2 labels are named 'fork'"):
        parse("fork", ["fork", "fork"])


def test_the_caret_counts_wide_characters_twice_and_marks_not_at_all():
    with pytest.raises(QueryError) as caught:
        parse("水 and हिन्दी and 火", ["水", "हिन्दी"])
    _, line, caret = str(caught.value).split("\n")
    assert line == "水 and हिन्दी and 火"
    assert caught.value.position == 17
    # 水 takes 2 columns, हिन्दी has 6 characters of which one (्) takes none; two more are spacing marks.
    assert len(caret) - 1 == 17


def test_nothing_but_the_caret_moves_the_caret():
    with pytest.raises(QueryError) as caught:
        parse("fork\r\n and\t\x1b[31m", CLASSES)
    assert str(caught.value).split("\n")[1:] == ["fork   and  [31m", " " * 11 + "^"]


@pytest.mark.parametrize("position", [0, 1, 3_000, 9_990])
def test_long_queries_are_shown_around_the_caret(position):
    text = "fork and " * 1_200
    query = text[:position] + "$" + text[position:]
    error = QueryError("what", query, position)
    _, line, caret = str(error).split("\n")
    assert WIDTH - 4 <= len(line) <= WIDTH
    assert line[len(caret) - 1] == "$"
    assert line.startswith("…") == (position > 1)


def test_a_long_word_does_not_flood_the_sentence():
    with pytest.raises(QueryError) as caught:
        parse("a" * 100_000, CLASSES)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (" or ".join(["fork"] * (MOST_TERMS + 1)), "at most 1,000 terms"),
        (" and ".join(["fork"] * 10_000), "at most 1,000 terms"),
        ("at least 1 of (" + ", ".join(["fork"] * 10_000) + ")", "at most 1,000 terms"),
        ("(" * (MOST_DEPTH + 1) + "fork" + ")" * (MOST_DEPTH + 1), "nested at most 100 deep"),
        ("(" * 1_000 + "fork" + ")" * 1_000, "nested at most 100 deep"),
        ("(" * 100_000, "nested at most 100 deep"),
        ("not " * 100_000 + "fork", "nested at most 100 deep"),
        ("not (" * 60 + "fork" + ")" * 60, "nested at most 100 deep"),
        ("at least 1 of (" * 1_000 + "fork" + ")" * 1_000, "nested at most 100 deep"),
        (")" * 100_000, "no opening bracket"),
        ("fork and (" * 1_000 + "fork" + ")" * 1_000, "nested at most 100 deep"),
    ],
    ids=range(11),
)
def test_what_is_too_long_or_too_deep_is_refused(query, sentence):
    with pytest.raises(QueryError, match=sentence) as caught:
        parse(query, CLASSES)
    assert len(str(caught.value)) < 400


def test_what_is_just_not_too_long_or_too_deep_is_read():
    assert len(tree(" or ".join(["fork"] * MOST_TERMS)).parts) == MOST_TERMS
    assert tree("(" * MOST_DEPTH + "fork" + ")" * MOST_DEPTH) == FORK
    deep = tree("not " * MOST_DEPTH + "fork")
    assert text_of(deep, CLASSES) == "not " * MOST_DEPTH + "fork"


def test_a_query_is_a_text():
    with pytest.raises(InputError, match="query: expected a text"):
        parse(3, CLASSES)


def test_the_error_survives_a_worker_process():
    error = pickle.loads(pickle.dumps(QueryError("what", "fork", 2)))
    assert str(error) == "what\nfork\n  ^"


@settings(max_examples=300, deadline=None)
@example(query="\ud800")
@example(query="fork\\")
@given(
    query=st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from([*"()<>=,%'\"-&.0123\\", "fork", "and", "or", "not", "at least", "of", "count", " "])).map(
            " ".join
        ),
    )
)
def test_any_text_is_a_query_or_a_mistake(query):
    error = None
    try:
        node, places = parse(query, CLASSES)
    except QueryError as caught:
        error = caught
    if error:
        assert 0 <= error.position <= len(query)
        assert str(error).count("\n") == 2
    else:
        assert tree(text_of(node, CLASSES)) == node
        assert all(0 <= place < len(query) for place in places.values())


def test_asking_needs_numpy_and_nothing_large():
    modules = "language names tokens tree plans expansion probability query sql"
    code = (
        "import sys, types, shortlist, importlib;"
        "room = types.ModuleType('shortlist.retrieval'); room.__path__ = [shortlist.__path__[0] + '/retrieval'];"
        "sys.modules['shortlist.retrieval'] = room;"  # these modules by themselves, without what the package offers
        f"[importlib.import_module('shortlist.retrieval.' + name) for name in '{modules}'.split()];"
        "print(sorted({'torch', 'scipy', 'pandas', 'pyarrow', 'duckdb', 'matplotlib', 'difflib'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
