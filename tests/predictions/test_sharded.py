"""Folders of parts: they open as the whole would, go on after any kill, and refuse what does not belong to them."""

import errno
import json
import multiprocessing
import os
import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.predictions import ShardedPredictions, ShardedWriter, parts, sharded, sharded_writer
from shortlist.predictions.parts import Manifest

NAMES = ["ash", "elm", "oak"]
SIZES = [4, 0, 5, 1]
COLUMNS = {
    "site": [f"site {row * row}" for row in range(10)],
    "weight": [row / 3 for row in range(10)],
    "visit": list(range(10)),
}
ITEMS = [f"rows {number}" for number in range(len(SIZES))]


def rows(form="one", count=10, classes=3, *, ids=True, names=True, quality=False, dtype=torch.float32, **columns):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(count, classes, generator=generator).to(dtype)
    target = {
        "none": None,
        "one": torch.randint(0, classes, (count,), generator=generator),
        "many": torch.rand(count, classes, generator=generator) < 0.4,
    }[form]
    return Predictions(
        scores,
        target,
        NAMES if names and classes == 3 else None,
        ids=[f"{row}.jpg" for row in range(count)] if ids else None,
        quality=torch.rand(count, generator=generator) if quality else None,
        **columns,
    )


def write(folder, whole, sizes=SIZES, order=None, **options):
    parts = [whole.rows(slice(start, start + size)) for start, size in zip([0, *cumulated(sizes)], sizes, strict=False)]
    with ShardedWriter(folder, whole, [f"rows {number}" for number in range(len(sizes))], **options) as writer:
        for number in order or range(len(sizes)):
            block = parts[number]
            if whole.ids is None:
                object.__setattr__(block, "ids", None)
            writer.write(number, block if len(block) else [])
        writer.finish()
    return folder


def cumulated(sizes):
    return torch.tensor(sizes).cumsum(0).tolist()


def assert_same(found, whole):
    assert (found.classes, found.ids, found.superclasses) == (whole.classes, whole.ids, whole.superclasses)
    assert found.network_digest == whole.network_digest
    assert found.scores.dtype == whole.scores.dtype
    assert torch.equal(found.scores, whole.scores)
    assert {name: (column.tolist(), column.dtype.kind) for name, column in found.columns.items()} == {
        name: (column.tolist(), column.dtype.kind) for name, column in whole.columns.items()
    }
    for name in ("target", "quality", "train_counts"):
        mine, other = getattr(found, name), getattr(whole, name)
        assert (mine is None) == (other is None)
        assert mine is None or (mine.dtype == other.dtype and torch.equal(mine, other))


@pytest.mark.parametrize("form", ["one", "many", "none"])
@pytest.mark.parametrize(
    "other",
    [
        {},
        {"ids": False},
        {"names": False},
        {"quality": True},
        {"columns": COLUMNS},
        {"dtype": torch.float16},
        {"dtype": torch.float64},
    ],
    ids=str,
)
def test_a_folder_opens_as_the_whole(tmp_path, form, other):
    whole = rows(form, superclasses=["a", "b", "b"], train_counts=[3, 1, 2], network_digest="d1", link="sigmoid", **other)
    found = Predictions.load(write(tmp_path / "scores", whole, order=[2, 0, 3, 1]))
    assert isinstance(found, ShardedPredictions)
    assert (len(found), found.num_classes, found.class_names) == (10, 3, whole.class_names)
    assert_same(found, whole)
    assert torch.equal(found.probs(), whole.probs())
    assert sorted(path.name for path in (tmp_path / "scores").iterdir()) == [
        "manifest.json",
        *(f"part-0000{number}.parquet" for number in range(4)),
    ]


@pytest.mark.parametrize("few", [10**9, 1])
@pytest.mark.parametrize("form", ["one", "many"])
def test_rows_blocks_and_halves_are_those_of_the_whole(tmp_path, monkeypatch, few, form):
    monkeypatch.setattr(sharded, "FEW_ENTRIES", few)  # selections are read at once, or stay in the files
    whole = rows(form, quality=True, link="softmax", columns=COLUMNS)
    found = Predictions.load(write(tmp_path / "scores", whole))
    chosen = [[], [0], [9, 0, 4, 3], [-1, 2], torch.arange(10) % 2 == 0, slice(3, 8), slice(0, 0), [1, 1], [9, 0, 9, 5]]
    for index in chosen:
        assert_same(found.rows(index), whole.rows(index))
        assert_same(found.rows(slice(2, 10)).rows([3, 0]), whole.rows(slice(2, 10)).rows([3, 0]))
    for entries in (1, 7, 100):
        for mine, other in zip(found.blocks(entries), whole.blocks(entries), strict=True):
            assert_same(mine, other)
    for mine, other in zip(found.split(0.3, seed=4), whole.split(0.3, seed=4), strict=True):
        assert_same(mine, other)
        for block, expected in zip(mine.blocks(4), other.blocks(4), strict=True):
            assert_same(block, expected)
    better = found.with_quality(torch.arange(10.0)).rows([5, 2])
    assert better.quality.tolist() == [5, 2]
    assert found.with_quality(None).rows([5]).quality is None
    assert [len(shard) for shard in found.shards] == [4, 5, 1]
    with pytest.raises(InputError, match="rows: .*below 10"):
        found.rows([10])


@pytest.mark.parametrize("few", [10**9, 1])
@pytest.mark.parametrize("stored", [False, True])
def test_what_is_given_for_the_rows_of_a_folder(tmp_path, monkeypatch, few, stored):
    monkeypatch.setattr(sharded, "FEW_ENTRIES", few)
    whole = rows(quality=stored, link="softmax", **({"columns": COLUMNS} if stored else {}))
    found = Predictions.load(write(tmp_path / "scores", whole))
    more = {"weight": [f"{row}" for row in range(10)], "late": list(range(10))}
    found, whole = (one.with_columns(more).with_quality(torch.arange(10.0)) for one in (found, whole))
    assert_same(found, whole)
    assert_same(found.without_rows(), whole.without_rows())
    for index in ([9, 0, 4, 3], slice(3, 8), [9, 0, 9, 5], slice(0, 0)):
        assert_same(found.rows(index), whole.rows(index))
    assert_same(found.shards[1], whole.rows(slice(4, 9)))
    assert_same(replace(found, scores=whole.scores + 1), replace(whole, scores=whole.scores + 1))
    found.save(tmp_path / "again.parquet")
    assert_same(Predictions.load(tmp_path / "again.parquet"), whole)


def test_columns_of_a_folder_may_be_asked_for(tmp_path):
    folder = write(tmp_path / "scores", rows(columns=COLUMNS))
    assert Predictions.load(folder, columns=["visit", "site"]).columns["visit"].tolist() == COLUMNS["visit"]
    with pytest.raises(InputError, match="columns: .*'visits'.*'weight'"):
        Predictions.load(folder, columns=["site", "visits"])
    with pytest.raises(InputError, match="no_label"):
        Predictions.load(folder, columns=["site"], no_label="-1")


def test_shards_of_a_half(tmp_path, monkeypatch):
    monkeypatch.setattr(sharded, "FEW_ENTRIES", 1)
    whole = rows()
    half, _ = Predictions.load(write(tmp_path / "scores", whole)).split(0.5)
    first = whole.split_rows(0.5)[0]
    shards = [int(((first >= low) & (first < high)).sum()) for low, high in [(0, 4), (4, 9), (9, 10)]]
    assert [len(shard) for shard in half.shards] == [rows for rows in shards if rows]
    assert torch.equal(torch.cat([shard.scores for shard in half.shards]), half.scores)


def test_row_groups_and_many_classes(tmp_path, monkeypatch):
    from shortlist.predictions import table_sinks

    monkeypatch.setattr(table_sinks, "BLOCK_ENTRIES", 3 * 1200)  # three rows a group
    whole = rows("many", 11, 1200)
    found = Predictions.load(write(tmp_path / "scores", whole, [7, 4]))
    assert pq.ParquetFile(tmp_path / "scores" / "part-00000.parquet").num_row_groups == 3
    assert_same(found, whole)
    assert_same(found.rows([10, 6, 7, 2]), whole.rows([10, 6, 7, 2]))
    found.save(tmp_path / "again.safetensors")
    assert_same(Predictions.load(tmp_path / "again.safetensors"), whole)


def test_a_fitted_link_comes_back(tmp_path):
    whole = rows(link=Temperature().fit(rows(count=30).scores.double(), rows(count=30).target))
    found = Predictions.load(write(tmp_path / "scores", whole))
    assert torch.equal(found.probs(), whole.probs())
    assert torch.equal(found.with_link("softmax").probs(), whole.with_link("softmax").probs())
    assert torch.equal(Predictions.load(tmp_path / "scores", link="sigmoid").probs(), whole.with_link("sigmoid").probs())


def test_only_what_is_asked_for_is_read(tmp_path):
    whole = rows()
    folder = write(tmp_path / "scores", whole)
    damage(folder / "part-00003.parquet")
    found = Predictions.load(folder)  # of the same size
    assert_same(found.rows(slice(0, 9)), whole.rows(slice(0, 9)))
    with pytest.raises(InputError, match=r"part-00003\.parquet"):
        found.rows([9])
    with pytest.raises(InputError, match=r"part-00003\.parquet is damaged: .*checksum"):
        found.verify()


def damage(path):
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[4 : middle + 4] = bytes(middle)
    path.write_bytes(content)


def test_values_are_checked_when_they_are_read(tmp_path):
    found = Predictions.load(write(tmp_path / "scores", rows()), link="identity")
    with pytest.raises(InputError, match=r"part-00000\.parquet: .*identity"):
        found.rows([0])


def test_addresses(tmp_path):
    whole = rows()
    write(tmp_path / "scores", whole)
    found = Predictions.load(f"file://{tmp_path}/scores/")
    assert_same(found, whole)
    found.verify()
    with pytest.raises(InputError, match="cannot read"):
        Predictions.load("nothing://scores")


def test_each_part_is_a_file_of_predictions(tmp_path):
    whole = rows(link="softmax", network_digest="d1")
    write(tmp_path / "scores", whole)
    assert_same(Predictions.load(tmp_path / "scores" / "part-00002.parquet"), whole.rows(slice(4, 9)))


def test_problems_are_kept(tmp_path):
    whole = rows()
    problems = {
        0: [("a.jpg", "unreadable picture", "cut short: left out")],
        2: [("b.jpg", "unreadable picture", "empty: left out")],
    }
    with ShardedWriter(tmp_path / "s", whole, ["x", "y", "z"]) as writer:
        for number in range(3):
            writer.write(number, whole.rows([number]), problems.get(number, ()))
        writer.finish()
    table = pq.read_table(tmp_path / "s" / "problems.parquet").to_pylist()
    assert [(row["part"], row["id"], row["kind"], row["problem"]) for row in table] == [
        (0, "a.jpg", "unreadable picture", "cut short: left out"),
        (2, "b.jpg", "unreadable picture", "empty: left out"),
    ]
    (tmp_path / "s" / "part-00002.parquet").unlink()
    with ShardedWriter(tmp_path / "s", whole, ["x", "y", "z"]) as writer:
        assert writer.missing == [2]
        writer.write(2, whole.rows([2]))
        writer.finish()
    assert [row["id"] for row in pq.read_table(tmp_path / "s" / "problems.parquet").to_pylist()] == ["a.jpg"]


def test_a_second_run_goes_on(tmp_path):
    whole = rows()
    with ShardedWriter(tmp_path / "s", whole, ["x", "y"]) as writer:
        assert writer.missing == [0, 1]
        writer.write(1, whole.rows(slice(5, 10)))
    with pytest.raises(InputError, match="not all of 2 parts are written"):
        Predictions.load(tmp_path / "s")
    with ShardedWriter(tmp_path / "s", whole, ["x", "y"]) as writer:
        assert writer.missing == [0]
        with pytest.raises(InputError, match=r"part-00000\.parquet are not written"):
            writer.finish()
        ShardedWriter.join(tmp_path / "s").write(0, whole.rows(slice(0, 5)))
        assert writer.missing == []
        writer.finish()
    before = contents(tmp_path / "s")
    assert_same(Predictions.load(tmp_path / "s"), whole)
    with ShardedWriter(tmp_path / "s", whole, ["x", "y"]) as writer:
        assert writer.missing == []
        writer.finish()
    assert contents(tmp_path / "s") == before


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_part_counts_with_its_receipt_only(tmp_path):
    whole = rows()
    with ShardedWriter(tmp_path / "s", whole, ["x", "y"]) as writer:
        writer.write(0, whole.rows(slice(0, 5)))
        writer.write(1, whole.rows(slice(5, 10)))
        (tmp_path / "s" / "writing" / "part-00001.json").unlink()
        assert writer.missing == [1]
        (tmp_path / "s" / "part-00000.parquet").write_bytes(b"half")
        assert writer.missing == [0, 1]


OTHERS = {
    "network": lambda whole: {"like": Predictions(whole.scores, whole.target, NAMES, ids=whole.ids, network_digest="d2")},
    "classes": lambda whole: {
        "like": Predictions(whole.scores, whole.target, ["a", "b", "c"], ids=whole.ids, network_digest="d1")
    },
    "link": lambda whole: {"like": whole.with_link("softmax")},
    "target": lambda whole: {"like": rows("none", network_digest="d1")},
    "part-00001": lambda _: {"items": ["x", "other"]},
    "2 parts, got rows for 3": lambda _: {"items": ["x", "y", "z"]},
    "head 'labels', got 'proposal'": lambda _: {"settings": {"head": "proposal"}},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_folder_of_another_job_is_refused(tmp_path, what):
    whole = rows(network_digest="d1")
    given = {"like": whole, "items": ["x", "y"], "settings": {"head": "labels"}}
    with ShardedWriter(tmp_path / "s", **given) as writer:
        writer.write(0, whole.rows([0]))
    before = contents(tmp_path / "s" / "writing")
    with (
        pytest.raises(InputError, match=f"begun.*{what}|{what}.*begun"),
        ShardedWriter(tmp_path / "s", **given | OTHERS[what](whole)),
    ):
        pass
    assert contents(tmp_path / "s" / "writing") == before


def test_other_folders_are_refused(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"one with notes\.txt"), ShardedWriter(tmp_path / "s", rows(), ["x"]):
        pass
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["notes.txt"]
    with pytest.raises(InputError, match=r"manifest\.json"):
        Predictions.load(tmp_path / "s")
    with pytest.raises(InputError, match="items"):
        ShardedWriter(tmp_path / "t", rows(), [])
    with ShardedWriter(tmp_path / "t", rows(), ["x"]), pytest.raises(InputError, match="another process"):
        ShardedWriter(tmp_path / "t", rows(), ["x"]).__enter__()


def test_rows_of_another_kind_are_refused(tmp_path):
    whole = rows()
    with ShardedWriter(tmp_path / "s", whole, ["x"]) as writer:
        for wrong, name in [
            (rows(dtype=torch.float64), "scores"),
            (rows("many"), "target"),
            (rows(ids=False), "ids"),
            (rows(quality=True), "quality"),
            (rows(columns=COLUMNS), "columns"),
            (rows(classes=4), "classes"),
            (Predictions(whole.scores, whole.target, ["a", "b", "c"], ids=whole.ids), "classes"),
        ]:
            with pytest.raises(InputError, match=f"{name}: expected"):
                writer.write(0, wrong)
        with pytest.raises(InputError, match=r"ids: .*0\.jpg"):
            writer.write(0, [whole.rows([0]), whole.rows([1, 0])])
        with pytest.raises(InputError, match="number: .*got 1"):
            writer.write(1, whole)
        assert writer.missing == [0]
        assert not list((tmp_path / "s").glob("part-*"))


STEPS = {
    "repeated, then some": [[3, 3, 7], [2, 0]],
    "repeated, then repeated, then some": [[3, 3, 7], [1, 1], [0]],
    "out of order, then some": [[9, 3, 7], [-1, 0]],
    "some, then repeated, then a slice": [[9, 3, 7], [2, 2, 0, 1], slice(1, 3)],
    "repeated, then none": [[3, 3], []],
    "a slice of all": [slice(2, 9, 3), [1, 0]],
}


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("few", [0, 10**6])
@pytest.mark.parametrize("name", STEPS)
def test_names_after_any_selection_are_those_in_memory(tmp_path, monkeypatch, name, few, ids):
    monkeypatch.setattr(sharded, "FEW_ENTRIES", few)
    whole = rows(ids=ids)
    found = Predictions.load(write(tmp_path / "s", whole))
    for index in STEPS[name]:
        whole, found = whole.rows(index), found.rows(index)
        assert found.ids == whole.ids
        assert found.without_rows().ids == whole.without_rows().ids
        assert [block.ids for block in found.blocks(3)] == [block.ids for block in whole.blocks(3)]
        assert torch.equal(found.scores, whole.scores)


@pytest.mark.parametrize("where", ["rows", "receipt", "manifest"])
def test_a_full_disk_names_the_folder(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)

    def full(*given, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "s" / "writing" / ".part-00000.partial"))

    class Full(pq.ParquetWriter):
        write_table = full

    def begun():
        return ShardedWriter("s", rows(), ["all"])

    with begun() as writer:
        if where == "manifest":
            writer.write(0, rows())
        if where == "rows":
            monkeypatch.setattr(pq, "ParquetWriter", Full)
        else:
            monkeypatch.setattr(sharded_writer, "write_text", full)
            monkeypatch.setattr(parts, "write_text", full)
        with pytest.raises(InputError) as caught:
            writer.finish() if where == "manifest" else writer.write(0, rows())
    assert str(caught.value) == "cannot write s: no space left on device: make room, or choose another place"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    with begun() as writer:  # with room again it goes on
        for number in writer.missing:
            writer.write(number, rows())
        writer.finish()
    assert torch.equal(Predictions.load("s").scores, rows().scores)


def test_damaged_missing_and_stray_parts_are_refused(tmp_path):
    folder = write(tmp_path / "scores", rows())
    part = folder / "part-00002.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"part-00002\.parquet is damaged"):
        Predictions.load(folder)
    part.unlink()
    with pytest.raises(InputError, match=r"part-00002\.parquet is missing"):
        Predictions.load(folder)
    part.write_bytes(content)
    shutil.copy(part, folder / "part-00009.parquet")
    with pytest.raises(InputError, match=r"part-00009\.parquet is no part"):
        Predictions.load(folder)
    with ShardedWriter(folder, rows(), ITEMS) as writer, pytest.raises(InputError, match=r"part-00009\.parquet is no part"):
        writer.finish()


def test_the_same_name_in_two_parts_is_refused(tmp_path):
    whole = rows()
    with ShardedWriter(tmp_path / "s", whole, ["x", "y"]) as writer:
        writer.write(0, whole.rows([0]))
        writer.write(1, whole.rows([0]))
        writer.finish()
    with pytest.raises(InputError, match=r"ids: .*0\.jpg"):
        _ = Predictions.load(tmp_path / "s").ids


@pytest.mark.parametrize(
    "change", ["not json", "[]", {"format": "other"}, {"columns": {}}, {"parts": [{"file": 1}]}, {"scores": "int8"}]
)
def test_damaged_manifests_are_refused(tmp_path, change):
    folder = write(tmp_path / "scores", rows())
    path = folder / "manifest.json"
    path.write_text(change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"manifest\.json"):
        Predictions.load(folder)
    with pytest.raises(InputError, match=r"manifest\.json"):
        Manifest.read(folder)


@pytest.mark.parametrize("option", [{"scores_key": "p"}, {"target_key": "t"}, {"no_label": "-1"}, {"classes": NAMES}])
def test_options_of_other_files_are_refused(tmp_path, option):
    folder = write(tmp_path / "scores", rows())
    with pytest.raises(InputError, match=next(iter(option))):
        Predictions.load(folder, **option)


def _write_parts(folder, numbers):
    writer = ShardedWriter.join(folder)
    for number in numbers:
        writer.write(number, rows().rows(slice(number * 2, number * 2 + 2)))


def test_processes_write_at_once(tmp_path):
    whole = rows()
    with ShardedWriter(tmp_path / "s", whole, [str(number) for number in range(5)]) as writer:
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=_write_parts, args=(tmp_path / "s", order)) for order in ([0, 2, 4, 1], [3, 1, 4, 2])]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0, 0]
        writer.finish()
    found = Predictions.load(tmp_path / "s")
    assert_same(found, whole)
    found.verify()
