"""Reading records from npy, npz, mat, zarr, NIfTI and parquet files.
Shapes and types are in a file's header and are public. They are checked first: a file
that does not hold numbers or texts is refused before anything is decoded, and so is one
that would fill more memory than allowed (`curvedp.records.limits`).
"""

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.records.columns import expand_ranges
from curvedp.records.conversion import cells_to_floats, complex_to_pairs
from curvedp.records.frames import find_record_columns, frame_column, frame_records
from curvedp.records.limits import check_unpacked, unpacked_limit
from curvedp.records.lines import BinaryFile, open_unpacked
from curvedp.records.options import ReadOptions
from curvedp.records.zarr_files import open_zarr

# Parquet and zarr files with more bytes of doubles than this become dask arrays: 1 GiB.
STREAMED = 1 << 30

_BLOCK = 1 << 20  # bytes that are unpacked at once
_BYTES_PER_DOUBLE = 8

# ---- NumPy's formats -----------------------------------------------------------------


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
        name = _array_name(path, list(part_of_name), options.key)
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
        _refuse_objects(path)
    if dtype.kind == "V":
        _refuse_fields(path)

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
        block = file.read(min(size - len(content), _BLOCK))
        if not block:
            raise ValueError("the file ends before its array does")
        content += block
    return content


# ---- MATLAB --------------------------------------------------------------------------

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
    name = _array_name(path, list(variables), options.key)
    shape, kind = variables[name]
    if kind == "struct":
        _refuse_fields(path)
    if kind not in _MAT_ARRAY_CLASSES:
        _refuse_objects(path)
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
        packed = file.read(min(remaining, _BLOCK))
        if not packed:  # The file ends early, which SciPy reports.
            return
        remaining -= len(packed)
        while packed:
            unpacked_size += len(unpacker.decompress(packed, _BLOCK))
            check_unpacked(path, unpacked_size, limit)
            packed = unpacker.unconsumed_tail


# ---- zarr and NIfTI ------------------------------------------------------------------


def read_zarr(path: Path, options: ReadOptions) -> Any:
    """Read the zarr array that `options.key` names, or the only one.

    A large array becomes a dask array if dask is installed; without dask it has to fit
    into memory.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array or dask array
        The array.
    """
    stored = open_zarr(path, options.key, options.max_unpacked)
    is_large = stored.size * _BYTES_PER_DOUBLE > STREAMED
    if is_large and options.mask is None and find_spec("dask") is not None:
        import dask.array

        return dask.array.from_zarr(stored)
    return np.asarray(stored[...])


def read_nifti(path: Path, options: ReadOptions) -> np.ndarray:
    """Read the volume of a NIfTI file, shape (x, y, z, entries of a record).

    NIfTI writes symmetric matrices with one more axis, (x, y, z, 1, 6), which is
    dropped. A mask is required, because the background of an image is not a set of
    records.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array
        The volume.

    Raises
    ------
    ParameterError
        Without a mask.
    """
    if options.mask is None:
        raise ParameterError(
            f"is missing: say which voxels of {path.name} are records, by a public file or "
            "array",
            parameter="mask",
        )
    volume = _read_volume(path, options.max_unpacked)
    if volume.ndim == 5 and volume.shape[3] == 1:
        return volume[:, :, :, 0]
    return volume


def _read_volume(path: Path, max_unpacked: int | None) -> np.ndarray:
    """Read the array of a NIfTI file after checking its header.

    Parameters
    ----------
    path : path
        The file.
    max_unpacked : int, optional
        The most bytes that the file may unpack to.

    Returns
    -------
    array
        The voxels, scaled as the header says.

    Raises
    ------
    ParameterError
        If it is no NIfTI file of real numbers, or fills more memory than the limit.
    """
    import nibabel

    limit = unpacked_limit(path, max_unpacked)
    _check_nifti_header(path, limit)
    image = nibabel.load(path)
    if not isinstance(image, nibabel.Nifti1Image | nibabel.Nifti2Image):
        raise ParameterError(f"{path.name} is not a NIfTI file")
    if image.get_data_dtype().kind not in "biuf":
        _refuse_fields(path)
    # nibabel scales numbers to doubles, whatever their type in the file is.
    check_unpacked(path, prod(image.shape) * _BYTES_PER_DOUBLE, limit)
    return np.asarray(image.dataobj)


# Sizes of the headers of NIfTI-1 and NIfTI-2. Each begins with its size as a 4-byte
# number.
_NIFTI_1_HEADER_BYTES = 348
_NIFTI_2_HEADER_BYTES = 540

# An extension begins with its size and a code, of 4 bytes each, and has at least 16
# bytes.
_EXTENSION_TAG_BYTES = 8
_MIN_EXTENSION_BYTES = 16

# The position of the offset of the first voxel in these headers: a float and an 8-byte
# integer.
_NIFTI_1_VOXEL_OFFSET = 108
_NIFTI_2_VOXEL_OFFSET = 168


class _NiftiLayout(NamedTuple):
    """Where the parts of a NIfTI file begin.

    Attributes
    ----------
    byte_order : str
        "<" or ">", as in the formats of `struct`.
    first_extension : int
        The offset of the first extension in bytes, if there is one.
    first_voxel : int
        The offset of the first voxel in bytes.
    """

    byte_order: str
    first_extension: int
    first_voxel: int


def _parse_nifti_layout(header: bytes) -> _NiftiLayout:
    """Return where the parts of a NIfTI file begin.

    Parameters
    ----------
    header : bytes
        The first 540 bytes of the file.

    Returns
    -------
    _NiftiLayout
        The byte order, and the offsets of the first extension and the first voxel.
    """
    sizes = (_NIFTI_1_HEADER_BYTES, _NIFTI_2_HEADER_BYTES)
    is_little_endian = int.from_bytes(header[:4], "little") in sizes
    order = "<" if is_little_endian else ">"

    is_nifti_2 = header[4:6] == b"n+"
    if is_nifti_2:
        header_bytes = _NIFTI_2_HEADER_BYTES
        offset = struct.unpack_from(f"{order}q", header, _NIFTI_2_VOXEL_OFFSET)[0]
    else:
        header_bytes = _NIFTI_1_HEADER_BYTES
        offset = struct.unpack_from(f"{order}f", header, _NIFTI_1_VOXEL_OFFSET)[0]
    # Four bytes after the header say whether there are extensions.
    return _NiftiLayout(order, header_bytes + 4, int(offset))


def _check_nifti_header(path: Path, limit: int) -> None:
    """Refuse a NIfTI file whose extensions fill more than `limit` bytes.

    Extensions lie between the header and the voxels, and each begins with its size.
    nibabel reads all of them and does not check their sizes.

    Parameters
    ----------
    path : path
        The file.
    limit : int
        The most bytes that may be unpacked.

    Raises
    ------
    ParameterError
        If they declare more.
    """
    with open_unpacked(path) as file:
        layout = _parse_nifti_layout(file.read(_NIFTI_2_HEADER_BYTES))
        check_unpacked(path, layout.first_voxel, limit)
        _check_extensions(
            path,
            file,
            size_format=f"{layout.byte_order}i",
            start=layout.first_extension,
            end=layout.first_voxel,
            largest_size=min(limit, layout.first_voxel),
        )


def _check_extensions(
    path: Path,
    file: BinaryFile,
    size_format: str,
    start: int,
    end: int,
    largest_size: int,
) -> None:
    """Refuse a NIfTI file with an extension that declares too large a size.

    Parameters
    ----------
    path : Path
        The file, for error messages.
    file : binary file
        The unpacked file.
    size_format : str
        How the size at the start of an extension is stored, for `struct`.
    start, end : int
        The offsets of the first extension and of the first voxel.
    largest_size : int
        How many bytes an extension may declare.

    Raises
    ------
    ParameterError
        If there is such an extension.
    """
    position = start
    file.seek(position)
    while position + _EXTENSION_TAG_BYTES <= end:
        tag = file.read(_EXTENSION_TAG_BYTES)
        if len(tag) < _EXTENSION_TAG_BYTES:
            return
        (size,) = struct.unpack_from(size_format, tag)
        check_unpacked(path, size, largest_size)
        # A smaller size means that there are no more extensions.
        if size < _MIN_EXTENSION_BYTES:
            return
        position += size
        file.seek(position)


# ---- common to these files -----------------------------------------------------------

READERS: dict[str, Callable[[Path, ReadOptions], Any]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".mat": read_mat,
    ".zarr": read_zarr,
    ".nii": read_nifti,
    ".nii.gz": read_nifti,
}


def select_voxels(source_name: str, X: np.ndarray, options: ReadOptions) -> np.ndarray:
    """Return the records at the voxels where the public mask is not zero.

    Parameters
    ----------
    source_name : str
        The name of the volume in error messages.
    X : array
        The volume; its first axes are those of the mask.
    options : ReadOptions
        Its `mask` is an array, or the path of a NIfTI or npy file.

    Returns
    -------
    array
        The records, one for each voxel of the mask.

    Raises
    ------
    ParameterError
        If the mask is not numeric, or its shape is not that of the volume's first axes.
    """
    mask = options.mask
    if isinstance(mask, str | Path):
        mask = _read_mask(Path(mask), options.max_unpacked)
    mask = np.asarray(mask)
    is_numeric = mask.dtype.kind in "biuf"
    is_aligned = mask.ndim > 0 and mask.shape == X.shape[: mask.ndim]
    if not is_numeric or not is_aligned:
        raise ParameterError(
            f"mask has shape {mask.shape} and dtype {mask.dtype}; {source_name} has shape "
            f"{X.shape}"
        )
    return np.asarray(X[mask != 0])


def _read_mask(path: Path, max_unpacked: int | None) -> np.ndarray:
    """Read a mask from a NIfTI or npy file. It is public, so messages may describe it.

    Parameters
    ----------
    path : path
        The file.
    max_unpacked : int, optional
        The most bytes that the file may unpack to.

    Returns
    -------
    array
        The mask.

    Raises
    ------
    ParameterError
        If the file does not exist or cannot be read.
    """
    if not path.exists():
        raise ParameterError(f"mask: {path} does not exist")
    if path.suffix == ".npy":
        return read_npy(path, ReadOptions(max_unpacked=max_unpacked))
    try:
        return _read_volume(path, max_unpacked)
    except ParameterError:
        raise
    except ImportError:
        raise ParameterError(
            "reading a mask needs nibabel: pip install 'curvedp[io]'"
        ) from None
    except Exception:
        # nibabel and the formats that it builds on have errors of their own.
        raise ParameterError(f"mask: {path} is not a NIfTI or npy file") from None


def read_labels(labels: Any) -> np.ndarray:
    """Return the public labels of the voxels of an atlas as whole numbers.

    Parameters
    ----------
    labels : path or array
        A NIfTI or npy file, or an array, of three axes. It is public, so messages may
        describe it.

    Returns
    -------
    array of int, with three axes
        The label of each voxel.

    Raises
    ------
    ParameterError
        If the labels are no whole numbers on three axes.
    """
    if isinstance(labels, str | Path):
        labels = _read_mask(Path(labels), None)
    array = np.squeeze(np.asarray(labels))
    is_numeric = array.dtype.kind in "biuf"
    if array.ndim != 3 or not is_numeric or not np.array_equal(array, np.rint(array)):
        raise ParameterError(
            f"must be whole numbers on three axes, not {array.dtype} of shape "
            f"{array.shape}",
            parameter="labels",
        )
    return array.astype(np.int64)


def _array_name(path: Path, names: list[str], key: str | None) -> str:
    """Return the name of the wanted array of a file: `key`, or the only array.

    Parameters
    ----------
    path : path
        The file.
    names : list of str
        The names of the arrays in the file.
    key : str, optional
        The name of the array that the caller asks for.

    Returns
    -------
    str
        The name of the array.

    Raises
    ------
    ParameterError
        If there is no such array, or several and `key` is missing.
    """
    if key is None and len(names) == 1:
        return names[0]
    if key is None:
        raise ParameterError(
            f"is missing: {path.name} holds the arrays {shown(sorted(names))}; say which",
            parameter="key",
        )
    if key not in names:
        raise ParameterError(
            f"must be one of the arrays {shown(sorted(names))} of {path.name}",
            parameter="key",
            value=key,
        )
    return key


def _refuse_objects(path: Path) -> NoReturn:
    """Raise `ParameterError` for a file that holds objects.

    Loading objects could run code that the file contains.

    Parameters
    ----------
    path : path
        The file, for the message.
    """
    raise ParameterError(
        f"{path.name} holds Python objects or cells, not numbers: save it as "
        "x.astype(float)"
    )


def _refuse_fields(path: Path) -> NoReturn:
    """Raise `ParameterError` for a file whose records have named fields.

    Parameters
    ----------
    path : path
        The file, for the message.
    """
    raise ParameterError(
        f"{path.name} holds records with named fields; an array of numbers is needed"
    )


# ---- parquet -------------------------------------------------------------------------

# Bytes of a value in memory by its physical type; a text is a position in a dictionary.
# fmt: off
_BYTES_BY_PARQUET_TYPE = {
    "BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 8, "INT64": 8, "DOUBLE": 8,
    "INT96": 12,
}
# fmt: on


class ParquetColumns(NamedTuple):
    """The wanted columns of a parquet file.

    Attributes
    ----------
    names : list of str
        The names of the columns, in the wanted order.
    text_names : list of str
        Those of them that hold texts, sorted.
    nested_text_names : list of str
        Those of them that hold lists of texts, or other values made of texts, sorted.
        They are not read.
    """

    names: list[str]
    text_names: list[str]
    nested_text_names: list[str]


def from_parquet(paths: str | Path | Sequence[str | Path], manifold: Manifold) -> Any:
    """Open parquet files as a dask array of records, with one chunk for each row group.

    The sizes of the chunks are read from the files' footers. Columns hold the entries
    of a point in row-major order, or one column holds a list for each record. A cell
    that is not a number is NaN, and an estimator treats its record like any invalid
    record.

    Parameters
    ----------
    paths : path, or sequence of paths
        The files, in order.
    manifold : Manifold
        The space in which the points lie.

    Returns
    -------
    dask array, shape (n, *point_shape)
        The records, which are read when they are needed.

    Raises
    ------
    ParameterError
        If dask or pyarrow is missing, a file cannot be read, or its columns do not fit.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> records = from_parquet(
    ...     ["one.parquet", "two.parquet"], SPDAffineInvariant(3)
    ... )  # doctest: +SKIP
    """
    try:
        import dask.array  # noqa: F401 - only to find out whether it is installed
        import pyarrow.parquet  # noqa: F401 - only to find out whether it is installed
    except ImportError:
        raise ParameterError(
            "reading parquet in chunks needs: pip install 'curvedp[dask,io]'"
        ) from None
    if isinstance(paths, str | Path):
        paths = [paths]
    files = [Path(path) for path in paths]
    return _open_row_groups(files, manifold.point_shape, ReadOptions())


def read_parquet(path: Path, shape: tuple[int, ...], options: ReadOptions) -> Any:
    """Read the records of a parquet file; a large one becomes a dask array.

    Only the footer decides between the two cases, and the footer is public.

    Parameters
    ----------
    path : path
        The file.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array or dask array, shape (n, *shape)
        The records.
    """
    with _open_parquet(path) as file:
        row_count = file.metadata.num_rows
    is_large = row_count * prod(shape) * _BYTES_PER_DOUBLE > STREAMED
    if is_large and options.mask is None and find_spec("dask") is not None:
        return _open_row_groups([path], shape, options)
    return _read_parquet_records(path, None, shape, options)


def read_parquet_column(
    path: Path, column: str | int, options: ReadOptions
) -> np.ndarray:
    """Read one column of a parquet file.

    Parameters
    ----------
    path : path
        The file.
    column : str or int
        The column, by its name or its position from 0.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array, shape (n,)
        The cells of the column.
    """
    empty_table = _empty_table(path)
    column_options = ReadOptions(columns=[column])
    positions = find_record_columns(path.name, empty_table, (), column_options)
    table = _read_parquet_table(path, None, positions, options.max_unpacked)
    return frame_column(path.name, table, 0)


def parquet_columns(path: Path) -> dict[str, str]:
    """Return what each column of a parquet file holds: lists, texts or other values.

    Parameters
    ----------
    path : path
        The file, of which only the schema is read.

    Returns
    -------
    dict
        "list", "text" or "other" by the name of the column, in their order.
    """
    with _open_parquet(path) as file:
        return {
            str(field.name): _column_kind(field.type) for field in file.schema_arrow
        }


def _column_kind(column_type: Any) -> str:
    """Return "list", "text" or "other" for the type of a column.

    Parameters
    ----------
    column_type : pyarrow.DataType
        The type, as the schema of a file declares it.
    """
    from pyarrow import types

    is_variable_list = types.is_list(column_type) or types.is_large_list(column_type)
    if is_variable_list or types.is_fixed_size_list(column_type):
        return "list"
    if types.is_string(column_type) or types.is_large_string(column_type):
        return "text"
    return "other"


def parquet_width(path: Path, options: ReadOptions) -> int | None:
    """Return how many numbers a record of a parquet file has, as its schema says.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        Its `columns` are the columns of the record, or all but its `other_columns`.

    Returns
    -------
    int or None
        None if there is only one column and its lists may have any length.
    """
    with _open_parquet(path) as file:
        schema = file.schema_arrow
    other_names = {str(name) for name in options.other_columns}
    wanted_columns = options.columns
    if wanted_columns is None:
        wanted_columns = [name for name in schema.names if name not in other_names]
    columns = expand_ranges(wanted_columns, schema.names)
    if len(columns) != 1:
        return len(columns)  # one number in each column

    (column,) = columns
    name = column if isinstance(column, str) else schema.names[column]
    if name not in schema.names:
        return None
    return _fixed_list_size(schema.field(name).type)


def _fixed_list_size(column_type: Any) -> int | None:
    """Return the length of the lists in a column; None if its type does not fix it.

    Parameters
    ----------
    column_type : pyarrow.DataType
        The type, as the schema of a file declares it.
    """
    from pyarrow import FixedSizeListType

    if isinstance(column_type, FixedSizeListType):
        return int(column_type.list_size)
    return None


def _read_parquet_records(
    path: Path, row_group: int | None, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Read the records of a parquet file, or of one of its row groups.

    The result has shape (n, *shape). A row group is a block of rows in the file.

    Parameters
    ----------
    path : path
        The file.
    row_group : int or None
        Which row group is read; None reads the whole file.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the file.
    """
    positions = find_record_columns(path.name, _empty_table(path), shape, options)
    table = _read_parquet_table(path, row_group, positions, options.max_unpacked)
    records = frame_records(path.name, table, shape, ReadOptions())
    return records.reshape(-1, *shape)


def _open_parquet(path: Path, text_names: Sequence[str] = ()) -> Any:
    """Open a parquet file for reading.

    Parameters
    ----------
    path : path
        The file.
    text_names : sequence of str
        The columns that are read as dictionaries: each distinct text is then in memory
        only once.

    Returns
    -------
    pyarrow.parquet.ParquetFile
        The open file, of which the footer was read.

    Raises
    ------
    ParameterError
        If it is no parquet file.
    """
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, read_dictionary=list(text_names))
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"cannot read {path} as parquet ({type(error).__name__})"
        ) from None


def _empty_table(path: Path) -> Any:
    """Return a pyarrow table with the columns of a parquet file and without rows.

    Parameters
    ----------
    path : path
        The file.
    """
    with _open_parquet(path) as file:
        return file.schema_arrow.empty_table()


def _read_parquet_table(
    path: Path, row_group: int | None, positions: list[int], max_unpacked: int | None
) -> Any:
    """Read columns of a parquet file as a table of pyarrow.

    Parameters
    ----------
    path : Path
        The file.
    row_group : int or None
        Which row group is read; None means all of them.
    positions : list of int
        The positions of the columns, in the wanted order.
    max_unpacked : int or None
        The limit in bytes on the memory that the columns may fill.

    Returns
    -------
    pyarrow.Table
        The columns in the wanted order. Texts are read as dictionaries, so that a long
        text which many rows share is unpacked only once. Columns of lists of texts are
        not read; they hold missing values.
    """
    import pyarrow

    columns = _check_parquet_columns(path, positions, max_unpacked)
    read_names = [
        name for name in columns.names if name not in columns.nested_text_names
    ]
    with _open_parquet(path, columns.text_names) as file:
        if row_group is None:
            row_count = file.metadata.num_rows
            table = file.read(columns=read_names)
        else:
            row_count = file.metadata.row_group(row_group).num_rows
            table = file.read_row_group(row_group, columns=read_names)

    for name in columns.nested_text_names:
        no_values = pyarrow.nulls(row_count)
        if table.num_columns == 0:
            table = pyarrow.table({name: no_values})
        else:
            table = table.append_column(name, no_values)
    return table.select(columns.names)


def _check_parquet_columns(
    path: Path, positions: list[int], max_unpacked: int | None
) -> ParquetColumns:
    """Find the wanted columns of a parquet file, and refuse them if they are too large.

    Sizes are read from the file's footer, before any value is decoded.

    Parameters
    ----------
    path : Path
        The file.
    positions : list of int
        The positions of the wanted columns, in the wanted order.
    max_unpacked : int or None
        The limit in bytes on the memory that the columns may fill.

    Returns
    -------
    ParquetColumns
        The names of the columns, and which of them hold texts.

    Raises
    ------
    ParameterError
        If the columns would fill more memory, or if two columns have the same name.
    """
    with _open_parquet(path) as file:
        all_names = file.schema_arrow.names
        metadata = file.metadata
    if len(set(all_names)) < len(all_names):
        raise ParameterError(f"{path.name} has two columns of one name; rename one")

    names = [all_names[position] for position in positions]
    text_names: set[str] = set()
    nested_text_names: set[str] = set()
    needed_bytes = 0
    for leaf, chunk in _column_chunks(metadata):
        name = _column_of_leaf(chunk.path_in_schema, names)
        if name is None:
            continue
        needed_bytes += chunk.num_values * _bytes_per_value(metadata, chunk, leaf)
        needed_bytes += chunk.total_uncompressed_size
        if chunk.physical_type != "BYTE_ARRAY":
            continue
        # Texts inside of lists cannot be read as dictionaries, so they could unpack
        # without limit. They are not refused, because in a column without values one
        # record would decide about it.
        is_nested = chunk.path_in_schema != name
        if is_nested:
            nested_text_names.add(name)
        else:
            text_names.add(name)
    check_unpacked(path, needed_bytes, unpacked_limit(path, max_unpacked))
    return ParquetColumns(names, sorted(text_names), sorted(nested_text_names))


def _column_chunks(metadata: Any) -> Iterator[tuple[int, Any]]:
    """Yield what the footer of a parquet file says about each column and row group.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
        The footer of the file.

    Yields
    ------
    leaf : int
        The position of the column in the schema.
    chunk : pyarrow.parquet.ColumnChunkMetaData
        The sizes and the type of the column in one row group.
    """
    for row_group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            yield leaf, metadata.row_group(row_group).column(leaf)


def _bytes_per_value(metadata: Any, chunk: Any, leaf: int) -> int:
    """Return how many bytes of memory one value of a parquet column fills.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
        The footer of the file.
    chunk : pyarrow.parquet.ColumnChunkMetaData
        What the footer says about the column in one row group.
    leaf : int
        The position of the column in the schema.

    Returns
    -------
    int
        The number of bytes.
    """
    bytes_per_value = _BYTES_BY_PARQUET_TYPE.get(chunk.physical_type)
    if bytes_per_value is None:
        # A type of fixed length, which the schema tells.
        return int(metadata.schema.column(leaf).length)
    return bytes_per_value


def _column_of_leaf(leaf: str, names: list[str]) -> str | None:
    """Return which of the wanted columns a leaf of the schema belongs to.

    A leaf is a place where values are stored; a column of lists has its leaf inside.

    Parameters
    ----------
    leaf : str
        The path of the leaf, such as "x.list.element".
    names : list of str
        The names of the wanted columns, such as "x".

    Returns
    -------
    str or None
        The column; None if it is not wanted.
    """
    for name in names:
        if leaf == name or leaf.startswith(f"{name}."):
            return name
    return None


def _open_row_groups(
    paths: list[Path], shape: tuple[int, ...], options: ReadOptions
) -> Any:
    """Open parquet files as one dask array, with a chunk for each row group.

    A row group is a block of rows in a file; it is read when it is needed. The columns
    of every file are checked here, so that nothing is refused later, when a worker
    reads a chunk.

    Parameters
    ----------
    paths : list of path
        The parquet files, in the order of their records.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    dask array, shape (n, *shape)
        The records, which are read when they are needed.

    Raises
    ------
    ParameterError
        If the columns of a file do not fit, or no file holds a row.
    """
    import dask.array

    chunks = []
    for path in paths:
        with _open_parquet(path) as file:
            empty_table = file.schema_arrow.empty_table()
            metadata = file.metadata
        frame_records(path.name, empty_table, shape, options)
        positions = find_record_columns(path.name, empty_table, shape, options)
        _check_parquet_columns(path, positions, options.max_unpacked)

        for row_group in range(metadata.num_row_groups):
            size = metadata.row_group(row_group).num_rows
            records = dask.delayed(_read_parquet_records)(
                path, row_group, shape, options
            )
            chunk = dask.array.from_delayed(
                records, shape=(size, *shape), dtype=np.float64
            )
            chunks.append(chunk)
    if not chunks:
        raise ParameterError("no parquet file holds a row")
    return dask.array.concatenate(chunks)
