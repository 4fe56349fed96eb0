"""Pictures kept on disk: made once, by one process, whole or not at all."""

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from shortlist.errors import InputError, ShortlistWarning
from shortlist.files import PlaceError, written_whole

# Raised whenever the same garden would be drawn differently.
DRAWING = 1


def kept_pictures(folder: Path, description: str, shape: tuple[int, ...], draw: Callable[[], Tensor]) -> Tensor:
    """The pictures of this description from the folder, or drawn and put there; a damaged file is drawn again.

    Of several processes that start together one draws and the others wait. The lock goes with the process that holds it.
    Where the folder may not be written to, pictures are drawn and not kept.
    """
    name = hashlib.sha256(f"{description} drawing={DRAWING}".encode()).hexdigest()[:24]
    path = folder / f"flora-{name}.safetensors"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cache: expected a folder, got the file {folder}")
    found = _read(path, shape)
    if found is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{path.stem}.lock"):
            found = _read(path, shape)  # another process may have drawn them meanwhile
            if found is None:
                found = draw()
                with written_whole(path) as temporary:
                    save_file({"images": found}, temporary, metadata={"description": description})
            return found
    except (PermissionError, PlaceError) as error:
        warnings.warn(f"{folder}: pictures are drawn and not kept ({error.strerror or error})", ShortlistWarning, stacklevel=3)
        return draw() if found is None else found


def _read(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """The pictures of a file, None where there is none or it holds something else."""
    try:
        images: Tensor = load_file(path)["images"]
    except (SafetensorError, KeyError, OSError):
        return None
    return images if tuple(images.shape) == shape and images.dtype == torch.uint8 else None
