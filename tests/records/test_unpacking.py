"""Small files that unpack to gigabytes are refused, from public numbers, and in blocks."""

import bz2
import gzip
import io
import json
import struct
import time
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
import scipy.io

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.records import limits, read_column, read_records

SPACE = Euclidean(3)
MANY = 60_000_000  # records of 3 numbers: 1.4 GB
ROWS, COLUMNS = MANY, 3


@pytest.fixture(autouse=True)
def little_memory():
    """No reader may allocate more than this before it refuses."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


def zeros(count):
    """So many zero bytes, packed by gzip; written in blocks."""
    held = io.BytesIO()
    with gzip.GzipFile(fileobj=held, mode="wb", compresslevel=1) as packed:
        for _ in range(count >> 20):
            packed.write(bytes(1 << 20))
    return held.getvalue()


def npy_head(shape, dtype="<f8"):
    head = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, described)
    return head.getvalue()


def npz_bomb(folder):
    path = folder / "x.npz"
    # Less than the head declares, which is refused before anything else is read.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy_head((ROWS, COLUMNS)) + bytes(1 << 20))
    return path, {}


def npy_bomb(folder):
    path = folder / "x.npy"
    path.write_bytes(npy_head((ROWS, COLUMNS)) + bytes(1000))
    return path, {}


def mat_bomb(folder):
    """A compressed element that unpacks to 1.2 GB, written by hand as scipy has no need to."""
    path = folder / "x.mat"
    scipy.io.savemat(path, {"y": np.zeros(3)})
    packer = zlib.compressobj(1)
    packed = (
        b"".join(packer.compress(bytes(1 << 22)) for _ in range(300)) + packer.flush()
    )
    with path.open("ab") as file:
        file.write(struct.pack("<II", 15, len(packed)) + packed)
    return path, {"key": "y"}


def mat_shape_bomb(folder):
    path = folder / "x.mat"
    scipy.io.savemat(path, {"x": np.zeros((3, 4))}, do_compression=False)
    content = path.read_bytes()
    content = content.replace(
        struct.pack("<ii", 3, 4), struct.pack("<ii", ROWS, COLUMNS)
    )
    path.write_bytes(content)
    return path, {}


def nifti_head(nibabel, shape):
    head = nibabel.Nifti1Header()
    head.set_data_shape((3, 3, 3, 3))
    head.set_data_dtype(np.uint8)
    head["dim"][1:5] = shape
    head["magic"] = b"n+1"
    head["vox_offset"] = 352
    return head


def nifti_bomb(folder):
    nibabel = pytest.importorskip("nibabel", reason="a test of NIfTI files")
    head = nifti_head(nibabel, (600, 600, 600, 3))
    path = folder / "x.nii.gz"
    path.write_bytes(gzip.compress(head.binaryblock + bytes(1000)))
    return path, {"mask": np.ones((1, 1, 1))}


def nifti_extension_bomb(folder):
    nibabel = pytest.importorskip("nibabel", reason="a test of NIfTI files")
    head = nifti_head(nibabel, (2, 2, 2, 3))
    content = head.binaryblock + b"\1\0\0\0" + struct.pack("<ii", 2**31 - 16, 6)
    path = folder / "x.nii.gz"
    path.write_bytes(gzip.compress(content) + zeros(1 << 22))
    head["vox_offset"] = 2**31 - 128
    path.write_bytes(gzip.compress(head.binaryblock + content[348:]) + zeros(1 << 22))
    return path, {"mask": np.ones((2, 2, 2))}


def excel_bomb(folder):
    openpyxl = pytest.importorskip("openpyxl", reason="a test of Excel's files")
    path = folder / "x.xlsx"
    openpyxl.Workbook().save(path)
    return path, {"key": "A1:XFD1048576"}


def excel_part_bomb(folder):
    """A shared string of 1.2 GB, in a part that is read however few cells are asked for."""
    openpyxl = pytest.importorskip("openpyxl", reason="a test of Excel's files")
    path = folder / "x.xlsx"
    openpyxl.Workbook().save(path)
    options = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}
    with (
        zipfile.ZipFile(path, "a", **options) as archive,
        archive.open("xl/more.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(300):
            part.write(b" " * (1 << 22))
    return path, {"key": "A1:C4"}


def parquet_bomb(folder):
    pyarrow = pytest.importorskip("pyarrow", reason="a test of parquet files")
    parquet = pytest.importorskip("pyarrow.parquet", reason="a test of parquet files")
    path = folder / "x.parquet"
    block = pyarrow.table({name: np.zeros(1 << 20) for name in "xyz"})
    with parquet.ParquetWriter(path, block.schema, compression="zstd") as writer:
        for _ in range(60):
            writer.write_table(block)
    return path, {}


def parquet_text_bomb(folder):
    """One text of a megabyte that 100,000 rows share: 100 GB as texts, 1 MB as a dictionary."""
    pyarrow = pytest.importorskip("pyarrow", reason="a test of parquet files")
    parquet = pytest.importorskip("pyarrow.parquet", reason="a test of parquet files")
    places = pyarrow.array(np.zeros(100_000, dtype=np.int32))
    texts = pyarrow.DictionaryArray.from_arrays(
        places, pyarrow.array(["1" * 1_000_000])
    )
    path = folder / "x.parquet"
    columns = {"who": texts} | {name: np.zeros(100_000) for name in "xyz"}
    parquet.write_table(pyarrow.table(columns), path, compression="zstd")
    return path


def zarr_folder(folder, shape, chunks, compressor, chunk):
    path = folder / "x.zarr"
    path.mkdir()
    metadata = {
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f8", "order": "C",
        "fill_value": 0, "filters": None, "compressor": compressor,
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(metadata))
    (path / "0.0").write_bytes(chunk)
    return path, {}


def zarr_shape_bomb(folder):
    return zarr_folder(folder, [ROWS, COLUMNS], [4, 3], None, bytes(96))


def zarr_chunk_bomb(folder):
    return zarr_folder(folder, [4, 3], [ROWS, COLUMNS], None, bytes(96))


def csv_bomb(folder):
    path = folder / "x.csv.gz"
    path.write_bytes(gzip.compress(b"\n" * 3_000_000) * 20)
    return path, {"header": False}


BOMBS = [
    npy_bomb, npz_bomb, mat_bomb, mat_shape_bomb, nifti_bomb, nifti_extension_bomb,
    excel_bomb, excel_part_bomb, parquet_bomb, zarr_shape_bomb, zarr_chunk_bomb,
]  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_small_file_that_declares_gigabytes_is_refused(tmp_path, bomb):
    path, choices = bomb(tmp_path)
    tracemalloc.reset_peak()
    with pytest.raises(ParameterError, match="unpacks to more than") as refusal:
        read_records(path, SPACE, **choices)
    assert limits.VARIABLE in str(refusal.value)


def test_packed_lines_are_counted_while_they_are_unpacked(tmp_path):
    """60 million lines in 60 kB are refused in a moment, and never read."""
    path, choices = csv_bomb(tmp_path)
    assert path.stat().st_size < 100_000
    tracemalloc.reset_peak()
    for read in (
        lambda: read_records(path, SPACE, **choices),
        lambda: read_column(path, 0, **choices),
    ):
        started = time.process_time()
        with pytest.raises(ParameterError, match="unpacks to more than 1 GiB"):
            read()
        assert time.process_time() - started < 10


def test_one_line_of_gigabytes_fills_no_memory_and_is_one_record(tmp_path):
    """The limit counts lines, which are public, and not the length of one, which is data."""
    path = tmp_path / "x.csv.gz"
    start, end = gzip.compress(b"1,2,3\n"), gzip.compress(b"\n4,5,6\n")
    path.write_bytes(start + zeros(200 << 20) + end)
    tracemalloc.reset_peak()
    found = read_records(path, SPACE, header=False)
    np.testing.assert_array_equal(found, [[1, 2, 3], [np.nan] * 3, [4, 5, 6]])


def test_a_shared_text_of_parquet_is_unpacked_once(tmp_path):
    path = parquet_text_bomb(tmp_path)
    tracemalloc.reset_peak()
    names = read_column(path, "who")
    assert names.shape == (100_000,)
    assert names[0] is names[-1]
    found = read_records(path, SPACE, columns=["who", "y", "z"])
    assert found.shape == (100_000, 3)


PACKERS = {
    "gzip": lambda data: gzip.compress(data),
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "lz4": lambda data: codec("LZ4").encode(data),
    "zstd": lambda data: codec("Zstd").encode(data),
    "blosc": lambda data: codec("Blosc").encode(data),
}


def codec(name):
    numcodecs = pytest.importorskip("numcodecs", reason="a test of zarr's files")
    return getattr(numcodecs, name)()


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("sharded", [False, True])
def test_chunks_of_zarr_unpack_to_their_shape_and_no_further(tmp_path, name, sharded):
    """A chunk of 4 records that holds 64 MB, for every codec that packs."""
    pytest.importorskip("zarr", reason="a test of zarr's files")
    right, wrong = (bytes(np.full(12, 0.5)), bytes(64 << 20))
    for data, is_right in ((right, True), (wrong, False)):
        packed = bytes(PACKERS[name](data))
        folder = tmp_path / f"{is_right}"
        folder.mkdir()
        if sharded:
            path = write_shard(folder, name, packed)
        else:
            path, _ = zarr_folder(folder, [4, 3], [4, 3], {"id": name}, packed)
        if is_right:
            np.testing.assert_array_equal(
                read_records(path, SPACE), np.full((4, 3), 0.5)
            )
            continue
        tracemalloc.reset_peak()
        with pytest.raises(ParameterError, match="more than its shape says"):
            read_records(path, SPACE)


def write_shard(folder, name, packed):
    path = folder / "x.zarr"
    (path / "c" / "0").mkdir(parents=True)
    standard = name in ("gzip", "zstd", "blosc")
    options = {
        "gzip": {"level": 5},
        "zstd": {"level": 0, "checksum": False},
        "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 1, "blocksize": 0},
    }.get(name, {})  # fmt: skip
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    inner = {
        "name": name if standard else f"numcodecs.{name}",
        "configuration": options,
    }
    sharding = {
        "chunk_shape": [4, 3],
        "codecs": [little, inner],
        "index_codecs": [little],
    }
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": [4, 3], "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 3]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "attributes": {},
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(metadata))
    absent = 2**64 - 1
    index = struct.pack("<QQQQ", 0, len(packed), absent, absent)
    (path / "c" / "0" / "0").write_bytes(packed + index)
    return path


def test_the_limit_is_said_by_the_caller_or_the_environment(tmp_path, monkeypatch):
    X = np.zeros((1000, 3))
    np.savez_compressed(tmp_path / "x.npz", X)
    path = tmp_path / "x.npz"
    assert read_records(path, SPACE).shape == (1000, 3)
    with pytest.raises(ParameterError, match="more than 1000 bytes"):
        read_records(path, SPACE, max_unpacked=1000)
    monkeypatch.setenv(limits.VARIABLE, "1000")
    with pytest.raises(ParameterError, match="more than 1000 bytes"):
        read_records(path, SPACE)
    assert read_records(path, SPACE, max_unpacked=24_000).shape == (1000, 3)
    monkeypatch.setenv(limits.VARIABLE, "a lot")
    with pytest.raises(ParameterError, match="number of bytes"):
        read_records(path, SPACE)
    for bad in (0, -1, 1.5, "many"):
        with pytest.raises(ParameterError, match="max_unpacked"):
            read_records(path, SPACE, max_unpacked=bad)


def test_large_files_may_fill_sixteen_times_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "DEFAULT_LIMIT", 1000)
    X = np.random.default_rng(0).normal(size=(5000, 3))
    np.savez_compressed(tmp_path / "x.npz", X)
    np.testing.assert_array_equal(read_records(tmp_path / "x.npz", SPACE), X)
    np.savez_compressed(tmp_path / "x.npz", np.zeros((5000, 3)))
    with pytest.raises(ParameterError, match="unpacks to more than"):
        read_records(tmp_path / "x.npz", SPACE)
