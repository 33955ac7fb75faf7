"""Limits on the memory that a file may fill when it is read.
A small packed file must not unpack to gigabytes. Here "to unpack" means to decompress.

The limit compares public numbers only: a file's size, and what its head declares (a
shape, a number of rows, the sizes of its parts). Nothing here looks at what a record
contains.
"""

import os
from pathlib import Path

from curvedp._validate import integer
from curvedp.errors import ParameterError

# Bytes that any file may fill, however small it is: 1 GiB. Records beyond it are rare,
# and memory of that size is on every machine.
DEFAULT_LIMIT = 1 << 30

# A file may always fill this many times its own size. Packed measurements shrink by a
# factor of 2 to 10; what shrinks more than this was made to.
LARGEST_RATIO = 16

# Parquet and zarr files with more bytes of doubles than this become dask arrays: 1 GiB.
STREAMED = 1 << 30

BYTES_PER_DOUBLE = 8

# Users of the command line and the studio raise the limit with this variable, in bytes.
VARIABLE = "CURVEDP_MAX_UNPACKED"


def unpacked_limit(path: Path, max_unpacked: int | None = None) -> int:
    """Return the limit in bytes on the memory that a file may fill when unpacked.

    Parameters
    ----------
    path : Path
        The file, or the folder of a zarr array.
    max_unpacked : int, optional
        The limit that the caller sets. By default it is the environment's
        `CURVEDP_MAX_UNPACKED` or, if that is not set, the larger of 1 GiB and 16 times
        the file's size.

    Returns
    -------
    int
        The limit in bytes.

    Raises
    ------
    ParameterError
        If the environment variable is not a number of bytes.
    """
    if max_unpacked is not None:
        return integer("max_unpacked", max_unpacked, 1)
    setting = os.environ.get(VARIABLE)
    if setting is None:
        return max(DEFAULT_LIMIT, LARGEST_RATIO * _size_on_disk(path))
    if not setting.isdecimal():
        raise ParameterError(f"{VARIABLE} must be a number of bytes, such as {1 << 32}")
    return integer(VARIABLE, int(setting), 1)


def check_unpacked(path: Path, unpacked_size: int, limit: int) -> None:
    """Refuse a file whose contents would fill more than `limit` bytes.

    Parameters
    ----------
    path : Path
        The file.
    unpacked_size : int
        The size of the unpacked contents, in bytes.
    limit : int
        The largest allowed size, in bytes.

    Raises
    ------
    ParameterError
        If it would. The message names the environment variable that raises the limit.
    """
    if unpacked_size > limit:
        raise ParameterError(
            f"{path.name} unpacks to more than {_format_bytes(limit)}, the limit for a file of "
            f"{_format_bytes(_size_on_disk(path))}; if you trust it, set {VARIABLE} to more bytes"
        )


def _size_on_disk(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder.

    Parameters
    ----------
    path : Path
        The file; or the folder of a zarr array, which consists of many files.
    """
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def _format_bytes(size: int) -> str:
    """Return a number of bytes as a readable text, such as '1.5 GiB'.

    Parameters
    ----------
    size : int
        A number of bytes.
    """
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} GiB"
