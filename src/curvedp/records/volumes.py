"""Arrays in files: npy, npz, mat, zarr, NIfTI volumes with a mask, and parquet.

Shapes and types stand in a file's head and are public. They are read first: what is no array
of numbers or texts is refused before anything is decoded, and so is what would fill more
memory than `curvedp.records.limits` allows.
"""

import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.records.limits import check_unpacked, unpacked_limit
from curvedp.records.lines import open_unpacked
from curvedp.records.tables import Choices, frame, frame_column, frame_places
from curvedp.records.zarr_files import open_zarr

STREAMED = 1 << 30  # bytes of doubles beyond which parquet and zarr come as dask arrays


def _npy(path: Path, choices: Choices) -> Any:
    limit = unpacked_limit(path, choices.max_unpacked)
    with path.open("rb") as file:
        return _npy_stream(path, file, limit)


def _npz(path: Path, choices: Choices) -> Any:
    limit = unpacked_limit(path, choices.max_unpacked)
    with zipfile.ZipFile(path) as archive:
        parts = {part.removesuffix(".npy"): part for part in archive.namelist()}
        name = _key(path, list(parts), choices.key)
        with archive.open(parts[name]) as file:
            return _npy_stream(path, file, limit)


def _npy_stream(path: Path, file: IO[bytes], limit: int) -> np.ndarray:
    """The array in NumPy's own format. Its head says the type and the shape, and NumPy
    unpacks no more than that."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, in_fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, in_fortran_order, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        _refuse_objects(path)
    if dtype.kind == "V":
        _refuse_fields(path)
    size = prod(shape) * dtype.itemsize
    check_unpacked(path, size, limit)
    content = bytearray()
    while len(content) < size:
        block = file.read(min(size - len(content), _BLOCK))
        if not block:
            raise ValueError("the file ends before its array does")
        content += block
    values = np.frombuffer(content, dtype, prod(shape)) if size else np.empty(0, dtype)
    return values.reshape(shape, order="F" if in_fortran_order else "C")


_BLOCK = 1 << 20  # bytes that are unpacked at once

# Kinds of variables in a MATLAB file that are arrays of numbers or texts. The others are
# cells, structures, sparse matrices, functions and objects.
_MAT_CLASSES = frozenset(
    {"double", "single", "logical", "char"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_MAT_COMPRESSED = 15  # the type of a packed element of a MATLAB file
_MAT_HEADER = 128  # bytes before its first element
_LARGEST_NUMBER = 16  # bytes of a complex number in double precision


def _mat(path: Path, choices: Choices) -> Any:
    """MATLAB's files up to version 7; those of 7.3 are HDF5."""
    import scipy.io

    limit = unpacked_limit(path, choices.max_unpacked)
    _check_mat_elements(path, limit)
    try:
        variables = {
            name: (shape, kind) for name, shape, kind in scipy.io.whosmat(path)
        }
    except NotImplementedError:
        raise ParameterError(
            f"{path.name} is a MATLAB file of version 7.3; save it with the option -v7"
        ) from None
    name = _key(path, list(variables), choices.key)
    shape, kind = variables[name]
    if kind == "struct":
        _refuse_fields(path)
    if kind not in _MAT_CLASSES:
        _refuse_objects(path)
    check_unpacked(path, prod(shape) * _LARGEST_NUMBER, limit)
    return np.asarray(scipy.io.loadmat(path, variable_names=[name])[name])


def _check_mat_elements(path: Path, limit: int) -> None:
    """Refuse a MATLAB file with an element that unpacks to more than `limit` bytes."""
    with path.open("rb") as file:
        head = file.read(_MAT_HEADER)
        if head[126:128] not in (b"IM", b"MI"):  # version 4, which packs nothing
            return
        order = "<" if head[126:128] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            if kind != _MAT_COMPRESSED:
                file.seek(size, 1)
                continue
            unpacker, unpacked = zlib.decompressobj(), 0
            while size and (block := file.read(min(size, _BLOCK))):
                size -= len(block)
                while block:
                    unpacked += len(unpacker.decompress(block, _BLOCK))
                    check_unpacked(path, unpacked, limit)
                    block = unpacker.unconsumed_tail


def _zarr(path: Path, choices: Choices) -> Any:
    opened = open_zarr(path, choices.key, choices.max_unpacked)
    if opened.size * 8 > STREAMED and choices.mask is None:
        try:
            import dask.array

            return dask.array.from_zarr(opened)
        except ImportError:  # then it has to fit into memory
            pass
    return np.asarray(opened[...])


def _nifti(path: Path, choices: Choices) -> Any:
    """(x, y, z, entries), also as NIfTI's own symmetric matrices (x, y, z, 1, 6)."""
    if choices.mask is None:
        raise ParameterError(
            f"is missing: say which voxels of {path.name} are records, "
            "by a public file or array",
            parameter="mask",
        )
    found = _volume(path, choices.max_unpacked)
    return found[:, :, :, 0] if found.ndim == 5 and found.shape[3] == 1 else found


def _volume(path: Path, max_unpacked: int | None) -> np.ndarray:
    """The array of a NIfTI file, whose head is read first."""
    import nibabel

    limit = unpacked_limit(path, max_unpacked)
    _check_nifti_head(path, limit)
    image = nibabel.load(path)
    if not isinstance(image, nibabel.Nifti1Image | nibabel.Nifti2Image):
        raise ParameterError(f"{path.name} is not a NIfTI file")
    if image.get_data_dtype().kind not in "biuf":
        _refuse_fields(path)
    # Numbers are scaled to doubles, whatever they are in the file.
    check_unpacked(path, prod(image.shape) * 8, limit)
    return np.asarray(image.dataobj)


def _check_nifti_head(path: Path, limit: int) -> None:
    """Refuse a NIfTI file whose extensions, of any kind, fill more than `limit` bytes.

    An extension begins with its size and lies between the head and the voxels; nibabel
    reads all of them, and believes their sizes.
    """
    with open_unpacked(path) as file:
        head = file.read(540)
        size = 540 if head[4:6] == b"n+" else 348
        big_endian = int.from_bytes(head[:4], "little") not in (348, 540)
        order = ">" if big_endian else "<"
        if size == 540:
            (first_voxel,) = struct.unpack_from(f"{order}q", head, 168)
        else:
            first_voxel = int(struct.unpack_from(f"{order}f", head, 108)[0])
        check_unpacked(path, first_voxel, limit)
        place = size + 4
        file.seek(place)
        while place + 8 <= first_voxel and len(tag := file.read(8)) == 8:
            (length,) = struct.unpack_from(f"{order}i", tag)
            check_unpacked(path, length, min(limit, first_voxel))
            if length < 16:
                return
            place += length
            file.seek(place)


READERS: dict[str, Callable[[Path, Choices], Any]]
READERS = {
    ".npy": _npy,
    ".npz": _npz,
    ".mat": _mat,
    ".zarr": _zarr,
    ".nii": _nifti,
    ".nii.gz": _nifti,
}


def masked(where: str, X: np.ndarray, choices: Choices) -> np.ndarray:
    """The records of the voxels that a public mask (an array, or the path of a NIfTI or npy file) names."""
    mask = choices.mask
    if isinstance(mask, str | Path):
        mask = _mask_file(Path(mask), choices.max_unpacked)
    picked = np.asarray(mask)
    if (
        picked.dtype.kind not in "biuf"
        or picked.shape != X.shape[: picked.ndim]
        or not picked.ndim
    ):
        raise ParameterError(
            f"mask has shape {picked.shape} and dtype {picked.dtype}; {where} has shape {X.shape}"
        )
    return np.asarray(X[picked != 0])


def _mask_file(path: Path, max_unpacked: int | None) -> Any:
    """A mask is public: what is wrong with it may be said."""
    if not path.exists():
        raise ParameterError(f"mask: {path} does not exist")
    if path.suffix == ".npy":
        return _npy(path, Choices(max_unpacked=max_unpacked))
    try:
        return _volume(path, max_unpacked)
    except ParameterError:
        raise
    except ImportError:
        raise ParameterError(
            "reading a mask needs nibabel: pip install 'curvedp[io]'"
        ) from None
    except Exception:  # nibabel raises its own, and what the formats below it raise
        raise ParameterError(f"mask: {path} is not a NIfTI or npy file") from None


def _key(path: Path, names: list[str], key: str | None) -> str:
    if key is None and len(names) == 1:
        return names[0]
    if key is None:
        raise ParameterError(
            f"is missing: {path.name} holds the arrays {shown(sorted(names))}; say "
            "which",
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
    raise ParameterError(
        f"{path.name} holds Python objects or cells, not numbers: save it as x.astype(float)"
    )


def _refuse_fields(path: Path) -> NoReturn:
    raise ParameterError(
        f"{path.name} holds records with named fields; an array of numbers is needed"
    )


def from_parquet(paths: str | Path | Sequence[str | Path], manifold: Manifold) -> Any:
    """Parquet files as a dask array of records, one chunk a row group, sizes read off the files' footers.

    Columns hold a point's entries in row-major order, or one column a list for each record. What is not a number is NaN, and
    so is mapped into the ball like any bad record.

    Parameters
    ----------
    paths : path, or sequence of paths
        The files, in order.
    manifold : Manifold
        Where the points live.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> records = from_parquet(["one.parquet", "two.parquet"], SPDAffineInvariant(3))  # doctest: +SKIP
    """
    try:
        import dask.array  # noqa: F401 - whether it is there
        import pyarrow.parquet  # noqa: F401 - whether it is there
    except ImportError:
        raise ParameterError(
            "reading parquet in chunks needs: pip install 'curvedp[dask,io]'"
        ) from None
    files = [
        Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)
    ]
    return _chunked(files, manifold.point_shape, Choices())


def read_parquet(path: Path, shape: tuple[int, ...], choices: Choices) -> Any:
    """One file: in memory, or as a dask array where it is large. Which it is depends on the footer alone."""
    with _parquet(path) as file:
        large = file.metadata.num_rows * prod(shape) * 8 > STREAMED
    if large and choices.mask is None and find_spec("dask") is not None:
        return _chunked([path], shape, choices)
    return _parquet_records(path, None, shape, choices)


def _parquet_records(
    path: Path, group: int | None, shape: tuple[int, ...], choices: Choices
) -> np.ndarray:
    """The records of a parquet file, or of one of its row groups."""
    with _parquet(path) as file:
        empty = file.schema_arrow.empty_table()
    places = frame_places(path.name, empty, shape, choices)
    table = _parquet_table(path, group, places, choices.max_unpacked)
    return frame(path.name, table, shape, Choices()).reshape(-1, *shape)


def parquet_column(path: Path, column: str | int, choices: Choices) -> np.ndarray:
    """One column of a parquet file."""
    with _parquet(path) as file:
        empty = file.schema_arrow.empty_table()
    places = frame_places(path.name, empty, (), Choices(columns=[column]))
    table = _parquet_table(path, None, places, choices.max_unpacked)
    return frame_column(path.name, table, 0)


def _parquet(path: Path, texts: Sequence[str] = ()) -> Any:
    """Open a parquet file; columns of `texts` are read as dictionaries."""
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, read_dictionary=list(texts))
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"cannot read {path} as parquet ({type(error).__name__})"
        ) from None


# Bytes of a value in memory, by its physical type; a text is a place in a dictionary.
_PARQUET_BYTES = {
    "BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 8, "INT64": 8, "DOUBLE": 8, "INT96": 12
}  # fmt: skip


def _parquet_table(
    path: Path, group: int | None, places: list[int], max_unpacked: int | None
) -> Any:
    """The columns at these places, in their order, of all row groups or of one.

    Texts are read as dictionaries: a long text that many rows share is unpacked once.
    """
    wanted, texts = _check_parquet(path, places, max_unpacked)
    with _parquet(path, texts) as file:
        if group is None:
            table = file.read(columns=wanted)
        else:
            table = file.read_row_group(group, columns=wanted)
    return table.select(wanted)


def _check_parquet(
    path: Path, places: list[int], max_unpacked: int | None
) -> tuple[list[str], list[str]]:
    """Refuse columns that fill too much memory by what the footer says.

    Returns the names of the columns, and of those of texts. Lists of texts are refused by
    the type of their column, which is public: they could not be read as dictionaries.
    """
    with _parquet(path) as file:
        names, metadata = file.schema_arrow.names, file.metadata
    if len(set(names)) < len(names):
        raise ParameterError(f"{path.name} has two columns of one name; rename one")
    wanted = [names[place] for place in places]
    needed, texts = 0, set()
    for row_group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            column = metadata.row_group(row_group).column(leaf)
            name = _column_of_leaf(column.path_in_schema, wanted)
            if name is None:
                continue
            if column.physical_type == "BYTE_ARRAY":
                texts.add(name)
                if column.path_in_schema != name:
                    where = f"{path.name}, column {shown(name)},"
                    raise ParameterError(
                        f"{where} holds lists of texts, not of numbers"
                    )
            width = _PARQUET_BYTES.get(column.physical_type)
            if width is None:
                width = metadata.schema.column(leaf).length
            needed += column.num_values * width + column.total_uncompressed_size
    check_unpacked(path, needed, unpacked_limit(path, max_unpacked))
    return wanted, sorted(texts)


def _column_of_leaf(leaf: str, names: list[str]) -> str | None:
    """The column that a leaf of the schema belongs to, such as x for x.list.element."""
    return next(
        (name for name in names if leaf == name or leaf.startswith(f"{name}.")), None
    )


def _chunked(paths: list[Path], shape: tuple[int, ...], choices: Choices) -> Any:
    """A delayed chunk for each row group, after the columns of each file have been found to fit."""
    import dask.array

    chunks = []
    for path in paths:
        with _parquet(path) as file:
            empty = file.schema_arrow.empty_table()
            frame(path.name, empty, shape, choices)
            sizes = [
                file.metadata.row_group(group).num_rows
                for group in range(file.metadata.num_row_groups)
            ]
        places = frame_places(path.name, empty, shape, choices)
        _check_parquet(path, places, choices.max_unpacked)
        for group, size in enumerate(sizes):
            read = dask.delayed(_parquet_records)(path, group, shape, choices)
            chunks.append(
                dask.array.from_delayed(read, shape=(size, *shape), dtype=np.float64)
            )
    if not chunks:
        raise ParameterError("no parquet file holds a row")
    return dask.array.concatenate(chunks)
