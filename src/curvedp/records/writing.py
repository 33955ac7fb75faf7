"""Files of points: csv, parquet, npy, and volumes of tensors.
What is written here was released, or drawn from what was released, so that files hold
all digits. `curvedp.records.files` reads such files again.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from curvedp._files import write_atomically
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.records.output_forms import OutputForm, output_form

# What a file of points may end in.
ENDINGS = (".csv", ".parquet", ".npy", ".nii", ".nii.gz")

# How tensors stand in a volume if nothing else is asked for.
_TENSOR_FORM = "tensor6-lower"


def check_ending(path: Path) -> str:
    """Return the ending of the name of a file of points.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    ParameterError
        If no format has this ending.
    """
    for ending in ENDINGS:
        if path.name.endswith(ending):
            return ending
    raise ParameterError(f"{path.name} must end in one of {', '.join(ENDINGS)}")


def check_writable_form(
    path: Path, manifold: Manifold, form: str | None, has_columns: bool
) -> None:
    """Refuse a file of a kind to which points could not be written.

    Commands call this before anything is paid for.

    Parameters
    ----------
    path : path
        The file.
    manifold : Manifold
        The space in which the points lie.
    form : str or None
        The form in which points are written.
    has_columns : bool
        Whether there are labels or predictors beside the points.

    Raises
    ------
    ParameterError
        For an unknown ending, columns in a format without columns, a volume of
        anything but tensors, and a missing package.
    """
    ending = check_ending(path)
    if has_columns and ending not in (".csv", ".parquet"):
        raise ParameterError(
            f"{path.name} has no place for labels or a predictor: write csv or parquet"
        )
    if ending in (".nii", ".nii.gz"):
        written_as = output_form(form or _TENSOR_FORM, manifold)
        if manifold.point_shape != (3, 3) or len(written_as.columns) != 6:
            raise ParameterError(
                f"{path.name} is a volume of 3 × 3 tensors in a form of six numbers, "
                f"such as {_TENSOR_FORM}; records of {manifold.name} are none"
            )
        _import_nibabel()
    if ending == ".parquet":
        _import_pyarrow()


def write_points(
    path: Path,
    points: np.ndarray,
    manifold: Manifold,
    form: str | None = None,
    columns: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write points, and columns beside them, to a file: whole or not at all.

    Parameters
    ----------
    path : path
        It ends in .csv, .parquet, .npy, .nii or .nii.gz. A volume has one voxel for
        each tensor, in a row: where a voxel lies means nothing.
    points : array, shape (n, *point_shape)
        The points, such as synthetic records.
    manifold : Manifold
        The space in which the points lie.
    form : str, optional
        The form in which points are written, such as "latlon-degrees". By default it is
        the entries of a point.
    columns : mapping of str to array, optional
        Labels and predictors by name, for csv and parquet.

    Examples
    --------
    >>> import tempfile
    >>> from curvedp.geometry import Sphere
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> write_points(path, np.eye(3)[:2], Sphere(2), "latlon-degrees", {"y": ["a", "b"]})
    >>> path.read_text().splitlines()
    ['latitude_degrees,longitude_degrees,y', '0.0,0.0,a', '0.0,90.0,b']
    """
    columns = dict(columns or {})
    check_writable_form(path, manifold, form, bool(columns))
    ending = check_ending(path)
    if ending == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(points), allow_pickle=False)
        write_atomically(path, buffer.getvalue())
    elif ending == ".csv":
        table = _columns_by_name(points, output_form(form, manifold), columns)
        write_atomically(path, _csv_text(table).encode())
    elif ending == ".parquet":
        table = _columns_by_name(points, output_form(form, manifold), columns)
        write_atomically(path, _parquet_bytes(table))
    else:
        numbers = _numbers_of_points(
            points, output_form(form or _TENSOR_FORM, manifold)
        )
        write_atomically(path, _nifti_bytes(numbers, is_packed=ending == ".nii.gz"))


def csv_content(points: np.ndarray, manifold: Manifold, form: str | None) -> bytes:
    """Return the content of a csv file of points, with a line of names.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        The points, such as synthetic records.
    manifold : Manifold
        The space in which the points lie.
    form : str or None
        The form in which points are written.

    Returns
    -------
    bytes
        The text in UTF-8.
    """
    return _csv_text(_columns_by_name(points, output_form(form, manifold), {})).encode()


def _numbers_of_points(points: np.ndarray, written_as: OutputForm) -> np.ndarray:
    """Return the numbers of each point in a form, one row for each.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        The points.
    written_as : OutputForm
        The form: which numbers write a point.
    """
    rows = [np.ravel(written_as.numbers(point)) for point in points]
    return np.array(rows, dtype=np.float64).reshape(len(points), -1)


def _columns_by_name(
    points: np.ndarray, written_as: OutputForm, columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all columns of a table by name, with the coordinates of the points first.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        The points.
    written_as : OutputForm
        The form: which numbers write a point, and their names.
    columns : mapping of str to array
        Labels and predictors by name.

    Returns
    -------
    dict of str to array
        The columns. A name that the numbers of points have already gets a "_".
    """
    numbers = _numbers_of_points(points, written_as)
    table: dict[str, Any] = dict(zip(written_as.columns, numbers.T, strict=True))
    for name, values in columns.items():
        free_name = name
        while free_name in table:
            free_name += "_"
        table[free_name] = np.asarray(values)
    return table


def _csv_text(table: Mapping[str, Any]) -> str:
    """Return a table as text, with a line of names.

    Parameters
    ----------
    table : mapping of str to array
        The columns by name.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(values.tolist() for values in table.values()), strict=True))
    return text.getvalue()


def _parquet_bytes(table: Mapping[str, Any]) -> bytes:
    """Return a table as the content of a parquet file.

    Parameters
    ----------
    table : mapping of str to array
        The columns by name.
    """
    pyarrow = _import_pyarrow()
    buffer = io.BytesIO()
    arrays = {name: pyarrow.array(values.tolist()) for name, values in table.items()}
    pyarrow.parquet.write_table(pyarrow.table(arrays), buffer)
    return buffer.getvalue()


def _nifti_bytes(numbers: np.ndarray, *, is_packed: bool) -> bytes:
    """Return the content of a NIfTI file with a voxel for each row.

    Parameters
    ----------
    numbers : array, shape (n, 6)
        The numbers of each tensor.
    is_packed : bool
        Whether the file is compressed. No time is written into it, so that the same
        points give the same bytes.
    """
    nibabel = _import_nibabel()
    volume = numbers.reshape(len(numbers), 1, 1, -1)
    # NIfTI-1 counts voxels along an axis by 16 bits.
    kind = nibabel.Nifti1Image if len(numbers) < 1 << 15 else nibabel.Nifti2Image
    content: bytes = kind(volume, np.eye(4)).to_bytes()
    if not is_packed:
        return content
    import gzip

    return gzip.compress(content, mtime=0)


def _import_pyarrow() -> Any:
    """Return pyarrow, or say how it is installed.

    Raises
    ------
    ParameterError
        If it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ParameterError(
            "parquet files need pyarrow: pip install pyarrow"
        ) from None
    return pyarrow


def _import_nibabel() -> Any:
    """Return nibabel, or say how it is installed.

    Raises
    ------
    ParameterError
        If it is not installed.
    """
    try:
        import nibabel
    except ImportError:
        raise ParameterError("volumes need nibabel: pip install nibabel") from None
    return nibabel
