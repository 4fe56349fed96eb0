"""Seals: what tells that a file is the one that was written, before anybody tries to understand it.

Pages of the Parquet files carry checksums of their own. What says where the pages are, the footer, does not, and neither does
the manifest; both are sealed here.
"""

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

MAGIC = b"PAR1"
LARGEST_FOOTER = 2**31


def seal_of_parquet(path: Path) -> list[int]:
    """The size of the file and a checksum of its footer; [0, 0] of a file that has none."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            return [0, 0]
        file.seek(size - 8)
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic != MAGIC or length > min(size - 8, LARGEST_FOOTER):
            return [0, 0]
        file.seek(size - 8 - length)
        return [size, zlib.crc32(file.read(length + 8))]


def seal_of_file(path: Path) -> list[int]:
    """The size of a small file and a checksum of all of it."""
    content = path.read_bytes()
    return [len(content), zlib.crc32(content)]


def seal_of_json(content: dict[str, Any]) -> str:
    """A checksum of what the dictionary says, however it is written down.

    >>> seal_of_json({"a": 1, "b": [2]}) == seal_of_json({"b": [2], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]
