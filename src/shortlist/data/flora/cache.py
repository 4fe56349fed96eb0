"""Pictures kept on disk: made once, by one process, whole or not at all."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from shortlist.errors import InputError
from shortlist.files import written_whole

# Raised whenever the same garden would be drawn differently.
DRAWING = 1


def kept_pictures(folder: Path, description: str, draw: Callable[[], Tensor]) -> Tensor:
    """The pictures of this description from the folder, or drawn and put there; a damaged file is drawn again.

    Of several processes that start together one draws and the others wait. The lock goes with the process that holds it.
    """
    name = hashlib.sha256(f"{description} drawing={DRAWING}".encode()).hexdigest()[:24]
    path = folder / f"flora-{name}.safetensors"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cache: expected a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{path.stem}.lock"):
        if path.exists():
            try:
                images: Tensor = load_file(path)["images"]
                return images
            except (SafetensorError, KeyError, OSError):
                path.unlink()
        images = draw()
        with written_whole(path) as temporary:
            save_file({"images": images}, temporary, metadata={"description": description})
        return images
