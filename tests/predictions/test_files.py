"""Files: what goes in comes out, whichever format it passes through."""

import json
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.links import SPA, Beta, FocalRecovery, Isotonic, Platt, Quasibinary, Softmax, Temperature, VennAbers
from shortlist.predictions import PredictionsWriter, arrays, storage
from tests import warm

FORMATS = [".safetensors", ".npz", ".parquet"]
NAMES = ["Acer campestre", "Ñandú — 鳥", "a,b;c\"d'e", "scores.x", "  spaces  ", "🌿\n", "target", "id"]


def draw(rows, classes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, classes, generator=generator, dtype=torch.float64).to(dtype)


def targets(rows, classes):
    generator = torch.Generator().manual_seed(1)
    some = torch.rand(rows, classes, generator=generator) < 0.4
    some[: rows // 2] = False
    return {"none": None, "single": torch.randint(classes, (rows,), generator=generator), "many": some}


def fitted_links():
    scores, target = draw(60, 3), torch.arange(60) % 3
    scores[torch.arange(60), target] += 1
    many = torch.rand(60, 3, generator=torch.Generator().manual_seed(2)) < torch.sigmoid(scores)
    many[:, 2] = False  # a label that was never shown: NaN among the knots
    running = Quasibinary(0.8)
    running.update(scores, target)
    return {
        "none": None,
        "softmax": Softmax(),
        "spa": SPA(1, 2, 0.25, 4, 3, 0.1),
        "asy": FocalRecovery(0, 4, 0.05),
        "quasibinary": running,
        "temperature": Temperature().fit(scores, target),
        "temperature of quasibinary": Temperature(running).fit(scores, many),
        "platt": Platt().fit(scores, many),
        "isotonic": Isotonic().fit(scores, many),
        "beta": Beta().fit(scores, many),
        "venn-abers": VennAbers().fit(scores, many),
        "not fitted": Platt(),
    }


def assert_same(found, expected):
    assert found.scores.dtype == expected.scores.dtype
    assert torch.equal(found.scores, expected.scores)
    for name in ("target", "train_counts"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)
    assert found.classes == expected.classes
    assert found.ids == expected.ids
    assert found.superclasses == expected.superclasses
    assert (found.link is None) == (expected.link is None)
    if found.link is not None:
        assert found.link.config() == expected.link.config()
        states = found.link.state_dict(), expected.link.state_dict()
        assert list(states[0]) == list(states[1])
        for name in states[0]:
            torch.testing.assert_close(states[0][name], states[1][name], rtol=0, atol=0, equal_nan=True)


def through(predictions, folder, *suffixes):
    for place, suffix in enumerate(suffixes):
        path = folder / f"{place}{suffix}"
        predictions.save(path)
        predictions = Predictions.load(path)
    return predictions


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("form", ["none", "single", "many"])
@pytest.mark.parametrize(("rows", "classes"), [(7, 5), (3, 1200), (0, 5), (0, 1200), (1, 1)])
def test_round_trip_loses_nothing(tmp_path, suffix, dtype, form, rows, classes):
    predictions = Predictions(draw(rows, classes, dtype), targets(rows, classes)[form])
    assert_same(through(predictions, tmp_path, suffix), predictions)


@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("rows", [0, 4])
def test_going_from_one_format_to_another_and_back_loses_nothing(tmp_path, first, second, rows):
    full = Predictions(
        draw(rows, len(NAMES)),
        targets(rows, len(NAMES))["many"],
        classes=NAMES,
        link=SPA(),
        ids=["", "1", "ü/ö.jpg", "4\n"][:rows],
        train_counts=torch.arange(len(NAMES)),
    )
    assert_same(through(full, tmp_path, first, second, first), full)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", fitted_links())
def test_link_comes_back_with_what_was_fitted(tmp_path, suffix, name):
    predictions = Predictions(draw(5, 3), link=fitted_links()[name])
    found = through(predictions, tmp_path, suffix)
    assert_same(found, predictions)
    if name not in ("none", "not fitted"):
        assert torch.equal(found.probs(), predictions.probs())


@pytest.mark.parametrize("suffix", FORMATS)
def test_extreme_values_come_back_bit_for_bit(tmp_path, suffix):
    scores = torch.tensor([[-0.0, 5e-324, -1.7976931348623157e308, 0.1]], dtype=torch.float64)
    counts = torch.tensor([0.1, 1e300, 0, 5e-324], dtype=torch.float64)
    found = through(Predictions(scores, train_counts=counts), tmp_path, suffix)
    assert torch.equal(found.scores.view(torch.int64), scores.view(torch.int64))
    assert torch.equal(found.train_counts, counts)


@pytest.mark.parametrize("suffix", FORMATS)
def test_parts_transposed_and_differentiable_scores_are_saved(tmp_path, suffix):
    scores = draw(6, 4).requires_grad_()
    whole = Predictions(scores, torch.arange(6) % 4, ids=map(str, range(6)))
    for part in (whole.rows(slice(2, 5)), whole.rows(torch.tensor([5, 0])), Predictions(scores.t())):
        found = through(part, tmp_path, suffix)
        assert torch.equal(found.scores, part.scores)
        assert found.ids == part.ids


@pytest.mark.parametrize("suffix", FORMATS)
def test_large_files_are_written_in_several_blocks(tmp_path, suffix, monkeypatch):
    blocks = [slice(i, min(i + 3, 10)) for i in range(0, 10, 3)]
    monkeypatch.setattr("shortlist.predictions.record.row_blocks", lambda *_: iter(blocks))
    monkeypatch.setattr("shortlist.predictions.table_sinks.BLOCK_ENTRIES", 8)
    predictions = Predictions(draw(10, 4), targets(10, 4)["many"], ids=map(str, range(10)))
    assert_same(through(predictions, tmp_path, suffix), predictions)


@pytest.mark.parametrize("form", ["single", "many"])
def test_tables_are_gathered_from_many_batches(tmp_path, form):
    rows = 2**16 + 100  # more than one batch is read
    predictions = Predictions(draw(rows, 2), targets(rows, 2)[form], ids=map(str, range(rows)))
    assert_same(through(predictions, tmp_path, ".parquet"), predictions)


SHORTENED = """
import os, sys
from shortlist import Predictions
path = sys.argv[1]
loaded = Predictions.load(path)
os.truncate(path, 100)
print(float(loaded.scores.sum()), float(loaded.target.sum()))
"""


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_a_small_file_may_be_shortened_by_another_program_once_it_is_loaded(tmp_path, suffix):
    """A mapped one would end the process with SIGBUS."""
    path = tmp_path / f"a.{suffix}"
    whole = Predictions(torch.ones(5_000, 7), torch.full((5_000,), 2))
    whole.save(path)
    done = warm.run(SHORTENED, path)
    assert done.stdout == "35000.0 10000.0\n", done.stderr


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_mapped_files_and_files_read_whole_hold_the_same(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"a.{suffix}"
    whole = Predictions(
        torch.randn(9, 3), torch.arange(9) % 3, ["a", "b", "c"], "softmax", [f"é{n}" for n in range(9)], [1, 2, 3]
    )
    whole.save(path)
    read = Predictions.load(path)
    monkeypatch.setattr(arrays, "READ_WHOLE", 0)
    mapped = Predictions.load(path)
    for one in (read, mapped):
        assert torch.equal(one.scores, whole.scores)
        assert torch.equal(one.target, whole.target)
        assert (one.classes, one.ids) == (whole.classes, whole.ids)
        assert one.train_counts.tolist() == [1, 2, 3]
        assert repr(one.link) == repr(whole.link)


def test_large_tables_are_gathered_in_a_mapped_file(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.predictions.tables.MAPPED_ABOVE", 1)
    predictions = Predictions(draw(10, 4), targets(10, 4)["many"])
    assert_same(through(predictions, tmp_path, ".parquet"), predictions)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_scores_stay_in_the_file(tmp_path, suffix, monkeypatch):
    """A large file is mapped; what the tensors show is the file's own memory."""
    monkeypatch.setattr(arrays, "READ_WHOLE", 0)
    path = tmp_path / f"large{suffix}"
    Predictions(draw(1000, 50), torch.arange(1000) % 50).save(path)
    loaded = Predictions.load(path)
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]
    ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps]
    for tensor in (loaded.scores, loaded.target):
        assert any(low <= tensor.data_ptr() < high for low, high in ranges)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
@pytest.mark.parametrize("whole", [0, 2**20], ids=["mapped", "whole"])
def test_writing_to_a_loaded_tensor_leaves_the_file_alone(tmp_path, suffix, whole, monkeypatch):
    monkeypatch.setattr(arrays, "READ_WHOLE", whole)
    path = tmp_path / f"a{suffix}"
    Predictions(draw(4, 3)).save(path)
    before = path.read_bytes()
    Predictions.load(path).scores.zero_()
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("whole", [0, 2**20], ids=["mapped", "whole"])
def test_file_can_be_saved_over_itself(tmp_path, suffix, whole, monkeypatch):
    monkeypatch.setattr(arrays, "READ_WHOLE", whole)
    path = tmp_path / f"a{suffix}"
    predictions = Predictions(draw(40, 3))
    predictions.save(path)
    Predictions.load(path).with_link("softmax").save(path)
    found = Predictions.load(path)
    assert torch.equal(found.scores, predictions.scores)
    assert isinstance(found.link, Softmax)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, suffix, failure):
    path = tmp_path / f"a{suffix}"
    Predictions(draw(4, 3)).save(path)
    before = path.read_bytes()

    def fails(sink):
        raise failure

    monkeypatch.setattr(storage.SINKS[suffix], "finish", fails)
    with pytest.raises(type(failure)):
        Predictions(draw(9, 3)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_saved_file_has_the_permissions_of_any_new_file(tmp_path, suffix):
    path, plain = tmp_path / f"a{suffix}", tmp_path / "plain"
    Predictions(draw(4, 3)).save(path)
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("name", ["a.csv", "a.pt", "a"])
def test_format_is_told_by_the_name_and_unknown_ones_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"expected a name that ends in \.safetensors, \.npz, \.parquet"):
        Predictions(draw(1, 1)).save(tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", ["a\0", "a\0b", "\0", "a\ud800"])
@pytest.mark.parametrize("what", ["ids", "classes", "superclasses"])
def test_names_that_some_format_cannot_hold_are_refused_by_all(tmp_path, suffix, name, what):
    message = rf"{what}: expected names .*got '{re.escape(ascii(name)[1:-1])}'"
    predictions = Predictions(draw(2, 2), **{what: ["é", name]})
    with pytest.raises(InputError, match=message):
        predictions.save(tmp_path / f"a{suffix}")
    columns = {} if what == "ids" else {what: ["é", name]}
    with pytest.raises(InputError, match=message), PredictionsWriter(tmp_path / f"a{suffix}", **columns) as writer:
        writer.append(draw(2, 2), ids=["é", name] if what == "ids" else None)
    assert os.listdir(tmp_path) == []


def test_files_hold_the_field_names_as_keys(tmp_path):
    predictions = Predictions(
        draw(2, 3), [0, 1], classes=["a", "b", "c"], ids=["x", "y"], train_counts=[1, 2, 3], link="softmax"
    )
    predictions.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        assert {"scores", "target", "classes", "ids", "train_counts", "link"} <= set(file.files)
        assert file["classes"].tolist() == ["a", "b", "c"]
        assert json.loads(str(file["link"])) == {"kind": "softmax"}


def test_parquet_has_a_column_a_class_up_to_a_thousand_and_lists_beyond(tmp_path):
    import pyarrow.parquet as pq

    for classes, names in [(1000, [f"scores.{label}" for label in range(1000)]), (1001, ["scores"])]:
        Predictions(draw(1, classes)).save(tmp_path / "a.parquet")
        assert pq.read_schema(tmp_path / "a.parquet").names == names


@pytest.mark.parametrize("classes", [100, 1100])
def test_parquet_takes_four_bytes_for_a_float(tmp_path, classes):
    scores = torch.randn(400_000 // classes, classes, generator=torch.Generator().manual_seed(0))
    Predictions(scores).save(tmp_path / "scores.parquet")
    assert (tmp_path / "scores.parquet").stat().st_size < 4.5 * scores.numel()


@pytest.mark.parametrize("suffix", FORMATS)
def test_given_link_replaces_the_one_of_the_file(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    Predictions(draw(2, 3), link=fitted_links()["platt"]).save(path)
    assert isinstance(Predictions.load(path, link="softmax").link, Softmax)
    with pytest.raises(InputError, match=r"a\..*identity: expected probabilities"):
        Predictions.load(path, link="identity")


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_digest_of_the_network_comes_back(tmp_path, suffix):
    given = Predictions(draw(5, 3), network_digest="0123abcd")
    assert through(given, tmp_path, suffix).network_digest == "0123abcd"
    assert through(given.with_link("softmax").rows([1, 2]), tmp_path, suffix).network_digest == "0123abcd"
    assert through(Predictions(draw(5, 3)), tmp_path, suffix).network_digest is None


@pytest.mark.parametrize("suffix", FORMATS)
def test_superclasses_come_back(tmp_path, suffix):
    given = Predictions(draw(5, 3), classes=["a", "b", "c"], superclasses=["Ñ — 鳥", "x", "x"])
    assert through(given, tmp_path, suffix).superclasses == ("Ñ — 鳥", "x", "x")
    assert through(Predictions(draw(5, 3)), tmp_path, suffix).superclasses is None
