"""Scores as other programs write them: decimal commas, .npy, class names in a file of their own, labels that are names."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist import Predictions, evaluate
from shortlist.csv_files import csv_decimal_point, csv_start
from shortlist.data.readers.feature_table import read_feature_table
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.metrics import TopKAccuracy, set_accuracy, top_k_accuracy
from shortlist.sets import lac

NAMES = ["ash", "elm", "oak"]
PROBS = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])
TARGET = np.array([0, 1, 2, 1])
LABELS = [NAMES[label] for label in TARGET]


def frame():
    found = pd.DataFrame(PROBS, columns=[f"p.{name}" for name in NAMES])
    found["target"] = LABELS
    return found


# Decimal commas


@pytest.mark.parametrize(("sep", "decimal"), [(";", ","), ("\t", ","), (",", ","), (";", "."), (",", ".")])
def test_a_csv_file_may_have_decimal_commas(tmp_path, sep, decimal):
    path = tmp_path / "scores.csv"
    frame().to_csv(path, sep=sep, decimal=decimal, index=False)
    found = Predictions.load(path, scores_key="p.*", link="identity")
    assert np.array_equal(found.scores.numpy(), PROBS)
    assert found.target.tolist() == TARGET.tolist()


def test_features_may_have_decimal_commas(tmp_path):
    path = tmp_path / "leaves.csv"
    pd.DataFrame({"width": [1.5, 2.25], "length": [10.0, 0.5], "species": ["ash", "elm"]}).to_csv(
        path, sep=";", decimal=",", index=False
    )
    found = read_feature_table(path)
    assert found.splits["all"].inputs.tolist() == [[1.5, 10.0], [2.25, 0.5]]
    assert list(found.feature_names) == ["width", "length"]


@pytest.mark.parametrize(
    ("text", "point"),
    [("a;b\n0,5;1\n", ","), ("a;b\n0,5;1.5\n", "."), ("a;b\n1;2\n", "."), ("a;b\n1,2,3;x,5\n", "."), ('a,b\n"0,5",1\n', ",")],
)
def test_the_decimal_point_is_a_comma_only_if_numbers_say_so(tmp_path, text, point):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert csv_decimal_point(path, ";" if ";" in text else ",") == point


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (['"1,234",2', '"12,345",3'], None),  # a thousand and more, or a little more than 1
        (['"1,234",2', '"0,500",3'], [[1.234, 2], [0.5, 3]]),
        (['"-1,234",2', '"1,5",3'], [[-1.234, 2], [1.5, 3]]),
        (['"1234,567",2', "7,3"], [[1234.567, 2], [7, 3]]),
        (['"1,234,567",2', "7,3"], None),
        (["1,234;2", "5;3"], [[1.234, 2], [5, 3]]),  # programs write semicolons where the comma is the decimal point
    ],
)
def test_a_comma_that_may_separate_thousands_is_not_guessed(tmp_path, rows, expected):
    mark = ";" if ";" in rows[0] else ","
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"a{mark}b", *rows]) + "\n")
    (tmp_path / "f.csv").write_text("\n".join([f"a{mark}b{mark}label", *(f"{row}{mark}oak" for row in rows)]) + "\n")
    if expected is None:
        for read in (lambda: Predictions.load(path, scores_key="*"), lambda: read_feature_table(tmp_path / "f.csv")):
            with pytest.raises(
                InputError, match=r"1,234.*without what separates thousands|1,234,567.*leave out what separates"
            ):
                read()
    else:
        wanted = torch.tensor(expected)
        assert torch.allclose(Predictions.load(path, scores_key="*").scores.float(), wanted)
        assert torch.equal(read_feature_table(tmp_path / "f.csv").splits["all"].inputs, wanted)


@pytest.mark.parametrize("column", ["id", "target", "weight"])
def test_names_and_labels_do_not_decide_the_decimal_point(tmp_path, column):
    """1.5 may be the name of a class or of a row, or in a column that is not read."""
    path, given = tmp_path / "scores.csv", frame()
    if column == "target":
        given = given.rename(columns={"p.elm": "p.1.5"}).assign(target=[label.replace("elm", "1.5") for label in LABELS])
    else:
        given[column] = [f"{row}.5" for row in range(len(given))]
    given.to_csv(path, sep=";", decimal=",", index=False)
    found = Predictions.load(path, scores_key="p.*", link="identity")
    assert np.array_equal(found.scores.numpy(), PROBS)
    assert found.target.tolist() == TARGET.tolist()


def test_labels_of_tables_of_features_do_not_decide_it_either(tmp_path):
    path = tmp_path / "leaves.csv"
    path.write_text("width;species;id\n1,5;1.5;3.2\n2,25;2.5;4.2\n")
    found = read_feature_table(path)
    assert found.splits["all"].inputs.tolist() == [[1.5], [2.25]]
    assert found.classes == ["1.5", "2.5"]


def test_decimal_commas_may_come_late(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("p.ash;p.elm\n" + "0;1\n" * 500 + "0,25;0,75\n")
    assert Predictions.load(path, scores_key="p.*", link="identity").scores[-1].tolist() == [0.25, 0.75]


def test_a_comma_in_a_name_does_not_hide_that_cells_are_separated_by_semicolons(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("p.ash, common;p.elm;target\n0.25;0.75;elm\n")
    found = Predictions.load(path, scores_key="p.*", link="identity")
    assert found.classes == ("ash, common", "elm")
    assert found.target.tolist() == [1]
    path.write_text('note;p.ash, common;p.elm\n"first\nsecond";0,25;0,75\n')
    assert Predictions.load(path, scores_key="p.*", link="identity").classes == ("ash, common", "elm")
    path.write_text('note;p.ash, common;p.elm\n5" wide;0.25;0.75\n')  # a quote that nothing closes
    assert csv_start(path).endswith(b'5" wide;0.25;0.75\n')
    assert Predictions.load(path, scores_key="p.*", link="identity").classes == ("ash, common", "elm")
    path.write_text("width;leaf, old;species\n1.5;2;elm\n2.5;3;ash\n")
    assert read_feature_table(path).splits["all"].inputs.tolist() == [[1.5, 2], [2.5, 3]]


@pytest.mark.parametrize(
    "text",
    [
        'id;label;p_ash, common;"p_x\ny"\n1;ash, common;0.25;0.75\n',
        'id;label;"p_ash,\n\ncommon";p_elm\n\n1;elm;0.25;0.75\n',
        "\ufeff\nid;label;p_a;p_b\n1;a;0.25;0.75\n",
        "\ufeff\r\n\r\nid,label,p_a;1,p_b\r\n1,b,0.25,0.75\r\n",
        "id;label;p_ash, common;p_b\n1;ash, common;0.25;0.75\n",
        "id;label;p_ash, common;p_b\n1;ash, common;0,25;0,75\n",
        'id;label;p_5" leaf, old;p_b\n1;b;0.25;0.75\n2;b;0.25;0.75\n',
        'id\tlabel\tp_x,"y\tp_b\n1\tb\t0.25\t0.75\n2\tb\t0.5\t0.5\n',
        "label,p_a;1;2;3,p_b\na;1;2;3,0.25,0.75\n",
        "labels (a;b;c;d;e),label,p_a,p_b\n1;2;3;4;5,a,0.25,0.75\n",
    ],
)
def test_the_delimiter_is_told_from_all_lines_of_the_names_and_of_the_first_row(tmp_path, text):
    path = tmp_path / "scores.csv"
    path.write_bytes(text.encode())
    found = Predictions.load(path, scores_key="p_*", target_key="label", link="identity")
    assert found.scores[0].tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p.ash;p.elm\n0.5;0.5\n0,25;0,75\n", r"'p.ash', got '0,25' in row 1: .*all with a decimal comma"),
        ("p.ash,p.elm\n0,5,0,5\n", r"expected 2 cells in every row.* got 4 in 0,5,0,5: .*separate cells by ;"),
        ("p.ash,p.elm\n10%,90%\n", r"'p.ash', got '10%' in row 0: .*0\.1 for 10%"),
        ("p.ash;p.elm\n1.234,5;1\n", r"'p.ash', got '1.234,5' in row 0: .*thousands"),
        ("p.ash,p.elm\n0.5,high\n", r"'p.elm', got 'high' in row 0$"),
    ],
)
def test_what_is_no_number_is_named_with_what_to_do(tmp_path, text, told):
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        Predictions.load(path, scores_key="p.*", link="identity")


def test_tables_of_features_tell_the_same(tmp_path):
    path = tmp_path / "leaves.csv"
    path.write_text("width;species\n0.5;ash\n0,25;elm\n")
    with pytest.raises(InputError, match=r"got '0,25' in 'width': .*all with a decimal comma"):
        read_feature_table(path)
    path.write_text("width,species\n0,5,ash\n0,25,elm\n")
    with pytest.raises(InputError, match=r"expected 2 cells in every row.* got 3 in 0,5,ash: .*separate cells by ;"):
        read_feature_table(path)


# Arrays without a name


def test_npy_files_of_scores_and_labels(tmp_path):
    np.save(tmp_path / "scores.npy", PROBS.astype(np.float32))
    np.save(tmp_path / "labels.npy", TARGET)
    np.save(tmp_path / "names.npy", np.array(LABELS))
    bare = Predictions.load(tmp_path / "scores.npy", link="identity")
    assert bare.target is None
    assert bare.scores.dtype == torch.float32
    for key in ("labels.npy", tmp_path / "labels.npy"):
        found = Predictions.load(tmp_path / "scores.npy", target_key=str(key), link="identity", classes=NAMES)
        assert found.target.tolist() == TARGET.tolist()
        assert found.classes == tuple(NAMES)
    named = Predictions.load(tmp_path / "scores.npy", target_key="names.npy", link="identity", classes=NAMES)
    assert named.target.tolist() == TARGET.tolist()


def test_npy_files_that_cannot_be_used_are_refused(tmp_path):
    np.save(tmp_path / "scores.npy", PROBS)
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for key in ({"scores_key": "a"}, {"ids_key": "a"}, {"quality_key": "a"}):
        with pytest.raises(InputError, match=next(iter(key))):
            Predictions.load(tmp_path / "scores.npy", **key)
    with pytest.raises(InputError, match="target_key: .* no such file"):
        Predictions.load(tmp_path / "scores.npy", target_key="labels.npy")
    with pytest.raises(InputError, match="cannot read .*objects.npy"):
        Predictions.load(tmp_path / "objects.npy")


# Names of classes


def test_names_of_classes_for_a_file_without_them(tmp_path):
    np.savez(tmp_path / "scores.npz", scores=PROBS, target=TARGET)
    found = Predictions.load(tmp_path / "scores.npz", link="identity", classes=NAMES)
    assert found.classes == tuple(NAMES)
    assert found.target.tolist() == TARGET.tolist()
    with pytest.raises(InputError, match="classes: expected a name for each of the 3 columns of scores, got 2"):
        Predictions.load(tmp_path / "scores.npz", classes=NAMES[:2])
    frame().to_csv(tmp_path / "scores.csv", index=False)
    assert Predictions.load(tmp_path / "scores.csv", scores_key="p.*", classes=NAMES).classes == tuple(NAMES)
    with pytest.raises(InputError, match=r"classes: expected none, as the file names its classes \('ash'"):
        Predictions.load(tmp_path / "scores.csv", scores_key="p.*", classes=["a", "b", "c"])


# Labels that are names

FORMS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda names: np.array(names, dtype=object),
    "series": pd.Series,
    "categories": lambda names: pd.Series(pd.Categorical(names, categories=["oak", "elm", "ash"])),
    "frame": lambda names: pd.DataFrame({"species": names}),
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_may_be_names_of_classes(form):
    labels, probs = FORMS[form](LABELS), pd.DataFrame(PROBS, columns=NAMES)
    assert Predictions(PROBS, labels, classes=NAMES, link="identity").target.tolist() == TARGET.tolist()
    assert Predictions(probs, labels, link="identity").target.tolist() == TARGET.tolist()
    assert lac(0.25).fit(probs, labels).threshold == lac(0.25).fit(PROBS, TARGET).threshold
    assert evaluate(probs, labels, "top-k:1").coverage == 0.75
    assert set_accuracy(probs > 0.6, labels) == set_accuracy(PROBS > 0.6, TARGET)
    assert top_k_accuracy(probs, labels, k=1) == 0.75
    streamed = TopKAccuracy(k=1)
    streamed.update(probs, labels)
    assert streamed.compute() == 0.75
    scores, plain = pd.DataFrame(np.log(PROBS + 0.01), columns=NAMES), torch.tensor(TARGET)
    by_number = Temperature().fit(torch.tensor(scores.to_numpy()), plain)
    assert repr(Temperature().fit(scores, labels).state_dict()) == repr(by_number.state_dict())


def test_lists_of_names_are_any_number_of_labels():
    found = Predictions(PROBS, [["ash", "elm"], [], ["oak"], ["elm"]], classes=NAMES, link="identity")
    assert found.target.tolist() == [[True, True, False], [False] * 3, [False, False, True], [False, True, False]]


@pytest.mark.parametrize(
    ("label", "said"), [("elms", "did you mean 'elm'"), ("yew", "got 'yew' in row 3"), (None, "got None in row 3")]
)
def test_a_name_that_is_no_class_is_refused(label, said):
    with pytest.raises(InputError, match=said):
        Predictions(PROBS, [*LABELS[:3], label], classes=NAMES)


def test_names_without_a_list_of_classes_are_refused():
    with pytest.raises(InputError, match=r"target: .* name the classes"):
        lac(0.25).fit(PROBS, LABELS)


# The same on the command line


def test_the_program_reads_them(tmp_path, monkeypatch, capsys):
    from shortlist.cli import app

    monkeypatch.chdir(tmp_path)
    np.save("scores.npy", PROBS)
    np.save("labels.npy", TARGET)
    (tmp_path / "names.txt").write_text("ash\nelm\noak\n\n")
    (tmp_path / "names.json").write_text(json.dumps(NAMES))
    for names in ("names.txt", "names.json"):
        arguments = ["evaluate", "scores.npy", "--target-key", "labels.npy", "--link", "identity", "-r", "top-k:1"]
        app([*arguments, "--classes", names, "--per-class", "classes.csv"], standalone_mode=False)
        assert "ash" in (tmp_path / "classes.csv").read_text()
    app(["index", "build", "scores.npy", "trees.index", "--link", "identity", "--classes", "names.txt"], standalone_mode=False)
    app(["search", "oak", "trees.index", "--json"], standalone_mode=False)
    assert "0.75" in capsys.readouterr().out
    for text in ("", "ash\n\noak\n"):
        (tmp_path / "names.txt").write_text(text)
        with pytest.raises(InputError, match="--classes: expected a name on every line"):
            app([*arguments, "--classes", "names.txt"], standalone_mode=False)
    with pytest.raises(InputError, match="--classes: .*no such file"):
        app([*arguments, "--classes", "none.txt"], standalone_mode=False)
