"""Copies of files of scores with further columns: everything else is as it was, in every format."""

import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.predictions.added_columns import check_added, check_copy, copy_with_columns
from shortlist.predictions.stored import Keys

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
    with pytest.warns(ShortlistWarning, match=r"1 column is replaced in the copy \('weight'\)"):
        copy_with_columns(path, out, rows, ADDED, Keys(keys["scores_key"]), ROWS)
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
    copy_with_columns(path, out, Predictions.load(path), ADDED, Keys(), ROWS)
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
    copy_with_columns(path, out, Predictions.load(path, **keys), {"weight": np.array([1.5, 2.0])}, Keys("p_*"))
    assert out.read_text().splitlines() == ["id;p_ash;p_elm;weight", "01;0,25;0,75;1,5", "02;0,5;0,5;2"]
    found = Predictions.load(out, **keys, columns=["weight"])
    assert found.columns["weight"].tolist() == [1.5, 2.0]
    assert found.ids == ("01", "02")


def test_names_of_as_many_classes_as_rows_are_no_rows(tmp_path):
    names = np.array(["ash", "elm", "oak"])
    np.savez(tmp_path / "old.npz", scores=np.eye(3), classes=names, prior=np.ones(3) / 3, site=np.array([7, 8, 9]))
    rows = Predictions.load(tmp_path / "old.npz", link="identity")
    with pytest.warns(
        ShortlistWarning, match="as many rows as classes: the entries of 'prior', 'site' are taken for those of rows"
    ):
        copy_with_columns(tmp_path / "old.npz", tmp_path / "new.npz", rows, {"weight": np.array([2.0])}, Keys(), np.array([1]))
    found = Predictions.load(tmp_path / "new.npz", link="identity", columns=["weight", "site"])
    assert found.classes == tuple(names)
    assert (len(found), found.columns["site"].tolist(), found.columns["weight"].tolist()) == (1, [8], [2.0])


def test_a_copy_has_the_form_of_its_original(tmp_path):
    path, _ = foreign(tmp_path, ".csv")
    with pytest.raises(InputError, match="expected a name that ends in .csv as that of .*old.csv does, .*got .*new.parquet"):
        check_copy(path, tmp_path / "new.parquet")
    with pytest.raises(InputError, match="columns: expected other names than those that files use themselves, got 'target'"):
        copy_with_columns(path, tmp_path / "new.csv", None, {"target": np.ones(3)}, Keys("p_*"))
    assert not (tmp_path / "new.csv").exists()


def test_arrow_types_of_other_columns_stay(tmp_path):
    table = pa.table({"p_ash": [0.5, 0.25], "p_elm": [0.5, 0.75], "size": pa.array([1, 2], pa.int8())})
    pq.write_table(table, tmp_path / "old.parquet")
    rows = Predictions.load(tmp_path / "old.parquet", link="identity", scores_key="p_*")
    copy_with_columns(tmp_path / "old.parquet", tmp_path / "new.parquet", rows, {"weight": np.ones(2)}, Keys("p_*"))
    assert pq.read_schema(tmp_path / "new.parquet").field("size").type == pa.int8()


def test_what_is_read_of_a_file_is_never_replaced(tmp_path):
    path, out = tmp_path / "old.csv", tmp_path / "new.csv"
    path.write_text("plate,height,weight,sharp,y,note\n1,0.5,0.5,1,height,x\n")
    every = {"link": "identity", "target_key": "y", "ids_key": "plate", "quality_key": "sharp"}
    keys = Keys("*ei*", "y", "plate", "sharp")
    rows = Predictions.load(path, scores_key="*ei*", **every)
    for name in ("height", "weight", "sharp", "y", "plate"):
        with pytest.raises(InputError, match=f"columns: expected other names than those of .*old.csv that .*, got '{name}'"):
            copy_with_columns(path, out, rows, {name: np.ones(1)}, keys)
    assert not out.exists()
    check_added(path, ["votes"], keys)
    with pytest.warns(ShortlistWarning, match=r"old.csv: 1 column is replaced in the copy \('note'\)"):
        copy_with_columns(path, out, rows, {"note": np.ones(1)}, keys)
    np.savez(tmp_path / "old.npz", prob=np.eye(2), names=np.array(["a", "b"]), label=np.array([0, 1]))
    for name in ("prob", "names", "label"):
        with pytest.raises(InputError, match=f"got '{name}'"):
            check_added(tmp_path / "old.npz", [name], Keys("prob", "label", "names"))


def test_a_column_of_ours_that_is_replaced_is_named(tmp_path):
    rows = Predictions(np.eye(2), link="identity", columns={"weight": [1, 2], "site": [3, 4]})
    rows.save(tmp_path / "old.npz")
    with pytest.warns(ShortlistWarning, match=r"1 column is replaced in the copy \('weight'\)"):
        copy_with_columns(tmp_path / "old.npz", tmp_path / "new.npz", rows, {"weight": np.ones(2)}, Keys())
    assert list(Predictions.load(tmp_path / "new.npz").columns) == ["weight", "site"]


def test_only_scores_and_quality_tell_the_decimal_point_of_a_copy(tmp_path):
    path, out = tmp_path / "old.csv", tmp_path / "new.csv"
    path.write_text("id;p_ash;p_elm;note\n0.5;0,25;0,75;1.5\n1.5;0,5;0,5;2.5\n")
    rows = Predictions.load(path, scores_key="p_*", link="identity")
    copy_with_columns(path, out, rows, {"weight": np.array([1.5, 0.25])}, Keys("p_*"))
    found = Predictions.load(out, scores_key="p_*", link="identity", columns=["weight"])
    assert found.columns["weight"].tolist() == [1.5, 0.25]
    assert found.ids == ("0.5", "1.5")


def test_arrays_of_any_name_and_type_are_copied(tmp_path):
    arrays = {"file": np.array(["a", "b"]), "args": np.array([1, 2], np.int8), "kwds": np.array(3.5), "allow_pickle": np.eye(2)}
    with zipfile.ZipFile(tmp_path / "old.npz", "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asfortranarray(array))
    rows = Predictions.load(tmp_path / "old.npz", scores_key="allow_pickle", ids_key="file", link="identity")
    keys = Keys("allow_pickle", None, "file")
    copy_with_columns(tmp_path / "old.npz", tmp_path / "new.npz", rows, {"weight": np.array([0.5, 2])}, keys)
    with np.load(tmp_path / "new.npz", allow_pickle=False) as found:
        assert list(found) == [*arrays, "weight"]
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)


def test_python_objects_are_not_copied(tmp_path):
    np.savez(tmp_path / "old.npz", scores=np.eye(2), note=np.array([{"a": 1}, None]))
    rows = Predictions.load(tmp_path / "old.npz", link="identity")
    with pytest.raises(InputError, match="cannot read .*old.npz as npz: Object arrays cannot be loaded"):
        copy_with_columns(tmp_path / "old.npz", tmp_path / "new.npz", rows, {"weight": np.ones(2)}, Keys())
    assert not (tmp_path / "new.npz").exists()


def test_cells_with_a_carriage_return_are_one_cell_of_the_copy(tmp_path):
    path, out = tmp_path / "old.csv", tmp_path / "new.csv"
    path.write_bytes(b'id,p_ash,p_elm,note\r\n"a\rb",0.5,0.5,"c\r\nd"\r\n')
    rows = Predictions.load(path, scores_key="p_*", link="identity")
    copy_with_columns(path, out, rows, {"weight": np.array([2])}, Keys("p_*"))
    assert out.read_bytes() == b'id,p_ash,p_elm,note,weight\n"a\rb",0.5,0.5,"c\r\nd",2\n'
    assert Predictions.load(out, scores_key="p_*", link="identity").ids == ("a\rb",)


def test_damage_in_a_column_that_is_only_copied_is_noticed(tmp_path):
    path, out = tmp_path / "old.parquet", tmp_path / "new.parquet"
    table = pa.table({"p_ash": [0.5] * 9, "p_elm": [0.5] * 9, "note": [f"note number {row}" for row in range(9)]})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    rows = Predictions.load(path, scores_key="p_*", link="identity")
    damaged = bytearray(path.read_bytes())
    damaged[damaged.find(b"note number 4")] ^= 2
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="cannot read .*old.parquet as parquet: .*CRC"):
        copy_with_columns(path, out, rows, {"weight": np.ones(9)}, Keys("p_*"))
    assert not out.exists()


def test_what_is_no_text_and_no_array_is_copied_as_it_is(tmp_path):
    (tmp_path / "old.csv").write_bytes(b"id,p_ash,p_elm,note\nx,0.5,0.5,caf\xe9\n")
    rows = Predictions.load(tmp_path / "old.csv", scores_key="p_*", link="identity")
    copy_with_columns(tmp_path / "old.csv", tmp_path / "new.csv", rows, {"weight": np.ones(1)}, Keys("p_*"))
    assert (tmp_path / "new.csv").read_bytes() == b"id,p_ash,p_elm,note,weight\nx,0.5,0.5,caf\xe9,1\n"
    np.savez(tmp_path / "old.npz", scores=np.eye(2))
    with zipfile.ZipFile(tmp_path / "old.npz", "a") as archive:
        archive.writestr("README.txt", "by hand")
    rows = Predictions.load(tmp_path / "old.npz", link="identity")
    copy_with_columns(tmp_path / "old.npz", tmp_path / "new.npz", rows, {"weight": np.ones(2)}, Keys())
    with np.load(tmp_path / "new.npz") as found:
        assert (list(found), found["README.txt"]) == (["scores", "README.txt", "weight"], b"by hand")


def test_cells_that_are_too_long_to_be_copied_are_refused(tmp_path):
    (tmp_path / "old.csv").write_text(f"id,p_ash,p_elm,note\nx,0.5,0.5,{'z' * 2**18}\n")
    rows = Predictions.load(tmp_path / "old.csv", scores_key="p_*", link="identity")
    with pytest.raises(InputError, match="old.csv: cannot be copied: field larger than field limit"):
        copy_with_columns(tmp_path / "old.csv", tmp_path / "new.csv", rows, {"weight": np.ones(1)}, Keys("p_*"))
    assert not (tmp_path / "new.csv").exists()
