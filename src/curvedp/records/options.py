"""The options with which a caller describes a file or a table, so that it can be read.
All of them are public: they are never guessed from the records.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curvedp.records.forms import Form


class ReadOptions(NamedTuple):
    """The options of `read_records`, whose docstring explains each of them.

    Attributes
    ----------
    header : bool or None
        Whether the first line names the columns; None if the caller does not say.
    key : str or None
        Which array of a file, or which cells of a sheet, hold the records.
    columns : sequence of str or int, or None
        Which columns hold a record, by name or by position from 0; None means all but
        `other_columns`.
    other_columns : sequence of str or int
        Columns that hold something else, such as the person of each record.
    mask : array, path or None
        Which voxels of a volume are records.
    sep : str or None
        The separator of a text file; None means the usual one for the file's ending.
    decimal : str
        The decimal sign of a text file, "." or ",".
    skip : int
        How many lines of a text file come before its header or its first record.
    encoding : str
        The encoding of a text file.
    form : Form
        How a record is written as numbers.
    max_unpacked : int or None
        The limit in bytes on the memory that the file may fill; None means the limit of
        `limits`.
    """

    header: bool | None = None
    key: str | None = None
    columns: Sequence[str | int] | None = None
    mask: Any = None
    sep: str | None = None
    decimal: str = "."
    skip: int = 0
    encoding: str = "utf-8"
    form: Form = Form(None, (), np.asarray)
    max_unpacked: int | None = None
    other_columns: Sequence[str | int] = ()
