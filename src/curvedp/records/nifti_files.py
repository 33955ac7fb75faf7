"""Reading records from NIfTI files, the images of neuroimaging, and masks of voxels.
A voxel is a record if the public mask is not zero there. A NIfTI file has a header,
*extensions* of any size, and the voxels. nibabel reads it; the functions here first
refuse files that would fill more memory than allowed (`curvedp.records.limits`).
"""

import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import ParameterError
from curvedp.records.array_choice import refuse_fields
from curvedp.records.limits import BYTES_PER_DOUBLE, check_unpacked, unpacked_limit
from curvedp.records.lines import BinaryFile, open_unpacked
from curvedp.records.numpy_files import read_npy
from curvedp.records.options import ReadOptions


def read_nifti(path: Path, options: ReadOptions) -> np.ndarray:
    """Read the volume of a NIfTI file, shape (x, y, z, entries of a record).

    NIfTI writes symmetric matrices with one more axis, (x, y, z, 1, 6), which is
    dropped. A mask is required, because the background of an image is not a set of
    records.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array
        The volume.

    Raises
    ------
    ParameterError
        Without a mask.
    """
    if options.mask is None:
        raise ParameterError(
            f"is missing: say which voxels of {path.name} are records, by a public file or "
            "array",
            parameter="mask",
        )
    volume = _read_volume(path, options.max_unpacked)
    if volume.ndim == 5 and volume.shape[3] == 1:
        return volume[:, :, :, 0]
    return volume


def _read_volume(path: Path, max_unpacked: int | None) -> np.ndarray:
    """Read the array of a NIfTI file after checking its header.

    Parameters
    ----------
    path : path
        The file.
    max_unpacked : int, optional
        The most bytes that the file may unpack to.

    Returns
    -------
    array
        The voxels, scaled as the header says.

    Raises
    ------
    ParameterError
        If it is no NIfTI file of real numbers, or fills more memory than the limit.
    """
    import nibabel

    limit = unpacked_limit(path, max_unpacked)
    _check_nifti_header(path, limit)
    image = nibabel.load(path)
    if not isinstance(image, nibabel.Nifti1Image | nibabel.Nifti2Image):
        raise ParameterError(f"{path.name} is not a NIfTI file")
    if image.get_data_dtype().kind not in "biuf":
        refuse_fields(path)
    # nibabel scales numbers to doubles, whatever their type in the file is.
    check_unpacked(path, prod(image.shape) * BYTES_PER_DOUBLE, limit)
    return np.asarray(image.dataobj)


# Sizes of the headers of NIfTI-1 and NIfTI-2. Each begins with its size as a 4-byte
# number.
_NIFTI_1_HEADER_BYTES = 348
_NIFTI_2_HEADER_BYTES = 540

# An extension begins with its size and a code, of 4 bytes each, and has at least 16
# bytes.
_EXTENSION_TAG_BYTES = 8
_MIN_EXTENSION_BYTES = 16

# The position of the offset of the first voxel in these headers: a float and an 8-byte
# integer.
_NIFTI_1_VOXEL_OFFSET = 108
_NIFTI_2_VOXEL_OFFSET = 168


class _NiftiLayout(NamedTuple):
    """Where the parts of a NIfTI file begin.

    Attributes
    ----------
    byte_order : str
        "<" or ">", as in the formats of `struct`.
    first_extension : int
        The offset of the first extension in bytes, if there is one.
    first_voxel : int
        The offset of the first voxel in bytes.
    """

    byte_order: str
    first_extension: int
    first_voxel: int


def _parse_nifti_layout(header: bytes) -> _NiftiLayout:
    """Return where the parts of a NIfTI file begin.

    Parameters
    ----------
    header : bytes
        The first 540 bytes of the file.

    Returns
    -------
    _NiftiLayout
        The byte order, and the offsets of the first extension and the first voxel.
    """
    sizes = (_NIFTI_1_HEADER_BYTES, _NIFTI_2_HEADER_BYTES)
    is_little_endian = int.from_bytes(header[:4], "little") in sizes
    order = "<" if is_little_endian else ">"

    is_nifti_2 = header[4:6] == b"n+"
    if is_nifti_2:
        header_bytes = _NIFTI_2_HEADER_BYTES
        offset = struct.unpack_from(f"{order}q", header, _NIFTI_2_VOXEL_OFFSET)[0]
    else:
        header_bytes = _NIFTI_1_HEADER_BYTES
        offset = struct.unpack_from(f"{order}f", header, _NIFTI_1_VOXEL_OFFSET)[0]
    # Four bytes after the header say whether there are extensions.
    return _NiftiLayout(order, header_bytes + 4, int(offset))


def _check_nifti_header(path: Path, limit: int) -> None:
    """Refuse a NIfTI file whose extensions fill more than `limit` bytes.

    Extensions lie between the header and the voxels, and each begins with its size.
    nibabel reads all of them and does not check their sizes.

    Parameters
    ----------
    path : path
        The file.
    limit : int
        The most bytes that may be unpacked.

    Raises
    ------
    ParameterError
        If they declare more.
    """
    with open_unpacked(path) as file:
        layout = _parse_nifti_layout(file.read(_NIFTI_2_HEADER_BYTES))
        check_unpacked(path, layout.first_voxel, limit)
        _check_extensions(
            path,
            file,
            size_format=f"{layout.byte_order}i",
            start=layout.first_extension,
            end=layout.first_voxel,
            largest_size=min(limit, layout.first_voxel),
        )


def _check_extensions(
    path: Path,
    file: BinaryFile,
    size_format: str,
    start: int,
    end: int,
    largest_size: int,
) -> None:
    """Refuse a NIfTI file with an extension that declares too large a size.

    Parameters
    ----------
    path : Path
        The file, for error messages.
    file : binary file
        The unpacked file.
    size_format : str
        How the size at the start of an extension is stored, for `struct`.
    start, end : int
        The offsets of the first extension and of the first voxel.
    largest_size : int
        How many bytes an extension may declare.

    Raises
    ------
    ParameterError
        If there is such an extension.
    """
    position = start
    file.seek(position)
    while position + _EXTENSION_TAG_BYTES <= end:
        tag = file.read(_EXTENSION_TAG_BYTES)
        if len(tag) < _EXTENSION_TAG_BYTES:
            return
        (size,) = struct.unpack_from(size_format, tag)
        check_unpacked(path, size, largest_size)
        # A smaller size means that there are no more extensions.
        if size < _MIN_EXTENSION_BYTES:
            return
        position += size
        file.seek(position)


def select_voxels(source_name: str, X: np.ndarray, options: ReadOptions) -> np.ndarray:
    """Return the records at the voxels where the public mask is not zero.

    Parameters
    ----------
    source_name : str
        The name of the volume in error messages.
    X : array
        The volume, whose first axes are the axes of the mask.
    options : ReadOptions
        Its `mask` is an array, or the path of a NIfTI or npy file.

    Returns
    -------
    array
        The records, one for each voxel of the mask.

    Raises
    ------
    ParameterError
        If the mask is not numeric, or its shape differs from the volume's first axes.
    """
    mask = options.mask
    if isinstance(mask, str | Path):
        mask = _read_mask(Path(mask), options.max_unpacked)
    mask = np.asarray(mask)
    is_numeric = mask.dtype.kind in "biuf"
    is_aligned = mask.ndim > 0 and mask.shape == X.shape[: mask.ndim]
    if not is_numeric or not is_aligned:
        raise ParameterError(
            f"mask has shape {mask.shape} and dtype {mask.dtype}; {source_name} has shape "
            f"{X.shape}"
        )
    return np.asarray(X[mask != 0])


def _read_mask(path: Path, max_unpacked: int | None) -> np.ndarray:
    """Read a mask from a NIfTI or npy file. It is public, so messages may describe it.

    Parameters
    ----------
    path : path
        The file.
    max_unpacked : int, optional
        The most bytes that the file may unpack to.

    Returns
    -------
    array
        The mask.

    Raises
    ------
    ParameterError
        If the file does not exist or cannot be read.
    """
    if not path.exists():
        raise ParameterError(f"mask: {path} does not exist")
    if path.suffix == ".npy":
        return read_npy(path, ReadOptions(max_unpacked=max_unpacked))
    try:
        return _read_volume(path, max_unpacked)
    except ParameterError:
        raise
    except ImportError:
        raise ParameterError(
            "reading a mask needs nibabel: pip install 'curvedp[io]'"
        ) from None
    except Exception:
        # nibabel and the formats that it builds on have errors of their own.
        raise ParameterError(f"mask: {path} is not a NIfTI or npy file") from None


def read_labels(labels: Any) -> np.ndarray:
    """Return the public labels of the voxels of an atlas as whole numbers.

    Parameters
    ----------
    labels : path or array
        A NIfTI or npy file, or an array, of three axes. It is public, so messages may
        describe it.

    Returns
    -------
    array of int, with three axes
        The label of each voxel.

    Raises
    ------
    ParameterError
        If the labels are not whole numbers on three axes.
    """
    if isinstance(labels, str | Path):
        labels = _read_mask(Path(labels), None)
    array = np.squeeze(np.asarray(labels))
    is_numeric = array.dtype.kind in "biuf"
    if array.ndim != 3 or not is_numeric or not np.array_equal(array, np.rint(array)):
        raise ParameterError(
            f"must be whole numbers on three axes, not {array.dtype} of shape "
            f"{array.shape}",
            parameter="labels",
        )
    return array.astype(np.int64)
