"""The function of the example that prepares pictures for an exported classifier gives exactly the pixels of the library."""

import ast
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from shortlist.data.loading import load_pictures
from shortlist.data.pictures import PictureFiles

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_pictures.py"
RNG = np.random.default_rng(0)
BASE = Image.fromarray(np.kron(RNG.integers(0, 256, (6, 9, 3)), np.ones((11, 11, 1))).astype(np.uint8))
ALPHA = Image.fromarray(RNG.integers(0, 256, (66, 99), dtype=np.uint8))


def function():
    """The function alone, without running the example."""
    tree = ast.parse(EXAMPLE.read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    names = {"Image": Image, "ImageOps": ImageOps, "np": np}
    exec(compile(ast.Module([found], []), str(EXAMPLE), "exec"), names)
    return names[found.name]


def with_alpha():
    picture = BASE.copy()
    picture.putalpha(ALPHA)
    return picture


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return {"exif": exif}


PICTURES = {
    "large.jpg": (BASE.resize((1600, 1100)), {}),
    "turned.jpg": (BASE, turned()),
    "gray.jpg": (BASE.convert("L"), {}),
    "cmyk.jpg": (BASE.convert("CMYK"), {}),
    "alpha.png": (with_alpha(), {}),
    "gray-alpha.png": (with_alpha().convert("LA"), {}),
    "alpha.webp": (with_alpha(), {"lossless": True}),
    "palette.png": (BASE.quantize(16), {}),
    "see-through.png": (BASE.quantize(16), {"transparency": 3}),
    "tall.png": (BASE.rotate(90, expand=True), {}),
    "tiny.png": (BASE.resize((5, 9)), {}),
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(("size", "fit"), [(32, "crop"), (32, "center"), (33, "center")])
def test_the_example_prepares_pictures_as_the_library_does(tmp_path, name, size, fit):
    picture, options = PICTURES[name]
    picture.save(tmp_path / name, **options)
    expected = load_pictures(PictureFiles(tmp_path, [name]), size=size, fit=fit).images.numpy()
    assert np.array_equal(function()(tmp_path / name, size, fit), expected)
