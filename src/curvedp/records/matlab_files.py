"""Reading records from MATLAB files (mat), up to version 7.
A file is a sequence of *elements*, most of them compressed arrays. SciPy reads them;
the functions here first refuse elements that would unpack to more memory than allowed
(`curvedp.records.limits`).
"""

import os
import struct
import zlib
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from curvedp.errors import ParameterError
from curvedp.records.array_choice import choose_array, refuse_fields, refuse_objects
from curvedp.records.conversion import cells_to_floats, complex_to_pairs
from curvedp.records.limits import check_unpacked, unpacked_limit
from curvedp.records.options import ReadOptions

_BLOCK_BYTES = 1 << 20  # how much is unpacked at once

# Classes of variables in a MATLAB file that are arrays of numbers or texts. The others
# are cells, structures, sparse matrices, functions and objects.
_MAT_ARRAY_CLASSES = frozenset(
    {"double", "single", "logical", "char"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)

# From the description of MATLAB's level 5 format: the data type of a compressed
# element, the bytes before the first element, and where among them the byte order is
# marked.
_MAT_COMPRESSED = 15
_MAT_HEADER_BYTES = 128
_MAT_TAG_BYTES = 8  # the data type and the size before each element
_MAT_BYTE_ORDER = slice(126, 128)

_BYTES_PER_COMPLEX = 16  # the largest number in a MATLAB file


def read_mat(path: Path, options: ReadOptions) -> np.ndarray:
    """Read the records in an array of a MATLAB file, which `options.key` names.

    One complex number makes all numbers of an array complex in MATLAB. So whether an
    array is complex is private and is never refused. If a record ends in pairs of
    numbers and the array has the shape without the pairs, each number is read as its
    real and imaginary part. Otherwise a complex number is read as a real one if its
    imaginary part is 0, and as NaN if not.

    Parameters
    ----------
    path : Path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array
        Doubles, or texts where the array holds texts.
    """
    array = _read_mat_array(path, options)
    if array.dtype.kind != "U" and (*array.shape[1:], 2) == options.form.shape:
        return complex_to_pairs(array)
    return _real_numbers(array)


def _real_numbers(array: np.ndarray) -> np.ndarray:
    """Convert complex numbers to floats, with NaN for those that are not real.

    Parameters
    ----------
    array : array
        An array of a MATLAB file. One of another type is returned unchanged.
    """
    if array.dtype.kind == "c":
        return cells_to_floats(array)
    return array


def _read_mat_array(path: Path, options: ReadOptions) -> np.ndarray:
    """Read the array of a MATLAB file that `options.key` names, or its only array.

    Files up to version 7 are read. Those of version 7.3 are HDF5 and are refused.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array
        Numbers, which may be complex, or texts.

    Raises
    ------
    ParameterError
        For a file of version 7.3, an array of objects or fields, and one that fills
        more memory than the limit.
    """
    import scipy.io

    limit = unpacked_limit(path, options.max_unpacked)
    _check_mat_elements(path, limit)
    try:
        variables = {
            name: (shape, kind) for name, shape, kind in scipy.io.whosmat(path)
        }
    except NotImplementedError:
        raise ParameterError(
            f"{path.name} is a MATLAB file of version 7.3; save it with the option -v7"
        ) from None
    name = choose_array(path, list(variables), options.key)
    shape, kind = variables[name]
    if kind == "struct":
        refuse_fields(path)
    if kind not in _MAT_ARRAY_CLASSES:
        refuse_objects(path)
    check_unpacked(path, prod(shape) * _BYTES_PER_COMPLEX, limit)
    return np.asarray(scipy.io.loadmat(path, variable_names=[name])[name])


def read_mat_column(path: Path, column: str | int, options: ReadOptions) -> np.ndarray:
    """Read the array of a MATLAB file that has one value for each record.

    Parameters
    ----------
    path : path
        The file.
    column : str or int
        The name of the array.
    options : ReadOptions
        The caller's options for reading the file.
    """
    array = _read_mat_array(path, options._replace(key=str(column)))
    return _real_numbers(array).ravel()


def _check_mat_elements(path: Path, limit: int) -> None:
    """Refuse a MATLAB file with an element that unpacks to more than `limit` bytes.

    A file is a sequence of elements. Each begins with two 4-byte numbers, its data type
    and its size, followed by its content. SciPy would unpack a compressed element
    without a limit on its size.

    Parameters
    ----------
    path : path
        The file.
    limit : int
        The most bytes that may be unpacked.

    Raises
    ------
    ParameterError
        If there is such an element.
    """
    with path.open("rb") as file:
        mark = file.read(_MAT_HEADER_BYTES)[_MAT_BYTE_ORDER]
        if mark not in (b"IM", b"MI"):  # Version 4, in which nothing is compressed.
            return
        tag_format = "<II" if mark == b"IM" else ">II"
        tag = file.read(_MAT_TAG_BYTES)
        while len(tag) == _MAT_TAG_BYTES:
            data_type, size = struct.unpack(tag_format, tag)
            if data_type == _MAT_COMPRESSED:
                _check_compressed_element(path, file, size, limit)
            else:
                file.seek(size, os.SEEK_CUR)
            tag = file.read(_MAT_TAG_BYTES)


def _check_compressed_element(
    path: Path, file: IO[bytes], size: int, limit: int
) -> None:
    """Refuse a compressed element that unpacks to more than `limit` bytes.

    The element is unpacked in blocks that are thrown away, so little memory is needed.

    Parameters
    ----------
    path : Path
        The file, for error messages.
    file : binary file
        Open at the start of the element's content.
    size : int
        How many packed bytes the element has.
    limit : int
        How many bytes it may unpack to.

    Raises
    ------
    ParameterError
        If it unpacks to more.
    """
    unpacker = zlib.decompressobj()
    remaining = size
    unpacked_size = 0
    while remaining > 0:
        packed = file.read(min(remaining, _BLOCK_BYTES))
        if not packed:  # The file ends early, which SciPy reports.
            return
        remaining -= len(packed)
        while packed:
            unpacked_size += len(unpacker.decompress(packed, _BLOCK_BYTES))
            check_unpacked(path, unpacked_size, limit)
            packed = unpacker.unconsumed_tail
