"""CIFAR-100 kept as lossless WebP in npz parts → its published binary layout, which ``cifar100:PATH`` reads.

``python -m benchmarks.cifar_parts PARTS OUT``. A part holds ``blob`` (uint8, all files one after the other), ``offset``
(int64, n + 1), ``label`` and ``coarse``; ``classes.csv`` names both.
"""

import csv
import io
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from shortlist.files import folder_written_whole
from shortlist.machine import usable_cores

PARTS = {"train.bin": ("train_0.npz", "train_1.npz"), "test.bin": ("test.npz",)}


def records(part: Path) -> np.ndarray:
    """Coarse label, fine label and 3,072 pixels of every picture, uint8 (n, 3074)."""
    with np.load(part) as arrays:
        blob, offset, fine, coarse = (arrays[name] for name in ("blob", "offset", "label", "coarse"))
    content = blob.tobytes()

    def pixels(row: int) -> np.ndarray:
        with Image.open(io.BytesIO(content[offset[row] : offset[row + 1]])) as picture:
            return np.asarray(picture.convert("RGB")).transpose(2, 0, 1).reshape(-1)

    with ThreadPoolExecutor(usable_cores()) as pool:
        pictures = np.stack(list(pool.map(pixels, range(len(fine)))))
    return np.concatenate([coarse[:, None], fine[:, None], pictures], axis=1).astype(np.uint8)


def convert(parts: Path, out: Path) -> None:
    with (parts / "classes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = {kind: _names(rows, kind) for kind in ("fine", "coarse")}
    with folder_written_whole(out) as folder:
        for name, files in PARTS.items():
            np.concatenate([records(parts / file) for file in files]).tofile(folder / name)
        for kind, listed in names.items():
            (folder / f"{kind}_label_names.txt").write_text("\n".join(listed) + "\n", encoding="utf-8")


def _names(rows: list[dict[str, str]], kind: str) -> list[str]:
    number, name = {"fine": ("index", "name"), "coarse": ("superclass_index", "superclass")}[kind]
    found = {int(row[number]): row[name] for row in rows}
    return [found[place] for place in range(len(found))]


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
