"""A line of text opens a dataset: by name, or by what a path leads to."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from shortlist.data import Dataset, as_dataset
from shortlist.data.sources import SOURCES, open_dataset, register_source
from shortlist.errors import InputError
from tests.data.drawings import write_picture

PAGE = Path(__file__).parent.parent.parent / "docs" / "datasets.md"
SMALL = {"train": 3, "val": 1, "test": 1, "size": 8}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """One of everything, in the current folder."""
    write_picture(tmp_path / "trees" / "oak" / "1.png")
    (tmp_path / "pictures.csv").write_text("path,label\ntrees/oak/1.png,oak\n")
    (tmp_path / "odd.csv").write_text("where,label\ntrees/oak/1.png,oak\n")
    (tmp_path / "leaves.csv").write_text("species,width\nQuercus robur,1\nIlex aquifolium,2\n")
    np.savez(tmp_path / "leaves.npz", X=np.eye(2), y=np.array([0, 1]))
    (tmp_path / "plants").mkdir()
    text = "@relation x\n@attribute oak {0,1}\n@attribute width real\n@data\n1,2\n0,3\n"
    (tmp_path / "plants" / "plants-train.arff").write_text(text)
    (tmp_path / "plants" / "plants.xml").write_text('<labels><label name="oak"/></labels>')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "name", "classes"),
    [
        ("trees", "trees", ["oak"]),
        ("./trees/", "trees", ["oak"]),
        ("folders:trees", "trees", ["oak"]),
        ("pictures.csv", "pictures", ["oak"]),
        ("table:pictures.csv", "pictures", ["oak"]),
        ("odd.csv,path_column=where", "odd", ["oak"]),
        ("leaves.csv", "leaves", ["Ilex aquifolium", "Quercus robur"]),
        ("features:leaves.csv", "leaves", ["Ilex aquifolium", "Quercus robur"]),
        ("FEATURES:leaves.csv", "leaves", ["Ilex aquifolium", "Quercus robur"]),
        ("leaves.npz", "leaves", ["0", "1"]),
        ("plants", "plants", ["oak"]),
        ("mulan:plants", "plants", ["oak"]),
        ("plants/plants-train.arff,labels=plants/plants.xml", "plants-train", ["oak"]),
        ("arff:plants/plants-train.arff,labels=plants/plants.xml,name=mine", "mine", ["oak"]),
    ],
)
def test_text_opens_a_dataset(root, source, name, classes):
    dataset = open_dataset(source)
    assert (dataset.name, dataset.classes) == (name, classes)


def test_options_in_the_text_and_beside_it(root):
    assert open_dataset("leaves.csv,superclass=first-word").superclasses == ["Ilex", "Quercus"]
    assert open_dataset("leaves.csv", superclass="first-word").superclasses == ["Ilex", "Quercus"]
    assert open_dataset("leaves.csv,superclass=genus", superclass="first-word").superclasses == ["Ilex", "Quercus"]
    assert open_dataset("leaves.csv,tolerance=0.5,label_column=species").classes == ["Ilex aquifolium", "Quercus robur"]


def test_a_path_with_commas_and_signs_is_a_path(root):
    write_picture(root / "a,b=c" / "oak" / "1.png")
    assert open_dataset("a,b=c").name == "a,b=c"
    assert open_dataset("folders:a,b=c").name == "a,b=c"


def test_the_garden(root):
    dataset = open_dataset("flora:species=6,genera=2,variation=0.5,kind=specimens", **SMALL)
    assert (len(dataset.classes), len(dataset.superclass_names)) == (6, 2)
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 3, "val": 1, "test": 1}
    assert len(open_dataset("flora", species=6, genera=2, **SMALL).classes) == 6


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "expected a folder, a table or NAME:PATH, got nothing; names: flora"),
        ("flroa", "flroa: there is no such folder or file, nor is it NAME:PATH; similar names: flora"),
        ("cifar_1000:x", "similar names: cifar100"),
        ("qqqqqq", "nor is it NAME:PATH; names: flora, folders, "),
        ("nowhere/leaves.csv", "nowhere/leaves.csv: there is no such folder or file, nor is it NAME:PATH"),
        ("cifar100", "cifar100: expected cifar100:PATH, or ./cifar100 for a folder of that name"),
        ("coco:", "coco:: expected coco:PATH"),
        ("coco:,year=2014", "expected coco:PATH"),
        ("flora:50", "flora:50: .*got '50'"),
        ("flora:specis=50", "expected options among species, genera, .*, got 'specis'"),
        ("flora:species=many", "species: expected a number, got 'many'"),
        ("flora:species=1.5", "species: expected a number, got '1.5'"),
        ("inaturalist:trees,mini=maybe", "mini: expected true or false, got 'maybe'"),
        ("leaves.csv,colour=red", "leaves.csv,colour=red: expected options among label_column, .*, got 'colour'"),
        ("trees/oak/1.png", "1.png: expected a folder or a .csv, .tsv, .parquet, .arff or .npz file"),
        ("cifar10:trees,x=1", "expected options among test.*, got 'x'"),
    ],
)
def test_odd_text_is_refused_in_a_sentence(root, source, message):
    with pytest.raises(InputError, match=message):
        open_dataset(source)


def test_options_beside_the_text_are_checked_too(root):
    with pytest.raises(InputError, match="got 'colour'"):
        open_dataset("trees", colour="red")


@pytest.mark.parametrize("name", SOURCES)
def test_every_name_leads_to_a_reader_that_is_documented(name):
    reader = SOURCES[name].reader()
    assert inspect.signature(reader).return_annotation is Dataset
    assert reader.__doc__
    assert (next(iter(inspect.signature(reader).parameters)) in ("root", "path", "folder", "train")) is SOURCES[name].takes_path


def test_the_page_lists_every_name_and_no_other():
    forms = {source.form(name) for name, source in SOURCES.items()}
    listed = set(re.findall(r"`([a-z0-9-]+(?::PATH)?)`", "".join(re.findall(r"^\| `.*$", PAGE.read_text(), re.M))))
    assert forms == {form for form in listed if form == "flora" or form.endswith(":PATH")}


@pytest.fixture
def own_sources(monkeypatch):
    """Names that a test registers are forgotten after it."""
    monkeypatch.setattr("shortlist.data.sources.SOURCES", SOURCES.copy())


@pytest.mark.usefixtures("own_sources")
def test_a_registered_reader_opens_its_path_with_typed_options(tmp_path):
    @register_source("points")
    def points(path, scale: float = 1.0, flip: bool = False) -> Dataset:
        values = [float(line) * scale for line in Path(path).read_text().split()]
        return as_dataset(([[-value if flip else value] for value in values], [0, 1, 1]), name="points")

    (tmp_path / "three.txt").write_text("1 2 3")
    rows = open_dataset(f"points:{tmp_path / 'three.txt'},scale=0.5,flip=yes").splits["all"]
    assert rows.inputs.tolist() == [[-0.5], [-1.0], [-1.5]]
    assert rows.target.tolist() == [0, 1, 1]
    with pytest.raises(InputError, match="got 'colour'"):
        open_dataset(f"points:{tmp_path / 'three.txt'},colour=red")
    with pytest.raises(InputError, match="expected points:PATH"):
        open_dataset("points:")


@pytest.mark.usefixtures("own_sources")
def test_a_registered_reader_without_a_path_takes_options_only():
    @register_source("line", takes_path=False)
    def line(rows: int = 4) -> Dataset:
        return as_dataset(([[float(row)] for row in range(rows)], [row % 2 for row in range(rows)]), name="line")

    assert len(open_dataset("line").splits["all"]) == 4
    assert len(open_dataset("line:rows=6").splits["all"]) == 6


@pytest.mark.usefixtures("own_sources")
def test_a_name_is_registered_once_but_its_function_may_be_defined_again():
    def define():
        @register_source("line", takes_path=False)
        def line(rows: int = 4) -> Dataset:
            return as_dataset(([[0.0]], [0]))

        return line

    define()
    define()
    with pytest.raises(InputError, match="name: 'line' is already .*define"):
        register_source("line")(lambda path: None)
    with pytest.raises(InputError, match="name: 'flora' is already"):
        register_source("flora")(lambda path: None)


@pytest.mark.parametrize("name", ["", "c", "My-Data", "a:b", "a b"])
def test_a_name_that_a_text_cannot_start_with_is_refused(name):
    with pytest.raises(InputError, match=f"name: .*got {name!r}"):
        register_source(name)
