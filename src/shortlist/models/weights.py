"""Weights of one's own for a backbone: a safetensors file, matched by name and shape."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.words import counted, printable, quoted

SUFFIX = ".safetensors"
PICKLED = (".pt", ".pth", ".bin", ".ckpt")  # what torch.save writes may run code when it is read


def load_weights(module: nn.Module, path: str | Path) -> str:
    """Load weights into a module, every one of them; a sentence says what of the file was not used.

    Tensors are matched by name, behind whatever the names in the file begin with alike (``backbone.``, ``module.``), and by
    shape. A tensor of the module that the file lacks, or has in another shape, is an error; tensors that only the file has,
    such as those of a classifier's head, are left out.

    Args:
        module: the backbone.
        path: of a ``.safetensors`` file.

    >>> import tempfile, torch
    >>> from safetensors.torch import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file({"net.weight": torch.ones(2, 3), "head.bias": torch.ones(2)}, f"{folder}/mine.safetensors")
    ...     load_weights(layer := nn.Linear(3, 2, bias=False), f"{folder}/mine.safetensors")
    '1 tensor loaded from mine.safetensors; 1 tensor of the file was not used (head.bias)'
    >>> layer.weight.sum().item()
    6.0
    """
    path = Path(path)
    given, wanted = _read(path), module.state_dict()
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}  # older files lack them
    before = _prefix(given, wanted, path)
    found = {name: given[before + name] for name in wanted if before + name in given}
    missing = [name for name in wanted if name not in found and name not in counters]
    called = printable(path.name)
    if missing:
        raise InputError(
            f"weights: expected every tensor of the backbone in {called}, got none for {counted(len(missing), 'tensor')} of "
            f"{len(wanted)} ({quoted(missing, 3)}); the file holds {quoted(list(given), 3)}: choose the backbone that it was "
            "saved from"
        )
    for name, tensor in found.items():
        _check_tensor(name, tensor, wanted[name], called)
    module.load_state_dict({name: found.get(name, wanted[name]) for name in wanted})
    unused = [name for name in given if name.removeprefix(before) not in found or not name.startswith(before)]
    rest = f"; {counted(len(unused), 'tensor of the file was', 'tensors of the file were')} not used ({', '.join(unused[:3])}"
    more = f" and {len(unused) - 3:,} more)" if len(unused) > 3 else ")"
    return f"{counted(len(found), 'tensor')} loaded from {called}{rest + more if unused else ''}"


def check_weights_path(path: str | Path) -> None:
    """Raise an error unless this is a file that may hold weights."""
    path = Path(path)
    if path.suffix.lower() in PICKLED and path.is_file():
        raise InputError(
            f"weights: expected a {SUFFIX} file, got {printable(str(path))}, which only a pickle loader can read: convert it "
            "once, where you trust it, with safetensors.torch.save_file(torch.load(FILE, weights_only=True), NEW)"
        )
    if path.suffix.lower() != SUFFIX or not path.is_file():
        came = "another kind of file" if path.is_file() else "a folder" if path.is_dir() else "nothing there"
        raise InputError(f"weights: expected a {SUFFIX} file, got {printable(str(path))}: {came}")


def _read(path: Path) -> dict[str, Tensor]:
    check_weights_path(path)
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except Exception as error:  # whatever safetensors makes of a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise InputError(f"weights: {printable(str(path))} cannot be read as weights: {reason}") from error
    if not tensors:
        raise InputError(f"weights: expected tensors by name in {printable(str(path))}, got none")
    return tensors


def _check_tensor(name: str, given: Tensor, wanted: Tensor, called: str) -> None:
    """Raise an error unless a tensor can take the place of that of the module."""
    if given.shape != wanted.shape:
        shapes = f"{tuple(wanted.shape)}, got {tuple(given.shape)} in {called}"
        raise InputError(f"weights: expected {name!r} of shape {shapes}: choose the backbone it was saved from")
    if not wanted.is_floating_point():
        return
    if not given.is_floating_point():
        kind = str(given.dtype).removeprefix("torch.")
        raise InputError(
            f"weights: expected floating point in {name!r}, got {kind} in {called}: save the network before it is quantised"
        )
    if not bool(given.float().isfinite().all()):
        raise InputError(
            f"weights: expected finite numbers in {name!r}, got others in {called}: the training they are from diverged"
        )


def _prefix(given: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> str:
    """What the names in the file begin with alike, before those of the module: the text with the most matches.

    Names that are those of the module count first; of two networks in one file nobody can tell which is meant.
    """
    last = next(iter(wanted), "")
    prefixes = {"", *(name.removesuffix(last) for name in given if name.endswith(f".{last}"))}
    matches = {before: sum(before + name in given for name in wanted) for before in sorted(prefixes)}
    best = [before for before, number in matches.items() if number == max(matches.values())]
    if len(best) > 1 and best[0] and matches[best[0]]:
        raise InputError(
            f"weights: expected one network in {printable(path.name)}, got {len(best)} ({quoted(best, 3)}): save the "
            "tensors of the one you want in a file of their own"
        )
    return best[0]
