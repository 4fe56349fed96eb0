"""Files of every kind, damaged, or well-formed with odd values: each is read, or refused with an InputError."""

import contextlib
import json
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from shortlist import Classifier, Predictions
from shortlist.errors import InputError
from shortlist.links import Platt
from shortlist.retrieval import Index
from shortlist.sets import SetRule, classwise, lac
from shortlist.training.checkpoint import load_checkpoint
from shortlist.training.run_folder import RunFolder
from tests.fuzz.values import one_label, probabilities
from tests.retrieval.small import predictions
from tests.training.small import run


def _rule(path):
    rule = SetRule.load(path)
    assert not any(value.isnan().any() for value in rule.state_dict().values() if isinstance(value, torch.Tensor)), rule
    return rule(torch.full((2, 5), 0.2))


def _scores(path):
    given = Predictions.load(path)
    assert not given.scores.isnan().any(), given
    return given.rows(slice(0, 2)).probs() if given.link is not None and len(given) else given


def _classifier(path):
    classifier = Classifier.load(path)
    assert all(value.isfinite().all() for value in classifier.network.state_dict().values()), classifier
    return classifier


def _run(path):
    run = RunFolder(path)
    return [run.recipe, run.history, run.predictions("test")]


READERS = {
    "scores.npz": _scores,
    "scores.safetensors": _scores,
    "scores.parquet": _scores,
    "scores.csv": _scores,
    "linked.safetensors": _scores,
    "rule.safetensors": _rule,
    "classwise.safetensors": _rule,
    "index": lambda path: [Index.open(path).check(), Index.open(path).search("fork and not bus", 5)],
    "run/classifier": _classifier,
    "run/checkpoint.safetensors": load_checkpoint,
    "run": _run,
}
ODD_VALUES = [None, True, -1, 0, 2**70, float("nan"), float("inf"), "", "x", "../x", [], [[]], {}, {"kind": "x"}, "\x1b[31m"]
ODD_NUMBERS = [float("nan"), float("inf"), -float("inf"), -1.0, 1e30, 0.0]


@cache
def originals() -> Path:
    """One of each, made once in a folder that goes with the process."""
    folder, draw = Path(mkdtemp()), random.Random(0)
    given = predictions(20, target=torch.arange(20) % 6, ids=[f"row {row}" for row in range(20)])
    for suffix in ("npz", "safetensors", "parquet"):
        given.save(folder / f"scores.{suffix}")
    pd.DataFrame(given.probs().numpy(), given.ids, given.classes).assign(label=given.target).to_csv(folder / "scores.csv")
    odd = given.with_link(Platt().fit(given.scores, given.target))
    odd.save(folder / "linked.safetensors")
    calibration, target = probabilities(draw, 60, 5, sum_to_1=True).astype(np.float64), one_label(draw, 60, 5)
    lac(0.1).fit(calibration, target).save(folder / "rule.safetensors")
    classwise(lac(0.1)).fit(calibration, target).save(folder / "classwise.safetensors")
    Index.build(predictions(300), folder / "index")
    run(folder / "run", epochs=1)
    return folder


def damaged_file_is_read_or_refused(draw: random.Random, folder: Path) -> None:
    """One file of a random kind with random damage, or with an odd value where a good one was."""
    name = draw.choice(list(READERS))
    original, copy = originals() / name, folder / Path(name).name
    if original.is_dir():
        shutil.copytree(original, copy)
        damaged = draw.choice(sorted(path for path in copy.rglob("*") if path.is_file() and path.stat().st_size))
    else:
        shutil.copy(original, copy)
        damaged = copy
    odd = ODD.get(damaged.suffix)
    if odd is not None and draw.random() < 0.6:
        odd(draw, damaged)
    else:
        _damage(draw, damaged)
    with contextlib.suppress(InputError):
        READERS[name](copy)


def flipped_bit_is_refused_or_harmless(draw: random.Random, folder: Path) -> None:
    """One bit of a classifier's folder or of a checkpoint is another: it is refused, or what was saved is what is read."""
    name = draw.choice(["run/classifier", "run/checkpoint.safetensors"])
    original, copy = originals() / name, folder / "copy.safetensors"
    if original.is_dir():
        shutil.copytree(original, copy)
        damaged = draw.choice(sorted(path for path in copy.rglob("*") if path.suffix in (".json", ".safetensors")))
    else:
        shutil.copy(original, copy)
        damaged = copy
    content = bytearray(damaged.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    damaged.write_bytes(bytes(content))
    with contextlib.suppress(InputError):
        assert _meaning(name, copy) == _meaning(name, original)


def _meaning(name: str, path: Path) -> list[str]:
    """What a saved classifier answers with, or what a checkpoint goes on from."""
    if name != "run/classifier":
        return [repr(part) for part in torch.utils._pytree.tree_leaves(vars(load_checkpoint(path)))]
    classifier = Classifier.load(path)
    state = [f"{key} {value.double().tolist()}" for key, value in classifier.network.state_dict().items()]
    return [*state, *classifier.classes, str(classifier.link), str(classifier.rule), str(classifier.inputs)]


def _odd_json(draw, path: Path) -> None:
    path.write_text(json.dumps(_odd_leaf(draw, json.loads(path.read_text()))))


def _odd_safetensors(draw, path: Path) -> None:
    """A value of the header, or of a tensor, is odd; the file is well-formed."""
    with safe_open(path, framework="pt") as file:
        header, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    texts = [key for key, value in header.items() if value[:1] in "{["]
    if texts and draw.random() < 0.6:
        key = draw.choice(texts)
        header[key] = json.dumps(_odd_leaf(draw, json.loads(header[key])))
    elif tensors:
        key = draw.choice(sorted(tensors))
        tensors[key] = torch.from_numpy(_odd_array(draw, tensors[key].numpy()))
    save_file(tensors, path, metadata=header)


def _odd_npz(draw, path: Path) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    key = draw.choice(sorted(arrays))
    arrays[key] = _odd_array(draw, arrays[key])
    np.savez(path, **arrays)


ODD = {".json": _odd_json, ".safetensors": _odd_safetensors, ".npz": _odd_npz}


def _odd_leaf(draw, value):
    """A copy of JSON in which one value, somewhere, is odd."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        return {**value, key: _odd_leaf(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.9:
        place = draw.randrange(len(value))
        return [*value[:place], _odd_leaf(draw, value[place]), *value[place + 1 :]]
    return draw.choice(ODD_VALUES)


def _odd_array(draw, array):
    """A copy of an array with an odd number, another shape or another type."""
    kind = draw.choice(["number", "shape", "type"])
    if kind == "number" and array.size and array.dtype.kind in "fiub":
        array = array.copy()
        number = draw.choice(ODD_NUMBERS) if array.dtype.kind == "f" else draw.choice([-1, 0, 1, 100])
        array.reshape(-1)[draw.randrange(array.size)] = np.array(number).astype(array.dtype)
        return array
    if kind == "shape":
        row = np.atleast_1d(array)
        return draw.choice([row[:0], array[..., None], array.ravel()[:1], np.concatenate([row, row])]).copy()
    return np.zeros(array.shape, draw.choice([np.float16, np.int8, np.bool_, np.float64, np.int64]))


def _damage(draw, path: Path) -> None:
    content = bytearray(path.read_bytes())
    kind = draw.choice(["bytes", "bytes", "cut", "double", "text", "number", "empty"])
    place = draw.randrange(len(content))
    if kind == "bytes":
        for _ in range(draw.choice([1, 3, 30])):
            content[draw.randrange(len(content))] = draw.randrange(256)
    elif kind == "cut":
        del content[place:]
    elif kind == "double":
        content[place:place] = content[: draw.randrange(len(content)) + 1]
    elif kind == "empty":
        content.clear()
    elif kind == "text":
        content[place:place] = draw.choice([b"null", b"NaN", b"-1", b"[]", b"{}", b'"', b"\x00", b"\xff", b"../", b"1e999"])
    else:
        digits = [where for where, byte in enumerate(content) if 48 <= byte <= 57]
        if digits:
            where = draw.choice(digits)
            content[where : where + 1] = draw.choice([b"9999999999", b"-1", b"0", b"1e400", b'"x"', b"null", b"true"])
    path.write_bytes(bytes(content))
