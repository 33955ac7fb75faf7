"""Zarr arrays, whose metadata are read before the library that could run them.

A zarr file names the functions that decode it. Some of these run code that the file
brings
(pickle), and some unpack without end. So the metadata are parsed here first: arrays of
numbers are read, through the codecs in a short list, whose chunks declare what they
unpack to. Everything else is refused, before zarr sees the file.
"""

import bz2
import gzip
import json
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.records.limits import check_unpacked, unpacked_limit

# Codecs that pack bytes; a chunk goes through one of them at most.
COMPRESSORS = frozenset({"blosc", "zstd", "gzip", "zlib", "lz4", "bz2"})

# Codecs that move numbers or bytes without changing how much memory they fill.
FILTERS = frozenset({"bytes", "transpose", "delta", "shuffle", "crc32c"})

# Types of format 3, by the names of its specification.
NUMBER_TYPES = frozenset(
    {"bool", "float16", "float32", "float64", "complex64", "complex128"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)

_METADATA = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
_ABSENT = 2**64 - 1  # offset and size of an inner chunk that a shard does not hold
_WIDEST_NUMBER = 8  # bytes that a filter may widen a number to


class _Array(NamedTuple):
    """What the metadata of an array say."""

    folder: Path
    zarr_format: int
    shape: tuple[int, ...]
    dtype: np.dtype
    chunk_shape: tuple[int, ...]
    codecs: "_Chain"
    shard: "_Shard | None" = None

    def chunk_bytes(self) -> int:
        """Memory that one chunk, or one inner chunk of a shard, fills."""
        itemsize = max(self.dtype.itemsize, _WIDEST_NUMBER)
        return prod(self.chunk_shape) * itemsize


class _Chain(NamedTuple):
    """The codecs of a chunk: what it is packed with, and whether a checksum follows."""

    compressor: str | None
    has_checksum: bool


class _Shard(NamedTuple):
    """Where the index of a file with many chunks lies."""

    chunks: int
    index_bytes: int
    at_end: bool


def open_zarr(path: Path, key: str | None, max_unpacked: int | None) -> Any:
    """Open the array in a folder, or the array called `key` in a group, after its checks.

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
    check_unpacked(path, prod(array.shape) * max(array.dtype.itemsize, 8), limit)
    check_unpacked(path, array.chunk_bytes(), limit)
    for file in _chunk_files(folder):
        _check_chunk_file(path, array, file)
    with warnings.catch_warnings(
        action="ignore"
    ):  # such as: a codec has no standard yet
        return zarr.open_array(str(folder), mode="r", zarr_format=array.zarr_format)


def _find_array(path: Path, key: str | None) -> Path:
    """The folder of the array that is meant. Metadata of several nodes are never used."""
    if not path.is_dir():
        raise ParameterError(f"{path} is one file; a zarr array is a folder")
    if _is_array(path):
        return path
    names = sorted(child.name for child in path.iterdir() if _is_array(child))
    if key is None and len(names) == 1:
        return path / names[0]
    if key not in names:
        raise ParameterError(
            f"is missing: {path.name} holds the arrays {shown(names)}; say which",
            parameter="key",
        )
    return path / key


def _is_array(folder: Path) -> bool:
    """Whether a folder holds an array of either format; format 3 wins, as it does in zarr."""
    if (folder / "zarr.json").is_file():
        return bool(_json(folder / "zarr.json").get("node_type") == "array")
    return (folder / ".zarray").is_file()


def _json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise ValueError("metadata are an object")
    return found


def _read_metadata(path: Path, folder: Path) -> _Array:
    """Parse an array's metadata and refuse what is not in the lists above."""
    if (folder / "zarr.json").is_file():
        return _format_3(path, folder, _json(folder / "zarr.json"))
    return _format_2(path, folder, _json(folder / ".zarray"))


def _format_2(path: Path, folder: Path, metadata: dict[str, Any]) -> _Array:
    written = metadata["dtype"]
    if not isinstance(written, str) or np.dtype(written).kind not in "biufc":
        _refuse_type(path)
    steps = [*(metadata.get("filters") or ()), metadata.get("compressor")]
    codecs = [(step["id"], step) for step in steps if step is not None]
    return _Array(
        folder,
        2,
        _sizes(metadata["shape"]),
        np.dtype(written),
        _sizes(metadata["chunks"]),
        _chain(path, codecs),
    )


def _format_3(path: Path, folder: Path, metadata: dict[str, Any]) -> _Array:
    written = metadata["data_type"]
    if not isinstance(written, str) or written not in NUMBER_TYPES:
        _refuse_type(path)
    if metadata.get("storage_transformers"):
        raise ParameterError(
            f"{path.name} has storage transformers, which are not read"
        )
    shape, dtype = _sizes(metadata["shape"]), np.dtype(written)
    chunk_shape = _sizes(metadata["chunk_grid"]["configuration"]["chunk_shape"])

    codecs = [_named_codec(step) for step in metadata["codecs"]]
    if "sharding_indexed" not in [name for name, _ in codecs]:
        chain = _chain(path, codecs)
        return _Array(folder, 3, shape, dtype, chunk_shape, chain)
    if len(codecs) != 1:
        raise ParameterError(f"{path.name} packs its shards, which is not read")
    (_, options) = codecs[0]
    inner_shape = _sizes(options["chunk_shape"])
    count = prod(
        outer // inner for outer, inner in zip(chunk_shape, inner_shape, strict=True)
    )
    index = _chain(path, [_named_codec(step) for step in options["index_codecs"]])
    if index.compressor is not None:
        raise ParameterError(f"{path.name} packs the index of its shards: not read")
    chain = _chain(path, [_named_codec(step) for step in options["codecs"]])
    index_bytes = 16 * count + 4 * index.has_checksum
    shard = _Shard(count, index_bytes, options.get("index_location", "end") == "end")
    return _Array(folder, 3, shape, dtype, inner_shape, chain, shard)


def _named_codec(step: Any) -> tuple[str, dict[str, Any]]:
    """The name of a codec of format 3, without the prefix of those of numcodecs."""
    if isinstance(step, str):
        return step.removeprefix("numcodecs."), {}
    return step["name"].removeprefix("numcodecs."), step.get("configuration") or {}


def _chain(path: Path, codecs: list[tuple[str, dict[str, Any]]]) -> _Chain:
    """The codecs of a chunk, in the order of encoding; refused unless all are listed, and
    nothing but a checksum follows the one that packs."""
    names = [name for name, _ in codecs]
    for name, options in codecs:
        if name not in COMPRESSORS | FILTERS:
            known = ", ".join(sorted(COMPRESSORS | FILTERS))
            raise ParameterError(
                f"{path.name} needs the codec {shown(name)}; these are read: {known}"
            )
        for option in ("dtype", "astype"):
            if np.dtype(options.get(option) or "f8").kind not in "biuf":
                _refuse_type(path)
    packing = [name for name in names if name in COMPRESSORS]
    after = names[names.index(packing[0]) + 1 :] if packing else []
    if len(packing) > 1 or set(after) - {"crc32c"}:
        raise ParameterError(f"{path.name} packs its chunks twice, which is not read")
    return _Chain(packing[0] if packing else None, names[-1:] == ["crc32c"])


def _refuse_type(path: Path) -> NoReturn:
    raise ParameterError(
        f"{path.name} holds objects, texts or records, not numbers: save it as x.astype(float)"
    )


def _sizes(values: Any) -> tuple[int, ...]:
    """A shape of the metadata: whole numbers >= 0."""
    sizes = tuple(values)
    if any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError("a shape is whole numbers")
    return sizes


def _chunk_files(folder: Path) -> Iterator[Path]:
    """Every file of an array that is not metadata, through links too, as zarr reads them."""
    seen = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        here = os.path.realpath(place)
        if here in seen:
            folders.clear()
            continue
        seen.add(here)
        for name in files:
            if name not in _METADATA:
                yield Path(place, name)


def _check_chunk_file(path: Path, array: _Array, file: Path) -> None:
    """Refuse a file with a chunk that unpacks to more than the shape of a chunk says."""
    if array.codecs.compressor is None:
        return
    limit = array.chunk_bytes()
    with file.open("rb") as stream:
        for offset, size in _pieces(array, stream):
            if not _fits(array.codecs, stream, offset, size, limit):
                raise ParameterError(
                    f"{path.name} has a chunk that unpacks to more than its shape says"
                )


def _pieces(array: _Array, stream: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Where the packed chunks of a file are: offset and size."""
    file_size = stream.seek(0, os.SEEK_END)
    if array.shard is None:
        yield 0, file_size
        return
    stream.seek(file_size - array.shard.index_bytes if array.shard.at_end else 0)
    index = np.frombuffer(stream.read(16 * array.shard.chunks), "<u8").reshape(-1, 2)
    for offset, size in index.tolist():
        if offset == size == _ABSENT:
            continue
        if offset + size > file_size:
            raise ValueError("the index of a shard points outside of it")
        yield offset, size


def _fits(
    codecs: _Chain, stream: IO[bytes], offset: int, size: int, limit: int
) -> bool:
    """Whether a packed chunk unpacks to at most `limit` bytes."""
    size -= 4 * codecs.has_checksum
    stream.seek(offset)
    if codecs.compressor in ("blosc", "lz4", "zstd"):
        declared = _declared_size(codecs.compressor, stream.read(min(size, 32)))
        return declared is not None and declared <= limit
    return _unpacked_within(codecs.compressor, stream.read(size), limit)


def _declared_size(compressor: str, head: bytes) -> int | None:
    """The size that a packed chunk declares, beyond which these codecs never unpack."""
    if compressor == "blosc":
        return int(struct.unpack_from("<I", head, 4)[0])
    if compressor == "lz4":
        return int(struct.unpack_from("<I", head, 0)[0])
    return _zstd_size(head)


def _zstd_size(head: bytes) -> int | None:
    """The content size of a Zstandard frame (RFC 8878, 3.1.1.1); None where it has none."""
    if head[:4] != b"\x28\xb5\x2f\xfd":
        return None
    descriptor = head[4]
    is_single_segment = bool(descriptor & 0x20)
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 0x03]
    start = 5 + (not is_single_segment) + dictionary_bytes
    flag = descriptor >> 6
    if flag == 0:
        return head[start] if is_single_segment else None
    if flag == 1:
        return int(struct.unpack_from("<H", head, start)[0]) + 256
    return int(struct.unpack_from("<I" if flag == 2 else "<Q", head, start)[0])


def _unpacked_within(compressor: str | None, packed: bytes, limit: int) -> bool:
    """Whether gzip, zlib or bz2 unpack to at most `limit` bytes, tried in small blocks."""
    if compressor == "zlib":
        return len(zlib.decompressobj().decompress(packed, limit + 1)) <= limit
    if compressor == "gzip":
        stream: Any = gzip.GzipFile(fileobj=BytesIO(packed))
    else:
        stream = bz2.BZ2File(BytesIO(packed))
    unpacked = 0
    with stream:
        while unpacked <= limit and (block := stream.read(1 << 20)):
            unpacked += len(block)
    return unpacked <= limit
