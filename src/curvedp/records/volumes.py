"""Arrays in files: npy, npz, zarr, and NIfTI volumes with a mask. Their shapes and dtypes are public."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.records.tables import Choices

STREAMED = 1 << 30  # bytes of doubles beyond which parquet and zarr come as dask arrays


def _npy(path: Path, choices: Choices) -> Any:
    with path.open("rb") as file:  # closed here: NumPy leaves a file that it cannot read open
        return _no_objects(path, np.load(file, allow_pickle=False))


def _npz(path: Path, choices: Choices) -> Any:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return _no_objects(path, archive[_key(path, archive.files, choices.key)])


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
        raise ParameterError(f"{path.name}: say which voxels are records with mask=, a public file or array (--mask)")
    found = np.asarray(nibabel.load(path).dataobj)
    return found[:, :, :, 0] if found.ndim == 5 and found.shape[3] == 1 else found


READERS: dict[str, Callable[[Path, Choices], Any]]
READERS = {".npy": _npy, ".npz": _npz, ".zarr": _zarr, ".nii": _nifti, ".nii.gz": _nifti}


def masked(where: str, X: np.ndarray, mask: Any) -> np.ndarray:
    """The records of the voxels that a public mask (an array, or the path of a NIfTI or npy file) names."""
    if isinstance(mask, str | Path):
        mask = _mask_file(Path(mask))
    chosen = np.asarray(mask)
    if chosen.dtype.kind not in "biuf" or chosen.shape != X.shape[: chosen.ndim] or not chosen.ndim:
        raise ParameterError(f"mask has shape {chosen.shape} and dtype {chosen.dtype}; {where} has shape {X.shape}")
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
        raise ParameterError("reading a mask needs nibabel: pip install 'curvedp[io]'") from None
    except Exception:  # nibabel raises its own, and what the formats below it raise
        raise ParameterError(f"mask: {path} is not a NIfTI or npy file") from None


def _key(path: Path, names: list[str], key: str | None) -> str:
    if key is None and len(names) == 1:
        return names[0]
    if key not in names:
        raise ParameterError(f"{path.name} holds the arrays {shown(sorted(names))}; say which with key= (--key)")
    return key


def _no_objects(path: Path, found: np.ndarray) -> np.ndarray:
    if found.dtype.kind == "V":
        raise ParameterError(f"{path.name} holds records with named fields; an array of numbers is needed")
    return found
