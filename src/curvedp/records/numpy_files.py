"""Reading records from NumPy's files: npy (one array) and npz (several, by name).
Shape and type are in the header of an array and are public. They are checked before
any number is read, so that no file runs code or fills more memory than allowed
(`curvedp.records.limits`).
"""

import zipfile
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from curvedp.records.array_choice import choose_array, refuse_fields, refuse_objects
from curvedp.records.limits import check_unpacked, unpacked_limit
from curvedp.records.options import ReadOptions

_BLOCK_BYTES = 1 << 20  # how much is unpacked at once


def read_npy(path: Path, options: ReadOptions) -> np.ndarray:
    """Read the array of an npy file.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        Its `max_unpacked` limits the memory that the array may fill.
    """
    limit = unpacked_limit(path, options.max_unpacked)
    with path.open("rb") as file:
        return _read_npy_stream(path, file, limit)


def read_npz(path: Path, options: ReadOptions) -> np.ndarray:
    """Read the array of an npz file that `options.key` names, or its only array.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array
        The array.
    """
    limit = unpacked_limit(path, options.max_unpacked)
    with zipfile.ZipFile(path) as archive:
        part_of_name = {part.removesuffix(".npy"): part for part in archive.namelist()}
        name = choose_array(path, list(part_of_name), options.key)
        with archive.open(part_of_name[name]) as file:
            return _read_npy_stream(path, file, limit)


def read_npz_column(path: Path, column: str | int, options: ReadOptions) -> np.ndarray:
    """Read the array of an npz file that has one value for each record.

    Parameters
    ----------
    path : path
        The file.
    column : str or int
        The name of the array.
    options : ReadOptions
        The caller's options for reading the file.
    """
    return read_npz(path, options._replace(key=str(column)))


def _read_npy_stream(path: Path, file: IO[bytes], limit: int) -> np.ndarray:
    """Read an array in NumPy's npy format from an open file.

    The header states the type and the shape. Arrays of objects and of named fields are
    refused, and no more bytes are unpacked than the header declares.

    Parameters
    ----------
    path : Path
        The file, for error messages.
    file : binary file
        Open at the start of the array.
    limit : int
        The limit in bytes on the memory that the array may fill.

    Returns
    -------
    array
        The array.

    Raises
    ------
    ParameterError
        For objects and named fields, and for an array that fills more memory.
    """
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, in_fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, in_fortran_order, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        refuse_objects(path)
    if dtype.kind == "V":
        refuse_fields(path)

    count = prod(shape)
    size = count * dtype.itemsize
    check_unpacked(path, size, limit)
    if size == 0:
        values = np.empty(0, dtype)
    else:
        values = np.frombuffer(_read_exactly(file, size), dtype, count)
    return values.reshape(shape, order="F" if in_fortran_order else "C")


def _read_exactly(file: IO[bytes], size: int) -> bytearray:
    """Read `size` bytes in blocks; a file that ends before them raises `ValueError`.

    Parameters
    ----------
    file : binary file
        The open file.
    size : int
        The number of bytes to read.

    Returns
    -------
    bytearray
        The bytes.

    Raises
    ------
    ValueError
        If the file ends before them.
    """
    content = bytearray()
    while len(content) < size:
        block = file.read(min(size - len(content), _BLOCK_BYTES))
        if not block:
            raise ValueError("the file ends before its array does")
        content += block
    return content
