"""One cell can change the type of a column: then it must affect its own record alone.

Every kind of odd cell is put into every container whose type depends on its cells. The
data set must be read, have the same n, and give the same numbers for the other records.
"""

import datetime
import decimal
import re
import struct
import warnings
import zipfile

import numpy as np
import pytest
import scipy.io

from curvedp.errors import ParameterError
from curvedp.estimators import PrivateFrechetMean, PrivateGeodesicRegression
from curvedp.geometry import Euclidean, KendallShapes
from curvedp.privacy import GDP
from curvedp.records import read_column, read_records
from curvedp.records.base import open_records
from curvedp.records.labels import Labels

DATE = datetime.date(2020, 1, 1)
ODD_CELLS = {
    "complex": 1j,
    "complex without imaginary part": 2 + 0j,
    "text": "Frau Müller",
    "number as text": "2",
    "bytes": b"\xff",
    "missing": None,
    "nan": float("nan"),
    "date": DATE,
    "time": datetime.time(1),
    "datetime": datetime.datetime(2020, 1, 1),
    "duration": datetime.timedelta(seconds=3),
    "numpy date": np.datetime64("2020-01-01"),
    "numpy duration": np.timedelta64(3, "ns"),
    "decimal": decimal.Decimal("2.5"),
    "truth": True,
    "huge": 10**400,
    "beyond 64 bits": 2**70,
    "list": [1.0],
    "dictionary": {"a": 1.0},
    "array": np.ones(2),
    "complex array": np.array(1 + 2j),
    "type": int,
}
# What the other cells of the column are, and the numbers that they mean.
OTHER_CELLS = {
    "floats": ([1.0, 0.1, -3.5], [1.0, 0.1, -3.5]),
    "integers": ([1, 2, 3], [1.0, 2.0, 3.0]),
    "complex": ([1 + 0j, 2 + 0j, 3j], [1.0, 2.0, np.nan]),
    "missing": ([None, None, None], [np.nan] * 3),
    "dates": ([DATE, DATE, DATE], [np.nan] * 3),
    "durations": ([datetime.timedelta(1)] * 3, [np.nan] * 3),
    "texts": (["1", "x", "0.1"], [1.0, np.nan, 0.1]),
}


def as_pandas_frame(cells):
    pandas = pytest.importorskip("pandas", reason="a test of pandas' frames")
    return pandas.DataFrame({"a": cells})


def as_pandas_series(cells):
    pandas = pytest.importorskip("pandas", reason="a test of pandas' series")
    return pandas.Series(cells)


def as_list(cells):
    return list(cells)


def as_list_of_lists(cells):
    return [[cell] for cell in cells]


def as_polars_frame(cells):
    polars = pytest.importorskip("polars", reason="a test of polars' frames")
    return polars.DataFrame({"a": cells}, strict=False)


def as_polars_series(cells):
    polars = pytest.importorskip("polars", reason="a test of polars' series")
    return polars.Series(cells, strict=False)


def as_polars_objects(cells):
    polars = pytest.importorskip("polars", reason="a test of polars' series")
    return polars.Series(cells, dtype=polars.Object)


def as_arrow_table(cells):
    pyarrow = pytest.importorskip("pyarrow", reason="a test of Arrow's tables")
    return pyarrow.table({"a": pyarrow.array(cells)})


def as_arrow_array(cells):
    pyarrow = pytest.importorskip("pyarrow", reason="a test of Arrow's arrays")
    return pyarrow.array(cells)


def as_parquet(cells, folder):
    parquet = pytest.importorskip("pyarrow.parquet", reason="a test of parquet files")
    parquet.write_table(as_arrow_table(cells), folder / "x.parquet")
    return folder / "x.parquet"


CONTAINERS = [
    as_pandas_frame, as_pandas_series, as_list, as_list_of_lists, as_polars_frame,
    as_polars_series, as_polars_objects, as_arrow_table, as_arrow_array, as_parquet,
]  # fmt: skip


@pytest.mark.parametrize("others", OTHER_CELLS)
@pytest.mark.parametrize("odd", ODD_CELLS)
@pytest.mark.parametrize("build", CONTAINERS, ids=lambda build: build.__name__)
def test_an_odd_cell_affects_its_own_record_alone(tmp_path, build, odd, others):
    cells, numbers = OTHER_CELLS[others]
    extra = (tmp_path,) if build is as_parquet else ()
    try:
        with warnings.catch_warnings(action="ignore"):
            source = build([*cells, ODD_CELLS[odd]], *extra)
    except Exception:
        pytest.skip("this library cannot hold these cells in one column")
    stored = [*cells, ODD_CELLS[odd]]
    if build in (as_polars_frame, as_polars_series):
        # With strict=False, polars itself replaces cells of other types.
        column = source if build is as_polars_series else source["a"]
        stored = column.to_list()
        if stored[:3] != list(cells):
            pytest.skip("polars changed the other cells before they were read")
    with warnings.catch_warnings(action="error"):
        found = read_records(source, Euclidean(1))
    assert found.shape == (4, 1)
    np.testing.assert_array_equal(found[:3, 0], numbers)


@pytest.mark.parametrize("odd", ODD_CELLS)
def test_an_odd_cell_does_not_decide_whether_a_series_is_read(odd):
    """Series of numbers were refused where a record has several entries, and series with
    one list were not; complex numbers were pairs, unless one cell was a text."""
    records = {
        (3,): [[1.0, 2.0, 3.0], 4.0, "5", ODD_CELLS[odd]],
        (2,): [1 + 2j, 3.0, 4, ODD_CELLS[odd]],
    }
    expected = {
        (3,): [[1.0, 2.0, 3.0], [np.nan] * 3, [np.nan] * 3],
        (2,): [[1.0, 2.0], [3.0, 0.0], [4.0, 0.0]],
    }
    for shape, cells in records.items():
        found = read_records(as_pandas_series(cells), Euclidean(*shape))
        assert found.shape == (4, *shape)
        np.testing.assert_array_equal(found[:3], expected[shape])
        alone = read_records(as_pandas_series(cells[1:3]), Euclidean(*shape))
        np.testing.assert_array_equal(alone, expected[shape][1:3])


@pytest.mark.parametrize("odd", ODD_CELLS)
@pytest.mark.parametrize("build", [as_pandas_series, as_polars_objects, as_arrow_array])
def test_an_odd_label_affects_its_own_record_alone(build, odd):
    for classes, known in (([1, 2, 3], [3, 2, 3]), (["a", "b", "c"], ["c", "b", "c"])):
        for others in (known, [DATE] * 3, [datetime.timedelta(microseconds=3)] * 3):
            try:
                series = build([*others, ODD_CELLS[odd]])
            except Exception:  # pyarrow has no column for these cells
                continue
            codes = Labels(series, 4, classes).codes
            expected = [2, 1, 2] if others is known else [0, 0, 0]
            np.testing.assert_array_equal(codes[:3], expected)


@pytest.mark.parametrize("imaginary", [0.0, 1.0, np.nan, np.inf])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_complex_number_in_a_mat_file_affects_its_own_record(
    tmp_path, imaginary, compressed
):
    X = np.arange(12.0).reshape(4, 3)
    C = X.astype(complex)
    C[3, 0] += 1j * imaginary
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, {"x": C, "y": C[:, :1]}, do_compression=compressed)
    found = read_records(path, Euclidean(3), key="x")
    np.testing.assert_array_equal(found[:3], X[:3])
    assert found.shape == (4, 3)
    assert np.isnan(found[3, 0]) == (imaginary != 0)
    column = read_column(path, "y")
    np.testing.assert_array_equal(column[:3], X[:3, 0])


def test_landmarks_of_a_mat_file_are_pairs_whether_or_not_one_is_complex(tmp_path):
    shapes = KendallShapes(3)
    rows = np.array([[0.0, 1.0, 3.0], [1.0, 2.0, 5.0]])
    with_complex = rows + np.array([[0j, 0, 0], [0, 1j, 0]])
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, {"x": with_complex})
    found = read_records(path, shapes, form="landmarks")
    scipy.io.savemat(path, {"x": rows})
    real = read_records(path, shapes, form="landmarks")
    assert real.shape == found.shape
    np.testing.assert_array_equal(real[0], found[0])


def test_one_list_of_texts_does_not_refuse_a_parquet_file(tmp_path):
    """In a column without values, one record decides about the type of the column."""
    for record in (None, [1.0, 2.0, 3.0], ["a", "b", "c"], [DATE] * 3, [b"\xff"] * 3):
        path = as_parquet([None, None, record], tmp_path)
        found = read_records(path, Euclidean(3))
        assert found.shape == (3, 3)
        assert np.isnan(found[:2]).all()
        assert read_column(path, "a").shape == (3,)


# ---- values that a library cannot convert ------------------------------------------------

SECRET = "Frau M\xfcller"


def unconvertible_arrays():
    """Arrow arrays whose first value is odd, with the numbers that the others mean."""
    import pyarrow as pa

    def texts(kind, offsets):
        content = [SECRET.encode("latin-1"), b"1.5", b"x"]
        ends = np.cumsum([0, *map(len, content)]).astype(offsets)
        buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(content))]
        return pa.Array.from_buffers(kind, 3, buffers)

    nan = float("nan")
    day = 25 * 3600
    texts_32 = texts(pa.string(), np.int32)
    days = pa.array([2**31 - 1, 1, 2], pa.int32()).view(pa.date32())
    arrays = {
        "string": (texts_32, [1.5, nan]),
        "large string": (texts(pa.large_string(), np.int64), [1.5, nan]),
        "date32": (days, [nan, nan]),
    }
    for name, kind, value in (
        ("date64", pa.date64(), 2**62),
        ("time64 us", pa.time64("us"), day * 10**6),
        ("time64 us beyond", pa.time64("us"), 2**62),
        ("time64 ns", pa.time64("ns"), 2**62),
        ("timestamp s", pa.timestamp("s"), 2**62),
        ("timestamp ns", pa.timestamp("ns"), 2**63 - 1),
        ("timestamp tz", pa.timestamp("us", "UTC"), 2**62),
        ("duration s", pa.duration("s"), 2**62),
        ("duration ns", pa.duration("ns"), 2**63 - 1),
    ):
        arrays[name] = (pa.array([value, 1, 2], pa.int64()).view(kind), [nan, nan])
    for name, value in (("time32 s", day), ("time32 s beyond", 2**31 - 1)):
        stored = pa.array([value, 1, 2], pa.int32())
        arrays[name] = (stored.view(pa.time32("s")), [nan, nan])
    for name, (plain, numbers) in list(arrays.items()):
        places = pa.array([0, 1, 2], pa.int8())
        encoded = pa.DictionaryArray.from_arrays(places, plain)
        arrays[f"dictionary of {name}"] = (encoded, numbers)
    for name, (plain, _) in list(arrays.items()):
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), plain)
        arrays[f"list of {name}"] = (lists, None)
    return arrays


def unconvertible_names():
    try:
        return list(unconvertible_arrays())
    except ImportError:
        return []


def wrappings(array, folder):
    """The array in every container that keeps the values of Arrow."""
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"a": array})
    yield table
    yield array
    yield table.column("a")
    yield pa.RecordBatch.from_arrays([array], ["a"])
    try:
        pyarrow.parquet.write_table(table, folder / "x.parquet")
        stored = pyarrow.parquet.read_table(folder / "x.parquet").column("a")
        if not pa.types.is_integer(stored.type):  # parquet may keep durations as these
            yield folder / "x.parquet"
    except (pa.ArrowException, OSError):
        pass  # parquet has no such type
    try:
        import pandas as pd

        extension = pd.arrays.ArrowExtensionArray(table.column("a"))
        yield pd.Series(extension)
        yield pd.DataFrame({"a": pd.Series(extension)})
        if array.type == pa.large_string():
            yield pd.Series(pd.arrays.ArrowStringArray(table.column("a")))
    except ImportError:
        pass
    try:
        import polars as pl

        series = pl.from_arrow(array)
        if (
            not series.dtype.is_integer()
        ):  # polars takes the indices of some dictionaries
            yield series
            yield pl.from_arrow(table)
    except ImportError:
        pass
    except BaseException as error:  # polars does not take this array
        if isinstance(error, KeyboardInterrupt):
            raise


@pytest.mark.parametrize("name", unconvertible_names())
def test_a_value_that_cannot_be_converted_affects_its_own_record(tmp_path, name, capfd):
    array, numbers = unconvertible_arrays()[name]
    for source in wrappings(array, tmp_path):
        with warnings.catch_warnings(action="error"):
            found = read_records(source, Euclidean(1))
        assert found.shape == (3, 1)
        if numbers is not None:
            np.testing.assert_array_equal(found[:, 0], [np.nan, *numbers])
        mean = PrivateFrechetMean(Euclidean(1), radius=1.0, guarantee=GDP(1.0))
        assert mean.fit(found).location_.shape == (1,)
        if not isinstance(source, type(tmp_path)):
            assert mean.fit(source).location_.shape == (1,)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize("name", unconvertible_names())
def test_a_label_that_cannot_be_converted_is_an_unknown_label(tmp_path, name):
    array, _ = unconvertible_arrays()[name]
    for source in wrappings(array, tmp_path):
        is_table = isinstance(source, type(tmp_path)) or hasattr(source, "columns")
        y = read_column(source, "a") if is_table else source
        labels = Labels(y, 3, ["x", "1.5"])
        if name in ("string", "large string", "dictionary of string"):
            np.testing.assert_array_equal(
                labels.classes[labels.codes[1:]], ["1.5", "x"]
            )


@pytest.mark.parametrize("name", unconvertible_names())
def test_a_predictor_that_cannot_be_converted_affects_its_own_record(tmp_path, name):
    array, _ = unconvertible_arrays()[name]
    responses = np.zeros((3, 1))
    for x in wrappings(array, tmp_path):
        if isinstance(x, type(tmp_path)):
            continue
        line = PrivateGeodesicRegression(
            Euclidean(1), radius=1.0, speed=1.0, clip=1.0, x_range=(0, 1), method="kng"
        )
        fitted = line.fit(x, responses)
        assert fitted.predict(x).shape == (3, 1)


def test_a_dictionary_as_long_as_its_indices_allow_is_read():
    """The place of the missing values did not fit into the type of the indices."""
    pa = pytest.importorskip("pyarrow", reason="a test of Arrow's tables")
    for count in (127, 128):
        places = pa.array([*range(count), None], pa.int8())
        values = pa.array(np.arange(count) / 2)
        table = pa.table({"a": pa.DictionaryArray.from_arrays(places, values)})
        found = read_records(table, Euclidean(1))
        np.testing.assert_array_equal(found[:, 0], [*np.arange(count) / 2, np.nan])


# ---- Excel -------------------------------------------------------------------------------

ODD_XML = {
    "not a number": '<c r="B2"><v>NaN</v></c>',
    "decimal comma": '<c r="B2"><v>1,5</v></c>',
    "infinite": '<c r="B2"><v>Infinity</v></c>',
    "name": '<c r="B2"><v>Frau</v></c>',
    "blank": '<c r="B2"><v> </v></c>',
    "too many digits": f'<c r="B2"><v>{"1" * 5000}</v></c>',
    "too large": '<c r="B2"><v>1e999</v></c>',
    "number with two points": '<c r="B2"><v>1.5.2</v></c>',
    "text without index": '<c r="B2" t="s"><v>x</v></c>',
    "text beyond the list": '<c r="B2" t="s"><v>99</v></c>',
    "truth": '<c r="B2" t="b"><v>yes</v></c>',
    "date": '<c r="B2" t="d"><v>tomorrow</v></c>',
    "date beyond": '<c r="B2" t="d"><v>99999-99-99</v></c>',
    "error": '<c r="B2" t="e"><v>#DIV/0!</v></c>',
    "unknown type": '<c r="B2" t="q"><v>1</v></c>',
    "style": '<c r="B2" s="x"><v>1</v></c>',
    "unknown style": '<c r="B2" s="99"><v>1</v></c>',
    "inline": '<c r="B2" t="inlineStr"><is><q/></is></c>',
    "inline with attributes": '<c r="B2" t="inlineStr"><is><r><rPr><b val="q"/></rPr></r></is></c>',
    "nested": '<c r="B2"><v><v>1</v></v></c>',
    "formula": '<c r="B2"><f>1/0</f><v>NaN</v></c>',
    "place": '<c r="?"><v>1</v></c>',
    "no place": "<c><v>NaN</v></c>",
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD_XML)
@pytest.mark.parametrize("has_places", [True, False])
def test_an_odd_cell_of_excel_affects_its_own_record_alone(tmp_path, kind, has_places):
    openpyxl = pytest.importorskip("openpyxl", reason="a test of Excel's files")
    book = openpyxl.Workbook()
    X = np.arange(9.0).reshape(3, 3) + 0.5
    for row in X.tolist():
        book.active.append(row)
    path = tmp_path / "x.xlsx"
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    sheet = parts[name].decode()
    sheet, count = re.subn(r'<c r="B2"[^>]*>.*?</c>', lambda _: ODD_XML[kind], sheet)
    assert count == 1
    if not has_places:  # cells are counted then, and an odd one is counted too
        sheet = re.sub(r'<c r="[A-Z0-9?]*"', "<c", sheet)
    parts[name] = sheet.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, content)

    with warnings.catch_warnings(action="error"):
        found = read_records(path, Euclidean(3), key="A1:C3")
    np.testing.assert_array_equal(found[[0, 2]], X[[0, 2]])
    np.testing.assert_array_equal(found[1, [0, 2]], X[1, [0, 2]])
    assert read_column(path, "B1:B3").shape == (3,)


# ---- zarr --------------------------------------------------------------------------------


def zstd(content, **options):
    numcodecs = pytest.importorskip("numcodecs", reason="a test of zarr's files")
    return bytes(numcodecs.Zstd(**options).encode(content))


def skippable(size, low_bits=0):
    return struct.pack("<II", 0x184D2A50 + low_bits, size) + bytes(size)


def undeclared(content):
    """A frame of one raw block that does not say its size."""
    header = (len(content) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x00\x58" + header + content


RIGHT = np.full(12, 0.5).tobytes()


def zstd_chunks():
    """Packed chunks, and whether they unpack to the 96 bytes of their shape."""
    half = len(RIGHT) // 2
    right = zstd(RIGHT)
    large = zstd(bytes(8 << 20))
    yield "one frame", right, True
    yield "checksum", zstd(RIGHT, checksum=True), True
    yield "two halves", zstd(RIGHT[:half]) + zstd(RIGHT[half:]), True
    yield (
        "halves with checksums",
        (zstd(RIGHT[:half], checksum=True) + zstd(RIGHT[half:], checksum=True)),
        True,
    )
    for low_bits in (0, 7, 15):
        yield f"skippable {low_bits}, then one", skippable(9, low_bits) + right, True
    yield "one, then skippable", right + skippable(9), True
    yield "one twice", right * 2, False
    yield "one, then a large one", right + large, False
    yield "skippable, then a large one", skippable(9) + large, False
    yield "one, skippable, large", right + skippable(0) + large, False
    yield "empty, then large", zstd(b"") + large, False
    yield "many", right * 1000, False
    yield "size not declared", undeclared(RIGHT), False
    yield "one, then size not declared", right + undeclared(RIGHT), False
    yield "junk at the end", right + b"junk", False
    yield "cut off", right[:-1], False
    yield "skippable beyond the end", right + skippable(9)[:-1], False
    yield "header only", right + right[:5], False


@pytest.mark.parametrize("sharded", [False, True])
def test_all_frames_of_a_zstd_chunk_are_counted(tmp_path, sharded):
    """Only the first frame was looked at, and the decoder unpacks all of them."""
    pytest.importorskip("zarr", reason="a test of zarr's files")
    from .test_unpacking import write_shard, zarr_folder

    for number, (name, packed, is_right) in enumerate(zstd_chunks()):
        folder = tmp_path / str(number)
        folder.mkdir()
        if sharded:
            path = write_shard(folder, "zstd", packed)
        else:
            path, _ = zarr_folder(folder, [4, 3], [4, 3], {"id": "zstd"}, packed)
        if is_right:
            found = read_records(path, Euclidean(3))
            np.testing.assert_array_equal(found, np.full((4, 3), 0.5), err_msg=name)
        else:
            with pytest.raises(ParameterError, match="more than its shape says"):
                read_records(path, Euclidean(3))


def test_frames_of_every_size_are_measured():
    """Sizes are written in 1, 2, 4 and 8 bytes, and blocks are raw, packed or repeated."""
    from curvedp.records.zstd_sizes import zstd_content_size

    rng = np.random.default_rng(0)
    sizes = (0, 1, 255, 256, 257, 65_791, 65_792, 1 << 17, 300_000)
    for size in sizes:
        for content in (bytes(size), rng.bytes(size), (b"abc" * size)[:size]):
            for checksum in (False, True):
                packed = zstd(content, checksum=checksum)
                assert zstd_content_size(packed) == size
                assert zstd_content_size(packed * 3) == 3 * size


# ---- texts of NumPy with characters that do not exist ----------------------------------


def text_with_bad_character(values, byte_order):
    """An array of texts; the first character of the second one is beyond Unicode."""
    texts = np.array(values, dtype=f"{byte_order}U6")
    width = texts.dtype.itemsize // 4
    texts.view(f"{byte_order}u4")[width] = 0x110005
    return texts


@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("values", [["1", "2", "3"], ["1.5", "é", "2.25"]], ids=repr)
def test_a_character_that_does_not_exist_is_data(tmp_path, values, byte_order):
    texts = text_with_bad_character(values, byte_order)
    expected = [float(values[0]), np.nan, float(values[2])]

    records = read_records(texts.reshape(-1, 1), Euclidean(1))
    assert np.array_equal(records.ravel(), expected, equal_nan=True)

    np.save(tmp_path / "x.npy", texts.reshape(-1, 1))
    records = read_records(tmp_path / "x.npy", Euclidean(1))
    assert np.array_equal(records.ravel(), expected, equal_nan=True)

    every_second = np.repeat(texts, 2)[::2]
    codes = Labels(every_second, 3, [values[0], values[2]]).codes
    assert (
        codes.tolist()
        == Labels(
            [values[0], None, values[2]], 3, [values[0], values[2]]
        ).codes.tolist()
    )


# ---- chunks whose type is not the declared one -----------------------------------------


@pytest.mark.parametrize("others", ["floats", "integers", "complex"])
@pytest.mark.parametrize("odd", ODD_CELLS)
def test_an_odd_cell_of_a_chunk_affects_its_own_record_alone(odd, others):
    """A chunk that is a part of a table has a type of its own, which a cell decides."""
    dask = pytest.importorskip("dask", reason="a test of chunks")
    dask_array = pytest.importorskip("dask.array", reason="a test of chunks")
    pandas = pytest.importorskip("pandas", reason="chunks are parts of pandas' frames")
    cells, numbers = OTHER_CELLS[others]
    try:
        frame = pandas.DataFrame({"a": [*cells, ODD_CELLS[odd]]})
        chunk = frame.to_numpy()
    except Exception:
        pytest.skip("pandas cannot hold these cells in one column")
    if chunk.dtype.kind in "mM":
        pytest.skip("one date makes dates of all cells before they are read")
    delayed_chunk = dask.delayed(lambda: chunk)()
    chunks = dask_array.from_delayed(delayed_chunk, shape=(4, 1), dtype=np.float64)
    records = open_records(chunks, (1,))
    sums = records.sums(lambda block: np.isnan(block[:3, 0]).astype(np.int64))
    np.testing.assert_array_equal(sums, np.isnan(numbers))
    mean = PrivateFrechetMean(Euclidean(1), radius=9.0, guarantee=GDP(99.0))
    with warnings.catch_warnings(action="error"):
        assert mean.fit(chunks).location_.shape == (1,)


# ---- records that would fill the memory ------------------------------------------------


def test_a_record_of_another_shape_is_not_converted():
    """A view of one number has any shape; a copy of it would fill the memory."""
    for dtype in ("int8", "float32", "complex64", "U1", "datetime64[s]"):
        endless = np.broadcast_to(np.zeros((), dtype), (10**12,))
        for source in ([[1.0], endless], as_pandas_series([[1.0], endless])):
            found = read_records(source, Euclidean(1))
            np.testing.assert_array_equal(found, [[1.0], [np.nan]])
