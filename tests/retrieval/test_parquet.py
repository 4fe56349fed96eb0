"""Columns of floats are read by their bytes where those are one page with a checksum that they match, and else by Arrow."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist.retrieval.parquet import FloatColumns, page_checksum
from shortlist.retrieval.segments import ONE_PAGE, STORED

VALUES = np.random.default_rng(0).normal(size=(2, 5_000)).astype(np.float32)
TABLE = pa.table(
    [pa.array(column) for column in VALUES],
    schema=pa.schema([pa.field(name, pa.float32(), nullable=False) for name in "ab"]),
)


def by_arrow(monkeypatch):
    """Names of columns that Arrow is asked for."""
    asked, table = [], FloatColumns.table

    def counted(columns, group, names=None, thread=0):
        asked.append(names)
        return table(columns, group, names, thread)

    monkeypatch.setattr(FloatColumns, "table", counted)
    return asked


def check(path):
    columns = FloatColumns(path, 1)
    for _ in range(2):
        for group in range(2):
            here = VALUES[:, 3_000 * group : 3_000 * (group + 1)]
            np.testing.assert_array_equal(columns.column(group, "b"), here[1])
            np.testing.assert_array_equal(columns.summed(group, ["a", "b"]), here[0] + here[1])


def test_our_columns_are_read_without_arrow(tmp_path, monkeypatch):
    asked = by_arrow(monkeypatch)
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=3_000, **STORED, **ONE_PAGE)
    check(tmp_path / "a.parquet")
    assert not asked


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_size": 1_000, "write_batch_size": 100},
        {"write_page_checksum": False},
        {"compression": "snappy"},
        {"use_dictionary": True},
        {"column_encoding": "BYTE_STREAM_SPLIT"},
        {"data_page_version": "2.0"},
    ],
    ids=lambda options: "-".join(options),
)
def test_other_columns_are_left_to_arrow(tmp_path, monkeypatch, options):
    asked = by_arrow(monkeypatch)
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=3_000, **(STORED | options))
    check(tmp_path / "a.parquet")
    assert asked


def test_columns_that_may_lack_values_are_left_to_arrow(tmp_path, monkeypatch):
    asked = by_arrow(monkeypatch)
    pq.write_table(pa.table({"a": VALUES[0], "b": VALUES[1]}), tmp_path / "a.parquet", row_group_size=3_000, **STORED)
    check(tmp_path / "a.parquet")
    assert asked


def test_any_bytes_may_be_the_header_of_a_page():
    draw = random.Random(0)
    header = bytes([0x15, 0, 0x15, 16, 0x15, 16, 0x15, 0xFF, 0x01])
    assert page_checksum(header + bytes(9), 8) == 2**32 - 128
    assert page_checksum(header, 9) is None
    assert all(page_checksum(header[:length], 8) is None for length in range(len(header)))
    for _ in range(2_000):
        found = page_checksum(bytes(draw.choice([0x15, draw.randrange(256)]) for _ in range(draw.randrange(30))), 8)
        assert found is None or 0 <= found < 2**32
