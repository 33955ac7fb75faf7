"""Arrays in files: npy, npz, mat, zarr, NIfTI volumes with a mask, and parquet. Their shapes and dtypes are public."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.records.tables import Choices, frame

STREAMED = 1 << 30  # bytes of doubles beyond which parquet and zarr come as dask arrays


def _npy(path: Path, choices: Choices) -> Any:
    with path.open(
        "rb"
    ) as file:  # closed here: NumPy leaves a file that it cannot read open
        return _no_objects(path, lambda: np.load(file, allow_pickle=False))


def _npz(path: Path, choices: Choices) -> Any:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        name = _key(path, archive.files, choices.key)
        return _no_objects(path, lambda: archive[name])


def _mat(path: Path, choices: Choices) -> Any:
    """MATLAB's files up to version 7; those of 7.3 are HDF5."""
    import scipy.io

    try:
        names = [name for name, _, _ in scipy.io.whosmat(path)]
    except NotImplementedError:
        raise ParameterError(
            f"{path.name} is a MATLAB file of version 7.3; save it with the option -v7"
        ) from None
    name = _key(path, names, choices.key)
    return _no_objects(
        path, lambda: scipy.io.loadmat(path, variable_names=[name])[name]
    )


def _zarr(path: Path, choices: Choices) -> Any:
    import zarr

    found: Any = zarr.open(path, mode="r")
    if isinstance(found, zarr.Group):
        found = found[_key(path, [name for name, _ in found.arrays()], choices.key)]
    if found.size * 8 > STREAMED and choices.mask is None:
        try:
            import dask.array

            return dask.array.from_zarr(found)
        except ImportError:  # then it has to fit into memory
            pass
    return np.asarray(found[...])


def _nifti(path: Path, choices: Choices) -> Any:
    """(x, y, z, entries), also as NIfTI's own symmetric matrices (x, y, z, 1, 6)."""
    import nibabel

    if choices.mask is None:
        raise ParameterError(
            f"{path.name}: say which voxels are records with mask=, a public file or array"
        )
    found = np.asarray(nibabel.load(path).dataobj)
    return found[:, :, :, 0] if found.ndim == 5 and found.shape[3] == 1 else found


READERS: dict[str, Callable[[Path, Choices], Any]]
READERS = {
    ".npy": _npy,
    ".npz": _npz,
    ".mat": _mat,
    ".zarr": _zarr,
    ".nii": _nifti,
    ".nii.gz": _nifti,
}


def masked(where: str, X: np.ndarray, mask: Any) -> np.ndarray:
    """The records of the voxels that a public mask (an array, or the path of a NIfTI or npy file) names."""
    if isinstance(mask, str | Path):
        mask = _mask_file(Path(mask))
    chosen = np.asarray(mask)
    if (
        chosen.dtype.kind not in "biuf"
        or chosen.shape != X.shape[: chosen.ndim]
        or not chosen.ndim
    ):
        raise ParameterError(
            f"mask has shape {chosen.shape} and dtype {chosen.dtype}; {where} has shape {X.shape}"
        )
    return np.asarray(X[chosen != 0])


def _mask_file(path: Path) -> Any:
    """A mask is public: what is wrong with it may be said."""
    if not path.exists():
        raise ParameterError(f"mask: {path} does not exist")
    if path.suffix == ".npy":
        return _npy(path, Choices())
    try:
        import nibabel

        return np.asarray(nibabel.load(path).dataobj)
    except ImportError:
        raise ParameterError(
            "reading a mask needs nibabel: pip install 'curvedp[io]'"
        ) from None
    except Exception:  # nibabel raises its own, and what the formats below it raise
        raise ParameterError(f"mask: {path} is not a NIfTI or npy file") from None


def _key(path: Path, names: list[str], key: str | None) -> str:
    if key is None and len(names) == 1:
        return names[0]
    if key not in names:
        raise ParameterError(
            f"{path.name} holds the arrays {shown(sorted(names))}; say which with key="
        )
    return key


def _no_objects(path: Path, load: Callable[[], Any]) -> np.ndarray:
    """An array of numbers or texts. Of what type it is stands in the file's head, and is public."""
    try:
        found = np.asarray(load())
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        found = np.empty(0, dtype=object)
    if found.dtype.kind == "V":
        raise ParameterError(
            f"{path.name} holds records with named fields; an array of numbers is needed"
        )
    if found.dtype.kind == "O":
        raise ParameterError(
            f"{path.name} holds Python objects or cells, not numbers: save it as x.astype(float)"
        )
    return found


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
    import pyarrow.parquet

    large = _footer(path).metadata.num_rows * prod(shape) * 8 > STREAMED
    if large and choices.mask is None and find_spec("dask") is not None:
        return _chunked([path], shape, choices)
    return frame(path.name, pyarrow.parquet.read_table(path), shape, choices).reshape(
        -1, *shape
    )


def _footer(path: Path) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"cannot read {path} as parquet ({type(error).__name__})"
        ) from None


def _chunked(paths: list[Path], shape: tuple[int, ...], choices: Choices) -> Any:
    """A delayed chunk for each row group, after the columns of each file have been found to fit."""
    import dask.array

    chunks = []
    for path in paths:
        with _footer(path) as file:
            frame(path.name, file.schema_arrow.empty_table(), shape, choices)
            for group in range(file.metadata.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                read = dask.delayed(_row_group)(str(path), group, shape, choices)
                chunks.append(
                    dask.array.from_delayed(
                        read, shape=(size, *shape), dtype=np.float64
                    )
                )
    if not chunks:
        raise ParameterError("no parquet file holds a row")
    return dask.array.concatenate(chunks)


def _row_group(
    path: str, group: int, shape: tuple[int, ...], choices: Choices
) -> np.ndarray:
    with _footer(Path(path)) as file:
        return frame(path, file.read_row_group(group), shape, choices).reshape(
            -1, *shape
        )
