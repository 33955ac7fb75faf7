"""Reading a text file line by line, so that no line can change the number of lines.
Each line is a record, and the number of records must not depend on what a record
contains. So the bytes of a file are cut at line ends first, and then each line is
decoded by itself. This is correct for the encodings listed here, in which the content
of a line cannot be mistaken for a line end; other encodings are refused.
"""

import codecs
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from curvedp.errors import ParameterError

# Bytes of a line that are kept from its start, and again from its end; 16 MiB hold
# 600,000 numbers. What is between them in a longer line is dropped, and such a line is
# no record.
LONGEST_LINE = 1 << 24

_BLOCK = 1 << 20  # bytes that are unpacked at once
_LINE_FEED = 0x0A

# Encodings without states in which the byte 0x0A is a line feed wherever it stands, as
# the names that Python gives them. Left out are those with shift states or escapes (ISO
# 2022, HZ, UTF-7, unicode_escape, punycode, idna) and EBCDIC, whose line ends are other
# bytes. fmt: off
BYTE_ENCODINGS = frozenset(
    (
        "ascii",
        "utf-8",
        "utf-8-sig",
        "iso8859-1",
        "iso8859-2",
        "iso8859-3",
        "iso8859-4",
        "iso8859-5",
        "iso8859-6",
        "iso8859-7",
        "iso8859-8",
        "iso8859-9",
        "iso8859-10",
        "iso8859-11",
        "iso8859-13",
        "iso8859-14",
        "iso8859-15",
        "iso8859-16",
        "cp1250",
        "cp1251",
        "cp1252",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "cp1257",
        "cp1258",
        "cp437",
        "cp720",
        "cp737",
        "cp775",
        "cp850",
        "cp852",
        "cp855",
        "cp856",
        "cp857",
        "cp858",
        "cp860",
        "cp861",
        "cp862",
        "cp863",
        "cp864",
        "cp865",
        "cp866",
        "cp869",
        "cp874",
        "cp1006",
        "cp1125",
        "koi8-r",
        "koi8-t",
        "koi8-u",
        "kz1048",
        "ptcp154",
        "tis-620",
        "hp-roman8",
        "palmos",
        "mac-arabic",
        "mac-croatian",
        "mac-cyrillic",
        "mac-farsi",
        "mac-greek",
        "mac-iceland",
        "mac-latin2",
        "mac-roman",
        "mac-romanian",
        "mac-turkish",
        "big5",
        "big5hkscs",
        "cp932",
        "cp949",
        "cp950",
        "euc_jis_2004",
        "euc_jisx0213",
        "euc_jp",
        "euc_kr",
        "gb18030",
        "gb2312",
        "gbk",
        "johab",
        "shift_jis",
        "shift_jis_2004",
        "shift_jisx0213",
    )
)
# fmt: on

# Encodings whose characters are made of units of 2 or 4 bytes: cut between units.
UNIT_ENCODINGS: dict[str, np.dtype[Any]] = {
    "utf-16-le": np.dtype("<u2"),
    "utf-16-be": np.dtype(">u2"),
    "utf-32-le": np.dtype("<u4"),
    "utf-32-be": np.dtype(">u4"),
}

# Encodings whose byte order is said by the mark at the file's beginning.
_MARKED = {
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}


class BinaryFile(Protocol):
    """A file that is open for reading, possibly unpacked while it is read."""

    def read(self, size: int = -1, /) -> bytes: ...
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> Any: ...


class Line(NamedTuple):
    """A line without its end; where it is too long to be kept, its two ends."""

    text: str
    end: str | None = None  # None where `text` is the whole line


def read_lines(path: Path, encoding: str) -> Iterator[Line]:
    """Yield the lines of a file; a file whose name ends in .gz is unpacked.

    The number of lines is the number of line ends, plus one if something follows the
    last of them. Bytes that are not text become U+FFFD, in that line alone.

    Parameters
    ----------
    path : Path
        The file.
    encoding : str
        One of `BYTE_ENCODINGS` and `UNIT_ENCODINGS`, by any name that Python has for
        it, or "utf-16" or "utf-32" where the file begins with a byte order mark.

    Yields
    ------
    Line
        The decoded line; of a very long one only its start and its end.
    """
    name = _known_encoding(encoding)
    with open_unpacked(path) as file:
        start = file.read(4)
        name, mark = _byte_order(path, name, start)
        for raw, end in _raw_lines(file, start.removeprefix(mark), name):
            text = raw.decode(name, "replace")
            if end is None:
                yield Line(text.rstrip("\r"))
            else:
                yield Line(text, end.decode(name, "replace").rstrip("\r"))


def has_more_lines(path: Path, encoding: str, most: int) -> bool:
    """Return whether a file has more line ends than `most`.

    Only as much of the file is unpacked as is needed. This is quicker than reading the
    lines: a packed file of 80 kB can hold 80 million of them.

    Parameters
    ----------
    path : path
        The file.
    encoding : str
        The encoding of the file.
    most : int
        The number of line ends to compare with.

    Returns
    -------
    bool
        Whether there are more than `most`.
    """
    name = _known_encoding(encoding)
    line_ends = 0
    with open_unpacked(path) as file:
        start = file.read(4)
        name, _ = _byte_order(path, name, start)
        unit = UNIT_ENCODINGS.get(name, np.dtype("u1"))
        for block in _whole_units(file, start, unit.itemsize):
            line_ends += int(np.sum(np.frombuffer(block, unit) == _LINE_FEED))
            if line_ends > most:
                return True
    return False


def _known_encoding(encoding: str) -> str:
    """Return Python's name for an encoding, and refuse unsafe encodings.

    An encoding is safe if the content of a line cannot be mistaken for a line end.

    Parameters
    ----------
    encoding : str or None
        The encoding that the caller names.

    Returns
    -------
    str
        The name under which Python knows the encoding.

    Raises
    ------
    ParameterError
        If the encoding is unknown or not safe.
    """
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):
        name = ""
    if name in BYTE_ENCODINGS or name in UNIT_ENCODINGS or name in _MARKED:
        return "utf-8" if name == "utf-8-sig" else name
    raise ParameterError(
        "must name how texts are written, such as 'utf-8', 'utf-16' or 'latin-1', and "
        "be one in which a line end is always a line end",
        parameter="encoding",
        value=encoding,
    )


def open_unpacked(path: Path) -> BinaryFile:
    """Open a file for reading, unpacked where its name ends in .gz.

    Parameters
    ----------
    path : Path
        The file.
    """
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")
    return path.open("rb")


def _byte_order(path: Path, name: str, start: bytes) -> tuple[str, bytes]:
    """Return a file's encoding with its byte order, and the mark that states it.

    Parameters
    ----------
    path : path
        The file.
    name : str
        The name of the encoding, such as "utf-16".
    start : bytes
        The first bytes of the file.

    Returns
    -------
    name : str
        The encoding with its byte order, such as "utf-16-le".
    mark : bytes
        The byte order mark with which the file begins; empty if it has none.

    Raises
    ------
    ParameterError
        If the encoding leaves the byte order open and the file has no mark.
    """
    if name not in _MARKED:
        optional_mark = "\ufeff".encode(name) if name.startswith("utf") else b""
        has_mark = start.startswith(optional_mark)
        return name, optional_mark if has_mark else b""

    for mark, name_with_order in _MARKED[name].items():
        if start.startswith(mark):
            return name_with_order, mark
    is_empty_file = not start
    if is_empty_file:
        return f"{name}-le", b""
    raise ParameterError(
        f"needs a byte order mark, which {path.name} does not have: "
        f"say '{name}-le' or '{name}-be'",
        parameter="encoding",
        value=name,
    )


def _raw_lines(
    file: BinaryFile, start: bytes, name: str
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the bytes of each line of a file, before they are decoded.

    Parameters
    ----------
    file : binary file
        The file, of which the first bytes have been read already.
    start : bytes
        These first bytes, without a byte order mark.
    name : str
        The encoding, with its byte order.

    Yields
    ------
    line : bytes
        The line without its line feed; of a line of more than `LONGEST_LINE` bytes only
        the start.
    end : bytes or None
        The end of a line that is too long; None if `line` is the whole line.
    """
    unit = UNIT_ENCODINGS.get(name, np.dtype("u1"))
    line = _LineBuilder()
    for block in _whole_units(file, start, unit.itemsize):
        is_line_feed = np.frombuffer(block, unit) == _LINE_FEED
        line_start = 0
        for line_feed in np.flatnonzero(is_line_feed).tolist():
            line.add(block[line_start : line_feed * unit.itemsize])
            yield line.take()
            line_start = (line_feed + 1) * unit.itemsize
        line.add(block[line_start:])
    if line.length:
        yield line.take()


def _whole_units(file: BinaryFile, start: bytes, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks of whole characters.

    In some encodings a character consists of units of 2 or 4 bytes, and blocks are not
    cut within a unit.

    Parameters
    ----------
    file : binary file
        The open file.
    start : bytes
        The bytes of the file that were read before.
    size : int
        How many bytes one unit of the encoding has.

    Yields
    ------
    bytes
        A block, whose length is a multiple of `size`.

    Raises
    ------
    ParameterError
        If the length of the file is not a multiple of `size`.
    """
    block = start
    while True:
        even = len(block) - len(block) % size
        yield block[:even]
        next_block = file.read(_BLOCK)
        if not next_block:
            break
        block = block[even:] + next_block
    if len(block) > even:
        # The length of a file is public. If it is not a multiple of a unit's length, a
        # byte was lost or added, and after that no line end would be found.
        raise ParameterError(
            f"the number of the file's bytes is not a multiple of {size}, as it is in "
            f"UTF-{8 * size}"
        )


class _LineBuilder:
    """Collects the bytes of one line; of a very long line, only its two ends."""

    def __init__(self) -> None:
        """Begin with an empty line."""
        self.length = 0
        self._start = b""
        self._end = b""

    def add(self, piece: bytes) -> None:
        """Append some bytes to the line.

        Parameters
        ----------
        piece : bytes
            The next bytes of the file.
        """
        self.length += len(piece)
        room = LONGEST_LINE - len(self._start)
        self._start += piece[:room]
        remainder = piece[room:]
        if remainder:
            self._end = (self._end + remainder)[-LONGEST_LINE:]

    def take(self) -> tuple[bytes, bytes | None]:
        """Return the line, and begin the next one.

        Returns
        -------
        start : bytes
            The line; or its start, if it is longer than `LONGEST_LINE` bytes.
        end : bytes or None
            The end of a line that is too long; None if `start` is the whole line.
        """
        start = self._start
        end = self._end if self.length > LONGEST_LINE else None
        self.length = 0
        self._start = b""
        self._end = b""
        return start, end
