"""Pictures kept on disk: drawn once, whole or not at all, also when two processes start together."""

import os
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from shortlist.data.flora import Flora, cache, garden
from shortlist.errors import ShortlistWarning
from tests import warm

FLORA = Flora(8, 2)


def kept(folder):
    """The files of pictures, and whatever is neither one nor a lock."""
    files = sorted(folder.iterdir())
    return [f for f in files if f.suffix == ".safetensors"], [f for f in files if f.suffix not in (".safetensors", ".lock")]


@pytest.fixture
def no_drawing(monkeypatch):
    """From here on, whoever draws fails."""

    def switch():
        def draw(*_):
            raise AssertionError("drawn again")

        monkeypatch.setattr(garden, "draw_specimens", draw)
        monkeypatch.setattr(garden, "draw_plots", draw)

    return switch


@pytest.mark.parametrize("kind", ["specimens", "quadrats", "open_set"])
def test_the_second_time_pictures_are_read(kind, tmp_path, no_drawing):
    draw, folder = getattr(FLORA, kind), tmp_path / "deep" / "folder"
    plain = draw(20, seed=1, size=16)
    first = draw(20, seed=1, size=16, cache=folder)
    no_drawing()
    second = draw(20, seed=1, size=16, cache=str(folder))
    for parts in zip(plain, first, second, strict=True):
        assert torch.equal(parts[0], parts[1])
        assert torch.equal(parts[0], parts[2])
    files, others = kept(folder)
    assert len(files) == 1
    assert not others


def test_open_set_shares_the_pictures_of_specimens(tmp_path, no_drawing):
    FLORA.specimens(5, cache=tmp_path)
    no_drawing()
    FLORA.open_set(5, cache=tmp_path, share=0.7)


@pytest.mark.parametrize(
    "other",
    [
        lambda folder: FLORA.specimens(6, seed=1, size=16, cache=folder),
        lambda folder: FLORA.specimens(5, seed=2, size=16, cache=folder),
        lambda folder: FLORA.specimens(5, seed=1, size=17, cache=folder),
        lambda folder: FLORA.quadrats(5, seed=1, size=16, cache=folder),
        lambda folder: Flora(8, 2, seed=1).specimens(5, seed=1, size=16, cache=folder),
        lambda folder: Flora(8, 3).specimens(5, seed=1, size=16, cache=folder),
        lambda folder: Flora(9, 2).specimens(5, seed=1, size=16, cache=folder),
        lambda folder: Flora(8, 2, variation=0.5).specimens(5, seed=1, size=16, cache=folder),
        lambda folder: Flora(8, 2, abundance="balanced").specimens(5, seed=1, size=16, cache=folder),
    ],
    ids=["n", "seed", "size", "kind", "garden", "genera", "species", "variation", "abundance"],
)
def test_other_pictures_are_other_files(other, tmp_path):
    FLORA.specimens(5, seed=1, size=16, cache=tmp_path)
    other(tmp_path)
    assert len(kept(tmp_path)[0]) == 2


def test_a_new_way_of_drawing_makes_a_new_file(tmp_path, monkeypatch):
    FLORA.specimens(5, cache=tmp_path)
    monkeypatch.setattr(cache, "DRAWING", cache.DRAWING + 1)
    FLORA.specimens(5, cache=tmp_path)
    assert len(kept(tmp_path)[0]) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: os.truncate(path, 0),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: path.write_text("{}"),
    ],
    ids=["cut", "empty", "garbage", "text"],
)
def test_a_damaged_file_is_drawn_again(damage, tmp_path, no_drawing):
    expected = FLORA.specimens(20, cache=tmp_path)[0].clone()
    ((path,), _) = kept(tmp_path)
    damage(path)
    assert torch.equal(FLORA.specimens(20, cache=tmp_path)[0], expected)
    no_drawing()
    assert torch.equal(FLORA.specimens(20, cache=tmp_path)[0], expected)


def test_nothing_is_left_of_a_drawing_that_fails(tmp_path, no_drawing, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(garden, "draw_specimens", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            FLORA.specimens(5, cache=tmp_path)
    assert kept(tmp_path) == ([], [])
    assert FLORA.specimens(5, cache=tmp_path)[0].shape == (5, 3, 32, 32)


def test_the_file_is_plain_safetensors_and_says_what_it_is(tmp_path):
    images = FLORA.specimens(5, cache=tmp_path)[0]
    ((path,), _) = kept(tmp_path)
    assert list(load_file(path)) == ["images"]
    assert torch.equal(load_file(path)["images"], images)
    header = path.read_bytes()[:400]
    assert b"specimens Flora(species=8, genera=2" in header
    assert b"n=5 seed=0 size=32" in header


def test_changing_the_pictures_in_memory_leaves_the_file_alone(tmp_path):
    expected = FLORA.specimens(5, cache=tmp_path)[0].clone()
    for _ in range(2):
        images = FLORA.specimens(5, cache=tmp_path)[0]
        assert torch.equal(images, expected)
        images.zero_()


def test_no_pictures_are_kept_too(tmp_path, no_drawing):
    FLORA.specimens(0, cache=tmp_path)
    no_drawing()
    assert FLORA.specimens(0, cache=tmp_path)[0].shape == (0, 3, 32, 32)


CHILD = """
import sys, time
from pathlib import Path
from shortlist.data.flora import Flora, garden
from tests.data.flora.golden import digest

folder, name = Path(sys.argv[1]), sys.argv[2]
plain, drawn = garden.draw_specimens, []

def slowly(*arguments):
    drawn.append(1)
    time.sleep(0.5)
    return plain(*arguments)

garden.draw_specimens = slowly
(folder / name).touch()
while not (folder / "go").exists():
    time.sleep(0.005)
images = Flora(8, 2).specimens(50, seed=3, cache=folder / "cache")[0]
print(len(drawn), digest(images))
"""


def test_of_two_processes_that_start_together_one_draws(tmp_path):
    names = ("one", "other")
    children = [warm.Program(CHILD, tmp_path, name) for name in names]
    waiting_since = time.monotonic()
    while not all((tmp_path / name).exists() for name in names) and time.monotonic() - waiting_since < 120:
        time.sleep(0.01)
    (tmp_path / "go").touch()
    answers = [child.communicate(timeout=120)[0].split() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sorted(int(drawn) for drawn, _ in answers) == [0, 1]
    assert answers[0][1] == answers[1][1]
    files, others = kept(tmp_path / "cache")
    assert len(files) == 1
    assert not others


def test_a_file_that_holds_other_pictures_is_drawn_again(tmp_path):
    flora = Flora(species=6, genera=2)
    right, _, _ = flora.specimens(5, size=8, cache=tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    save_file({"images": right[:2].clone()}, path)
    again, _, _ = flora.specimens(5, size=8, cache=tmp_path)
    assert torch.equal(again, right)


def test_a_folder_that_may_not_be_written_to_is_no_obstacle(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    flora = Flora(species=6, genera=2)
    kept, _, _ = flora.specimens(5, size=8, cache=tmp_path)
    monkeypatch.setattr(cache, "FileLock", refuse)
    assert torch.equal(flora.specimens(5, size=8, cache=tmp_path)[0], kept)
    with pytest.warns(ShortlistWarning, match="pictures are drawn and not kept \\(Permission denied\\)"):
        other, _, _ = flora.specimens(5, seed=1, size=8, cache=tmp_path)
    assert other.shape == (5, 3, 8, 8)
