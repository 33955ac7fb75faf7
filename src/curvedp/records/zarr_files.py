"""Opening zarr arrays safely: their metadata are checked before the zarr library runs.
A zarr array is a folder with metadata and chunks, which codecs encode and compress.
Some codecs run code that the file contains, and some unpack without a limit. So only
arrays of numbers are opened, with codecs from a short list, after checking how much
memory each chunk unpacks to. A shard is a file with many chunks.
"""

import bz2
import gzip
import json
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.records import limits
from curvedp.records.limits import BYTES_PER_DOUBLE, check_unpacked, unpacked_limit
from curvedp.records.lines import BinaryFile
from curvedp.records.options import ReadOptions
from curvedp.records.zstd_sizes import zstd_content_size

# Codecs that pack bytes; a chunk goes through one of them at most.
COMPRESSORS = frozenset({"blosc", "zstd", "gzip", "zlib", "lz4", "bz2"})

# Codecs that move numbers or bytes without changing how much memory they fill.
FILTERS = frozenset({"bytes", "transpose", "delta", "shuffle", "crc32c"})

# Types of format 3, by the names of its specification.
NUMBER_TYPES = frozenset(
    {"bool", "float16", "float32", "float64", "complex64", "complex128"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)

# Names of the files that describe an array; every other file holds chunks.
_METADATA_FILES = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}

# Offset and size in a shard's index, for an inner chunk that the shard does not hold.
_ABSENT = 2**64 - 1

# Bytes of one entry in a shard's index: an offset and a size, of 8 bytes each.
_INDEX_ENTRY_BYTES = 16

# Bytes of the checksum that the codec crc32c appends.
_CHECKSUM_BYTES = 4

# Bytes that a filter may widen a number to.
_WIDEST_NUMBER = 8

_BLOCK = 1 << 20  # bytes that are unpacked at once

# A codec's name, and its options as the metadata give them.
Codec = tuple[str, dict[str, Any]]


class _CodecChain(NamedTuple):
    """What happens to the bytes of a chunk when it is stored.

    Attributes
    ----------
    compressor : str or None
        The codec that packs the bytes, one of `COMPRESSORS`; None if they are stored
        as they are.
    has_checksum : bool
        Whether a checksum of 4 bytes follows.
    """

    compressor: str | None
    has_checksum: bool


class _Shard(NamedTuple):
    """A file that holds many chunks, and an index of where they are.

    Attributes
    ----------
    chunks : int
        How many inner chunks the index describes.
    index_bytes : int
        How long the index is, with its checksum.
    index_at_end : bool
        Whether the index is at the end of the file, not at its start.
    """

    chunks: int
    index_bytes: int
    index_at_end: bool


class _ArrayMetadata(NamedTuple):
    """What the metadata say about an array.

    Attributes
    ----------
    zarr_format : int
        2 or 3.
    shape : tuple of int
        The shape of the whole array.
    dtype : data type
        Of its numbers.
    chunk_shape : tuple of int
        The shape of a chunk, or of an inner chunk if chunks are stored in shards.
    codecs : _CodecChain
        How such a chunk is stored.
    shard : _Shard or None
        How chunks share a file; None if each has a file of its own.
    """

    zarr_format: int
    shape: tuple[int, ...]
    dtype: np.dtype
    chunk_shape: tuple[int, ...]
    codecs: _CodecChain
    shard: _Shard | None = None

    def array_bytes(self) -> int:
        """Return how many bytes of memory the whole array fills."""
        return prod(self.shape) * max(self.dtype.itemsize, _WIDEST_NUMBER)

    def chunk_bytes(self) -> int:
        """Return how many bytes of memory one chunk, or one inner chunk, fills."""
        return prod(self.chunk_shape) * max(self.dtype.itemsize, _WIDEST_NUMBER)


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
    is_large = stored.size * BYTES_PER_DOUBLE > limits.STREAMED
    if is_large and options.mask is None and find_spec("dask") is not None:
        import dask.array

        return dask.array.from_zarr(stored)
    return np.asarray(stored[...])


def open_zarr(path: Path, key: str | None, max_unpacked: int | None) -> Any:
    """Open a zarr array for reading, after checking that it is safe to decode.

    Parameters
    ----------
    path : Path
        The folder of the array, or of a group of arrays.
    key : str or None
        The name of the array in a group; it may be missing if the group has only one.
    max_unpacked : int or None
        The limit in bytes on the memory that the array may fill; None means the limit
        of `limits`.

    Returns
    -------
    zarr.Array
        The array, whose chunks are not loaded yet.

    Raises
    ------
    ParameterError
        For arrays of anything but numbers, for codecs that are not listed here, and for
        chunks that unpack to more than they should.
    """
    import zarr

    folder = _find_array(path, key)
    array = _read_metadata(path, folder)
    limit = unpacked_limit(path, max_unpacked)
    check_unpacked(path, array.array_bytes(), limit)
    check_unpacked(path, array.chunk_bytes(), limit)
    for file in _chunk_files(folder):
        _check_chunk_file(path, array, file)

    # zarr warns of codecs that are not part of its standard yet.
    with warnings.catch_warnings(action="ignore"):
        return zarr.open_array(str(folder), mode="r", zarr_format=array.zarr_format)


# ---- metadata ------------------------------------------------------------------------


def _find_array(path: Path, key: str | None) -> Path:
    """Return the folder of the wanted zarr array.

    It is `path` itself, or the array called `key` in it, or the only array in it. The
    consolidated metadata of a group, which describe several arrays, are never used.

    Parameters
    ----------
    path : path
        The folder of an array or of a group of arrays.
    key : str, optional
        The name of the array that the caller asks for.

    Returns
    -------
    Path
        The folder of the array.

    Raises
    ------
    ParameterError
        If there is no such array, or several and `key` is missing.
    """
    if not path.is_dir():
        raise ParameterError(f"{path} is one file; a zarr array is a folder")
    if _is_array(path):
        return path
    names = sorted(child.name for child in path.iterdir() if _is_array(child))
    if key is None and len(names) == 1:
        return path / names[0]
    if key is None or key not in names:
        raise ParameterError(
            f"is missing: {path.name} holds the arrays {shown(names)}; say which",
            parameter="key",
        )
    return path / key


def _is_array(folder: Path) -> bool:
    """Return whether a folder holds a zarr array, of format 3 or 2.

    If it has metadata of both formats, those of format 3 count, as they do in zarr.

    Parameters
    ----------
    folder : Path
        The folder.
    """
    if (folder / "zarr.json").is_file():
        node_type = _read_json(folder / "zarr.json").get("node_type")
        return bool(node_type == "array")
    return (folder / ".zarray").is_file()


def _read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Parameters
    ----------
    path : Path
        The file with the metadata of an array.

    Raises
    ------
    ValueError
        If the file holds something else.
    """
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise ValueError("the metadata must be a JSON object")
    return content


def _read_metadata(path: Path, folder: Path) -> _ArrayMetadata:
    """Return the metadata of a zarr array, and refuse one that is unsafe to decode.

    Parameters
    ----------
    path : Path
        The path that the caller named, for error messages.
    folder : Path
        The folder of the array.
    """
    if (folder / "zarr.json").is_file():
        return _parse_format_3(path, _read_json(folder / "zarr.json"))
    return _parse_format_2(path, _read_json(folder / ".zarray"))


def _parse_format_2(path: Path, metadata: dict[str, Any]) -> _ArrayMetadata:
    """Check and return the metadata of an array in zarr's format 2 (.zarray).

    Parameters
    ----------
    path : path
        The file.
    metadata : dict
        The parsed JSON of the file .zarray.

    Returns
    -------
    _ArrayMetadata
        Shapes, type and codecs.

    Raises
    ------
    ParameterError
        If the array does not hold numbers, or needs a codec that is not read.
    """
    type_name = metadata["dtype"]
    if not isinstance(type_name, str) or np.dtype(type_name).kind not in "biufc":
        _refuse_type(path)
    filters = metadata.get("filters") or []
    steps = [*filters, metadata.get("compressor")]
    codecs = [(step["id"], step) for step in steps if step is not None]
    return _ArrayMetadata(
        zarr_format=2,
        shape=_parse_shape(metadata["shape"]),
        dtype=np.dtype(type_name),
        chunk_shape=_parse_shape(metadata["chunks"]),
        codecs=_check_codecs(path, codecs),
    )


def _parse_format_3(path: Path, metadata: dict[str, Any]) -> _ArrayMetadata:
    """Check and return the metadata of an array in zarr's format 3 (zarr.json).

    Parameters
    ----------
    path : path
        The file.
    metadata : dict
        The parsed JSON of the file zarr.json.

    Returns
    -------
    _ArrayMetadata
        Shapes, type, codecs, and maybe how chunks share a file.

    Raises
    ------
    ParameterError
        If the array does not hold numbers, or needs a codec that is not read.
    """
    type_name = metadata["data_type"]
    if not isinstance(type_name, str) or type_name not in NUMBER_TYPES:
        _refuse_type(path)
    if metadata.get("storage_transformers"):
        raise ParameterError(
            f"{path.name} has storage transformers, which are not read"
        )
    shape = _parse_shape(metadata["shape"])
    dtype = np.dtype(type_name)
    chunk_shape = _parse_shape(metadata["chunk_grid"]["configuration"]["chunk_shape"])

    codecs = _parse_codecs(metadata["codecs"])
    is_sharded = any(name == "sharding_indexed" for name, _ in codecs)
    if not is_sharded:
        chain = _check_codecs(path, codecs)
        return _ArrayMetadata(3, shape, dtype, chunk_shape, chain)

    if len(codecs) != 1:
        raise ParameterError(f"{path.name} packs its shards, which is not read")
    _, options = codecs[0]
    inner_shape = _parse_shape(options["chunk_shape"])
    chain = _check_codecs(path, _parse_codecs(options["codecs"]))
    shard = _parse_shard(path, options, chunk_shape, inner_shape)
    return _ArrayMetadata(3, shape, dtype, inner_shape, chain, shard)


def _parse_shard(
    path: Path,
    options: dict[str, Any],
    shard_shape: tuple[int, ...],
    inner_shape: tuple[int, ...],
) -> _Shard:
    """Return the layout of a shard: the place and the length of its index.

    A shard is a file with many chunks, and the index says where each chunk is.

    Parameters
    ----------
    path : Path
        The file, for error messages.
    options : dict
        The options of the codec "sharding_indexed".
    shard_shape, inner_shape : tuples of int
        The shapes of a shard and of the chunks in it.

    Returns
    -------
    _Shard
        How many chunks a shard has, and where its index is.

    Raises
    ------
    ParameterError
        If the index is packed.
    """
    index_codecs = _check_codecs(path, _parse_codecs(options["index_codecs"]))
    if index_codecs.compressor is not None:
        raise ParameterError(f"{path.name} packs the index of its shards: not read")

    chunks_per_axis = [
        outer // inner for outer, inner in zip(shard_shape, inner_shape, strict=True)
    ]
    chunks = prod(chunks_per_axis)
    index_bytes = _INDEX_ENTRY_BYTES * chunks
    if index_codecs.has_checksum:
        index_bytes += _CHECKSUM_BYTES
    index_at_end = options.get("index_location", "end") == "end"
    return _Shard(chunks, index_bytes, index_at_end)


def _parse_codecs(steps: list[Any]) -> list[Codec]:
    """Return the name and the options of each codec in the metadata of format 3.

    They are in the order of encoding. The prefix "numcodecs.", which zarr gives to
    codecs of that package, is removed.

    Parameters
    ----------
    steps : list
        The codecs, as the file lists them.

    Returns
    -------
    list of (name, options)
        One for each codec.
    """
    codecs: list[Codec] = []
    for step in steps:
        if isinstance(step, str):  # a codec without options
            step = {"name": step}
        name = step["name"].removeprefix("numcodecs.")
        options = step.get("configuration") or {}
        codecs.append((name, options))
    return codecs


def _check_codecs(path: Path, codecs: list[Codec]) -> _CodecChain:
    """Return how the bytes of a chunk are stored, and refuse unsafe codecs.

    Parameters
    ----------
    path : Path
        The file, for error messages.
    codecs : list of (name, options)
        The codecs in the order of encoding.

    Returns
    -------
    _CodecChain
        The codec that packs, if any, and whether a checksum follows.

    Raises
    ------
    ParameterError
        If a codec is not in `COMPRESSORS` or `FILTERS`, if it works on anything but
        numbers, or if a codec other than a checksum follows the one that packs.
    """
    for name, options in codecs:
        _check_codec(path, name, options)

    names = [name for name, _ in codecs]
    has_checksum = names[-1:] == ["crc32c"]
    compressors = [name for name in names if name in COMPRESSORS]
    if not compressors:
        return _CodecChain(None, has_checksum)

    # Only a checksum may follow the compressor.
    names_after_packing = names[names.index(compressors[0]) + 1 :]
    if len(compressors) > 1 or set(names_after_packing) - {"crc32c"}:
        raise ParameterError(f"{path.name} packs its chunks twice, which is not read")
    return _CodecChain(compressors[0], has_checksum)


def _check_codec(path: Path, name: str, options: dict[str, Any]) -> None:
    """Refuse a codec that is unknown or converts to anything but real numbers.

    Parameters
    ----------
    path : Path
        The array's folder, for error messages.
    name : str
        The name of the codec.
    options : dict
        The options of the codec, as the metadata state them.

    Raises
    ------
    ParameterError
        If the codec is refused.
    """
    if name not in COMPRESSORS | FILTERS:
        known_names = ", ".join(sorted(COMPRESSORS | FILTERS))
        raise ParameterError(
            f"{path.name} needs the codec {shown(name)}; these are read: {known_names}"
        )
    for option in ("dtype", "astype"):
        type_name = options.get(option) or "f8"
        if np.dtype(type_name).kind not in "biuf":
            _refuse_type(path)


def _refuse_type(path: Path) -> NoReturn:
    """Raise `ParameterError` for an array that does not hold numbers.

    Parameters
    ----------
    path : Path
        The folder, for the message.
    """
    raise ParameterError(
        f"{path.name} holds objects, texts or records, not numbers: save it as x.astype(float)"
    )


def _parse_shape(values: Any) -> tuple[int, ...]:
    """Return a shape from the metadata, after checking its sizes.

    Parameters
    ----------
    values : list
        The sizes of the axes.

    Raises
    ------
    ValueError
        If a size is not an integer >= 0.
    """
    sizes = tuple(values)
    if any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError("a shape must consist of whole numbers")
    return sizes


# ---- chunks --------------------------------------------------------------------------


def _chunk_files(folder: Path) -> Iterator[Path]:
    """Yield every file of a zarr array that holds chunks, not metadata.

    Links to folders are followed, because zarr follows them too. A folder to which
    several links lead is visited once.

    Parameters
    ----------
    folder : Path
        The folder of the array.
    """
    visited_folders = set()
    for folder_path, folders, files in os.walk(folder, followlinks=True):
        real_path = os.path.realpath(folder_path)
        if real_path in visited_folders:
            folders.clear()
            continue
        visited_folders.add(real_path)
        for name in files:
            if name not in _METADATA_FILES:
                yield Path(folder_path, name)


def _check_chunk_file(path: Path, array: _ArrayMetadata, file: Path) -> None:
    """Refuse a file with a chunk that unpacks to more bytes than its shape needs.

    Parameters
    ----------
    path : Path
        The zarr folder, which error messages name.
    array : _ArrayMetadata
        The checked metadata of the array.
    file : Path
        A file with one chunk, or a shard with many.

    Raises
    ------
    ParameterError
        If a chunk unpacks to more.
    """
    compressor = array.codecs.compressor
    if compressor is None:
        return
    limit = array.chunk_bytes()
    with file.open("rb") as stream:
        for offset, size in _chunk_places(array, stream):
            if array.codecs.has_checksum:
                size -= _CHECKSUM_BYTES
            stream.seek(offset)
            packed = stream.read(max(size, 0))
            if not _unpacks_within(compressor, packed, limit):
                raise ParameterError(
                    f"{path.name} has a chunk that unpacks to more than its shape says"
                )


def _chunk_places(
    array: _ArrayMetadata, stream: IO[bytes]
) -> Iterator[tuple[int, int]]:
    """Yield the offset and the size, in bytes, of each packed chunk in a file.

    The file holds a single chunk, or is a shard with many chunks and an index.

    Parameters
    ----------
    array : _ArrayMetadata
        The checked metadata of the array.
    stream : binary file
        The file of a chunk, or of a shard with several chunks.

    Yields
    ------
    offset : int
        Where the chunk begins in the file.
    size : int
        How many bytes it has there.

    Raises
    ------
    ValueError
        If the index of a shard points outside of the file.
    """
    file_size = stream.seek(0, os.SEEK_END)
    shard = array.shard
    if shard is None:
        yield 0, file_size
        return

    index_start = file_size - shard.index_bytes if shard.index_at_end else 0
    stream.seek(index_start)
    index = np.frombuffer(stream.read(_INDEX_ENTRY_BYTES * shard.chunks), "<u8")
    for offset, size in index.reshape(-1, 2).tolist():
        if offset == size == _ABSENT:
            continue
        if offset + size > file_size:
            raise ValueError("the index of a shard points outside of it")
        yield offset, size


def _unpacks_within(compressor: str, packed: bytes, limit: int) -> bool:
    """Return whether a compressed chunk unpacks to at most `limit` bytes.

    Blosc, LZ4 and Zstandard declare the unpacked size, and their decoders never exceed
    it. The other formats declare no size, so the chunk is unpacked in blocks.

    Parameters
    ----------
    compressor : str
        The name of the codec, such as "blosc".
    packed : bytes
        The packed chunk.
    limit : int
        The most bytes that may be unpacked.
    """
    if compressor == "blosc":
        declared_size = int(struct.unpack_from("<I", packed, 4)[0])
        return declared_size <= limit
    if compressor == "lz4":
        declared_size = int(struct.unpack_from("<I", packed, 0)[0])
        return declared_size <= limit
    if compressor == "zstd":
        content_size = zstd_content_size(packed)
        return content_size is not None and content_size <= limit

    if compressor == "zlib":
        return len(zlib.decompressobj().decompress(packed, limit + 1)) <= limit
    if compressor == "gzip":
        return _ends_within(gzip.GzipFile(fileobj=BytesIO(packed)), limit)
    return _ends_within(bz2.BZ2File(BytesIO(packed)), limit)


def _ends_within(unpacked: BinaryFile, limit: int) -> bool:
    """Return whether a stream has at most `limit` bytes, by reading it in blocks.

    Parameters
    ----------
    unpacked : binary file
        The stream, which unpacks a chunk while it is read.
    limit : int
        The number of bytes after which reading stops.
    """
    size = 0
    with unpacked:
        while size <= limit:
            block = unpacked.read(_BLOCK)
            if not block:
                return True
            size += len(block)
    return False
