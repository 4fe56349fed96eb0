"""ARFF files and label lists: every way in which they may be written."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shortlist.data.readers.arff_file import Attribute, read_arff_file
from shortlist.data.readers.mulan_labels import read_label_names
from shortlist.errors import InputError
from tests.data.readers.arff_texts import HEADER, XMLNS, write, xml


def parse(folder, text):
    return read_arff_file(write(folder, text))


# Rows


@pytest.mark.parametrize(
    "rows",
    [
        "1.5,green,1\n-2,red,0\n",
        "1.5,green,1\n-2,red,0",
        "1.5,green,1\r\n-2,red,0\r\n",
        "1.5,green,1\r-2,red,0\r",
        "  1.5 ,  green,1  \n\n%a comment\n-2\tred\t 0\n",
        "1.5,'green',\"1\"\n-2,\"red\",'0'\n",
        "1.5,green,1 % so it is\n-2,red,0%\n",
        "15e-1,green,1\n-2.0,red,0\n",
        "{0 1.5, 1 green, 2 1}\n{0 -2}\n",
        "{0 1.5,1 green,2 1}\n{0 -2,1 red,2 0}\n",
        "{ 2 1 , 0\t1.5 , 1 'green' } % comment\n{0 \"-2\"}\n",
        "1.5,green,1\n{0 -2}\n",
        "1.5,green,1,{5}\n-2,red,0, {0.5}\n",
        "{0 1.5, 1 green, 2 1}, {5}\n{0 -2}\n",
    ],
)
def test_the_same_rows_however_they_are_written(tmp_path, rows):
    assert parse(tmp_path, HEADER + rows).values.tolist() == [[1.5, 1, 1], [-2, 0, 0]]


@pytest.mark.parametrize("rows", ["?,?,?\n", "{0 ?, 1 ?, 2 ?}\n", " ? ,\t?, ?\n"])
def test_missing_values(tmp_path, rows):
    assert np.isnan(parse(tmp_path, HEADER + rows).values).all()


def test_omitted_values_are_zero_or_the_first_of_the_declared(tmp_path):
    header = "@relation x\n@attribute a numeric\n@attribute b {1,0}\n@attribute c {x,y}\n@data\n"
    content = parse(tmp_path, header + "{}\n{ }\n{2 y}\n")
    assert content.values.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert content.attributes[1].values == ("1", "0")


def test_a_quoted_question_mark_is_a_value(tmp_path):
    content = parse(tmp_path, "@relation x\n@attribute a {'?',b}\n@data\n'?'\n?\nb\n{0 '?'}\n")
    assert content.values[[0, 2, 3], 0].tolist() == [0, 1, 0]
    assert np.isnan(content.values[1, 0])


def test_commas_braces_percents_and_quotes_within_quotes(tmp_path):
    header = (
        "@relation x\n@attribute a {'a,b','c}d','e%f','it\\'s',\"say \\\"x\\\"\",'back\\\\slash'}\n@attribute n real\n@data\n"
    )
    rows = ["'a,b',1", "'c}d',2", "'e%f',3", "'it\\'s',4", '"say \\"x\\"",5', "'back\\\\slash',6", '"it\'s",7']
    sparse = ["{0 'a,b', 1 1}", "{0 'c}d', 1 2}", "{0 'e%f',1 3}", "{0 'it\\'s',1 4}"]
    content = parse(tmp_path, header + "\n".join(rows + sparse))
    assert content.attributes[0].values == ("a,b", "c}d", "e%f", "it's", 'say "x"', "back\\slash")
    assert content.values.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [3, 7], [0, 1], [1, 2], [2, 3], [3, 4]]


def test_no_rows_are_a_table_too(tmp_path):
    assert parse(tmp_path, HEADER).values.shape == (0, 3)


def test_more_rows_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.data.readers.arff_file.BLOCK_CELLS", 7)
    rows = "".join(f"{number},green,1\n" if number % 3 else f"{{0 {number}}}\n" for number in range(20))
    assert parse(tmp_path, HEADER + rows).values[:, 0].tolist() == list(range(20))


@given(
    st.lists(
        st.tuples(
            st.floats(-1e6, 1e6, width=32) | st.none(), st.sampled_from(["", "a b", "it's", "x,y", "50%", "?", "{1}", "\\"])
        ),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_what_is_quoted_comes_back(tmp_path_factory, rows):
    def quoted(text):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    values = sorted({text for _, text in rows} | {"other"})
    header = f"@relation x\n@attribute n real\n@attribute v {{{','.join(map(quoted, values))}}}\n@data\n"
    dense = "".join(f"{'?' if number is None else number},{quoted(text)}\n" for number, text in rows)
    sparse = "".join(f"{{0 {'?' if number is None else number}, 1 {quoted(text)}}}\n" for number, text in rows)
    content = parse(tmp_path_factory.mktemp("arff"), header + dense + sparse)
    expected = [[np.nan if number is None else number, values.index(text)] for number, text in rows * 2]
    np.testing.assert_array_equal(content.values, np.array(expected, np.float32).reshape(-1, 2))


# Headers


def test_keywords_in_any_case_types_comments_and_quotes(tmp_path):
    text = """% first a comment
@RELATION 'my leaves'

@Attribute a NUMERIC   % trailing
@attribute\tb\tReal
@ATTRIBUTE 'c d' Integer
@attribute "e\\"f" string
@attribute when date "yyyy-MM-dd"
@attribute kind{x, 'y z' ,"w"}
  @attribute g { 0 , 1 }
@DATA
1,2,3,text,'2020-01-01','y z',1
"""
    content = parse(tmp_path, text)
    assert content.relation == "my leaves"
    assert content.attributes == [
        Attribute("a", "numeric"),
        Attribute("b", "numeric"),
        Attribute("c d", "numeric"),
        Attribute('e"f', "text"),
        Attribute("when", "text"),
        Attribute("kind", "nominal", ("x", "y z", "w")),
        Attribute("g", "nominal", ("0", "1")),
    ]
    assert content.values.tolist() == [[1, 2, 3, 0, 0, 1, 1]]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    assert parse(tmp_path, "\ufeff" + HEADER).relation == "leaves"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "leaves.arff: expected a line @data, got none"),
        ("@relation x\n@attribute a numeric\n1\n", "line 3: expected @relation, @attribute or @data, got '1'"),
        ("@relation x\n@data\n", "expected @attribute lines before @data, got none"),
        (
            "@attribute a numeric\n@attribute a real\n@data\n",
            "expected attributes with different names, got 'a' more than once",
        ),
        ("@attribute a relational\n@data\n", r"line 1: expected numeric, real, integer, string, date or {values} as the type"),
        ("@attribute a\n@data\n", "line 1: expected numeric, real"),
        ("@attribute a {0,1\n@data\n", "line 1: expected } after the values"),
        ("@attribute\n@data\n", "line 1: expected a name"),
        (HEADER + "1,red\n", "line 6: expected 3 values, got 2 in '1,red'"),
        (HEADER + "1,red,0\n1,red,0,7\n", "line 7: expected 3 values, got 4"),
        (HEADER + "1,red,0\n1,pink,0\n", "line 7: expected one of red, green, blue for 'colour', got 'pink'"),
        (HEADER + "1,red,0\n\nwide,red,0\n", "line 8: expected a number for 'width', got 'wide'"),
        (HEADER + "1,,0\n", "line 6: expected one of red, green, blue for 'colour', got ''"),
        (HEADER + "{0 1, 3 1}\n", "line 6: expected an index from 0 to 2 before each value, got '3 1'"),
        (HEADER + "{-1 1}\n", "line 6: expected an index from 0 to 2"),
        (HEADER + f"{{{'1' * 5000} 1}}\n", "line 6: expected an index from 0 to 2"),
        (HEADER + "1_000,red,0\n", "line 6: expected a number for 'width', got '1_000'"),
        (HEADER + "1,red,0\n{0 1_0}\n", "line 7: expected a number for 'width', got '1_0'"),
        ("@attribute 'a numeric\n@data\n", "line 1: expected a quote at the end of the name"),
        ("@attribute \"a' real\n@data\n", "line 1: expected a quote at the end of the name"),
        (HEADER + "{width 1}\n", "line 6: expected an index from 0 to 2"),
        (HEADER + "{0 1,0 2}\n", "line 6: expected each index once, got 0 again"),
        (HEADER + "{0 1\n", "line 6: expected } at the end of the row"),
        (HEADER + "{0 1} 5\n", "line 6: expected the end of the row after }"),
        (HEADER + "{0}\n", "line 6: expected a number for 'width', got ''"),
        (HEADER + "1,'red,0\n", "line 6: expected a quote at the end of the value"),
        (HEADER + "1,'red'x,0\n", "line 6: expected a comma between values"),
    ],
)
def test_odd_files_are_refused_with_the_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        parse(tmp_path, text)


def test_underscores_in_names_are_no_matter(tmp_path):
    content = parse(tmp_path, "@relation x\n@attribute a_b {x_1,y}\n@attribute n real\n@data\nx_1,?\ny,7\n")
    assert content.values[:, 0].tolist() == [0, 1]
    assert np.isnan(content.values[0, 1])
    assert content.values[1, 1] == 7


def test_a_small_file_that_stands_for_too_many_zeros_is_refused_before_they_are_made(tmp_path):
    attributes = "".join(f"@attribute a{number} real\n" for number in range(60_000))
    with pytest.raises(InputError, match=r"expected at most 2,147,483,648 values, .* got 40,000 rows of 60,000: leave out"):
        parse(tmp_path, f"@relation x\n{attributes}@data\n" + "{}\n" * 40_000)


def test_other_encodings_and_absent_files_are_refused(tmp_path):
    (tmp_path / "x.arff").write_bytes("@relation été".encode("latin-1"))
    with pytest.raises(InputError, match=r"x.arff: .*got other bytes"):
        read_arff_file(tmp_path / "x.arff")
    with pytest.raises(InputError, match=r"y.arff: expected an ARFF file: No such file"):
        read_arff_file(tmp_path / "y.arff")


# Label lists


@pytest.mark.parametrize(
    "text",
    [
        xml("oak", "elm tree"),
        xml("oak", "elm tree", opening="<labels>"),
        f'<labels {XMLNS}><label name="oak"><label name="elm tree"/></label></labels>',
        f'<m:labels {XMLNS.replace("xmlns", "xmlns:m")}><m:label name="oak"/><m:label name="elm&#32;tree"/></m:labels>',
    ],
)
def test_labels_with_a_namespace_or_none_nested_or_flat(tmp_path, text):
    assert read_label_names(write(tmp_path, text, "x.xml")) == ["oak", "elm tree"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '<!DOCTYPE labels [<!ENTITY a "b">]><labels><label name="&a;"/></labels>',
            "got a document type declaration, which is refused",
        ),
        ('<!DOCTYPE labels SYSTEM "file:///etc/hostname"><labels/>', "got a document type declaration"),
        ("<labels/>", "expected elements called label, got none"),
        ("<labels><label/></labels>", "expected a name for every label, got none in line 1"),
        ('<labels><label name="a"/><label name="a"/></labels>', "expected labels with different names, got 'a' more than once"),
        ("<labels>", "x.xml: cannot be read as XML: no element found"),
        ("", "cannot be read as XML"),
    ],
)
def test_odd_label_lists_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_label_names(write(tmp_path, text, "x.xml"))


def test_a_document_type_in_another_encoding_is_refused_too(tmp_path):
    text = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE labels [<!ENTITY a "b">]><labels><label name="&a;"/></labels>'
    (tmp_path / "x.xml").write_bytes(text.encode("utf-16"))
    with pytest.raises(InputError, match="document type"):
        read_label_names(tmp_path / "x.xml")


@pytest.mark.parametrize("encoding", ["bogus", "utf-7", "shift_jis", "idna", "rot13", "punycode", "hex"])
def test_encodings_that_no_list_is_in_are_refused(tmp_path, encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?><labels><label name="\u00e9"/></labels>'
    with pytest.raises(InputError, match=r"x.xml: cannot be read as XML"):
        read_label_names(write(tmp_path, text, "x.xml"))


def test_a_huge_or_absent_label_list_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.data.readers.mulan_labels.MOST_BYTES", 10)
    with pytest.raises(InputError, match=r"expected a list of labels, got .* bytes"):
        read_label_names(write(tmp_path, xml("a"), "x.xml"))
    with pytest.raises(InputError, match=r"y.xml: expected an XML file of labels"):
        read_label_names(tmp_path / "y.xml")
