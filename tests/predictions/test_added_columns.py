"""Copies of files of scores with further columns: everything else is as it was, in every format."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.predictions.added_columns import check_copy, copy_with_columns

ROWS = np.array([0, 2])
ADDED = {"weight": np.array([0.5, 2.0]), "votes_elm": np.array([3.0, 0.25])}


def foreign(folder, suffix):
    """Scores of another program with a column that is nothing to us, and how they are read."""
    scores, note = np.array([[0.9, 0.1], [0.25, 0.75], [0.5, 0.5]]), ["007", "x,y", 'say "a"']
    path = folder / f"old{suffix}"
    frame = pd.DataFrame(
        {"id": ["a", "b", "c"], "note": note, "p_ash": scores[:, 0], "p_elm": scores[:, 1], "weight": [1, 1, 1]}
    )
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        arrays = {"p": scores, "site": np.array([7, 8, 9]), "classes": np.array([1, 2]), "weight": np.ones(3)}
        np.savez(path, **arrays) if suffix == ".npz" else save_file(arrays, path, {"made": "by hand"})
    return path, {"link": "identity", "scores_key": "p" if suffix in (".npz", ".safetensors") else "p_*"}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".safetensors"])
def test_what_another_program_wrote_is_kept_as_it_is(tmp_path, suffix):
    path, keys = foreign(tmp_path, suffix)
    before, rows = path.read_bytes(), Predictions.load(path, **keys)
    out = tmp_path / f"new{suffix}"
    copy_with_columns(path, out, rows, ADDED, ROWS)
    found = Predictions.load(out, **keys, columns=list(ADDED))
    assert path.read_bytes() == before
    np.testing.assert_array_equal(found.scores, rows.scores[ROWS])
    for name, values in ADDED.items():
        np.testing.assert_array_equal(found.columns[name], values)
    if suffix == ".csv":
        assert out.read_text().splitlines()[0] == "id,note,p_ash,p_elm,weight,votes_elm"
        assert pd.read_csv(out, dtype=str)["note"].tolist() == ["007", 'say "a"']
    elif suffix == ".parquet":
        assert pq.read_table(out)["note"].to_pylist() == ["007", 'say "a"']
        assert pq.read_table(out).column_names == ["id", "note", "p_ash", "p_elm", "weight", "votes_elm"]
    else:
        arrays = dict(np.load(out)) if suffix == ".npz" else load_file(out)
        assert arrays["site"].tolist() == [7, 9]
        assert arrays["classes"].tolist() == [1, 2]


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".safetensors"])
@pytest.mark.parametrize("to", [".parquet", ".npz", ".safetensors"])
def test_a_file_of_ours_keeps_everything_and_may_become_another(tmp_path, suffix, to):
    rows = Predictions(
        [[2.0, 0.0], [0.0, 1.0], [0.5, 0.25]],
        [0, 1, 1],
        ["ash", "elm"],
        "softmax",
        ["a", "b", "c"],
        columns={"site": ["n", "s", "n"]},
    )
    path, out = tmp_path / f"old{suffix}", tmp_path / f"new{to}"
    rows.save(path)
    check_copy(path, out)
    copy_with_columns(path, out, Predictions.load(path), ADDED, ROWS)
    found = Predictions.load(out)
    assert found.ids == ("a", "c")
    assert found.target.tolist() == [0, 1]
    assert found.columns["site"].tolist() == ["n", "n"]
    assert {name: found.columns[name].tolist() for name in ADDED} == {name: values.tolist() for name, values in ADDED.items()}
    assert found.link == rows.link or repr(found.link) == repr(rows.link)
    with pytest.raises(InputError, match="cannot write .*new.csv: expected a name that ends in .safetensors"):
        check_copy(path, tmp_path / "new.csv")


def test_numbers_have_the_delimiter_and_the_decimal_point_of_the_others(tmp_path):
    path, out = tmp_path / "old.csv", tmp_path / "new.csv"
    path.write_bytes("\ufeffid;p_ash;p_elm\r\n01;0,25;0,75\r\n\r\n02;0,5;0,5\r\n".encode())
    keys = {"link": "identity", "scores_key": "p_*"}
    copy_with_columns(path, out, Predictions.load(path, **keys), {"weight": np.array([1.5, 2.0])})
    assert out.read_text().splitlines() == ["id;p_ash;p_elm;weight", "01;0,25;0,75;1,5", "02;0,5;0,5;2"]
    found = Predictions.load(out, **keys, columns=["weight"])
    assert found.columns["weight"].tolist() == [1.5, 2.0]
    assert found.ids == ("01", "02")


def test_names_of_as_many_classes_as_rows_are_no_rows(tmp_path):
    names = np.array(["ash", "elm", "oak"])
    np.savez(tmp_path / "old.npz", scores=np.eye(3), classes=names, site=np.array([7, 8, 9]))
    rows = Predictions.load(tmp_path / "old.npz", link="identity")
    copy_with_columns(tmp_path / "old.npz", tmp_path / "new.npz", rows, {"weight": np.array([2.0])}, np.array([1]))
    found = Predictions.load(tmp_path / "new.npz", link="identity", columns=["weight", "site"])
    assert found.classes == tuple(names)
    assert (len(found), found.columns["site"].tolist(), found.columns["weight"].tolist()) == (1, [8], [2.0])


def test_a_copy_has_the_form_of_its_original(tmp_path):
    path, _ = foreign(tmp_path, ".csv")
    with pytest.raises(InputError, match="expected a name that ends in .csv as that of .*old.csv does, .*got .*new.parquet"):
        check_copy(path, tmp_path / "new.parquet")
    with pytest.raises(InputError, match="columns: expected other names than those that files use themselves, got 'target'"):
        copy_with_columns(path, tmp_path / "new.csv", None, {"target": np.ones(3)})
    assert not (tmp_path / "new.csv").exists()


def test_arrow_types_of_other_columns_stay(tmp_path):
    table = pa.table({"p_ash": [0.5, 0.25], "p_elm": [0.5, 0.75], "size": pa.array([1, 2], pa.int8())})
    pq.write_table(table, tmp_path / "old.parquet")
    rows = Predictions.load(tmp_path / "old.parquet", link="identity", scores_key="p_*")
    copy_with_columns(tmp_path / "old.parquet", tmp_path / "new.parquet", rows, {"weight": np.ones(2)})
    assert pq.read_schema(tmp_path / "new.parquet").field("size").type == pa.int8()
