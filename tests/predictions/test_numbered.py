"""Classes that are named by numbers: labels go by those names."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from shortlist import Predictions
from shortlist.errors import InputError


def in_csv(path, names, labels):
    lines = [",".join([*(f"p_{name}" for name in names), "target"])]
    lines += [",".join(["0.5"] * len(names) + [label]) for label in labels]
    path.write_text("\n".join(lines) + "\n")


def in_parquet(path, names, labels):
    pq.write_table(pa.table({f"p_{name}": [0.5] * len(labels) for name in names} | {"target": labels}), path)


def load(path):
    return Predictions.load(path, scores_key="p_*", link="identity")


TEXTS = [
    (["0", "10", "1"], ["10", "1", "0"], [1, 2, 0]),
    (["1.0", "0.0"], ["1", "0"], [0, 1]),
    (["1", "-1"], ["-1", "1", "-1"], [1, 0, 1]),
    (["1", "01"], ["01", "1"], [1, 0]),
    (["01", "02", "1"], ["02", "1", "01"], [1, 2, 0]),
    (["0", "1", "2"], ["2", "0"], [2, 0]),
    (["1", "2", "other"], ["1", "2"], [0, 1]),
    (["1", "2", "other"], ["other", "2"], [2, 1]),
    (["0.5", "0.25"], ["0.25", "0.50"], [1, 0]),
]


@pytest.mark.parametrize(("names", "labels", "places"), [*TEXTS, (["cat", "1", "2"], ["0", "2"], [0, 2])])
def test_labels_of_a_csv_file_go_by_names_that_are_numbers(tmp_path, names, labels, places):
    in_csv(tmp_path / "a.csv", names, labels)
    assert load(tmp_path / "a.csv").target.tolist() == places


@pytest.mark.parametrize(("names", "labels", "places"), TEXTS)
def test_texts_of_a_parquet_file_go_by_names_that_are_numbers(tmp_path, names, labels, places):
    in_parquet(tmp_path / "a.parquet", names, labels)
    assert load(tmp_path / "a.parquet").target.tolist() == places


@pytest.mark.parametrize(
    ("names", "labels", "places"),
    [
        (["0", "10", "1"], [10, 1, 0], [1, 2, 0]),
        (["1.0", "0.0"], [1, 0], [0, 1]),
        (["1", "-1"], [-1, 1], [1, 0]),
        (["02", "01"], [1, 2], [1, 0]),
        (["1", "2", "other"], [2, 1], [1, 0]),
        (["cat", "1", "2"], [0, 2], [0, 2]),
    ],
)
def test_numbers_of_a_parquet_file_go_by_names_that_are_numbers(tmp_path, names, labels, places):
    in_parquet(tmp_path / "a.parquet", names, labels)
    assert load(tmp_path / "a.parquet").target.tolist() == places
    in_parquet(tmp_path / "b.parquet", names, [[label] for label in labels])
    assert load(tmp_path / "b.parquet").target.int().argmax(1).tolist() == places


@pytest.mark.parametrize(
    ("names", "label"),
    [(["1", "2"], "0"), (["01", "1.0"], "1"), (["2", "3", "other"], "cat"), (["9007199254740992", "5"], "9007199254740993")],
)
def test_a_label_that_is_no_name_or_two_is_refused(tmp_path, names, label):
    in_csv(tmp_path / "a.csv", names, [label])
    with pytest.raises(InputError, match=f"target: expected .*got '{label}'"):
        load(tmp_path / "a.csv")


def test_an_empty_label_in_a_list_is_refused(tmp_path):
    in_parquet(tmp_path / "a.parquet", ["1", "2"], [[1, None], [2, 1]])
    with pytest.raises(InputError, match="target: .*got 1 null"):
        load(tmp_path / "a.parquet")


def in_arrays(path, names, labels):
    arrays = {"scores": np.full((len(labels), len(names)), 0.5), "target": np.array(labels), "classes": np.array(names)}
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize(
    ("names", "labels", "places"),
    [
        ([1, 2, 3], [1, 2, 1, 2], [0, 1, 0, 1]),
        ([4, 2, 1, 3, 0], [0, 1, 2, 3, 4], [4, 2, 1, 3, 0]),
        ([-1, 1], [1, -1], [1, 0]),
        ([0, 1, 2], [2, 0], [2, 0]),
        ([1, 2, 3], [3.0, 1.0], [2, 0]),
        ([1, 2, 3], [[3], [1]], [2, 0]),
        ([1, 2], [[1, 0], [0, 1]], [0, 1]),
    ],
)
def test_labels_of_arrays_go_by_classes_that_are_numbers(tmp_path, suffix, names, labels, places):
    in_arrays(tmp_path / f"a{suffix}", names, labels)
    found = Predictions.load(tmp_path / f"a{suffix}", link="identity")
    assert list(found.classes) == [str(name) for name in names]
    assert (found.target if found.target.ndim == 1 else found.target.int().argmax(1)).tolist() == places


@pytest.mark.parametrize(
    ("names", "labels", "places"),
    [
        (["1", "2", "3"], [1, 2], [0, 1]),
        (["02", "01"], [1, 2], [1, 0]),
        (["1", "2"], ["2", "1"], [1, 0]),
        (["1.0", "0.0"], ["1", "0"], [0, 1]),
        (["oak", "elm", "ash"], [1, 2], [1, 2]),
    ],
)
def test_labels_of_an_npz_file_go_by_texts_that_are_numbers(tmp_path, names, labels, places):
    in_arrays(tmp_path / "a.npz", names, labels)
    assert Predictions.load(tmp_path / "a.npz", link="identity").target.tolist() == places


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_label_that_is_no_class_of_the_arrays_is_refused(tmp_path, suffix):
    in_arrays(tmp_path / f"a{suffix}", [1, 2, 3], [1, 0])
    with pytest.raises(InputError, match="target: expected .*'1', '2', '3'.*got '0'"):
        Predictions.load(tmp_path / f"a{suffix}", link="identity")


@pytest.mark.parametrize("names", [[1, 2], [1.0, 2.0, 3.0]])
def test_classes_of_a_foreign_safetensors_file_are_whole_numbers(tmp_path, names):
    arrays = {"scores": torch.full((2, 3), 0.5), "classes": torch.tensor(names)}
    save_file(arrays, tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="classes: expected whole numbers.*got"):
        Predictions.load(tmp_path / "a.safetensors", link="identity")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet"])
def test_labels_in_files_of_ours_are_places(tmp_path, suffix):
    written = Predictions(np.full((3, 3), 0.5), target=[1, 2, 0], classes=["1", "2", "3"], link="identity")
    written.save(tmp_path / f"a{suffix}")
    assert Predictions.load(tmp_path / f"a{suffix}").target.tolist() == [1, 2, 0]
