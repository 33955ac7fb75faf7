"""Every encoding that Python knows is refused by name, or no content of a line changes n."""

import codecs
import encodings
import gzip
import pkgutil
import warnings
from encodings.aliases import aliases
from functools import partial

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.records import lines, read_column, read_records

SPACE = Euclidean(2)
X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, -6.5], [7.0, 8e3]])
LINES = ["1.0,2.0", "3.0,4.0", "5.0,-6.5", "7.0,8e3"]


def known_encodings():
    """The names that Python's own registry has, each once."""
    modules = {module.name for module in pkgutil.iter_modules(encodings.__path__)}
    names = set()
    for name in sorted(modules | set(aliases) | set(aliases.values())):
        try:
            names.add(codecs.lookup(name).name)
        except LookupError:  # of another operating system, or no encoding
            continue
    return sorted(names)


READ = {*lines.BYTE_ENCODINGS, *lines.UNIT_ENCODINGS, "utf-16", "utf-32"}


def contents(encoding):
    """What one line may hold: bytes that are whole units, and no line end."""
    marked = encoding in ("utf-16", "utf-32")
    name = f"{encoding}-le" if marked else encoding
    unit = lines.UNIT_ENCODINGS.get(name, np.dtype("u1"))
    rng = np.random.default_rng(0)
    hostile = [
        b"\x1b$B", b"\x1b(J0", b"\x0e", b"~", b"~{", b"+AAo-", b"\\n", b"\\u000a", b"\x15",
        b"\x25", b"\x85", b"\x0b\x0c\x1c\x1d\x1e", b"\r", b"\x00", b'"', b"\xff\xfe",
        b"\xfe\xff", b"\xef\xbb\xbf", b"\x81", b"\xe0\x80", b"\xf0\x9f", b"\x00\xd8",
        b"\xd8\x00", b"\x0d\x00", b"\x28\x20", b"\x20\x28", b"=0A", b"&#10;",
    ]  # fmt: skip
    hostile += [bytes([byte]) for byte in range(256)]
    hostile += [rng.bytes(size) for size in (2, 3, 4, 8, 31) for _ in range(20)]
    for content in hostile:
        content = content * unit.itemsize  # whole units
        units = np.frombuffer(content, unit)
        yield units[units != 10].tobytes()


def text_file(path, encoding, replaced=None):
    """Four lines in an encoding, of which one may be replaced by other bytes."""
    name, mark = encoding, b""
    if encoding == "utf-8-sig":
        name, mark = "utf-8", codecs.BOM_UTF8
    if encoding in ("utf-16", "utf-32"):
        name = f"{encoding}-le"
        mark = "\ufeff".encode(name)
    rows = [line.encode(name) for line in LINES]
    if replaced is not None:
        rows[2] = replaced
    path.write_bytes(mark + b"".join(row + "\n".encode(name) for row in rows))
    return path


@pytest.mark.parametrize("encoding", known_encodings())
def test_an_encoding_is_refused_or_no_content_changes_n(tmp_path, encoding):
    path = tmp_path / "x.csv"
    if encoding not in READ:
        path.write_text("1,2\n")
        with pytest.raises(ParameterError, match="encoding="):
            read_records(path, SPACE, header=False, encoding=encoding)
        with pytest.raises(ParameterError, match="encoding="):
            read_column(path, 0, header=False, encoding=encoding)
        return

    choices = {"header": False, "encoding": encoding}
    clean = read_records(text_file(path, encoding), SPACE, **choices)
    np.testing.assert_array_equal(clean, X)
    others = [0, 1, 3]
    for content in contents(encoding):
        text_file(path, encoding, content)
        found = read_records(path, SPACE, **choices)
        assert found.shape == X.shape, content
        np.testing.assert_array_equal(found[others], X[others])
        names = read_column(path, 0, **choices)
        assert names[others].tolist() == ["1.0", "3.0", "7.0"], content


def test_the_encodings_that_broke_are_refused():
    """The sixteen of the review, and EBCDIC; UTF-16 and UTF-32 are cut in units instead."""
    broken = """
        iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext
        iso2022_kr hz utf-7 unicode-escape raw-unicode-escape punycode idna
        cp037 cp1026 cp1140 cp273 cp424 cp500 cp875
        """.split()  # noqa: SIM905
    assert not READ & set(broken)
    assert set(broken) <= set(known_encodings())


@pytest.mark.parametrize("encoding", sorted(lines.BYTE_ENCODINGS))
def test_the_listed_encodings_have_line_ends_of_their_own(encoding):
    """By Python's own decoders: 0x0A is a line feed after any byte, and nothing else is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for byte in range(256):
            text = bytes([byte, 0x0A, 0x41]).decode(encoding, "replace")
            assert text.count("\n") == 1 + (byte == 0x0A)
            assert text.endswith("\nA")


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("order", ["le", "be"])
def test_units_with_the_byte_of_a_line_feed_are_no_line_ends(tmp_path, size, order):
    """U+0A0A, and U+010A before U+0041, hold the byte 0x0A and no line feed."""
    encoding = f"utf-{8 * size}-{order}"
    content = "\u0a0a\u010a\u0a00".encode(encoding)
    path = text_file(tmp_path / "x.csv", encoding, content)
    assert len(read_records(path, SPACE, header=False, encoding=encoding)) == 4


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_file_with_half_a_unit_is_refused(tmp_path, encoding):
    """A byte too many or too few moves all that follow it: lines would be lost (4 -> 2)."""
    path = text_file(tmp_path / "x.csv", encoding)
    content = path.read_bytes()
    for place in (4, len(content) // 2, len(content)):
        for changed in (content[:place] + b"x" + content[place:], content[:-1]):
            path.write_bytes(changed)
            with pytest.raises(ParameterError, match="not a multiple of"):
                read_records(path, SPACE, header=False, encoding=encoding)
            with pytest.raises(ParameterError, match="not a multiple of"):
                read_column(path, 0, header=False, encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_byte_order_is_marked_or_said(tmp_path, encoding):
    path = tmp_path / "x.csv"
    text = "\n".join(LINES) + "\n"
    for order in ("le", "be"):
        path.write_bytes(text.encode(f"{encoding}-{order}"))
        with pytest.raises(ParameterError, match=f"{encoding}-le"):
            read_records(path, SPACE, header=False, encoding=encoding)
        marked = ("\ufeff" + text).encode(f"{encoding}-{order}")
        for name in (encoding, f"{encoding}-{order}"):
            path.write_bytes(marked)
            found = read_records(path, SPACE, header=False, encoding=name)
            np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "utf-32-be", "gb18030", "cp1252"]
)
@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 64])
def test_lines_do_not_depend_on_the_blocks_they_are_read_in(
    tmp_path, monkeypatch, encoding, block
):
    monkeypatch.setattr(lines, "_BLOCK", block)
    text = 'é,1\n\n"ß",2\r\nlast'
    raw = text.encode(encoding)
    for path in (tmp_path / "x.csv", tmp_path / "x.csv.gz"):
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
        found = [line.text for line in lines.read_lines(path, encoding)]
        assert found == ["é,1", "", '"ß",2', "last"]
        path.write_bytes(gzip.compress(b"") if path.suffix == ".gz" else b"")
        assert list(lines.read_lines(path, encoding)) == []


# ---- long cells and long lines -----------------------------------------------------------


def peak_memory(function):
    """What a function returns, and how many bytes it allocated at most."""
    import tracemalloc

    tracemalloc.start()
    try:
        return function(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_one_long_cell_takes_its_own_length_and_no_more(tmp_path):
    """In an array of fixed width it took its length for every record: 6.4 GB here."""
    n, long = 4000, "1" * 400_000
    for quote in ("", '"'):
        cells = [f"{quote}{long}{quote}" if i == 7 else str(i) for i in range(n)]
        rows = [f"{cell},0.5,{cell}" for cell in cells]
        path = tmp_path / "x.csv"
        path.write_text("\n".join(["age,x,y", *rows]) + "\n")
        for column in ("age", "y"):
            names, peak = peak_memory(partial(read_column, path, column, header=True))
            assert peak < 2e7
            assert names.shape == (n,)
            assert names[6] == "6"
            assert names[8] == "8"
        found = read_records(path, Euclidean(3), header=True)
        assert np.isfinite(found[np.arange(n) != 7]).all()


def test_labels_and_ids_in_lists_take_no_fixed_width():
    from curvedp.records.labels import Labels
    from curvedp.records.persons import encode_persons

    texts = [f"p{i % 5}" for i in range(4000)]
    texts[7] = "p" * 400_000
    labels, peak = peak_memory(lambda: Labels(texts, 4000, ["p0", "p1"]))
    assert peak < 1e7
    assert labels.codes[7] == 0
    codes, peak = peak_memory(lambda: encode_persons(texts, 4000))
    assert peak < 1e7
    assert len(np.unique(codes)) == 6


def test_long_names_that_differ_stay_different(tmp_path):
    names = ["a" * 10_000 + "1", "a" * 10_000 + "2", "a" * 10_000 + "1", "b"]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(f"{name},1" for name in names) + "\n")
    found = read_column(path, 0, header=False)
    assert len(set(found)) == 3
    assert found[0] == found[2] != found[1]
    assert found[3] == "b"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_line_too_long_to_be_kept_is_no_record_but_keeps_its_names(
    tmp_path, monkeypatch, encoding
):
    monkeypatch.setattr(lines, "LONGEST_LINE", 64)
    path = tmp_path / "x.csv"
    rows = [
        "who,x,y,site",
        "anna,1,2,here",
        f"ben,{'1' * 500},2,there",
        "carl,3,4,here",
    ]
    path.write_bytes("\n".join(rows).encode(encoding))
    choices = {"header": True, "encoding": encoding}
    found = read_records(path, SPACE, columns=["x", "y"], **choices)
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, np.nan], [3, 4]])
    for column, names in {
        "who": ["anna", "ben", "carl"],
        "y": ["2", "2", "4"],
        "site": ["here", "there", "here"],
        "x": ["1", "", "3"],
    }.items():
        assert read_column(path, column, **choices).tolist() == names
