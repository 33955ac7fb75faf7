"""Readers: a record, whatever it is, never changes n, whether a file is read, another record, or what is said."""

import contextlib
import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Rotations,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.records import limits, read_column, read_records
from curvedp.records.files import load_point

N, BAD = 12, 5
SECRET = "secret-4711"
SPHERE, TENSORS = Sphere(2), SPDAffineInvariant(3)
X = SPHERE.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.4, (N, 3))).round(
    12
)  # so that Excel keeps every digit


# ---- csv and tsv: what a line may hold -------------------------------------------------------------------------------


# ---- every other format: what a record may be ------------------------------------------------------------------------

RECORDS = {
    "missing": None,
    "text": [SECRET, 0.0, 1.0],
    "blank text": ["", "", ""],
    "missing cells": [None, None, None],
    "one missing": [None, 0.0, 1.0],
    "nan": [np.nan] * 3,
    "inf": [np.inf, 0.0, 1.0],
    "large whole number": [2**53 + 1, 0, 1],
    "huge whole number": [10**400, 0, 1],
    "negative zero": [-0.0, 0.0, 1.0],
    "tiny": [5e-324, 0.0, 1.0],
    "short": [0.0, 1.0],
    "long": [0.0, 0.0, 1.0, 0.0],
    "nested": [[0.0], [0.0], [1.0]],
    "empty": [],
    "complex": [1j, 0.0, 1.0],
    "truth": [True, False, True],
}


def as_list(folder, records):
    return records


def as_tuples(folder, records):
    return tuple(None if row is None else tuple(row) for row in records)


def as_objects(folder, records):
    made = np.empty(len(records), dtype=object)
    made[:] = records
    return made


def as_pandas(folder, records):
    return pytest.importorskip("pandas", reason="a test of pandas' frames").DataFrame(
        cells(records), columns=list("xyz")
    )


def as_pandas_series(folder, records):
    return pytest.importorskip("pandas", reason="a test of pandas' series").Series(
        records
    )


def as_polars(folder, records):
    polars = pytest.importorskip("polars", reason="a test of polars' frames")
    return polars.DataFrame(
        cells(records, limit=2**62), schema=list("xyz"), orient="row", strict=False
    )


def as_excel(folder, records):
    book = pytest.importorskip(
        "openpyxl", reason="Excel files are written with it"
    ).Workbook()
    for row in [list("xyz"), *cells(records, limit=2**62)]:
        book.active.append(
            [entry if entry == entry and abs_finite(entry) else "#N/A" for entry in row]
        )
    book.save(folder / "x.xlsx")
    return folder / "x.xlsx"


def as_parquet(folder, records):
    """One column for each entry, of text where one cell is text, as frames are written."""
    pyarrow = pytest.importorskip("pyarrow", reason="parquet files are written with it")
    columns = list(zip(*cells(records, limit=2**62), strict=True))
    kinds = [
        str if any(isinstance(entry, str) for entry in column) else float
        for column in columns
    ]
    written = [
        [None if e is None else kind(e) for e in c]
        for c, kind in zip(columns, kinds, strict=True)
    ]
    return write_parquet(
        folder, dict(zip("xyz", map(pyarrow.array, written), strict=True))
    )


def as_nested_parquet(folder, records):
    pyarrow = pytest.importorskip("pyarrow", reason="parquet files are written with it")
    records = [
        None
        if row is None
        else [
            None if e is None or isinstance(e, str) else float(e) for e in np.ravel(row)
        ]
        for row in records
    ]
    return write_parquet(
        folder,
        {
            "record": pyarrow.array(
                records, pyarrow.list_(pyarrow.float64()), from_pandas=False
            )
        },
    )


def write_parquet(folder, columns):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "x.parquet")
    return folder / "x.parquet"


def as_text_npy(folder, records):
    np.save(
        folder / "x.npy",
        np.array([[str(entry) for entry in row] for row in cells(records)]),
    )
    return folder / "x.npy"


def as_packed_text(folder, records):
    """As a table of Excel's "Unicode text", packed."""
    lines = "".join(
        ",".join(str(entry) for entry in row) + "\n" for row in cells(records)
    )
    (folder / "x.csv.gz").write_bytes(gzip.compress(lines.encode("utf-16")))
    return folder / "x.csv.gz"


def cells(records, limit=None):
    """Rows of three cells, as a table has them; one with other lengths is filled up or cut."""
    rows = [
        [] if row is None else [e if np.ndim(e) == 0 else None for e in row]
        for row in records
    ]
    rows = [(row + [None] * 3)[:3] for row in rows]
    return [
        [
            None
            if type(e) is complex or (limit and type(e) is int and abs(e) >= limit)
            else e
            for e in row
        ]
        for row in rows
    ]


def abs_finite(entry):
    return not isinstance(entry, float) or np.isfinite(entry)


CHOICES = {
    as_excel: {"key": "A2:C13"},
    as_packed_text: {"header": False, "encoding": "utf-16"},
}
FORMATS = [
    as_list,
    as_tuples,
    as_objects,
    as_pandas,
    as_pandas_series,
    as_polars,
    as_excel,
    as_parquet,
    as_nested_parquet,
    as_text_npy,
    as_packed_text,
]


def opened(build, folder, records):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning that a value causes is a release
        source = build(folder, records)
        return read_records(source, SPHERE, **CHOICES.get(build, {}))


@pytest.mark.parametrize("place", [0, BAD, N - 1])
@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("build", FORMATS, ids=lambda build: build.__name__)
def test_no_record_changes_n_or_whether_it_is_read(tmp_path, build, kind, place):
    records = [list(map(float, row)) for row in X]
    np.testing.assert_array_equal(opened(build, tmp_path, records), X)  # the control
    records[place] = RECORDS[kind]
    if build is as_nested_parquet and kind in ("complex", "huge whole number"):
        records[place] = None  # no such list of doubles can be written
    found = opened(build, tmp_path, records)
    assert found.shape == (N, 3)
    others = np.arange(N) != place
    np.testing.assert_array_equal(found[others], X[others])


def test_whole_numbers_beyond_the_doubles_are_rounded_not_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="parquet files are written with it")
    for last in (1, 2**53 + 1, None):
        columns = {name: pyarrow.array([1, 2, last], "int64") for name in "xyz"}
        assert read_records(write_parquet(tmp_path, columns), SPHERE).shape == (3, 3)


@pytest.mark.parametrize("build", FORMATS, ids=lambda build: build.__name__)
def test_nothing_that_is_said_quotes_a_record(tmp_path, build):
    records = [list(map(float, row)) for row in X[:-1]] + [[SECRET] * 3]
    source = build(tmp_path, records)
    for manifold, form in (
        (TENSORS, None),
        (Rotations(3), "quaternion-wxyz"),
        (SPHERE, "latlon-degrees"),
    ):
        with contextlib.suppress(ParameterError):
            read_records(source, manifold, form=form, **CHOICES.get(build, {}))
            continue
        with pytest.raises(ParameterError) as caught:
            read_records(source, manifold, form=form, **CHOICES.get(build, {}))
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_masked_entries_are_nan():
    hidden = np.ma.masked_array(X, mask=np.arange(3 * N).reshape(N, 3) == 4)
    found = read_records(hidden, SPHERE)
    assert np.isnan(found).sum() == 1
    assert np.isnan(found[1, 1])
    assert np.isnan(read_records(list(hidden), SPHERE)).sum() == 1


def test_npz_zarr_and_flat_rows(tmp_path):
    zarr = pytest.importorskip("zarr", reason="a test of zarr's files")
    T = np.eye(3) + np.zeros((4, 1, 1))
    np.savez(tmp_path / "x.npz", a=T, b=T.reshape(4, 9))
    with pytest.raises(ParameterError, match="key is missing"):
        read_records(tmp_path / "x.npz", TENSORS)
    np.testing.assert_array_equal(read_records(tmp_path / "x.npz", TENSORS, key="b"), T)
    zarr.save_array(tmp_path / "x.zarr", T)
    np.testing.assert_array_equal(read_records(tmp_path / "x.zarr", TENSORS), T)
    zarr.save_group(tmp_path / "g.zarr", a=T, b=T)
    np.testing.assert_array_equal(
        read_records(tmp_path / "g.zarr", TENSORS, key="a"), T
    )


@pytest.mark.parametrize("form", [None, "upper"])
def test_large_files_come_in_chunks(tmp_path, monkeypatch, form):
    dask = pytest.importorskip("dask.array", reason="chunks are dask's")
    zarr, pyarrow = (
        pytest.importorskip("zarr", reason="needed"),
        pytest.importorskip("pyarrow", reason="needed"),
    )
    A = np.random.default_rng(0).normal(size=(50, 3, 3))
    T = A @ A.swapaxes(1, 2)
    written = T.reshape(50, 9) if form is None else T[:, *np.triu_indices(3)]
    table = {f"c{i}": written[:, i] for i in range(written.shape[1])}
    path = write_parquet(tmp_path, table)
    zarr.save_array(tmp_path / "x.zarr", written)
    del pyarrow
    monkeypatch.setattr(limits, "STREAMED", 100)
    for source in (path, tmp_path / "x.zarr"):
        found = read_records(source, TENSORS, form=form)
        assert isinstance(found, dask.Array)
        np.testing.assert_array_equal(found.compute(), T)


def test_nifti_volumes_need_a_public_mask(tmp_path):
    nibabel = pytest.importorskip("nibabel", reason="NIfTI files are written with it")
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 4, 2, 3, 3))
    T = A @ A.swapaxes(-1, -2)
    mask = rng.uniform(size=(3, 4, 2)) < 0.5
    i, j = zip(*((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)), strict=True)
    lower = T[..., i, j].astype(np.float32)
    volume = {"flat": lower, "symmetric": lower[:, :, :, None]}
    nibabel.save(
        nibabel.Nifti1Image(mask.astype(np.uint8), np.eye(4)), tmp_path / "mask.nii"
    )
    for name, entries in volume.items():
        path = tmp_path / f"{name}.nii.gz"
        nibabel.save(nibabel.Nifti1Image(entries, np.eye(4)), path)
        with pytest.raises(ParameterError, match="mask is missing"):
            read_records(path, TENSORS, form="tensor6-lower")
        for given in (mask, tmp_path / "mask.nii", str(tmp_path / "mask.nii")):
            np.testing.assert_allclose(
                read_records(path, TENSORS, form="tensor6-lower", mask=given),
                T[mask],
                rtol=1e-6,
            )
        with pytest.raises(ParameterError, match="does not say enough"):
            read_records(path, TENSORS, form="tensor6", mask=mask)
        with pytest.raises(ParameterError, match="mask has shape"):
            read_records(path, TENSORS, form="tensor6-lower", mask=mask[1:])
    np.testing.assert_array_equal(read_records(T, TENSORS, mask=mask), T[mask])


def test_arrays_elsewhere_stay_there():
    jax = pytest.importorskip("jax", reason="a device's arrays")
    dask = pytest.importorskip("dask.array", reason="chunks are dask's")
    there = jax.numpy.asarray(X)
    assert read_records(there, SPHERE) is there
    chunks = dask.from_array(X, chunks=(5, 3))
    np.testing.assert_array_equal(read_records(chunks, SPHERE).compute(), X)
    assert (
        read_records(jax.numpy.zeros((4, 2)), SPHERE, form="latlon-degrees").tolist()
        == [[1.0, 0.0, 0.0]] * 4
    )


@pytest.mark.parametrize(
    ("made", "manifold", "says"),
    [
        (np.zeros((4, 2)), SPHERE, r"by its form \(latlon-degrees, latlon-radians, "),
        (np.zeros((4, 6)), TENSORS, "tensor6-lower"),
        (np.zeros((4, 4)), Rotations(3), "quaternion-wxyz"),
        (np.zeros((4, 4)), SPHERE, r"needs \(n, 3\)"),
        (np.zeros((2, 2, 2, 3, 3)), TENSORS, "a volume with a mask"),
        (np.zeros((4, 3), complex), SPHERE, "complex128"),
        (np.zeros((4, 7), complex), KendallShapes(8), "complex128"),
        (np.zeros((4, 3), "datetime64[s]"), SPHERE, "datetime64"),
        (np.zeros(()), SPHERE, "shape"),
        (3.0, SPHERE, "shape"),
        (np.zeros((3, 3, 5)), TENSORS, "its last axis counts the records"),
        ("nowhere.csv", SPHERE, "does not exist"),
        ("nowhere.docx", SPHERE, "must end in one of"),
        (X, "sphere:2", "manifold="),
    ],
)
def test_what_is_public_and_does_not_fit_is_one_line(made, manifold, says):
    with pytest.raises(ParameterError, match=says) as caught:
        read_records(made, manifold)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        ".npy",
        ".npz",
        ".mat",
        ".csv.gz",
        ".zarr",
        ".parquet",
        ".xlsx",
        ".nii",
        ".nii.gz",
    ],
)
def test_damaged_files_are_one_line(tmp_path, name):
    (tmp_path / f"x{name}").write_bytes(f"{SECRET}\n".encode() * 40)
    with pytest.raises(ParameterError) as caught:
        read_records(
            tmp_path / f"x{name}",
            SPHERE,
            key="A1:C3",
            mask=np.ones((2, 2, 2)),
            header=False,
        )
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pickled_objects_are_refused(tmp_path):
    there = np.array([None, SECRET], dtype=object)
    np.save(tmp_path / "x.npy", there, allow_pickle=True)
    np.savez(tmp_path / "x.npz", a=there)
    scipy.io.savemat(tmp_path / "x.mat", {"a": np.array([SECRET, 1.0], dtype=object)})
    for kind in ("npy", "npz", "mat"):
        with pytest.raises(
            ParameterError, match="holds Python objects or cells, not numbers"
        ) as caught:
            read_records(tmp_path / f"x.{kind}", SPHERE)
        assert SECRET not in str(caught.value)


def test_files_of_matlab(tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"x": X, "who": np.arange(N)})
    np.testing.assert_array_equal(read_records(tmp_path / "x.mat", SPHERE, key="x"), X)
    np.testing.assert_array_equal(read_column(tmp_path / "x.mat", "who"), np.arange(N))
    with pytest.raises(ParameterError, match=r"holds the arrays \['who', 'x'\]"):
        read_records(tmp_path / "x.mat", SPHERE)
    (tmp_path / "new.mat").write_bytes(
        b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400)
    )
    with pytest.raises(
        ParameterError, match=r"version 7\.3; save it with the option -v7"
    ):
        read_records(tmp_path / "new.mat", SPHERE)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1", "cp1252"]
)
def test_texts_in_other_encodings(tmp_path, encoding):
    lines = "".join(
        f"{i:03d}," + ",".join(map(str, row)) + "\n" for i, row in enumerate(X)
    )
    (tmp_path / "x.csv").write_bytes(f"größe,x,y,z\n{lines}".encode(encoding))
    chosen = {"header": True, "encoding": encoding}
    np.testing.assert_array_equal(
        read_records(tmp_path / "x.csv", SPHERE, columns=list("xyz"), **chosen), X
    )
    assert read_column(tmp_path / "x.csv", "größe", **chosen).tolist() == [
        f"{i:03d}" for i in range(N)
    ]
    for bad in ("klingon", "base64", None):
        with pytest.raises(ParameterError, match="encoding="):
            read_records(tmp_path / "x.csv", SPHERE, header=True, encoding=bad)


def test_mistakes_in_columns_are_met_with_advice(tmp_path):
    """A header in another encoding, and a range as Python writes it."""
    path = tmp_path / "x.csv"
    path.write_bytes("Breite;Länge;Ort\n1;2;3\n".encode("latin-1"))
    reading = {"header": True, "sep": ";"}
    for columns in (None, ("Breite", "Länge")):
        with pytest.raises(ParameterError, match="encoding"):
            read_records(path, Euclidean(2), columns=columns, **reading)
    with pytest.raises(ParameterError, match="a range of places is written 2-31"):
        read_records(path, Euclidean(2), columns=("0:2",), **reading)
    names = ("Breite", "Länge")
    found = read_records(
        path, Euclidean(2), columns=names, encoding="latin-1", **reading
    )
    np.testing.assert_array_equal(found, [[1.0, 2.0]])


def test_a_public_point(tmp_path):
    for lines in ("1,0,0", "1,0,0\n", "x,y,z\n1,0,0\n"):
        (tmp_path / "c.csv").write_text(lines)
        assert load_point(tmp_path / "c.csv", SPHERE).tolist() == [1.0, 0.0, 0.0]
    np.save(tmp_path / "c.npy", np.eye(3))
    assert load_point(tmp_path / "c.npy", TENSORS).tolist() == np.eye(3).tolist()
    np.save(tmp_path / "c.npy", np.eye(3)[None])
    assert load_point(tmp_path / "c.npy", TENSORS).tolist() == np.eye(3).tolist()
    with pytest.raises(ParameterError, match="not one point"):
        load_point(tmp_path / "c.npy", SPHERE)
    with pytest.raises(ParameterError, match="does not exist"):
        load_point(Path(tmp_path / "none.npy"), SPHERE)
    assert load_point("1e-3", TENSORS).tolist() == (1e-3 * np.eye(3)).tolist()
    assert load_point(Path("0, 1 0"), SPHERE).tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_allclose(
        load_point("90,12", SPHERE, "latlon-degrees"), [0, 0, 1], atol=1e-15
    )
    for wrong in ("0.1,0.2", "pole", "1,0,x"):
        with pytest.raises(ParameterError, match="must be 3 numbers"):
            load_point(wrong, SPHERE)


def test_columns_of_parquet_and_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="Excel files are written with it")
    pytest.importorskip("pyarrow", reason="parquet files are written with it")
    assert read_column(
        write_parquet(tmp_path, {"who": ["a", None], "x": [1.0, 2.0]}), "who"
    ).tolist() == ["a", None]
    book = openpyxl.Workbook()
    for row in (["who", "x"], ["a", 1], [None, 2]):
        book.active.append(row)
    book.save(tmp_path / "x.xlsx")
    assert read_column(tmp_path / "x.xlsx", "A2:A4").tolist() == ["a", None, None]


@pytest.mark.parametrize(
    "bad", ["#N/A,0,1", "", "nan,nan,nan", '0.99,0.1,"0.1', "0,0,1,0"]
)
def test_n_of_a_release_does_not_depend_on_a_line(tmp_path, bad):
    """What attacked us: 200 records were 199, or 51, in the certificate of `curvedp release`."""
    from typer.testing import CliRunner

    from curvedp.cli import app

    lines = ["1,0,0"] * 199
    for place in (0, 100, 199):
        (tmp_path / "x.csv").write_text(
            "\n".join([*lines[:place], bad, *lines[place:]]) + "\n"
        )
        options = ["-m", "sphere:2", "-r", "0.7", "--mu", "1", "--json", "--no-header"]
        found = CliRunner().invoke(app, ["release", str(tmp_path / "x.csv"), *options])
        assert found.exit_code == 0, found.output
        assert '"n": 200' in found.stdout
