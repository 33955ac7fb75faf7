"""No data file runs code: every reader, with every way to store an object that it knows."""

import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.records import read_column, read_records
from curvedp.records.zarr_files import COMPRESSORS, FILTERS

SPACE = Euclidean(3)
X = np.arange(12.0).reshape(4, 3)


class Runs:
    """What leaves a trace in the file system when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.fixture
def trace(tmp_path):
    """The file that exists once code of a data file has run; checked after every test."""
    path = tmp_path / "code-ran"
    yield path
    assert not path.exists()


def test_the_payload_runs_when_it_is_unpickled(tmp_path):
    """Or the tests below would show nothing."""
    pickle.loads(pickle.dumps(Runs(tmp_path / "trace")))
    assert (tmp_path / "trace").exists()


# ---- zarr: metadata are judged before the library sees them ------------------------------


def numcodecs_names():
    numcodecs = pytest.importorskip("numcodecs", reason="zarr's codecs")
    return sorted(numcodecs.registry.codec_registry)


def write_format_2(
    folder, trace, dtype="|O", filters=None, compressor=None, payload=None
):
    folder.mkdir(parents=True)
    metadata = {
        "zarr_format": 2, "shape": [4, 3], "chunks": [4, 3], "order": "C", "fill_value": 0,
        "dtype": dtype, "filters": filters, "compressor": compressor,
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(metadata))
    (folder / "0.0").write_bytes(payload or pickle.dumps(Runs(trace)))
    return folder


def write_format_3(folder, trace, codecs, data_type="float64"):
    folder.mkdir(parents=True)
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 3]}}
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": [4, 3], "data_type": data_type,
        "chunk_grid": grid, "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": codecs, "attributes": {},
    }  # fmt: skip
    (folder / "zarr.json").write_text(json.dumps(metadata))
    (folder / "c" / "0").mkdir(parents=True)
    (folder / "c" / "0" / "0").write_bytes(pickle.dumps(Runs(trace)))
    return folder


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def sharded(inner, index=(BYTES,)):
    options = {"chunk_shape": [2, 3], "codecs": inner, "index_codecs": list(index)}
    return [{"name": "sharding_indexed", "configuration": options}]


# Where a file can name a codec: as (format, what is written with the codec's name).
PLACES = {
    "2, filter": lambda folder, trace, name: write_format_2(
        folder, trace, "<f8", filters=[{"id": name}]
    ),
    "2, second filter": lambda folder, trace, name: write_format_2(
        folder, trace, "<f8", filters=[{"id": "delta", "dtype": "<f8"}, {"id": name}]
    ),
    "2, compressor": lambda folder, trace, name: write_format_2(
        folder, trace, "<f8", compressor={"id": name}
    ),
    "3": lambda folder, trace, name: write_format_3(
        folder, trace, [BYTES, {"name": f"numcodecs.{name}", "configuration": {}}]
    ),
    "3, as a text": lambda folder, trace, name: write_format_3(
        folder, trace, [BYTES, name]
    ),
    "3, first": lambda folder, trace, name: write_format_3(
        folder, trace, [{"name": name}, BYTES]
    ),
    "3, in a shard": lambda folder, trace, name: write_format_3(
        folder, trace, sharded([BYTES, {"name": name}])
    ),
    "3, in a shard's index": lambda folder, trace, name: write_format_3(
        folder, trace, sharded([BYTES], [BYTES, {"name": name}])
    ),
    "3, in a shard in a shard": lambda folder, trace, name: write_format_3(
        folder, trace, sharded(sharded([BYTES, {"name": name}]))
    ),
}


@pytest.fixture
def closed_zarr(monkeypatch):
    """zarr and numcodecs, which must not be asked for anything."""
    zarr = pytest.importorskip("zarr", reason="a test of zarr's files")
    numcodecs = pytest.importorskip("numcodecs", reason="a test of zarr's files")

    def asked(*arguments, **named):
        pytest.fail("the file was given to zarr")

    for module, name in [
        (zarr, "open"),
        (zarr, "open_array"),
        (numcodecs, "get_codec"),
    ]:
        monkeypatch.setattr(module, name, asked)


@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_codecs_of_zarr_that_are_not_listed(
    tmp_path, trace, closed_zarr, place, in_group
):
    """All that numcodecs knows, and one that it does not: some run code, others serialize."""
    serializing = {
        "pickle",
        "json2",
        "msgpack2",
        "vlen-utf8",
        "vlen-bytes",
        "vlen-array",
    }
    names = (
        {*numcodecs_names(), *serializing, "of.somebody.else"} - COMPRESSORS - FILTERS
    )
    assert serializing <= names
    for number, name in enumerate(sorted(names)):
        path = tmp_path / f"{number}.zarr"
        PLACES[place](path / "x" if in_group else path, trace, name)
        if in_group:
            (path / ".zgroup").write_text('{"zarr_format": 2}')
        with pytest.raises(ParameterError, match=r"codec|not read"):
            read_records(path, SPACE)


TYPES_2 = [
    "|O",
    "O",
    "<U5",
    "|S5",
    "|V8",
    "<M8[s]",
    [["a", "<f8"], ["b", "|O"]],
    "<f8,|O",
]
TYPES_3 = [
    "string", "variable_length_utf8", "variable_length_bytes", "r64", "bytes", "object",
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 20}},
    {"name": "struct", "configuration": {"fields": [["a", "float64"]]}},
    {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
]  # fmt: skip


def test_types_of_zarr_that_are_not_numbers(tmp_path, trace, closed_zarr):
    objects = [{"id": "vlen-utf8"}, {"id": "pickle"}]  # the order that zarr let pass
    for number, dtype in enumerate(TYPES_2):
        path = write_format_2(tmp_path / f"2-{number}.zarr", trace, dtype, objects)
        with pytest.raises(ParameterError, match="not numbers"):
            read_records(path, SPACE)
    for number, data_type in enumerate(TYPES_3):
        path = write_format_3(tmp_path / f"3-{number}.zarr", trace, [BYTES], data_type)
        with pytest.raises(ParameterError, match="not numbers"):
            read_records(path, SPACE)
    filtered = [{"id": "delta", "dtype": "|O"}]
    path = write_format_2(tmp_path / "delta.zarr", trace, "<f8", filtered)
    with pytest.raises(ParameterError, match="not numbers"):
        read_records(path, SPACE)


def test_consolidated_metadata_are_not_what_is_opened(tmp_path, trace):
    """A harmless array, and metadata of the group that say that it holds pickles."""
    zarr = pytest.importorskip("zarr", reason="a test of zarr's files")
    path = tmp_path / "x.zarr"
    zarr.save_group(path, x=X, zarr_format=2)
    metadata = json.loads((path / "x" / ".zarray").read_text())
    evil = metadata | {"dtype": "|O", "filters": [{"id": "pickle"}], "compressor": None}
    whole = {".zgroup": {"zarr_format": 2}, "x/.zarray": evil, "x/.zattrs": {}}
    consolidated = {"zarr_consolidated_format": 1, "metadata": whole}
    (path / ".zmetadata").write_text(json.dumps(consolidated))
    np.testing.assert_array_equal(read_records(path, SPACE), X)


def test_listed_codecs_of_zarr_are_read(tmp_path):
    zarr = pytest.importorskip("zarr", reason="a test of zarr's files")
    numcodecs = pytest.importorskip("numcodecs", reason="a test of zarr's files")
    from zarr import codecs

    format_2 = {
        "blosc": {"compressors": numcodecs.Blosc()},
        "zstd": {"compressors": numcodecs.Zstd()},
        "gzip": {"compressors": numcodecs.GZip()},
        "zlib": {"compressors": numcodecs.Zlib()},
        "lz4": {"compressors": numcodecs.LZ4()},
        "bz2": {"compressors": numcodecs.BZ2()},
        "none": {"compressors": None},
        "delta": {"filters": [numcodecs.Delta("<f8")]},
        "shuffle": {"filters": [numcodecs.Shuffle(8)]},
    }
    format_3 = {
        "blosc": {"compressors": codecs.BloscCodec()},
        "zstd": {"compressors": codecs.ZstdCodec()},
        "gzip": {"compressors": codecs.GzipCodec()},
        "crc32c": {"compressors": [codecs.GzipCodec(), codecs.Crc32cCodec()]},
        "none": {"compressors": None},
        "transpose": {"filters": [codecs.TransposeCodec(order=(1, 0))]},
        "sharding": {"shards": (6, 3), "compressors": codecs.GzipCodec()},
        "sharding, zstd": {"shards": (4, 3)},
    }
    records = np.arange(33.0).reshape(11, 3)  # which Delta keeps exactly
    for zarr_format, kinds in ((2, format_2), (3, format_3)):
        for name, options in kinds.items():
            path = tmp_path / f"{name}-{zarr_format}.zarr"
            zarr.create_array(
                path, data=records, chunks=(2, 3), zarr_format=zarr_format, **options
            )
            np.testing.assert_array_equal(read_records(path, SPACE), records, name)


# ---- the other readers -------------------------------------------------------------------


def object_array(trace):
    held = np.empty((4, 3), dtype=object)
    held[:] = 1.0
    held[1, 1] = Runs(trace)
    return held


def field_array(trace):
    held = np.zeros(4, dtype=[("a", "f8"), ("b", "O")])
    held["b"][0] = Runs(trace)
    return held


@pytest.mark.parametrize("make", [object_array, field_array])
def test_objects_in_npy_and_npz(tmp_path, trace, make):
    np.save(tmp_path / "x.npy", make(trace), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=make(trace))
    np.savez_compressed(tmp_path / "y.npz", x=make(trace))
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Runs(trace)))
    with zipfile.ZipFile(tmp_path / "raw.npz", "w") as archive:
        archive.writestr("x.npy", pickle.dumps(Runs(trace)))
        archive.writestr("y", pickle.dumps(Runs(trace)))
    for name in ("x.npy", "x.npz", "y.npz"):
        with pytest.raises(ParameterError, match="Python objects"):
            read_records(tmp_path / name, SPACE)
    for name, key in (("raw.npy", None), ("raw.npz", "x"), ("raw.npz", "y")):
        with pytest.raises(ParameterError, match="cannot be read"):
            read_records(tmp_path / name, SPACE, key=key)
    with pytest.raises(ParameterError, match="Python objects"):
        read_column(tmp_path / "x.npz", "x")
    with pytest.raises(ParameterError, match="Python objects"):
        read_records(np.zeros((4, 4, 3)), SPACE, mask=tmp_path / "x.npy")


def test_objects_in_mat(tmp_path, trace):
    cells = np.empty((1, 4), dtype=object)
    cells[:] = [[X[0], X[1], X[2], "text"]]
    contents = {
        "cells": cells,
        "struct": {"field": X},
        "sparse": scipy.sparse.csc_matrix(X),
        "x": X,
    }
    scipy.io.savemat(tmp_path / "x.mat", contents, do_compression=True)
    for key in ("cells", "struct", "sparse"):
        with pytest.raises(ParameterError, match=r"cells|named fields"):
            read_records(tmp_path / "x.mat", SPACE, key=key)
    np.testing.assert_array_equal(read_records(tmp_path / "x.mat", SPACE, key="x"), X)


def test_pickles_in_parquet(tmp_path, trace):
    """Bytes in cells, in metadata of pandas, and in an extension type as old pyarrow had it."""
    pyarrow = pytest.importorskip("pyarrow", reason="a test of parquet files")
    parquet = pytest.importorskip("pyarrow.parquet", reason="a test of parquet files")
    payload = pickle.dumps(Runs(trace))
    numbers = {name: pyarrow.array(X[:, i]) for i, name in enumerate("xyz")}
    cells = numbers | {"x": pyarrow.array([payload] * 4, pyarrow.binary())}
    parquet.write_table(pyarrow.table(cells), tmp_path / "cells.parquet")
    found = read_records(tmp_path / "cells.parquet", SPACE)
    assert np.isnan(found[:, 0]).all()
    np.testing.assert_array_equal(found[:, 1:], X[:, 1:])

    for name in ("arrow.py_extension_type", "pandas.period", "of.somebody"):
        extension = {
            b"ARROW:extension:name": name.encode(),
            b"ARROW:extension:metadata": payload,
        }
        field = pyarrow.field("x", pyarrow.float64(), metadata=extension)
        fields = [field, *(pyarrow.field(each, pyarrow.float64()) for each in "yz")]
        schema = pyarrow.schema(fields, metadata={b"pandas": payload})
        table = pyarrow.table(list(numbers.values()), schema=schema)
        parquet.write_table(table, tmp_path / "x.parquet")
        np.testing.assert_array_equal(read_records(tmp_path / "x.parquet", SPACE), X)


def test_pickles_in_excel_and_csv_are_texts(tmp_path, trace):
    openpyxl = pytest.importorskip("openpyxl", reason="a test of Excel's files")
    payload = pickle.dumps(Runs(trace), protocol=0).decode("latin-1")
    quoted = payload.replace("\n", "\\n")
    book = openpyxl.Workbook()
    for row in X.tolist():
        book.active.append([f"=SYSTEM({quoted!r})", *row[1:]])
    book.save(tmp_path / "x.xlsx")
    found = read_records(tmp_path / "x.xlsx", SPACE, key="A1:C4")
    np.testing.assert_array_equal(found[:, 1:], X[:, 1:])
    assert np.isnan(found[:, 0]).all()

    lines = [",".join([quoted, *map(str, row[1:])]) for row in X]
    (tmp_path / "x.csv").write_text("\n".join(lines), encoding="utf-8")
    found = read_records(tmp_path / "x.csv", SPACE, header=False)
    assert np.isnan(found[:, 0]).all()


@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_pickles_in_the_extensions_of_nifti(tmp_path, trace, name):
    """NIfTI has an extension for pickles of Python (code 16), which nobody reads."""
    nibabel = pytest.importorskip("nibabel", reason="a test of NIfTI files")
    image = nibabel.Nifti1Image(X.reshape(2, 2, 1, 3), np.eye(4))
    for code in (0, 4, 6, 16):
        extension = nibabel.nifti1.Nifti1Extension(code, pickle.dumps(Runs(trace)))
        image.header.extensions.append(extension)
    nibabel.save(image, tmp_path / name)
    mask = np.ones((2, 2, 1))
    np.testing.assert_array_equal(read_records(tmp_path / name, SPACE, mask=mask), X)

    fields = nibabel.Nifti1Image(
        np.zeros((2, 2, 1), [("R", "u1"), ("G", "u1"), ("B", "u1")]), np.eye(4)
    )
    nibabel.save(fields, tmp_path / name)
    with pytest.raises(ParameterError, match="named fields"):
        read_records(tmp_path / name, SPACE, mask=mask)


def test_a_pickle_under_the_name_of_any_kind_is_refused(tmp_path, trace):
    from curvedp.records import files

    for kind in (*files.TABLE_READERS, *files.ARRAY_READERS):
        path = tmp_path / f"x{kind}"
        path.write_bytes(struct.pack("<I", 348) + pickle.dumps(Runs(trace)))
        choices = {"key": "A1:C4"} if kind == ".xlsx" else {"mask": np.ones((4,))}
        if kind.startswith((".csv", ".tsv")):
            choices = {"header": True}
        with pytest.raises(ParameterError):
            read_records(path, SPACE, **choices)
