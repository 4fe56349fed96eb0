"""Numbers between numpy and Arrow, by their bytes: Arrow's own ways load pandas, which takes longer than a search."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KINDS = {pa.float32(): np.float32, pa.int64(): np.int64}


def numbers_of(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """The numbers of a column that has no gaps, float32 or int64 (n,); not to be written to.

    >>> numbers_of(pa.chunked_array([[1, 2], [3]]))
    array([1, 2, 3])
    """
    chunks = [_numbers(chunk) for chunk in column.chunks]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.zeros(0, KINDS[column.type]), *chunks])


def places(rows: npt.NDArray[np.int64]) -> pa.Array:
    """Places, to take rows by.

    >>> places(np.array([2, 0])).to_pylist()
    [2, 0]
    """
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))])


def _numbers(chunk: pa.Array) -> npt.NDArray[Any]:
    content = np.frombuffer(chunk.buffers()[1], KINDS[chunk.type])
    return content[chunk.offset : chunk.offset + len(chunk)]
