"""Pictures at an address that Arrow knows, such as ``s3://bucket/leaves``: a folder, or Parquet files that hold them."""

import re
from collections.abc import Sequence
from pathlib import Path
from posixpath import basename, relpath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as file_systems
import pyarrow.parquet as pq
import torch

from shortlist.data.addressed import AddressedPictures
from shortlist.data.dataset import ALL, Dataset, Split
from shortlist.data.parquet_pictures import ParquetPictures
from shortlist.data.picture_kinds import is_picture_name
from shortlist.data.problems import Problem, first_of
from shortlist.data.readers.columns import find_column
from shortlist.data.readers.file_kinds import PARQUET_SUFFIXES
from shortlist.data.readers.picture_table import ABSENT, TablePictures
from shortlist.errors import InputError
from shortlist.words import printable, quoted

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://")


def is_address(text: str) -> bool:
    """Whether a text is an address rather than a path.

    >>> is_address("s3://bucket/leaves"), is_address("folders:leaves"), is_address("c:/leaves")
    (True, False, False)
    """
    return ADDRESS.match(text) is not None


def read_address(address: str) -> Dataset:
    """All pictures at an address, in one split without labels.

    A folder stands for all pictures below it, at any depth, in the order of their names, or, if there are none, for its Parquet
    files, each row a picture in a column of bytes or of ``{bytes, path}``, named by a column ``id`` if there is one, unless a
    value of it occurs twice, else by its path or its number. Hidden files and folders are left out.

    Args:
        address: ``s3://…``, ``gs://…``, ``file:///…`` and what else :meth:`pyarrow.fs.FileSystem.from_uri` takes.
    """
    system, path, files = _files_at(address)
    name = basename(path.rstrip("/")) or "pictures"
    tables = [file for file in files if file.lower().endswith(PARQUET_SUFFIXES)]
    pictures = [file for file in files if is_picture_name(file)] or ([] if tables else files if files == [path] else [])
    if pictures:
        ids = [f"{address.rstrip('/')}/{relpath(file, path)}" if file != path else address for file in pictures]
        return Dataset(name, [], {ALL: Split(AddressedPictures(system, pictures, ids), None, ids)})
    if not tables:
        raise InputError(f"{printable(address)}: expected pictures, or Parquet files that hold them, got none")
    return _pictures_in(system, tables, name, address)


def read_parquet_folder(folder: str | Path) -> Dataset | None:
    """The pictures in the Parquet files of a folder of this machine, as at its address; None if there are no such files."""
    system, _, files = _files_at(Path(folder).resolve().as_uri())
    tables = [file for file in files if file.lower().endswith(PARQUET_SUFFIXES)]
    return _pictures_in(system, tables, basename(Path(folder).resolve()), str(folder)) if tables else None


def _pictures_in(system: Any, tables: Sequence[str], name: str, where: str) -> Dataset:
    """The rows of Parquet files that hold pictures."""
    try:
        pictures = ParquetPictures.open(system, tables, [_column(system, file) for file in tables])
        absent, ids = pictures.absent(), [one for file in tables for one in _ids(system, file)]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{printable(where)} cannot be read: {str(error).partition(chr(10))[0]}") from error
    except InputError as error:
        raise InputError(f"{printable(where)}: {error}") from None
    failures = [Problem(ABSENT, pictures.ids[row], "has no bytes: left out") for row in np.flatnonzero(absent).tolist()]
    column = pa.array(ids, pa.string()) if any(one is not None for one in ids) else None
    found, unused = TablePictures(pictures, pictures.ids, absent, failures).named(column, "id")
    there = torch.from_numpy(np.flatnonzero(~absent))
    if not len(there):
        raise InputError(f"{printable(where)}: expected pictures, got none{first_of(failures)}")
    return Dataset(name, [], {ALL: Split(found.pictures, None, found.ids).rows(there)}, problems=[*failures, *unused])


def _files_at(address: str) -> tuple[Any, str, list[str]]:
    """The file system of an address, the path on it, and the files there, by name; hidden ones are left out."""
    try:
        system, path = file_systems.FileSystem.from_uri(address)
        info = system.get_file_info(path)
        if info.type == file_systems.FileType.NotFound:
            raise InputError(f"{printable(address)}: there is nothing at this address")
        if info.type == file_systems.FileType.File:
            return system, path, [path]
        inside = system.get_file_info(file_systems.FileSelector(path, recursive=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{printable(address)} cannot be read: {str(error).partition(chr(10))[0]}") from error
    files = [one.path for one in inside if one.type == file_systems.FileType.File]
    shown = [file for file in files if not any(part.startswith(".") for part in relpath(file, path).split("/"))]
    return system, path, sorted(shown)


def _column(system: Any, path: str) -> str:
    """The name of the column of pictures of a Parquet file."""
    try:
        names = pq.read_schema(path, filesystem=system).names
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{printable(path)} cannot be read: {str(error).partition(chr(10))[0]}") from error
    return str(find_column(names, "path", None, basename(path), required=True))


def _ids(system: Any, path: str) -> list[str | None]:
    """The name of each row of a Parquet file, None where the file names none."""
    footer = pq.read_metadata(path, filesystem=system)
    names = footer.schema.to_arrow_schema().names
    name = find_column([one for one in names if one != _column(system, path)], "id", None, basename(path))
    if name is None:
        return [None] * footer.num_rows
    found = pq.read_table(path, columns=[name], filesystem=system, page_checksum_verification=True).column(name)
    return [None if one is None else str(one) for one in found.to_pylist()]


def check_alone(texts: Sequence[str]) -> str:
    """The address among some texts; it must be the only one."""
    if len(texts) > 1:
        raise InputError(f"an address must be given alone, got {quoted(texts)}")
    return texts[0]
