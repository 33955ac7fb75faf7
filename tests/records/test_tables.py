"""Tables in text: what a line may hold, headers that are never guessed, and nothing quoted."""

import itertools

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere
from curvedp.records import read_column, read_records

N, BAD = 12, 5


SECRET = "secret-4711"


SPHERE, TENSORS = Sphere(2), SPDAffineInvariant(3)


X = SPHERE.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.4, (N, 3))).round(
    12
)  # so that Excel keeps every digit


LINES = {
    "blank": b"",
    "spaces": b"   ",
    "NA": b"#N/A,0,1",
    "comment": b"# 0,0,1",
    "nan": b"nan,nan,nan",
    "text": SECRET.encode(),
    "names": b"x,y,z",
    "open quote": b'0.99,0.1,"0.1',
    "lone quote": b'"',
    "long": b"0,0,1,0",
    "short": b"0,1",
    "latin": b"0,\xe9,1",
    "zero byte": b"0,\x00,1",
    "huge": b"1" * 200_000 + b",0,1",
    "huge quoted": b'"' + b"1" * 200_000 + b'",0,1',
    "1e400": b"1e400,0,1",
    "carriage": b"0,0\r,1",
    "many carriages": b"0\r0\r1",
    "separators": b",,,,,,,",
    "form feed": b"0,0\x0c,1",
    "line separator": "0,0\u2028,1".encode(),
    "next line": "0\x85,0,1".encode(),
    "BOM": b"\xef\xbb\xbf0,0,1",
    "UTF-16": "0,0,1".encode("utf-16"),
    "semicolons": b"0;0;1",
    "decimal commas": b"0,5;0,5;0,5",
    "tabs": b"0\t0\t1",
    "escape": b'\\",0,1',
    "control": b"0,\x1a,1",
}


CLEAN = [",".join(map(repr, map(float, row))).encode() for row in X]


def write(path, lines, end=b"\n", header=b"", last=True):
    path.write_bytes(header + end.join(lines) + (end if last else b""))
    return path


SPACE = (
    "BOM",
    "carriage",
    "form feed",
    "line separator",
    "next line",
)  # `float` reads over these


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("place", [0, BAD, N - 1])
def test_no_line_changes_the_number_of_records(tmp_path, kind, place):
    lines = [*CLEAN[:place], LINES[kind], *CLEAN[place + 1 :]]
    others = np.arange(N) != place
    for end, header in itertools.product((b"\n", b"\r\n"), (False, True)):
        first = (b"\xef\xbb\xbfx,y,z" + end) if header else b""
        control = read_records(
            write(tmp_path / "x.csv", CLEAN, end, first), SPHERE, header=header
        )
        np.testing.assert_array_equal(control, X)
        found = read_records(
            write(tmp_path / "x.csv", lines, end, first), SPHERE, header=header
        )
        assert found.shape == (N, 3)
        np.testing.assert_array_equal(found[others], X[others])
        assert kind in SPACE or not np.isfinite(found[place]).all()


def test_the_last_line_may_lack_its_end(tmp_path):
    assert (
        len(
            read_records(
                write(tmp_path / "x.csv", CLEAN, last=False), SPHERE, header=False
            )
        )
        == N
    )
    assert (
        len(
            read_records(
                write(tmp_path / "x.csv", [*CLEAN, b"", b""]), SPHERE, header=False
            )
        )
        == N + 2
    )


def test_a_header_is_never_guessed(tmp_path):
    for name in ("x.csv", "x.tsv"):
        with pytest.raises(ParameterError, match="header is missing"):
            read_records(write(tmp_path / name, CLEAN), SPHERE)
    numeric = write(
        tmp_path / "x.csv", CLEAN, header=b"0,1,2\n"
    )  # as pandas writes unnamed columns
    assert len(read_records(numeric, SPHERE, header=True)) == N
    assert len(read_records(numeric, SPHERE, header=False)) == N + 1


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("last", ["0.123456,0,1", '"', "a\nb,0,1", ",,,,"])
@pytest.mark.parametrize("end", ["\r", ""])
def test_lines_that_end_in_a_carriage_return_alone_are_refused_and_not_quoted(
    tmp_path, header, last, end
):
    """All of them are one line, which would be the header: shown, and as long as the records say."""
    (tmp_path / "x.csv").write_text(
        "\r".join(["x,y,z"] * header + ["0.654321,0,0", "0.654321,1,0", last]) + end,
        newline="",
    )
    if header or "\n" not in last:
        with pytest.raises(ParameterError, match="carriage return") as refusal:
            read_records(tmp_path / "x.csv", SPHERE, header=header)
        assert "654321" not in str(refusal.value)


def test_separators_decimal_commas_quotes_and_columns(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('name;y;"x";z\nanna;0,5;"1,5";2\n"b;c";1;2;3\n')
    found = read_records(
        path, SPHERE, header=True, sep=";", decimal=",", columns=["x", "y", "z"]
    )
    assert found.tolist() == [[1.5, 0.5, 2.0], [2.0, 1.0, 3.0]]
    assert (
        read_records(
            path, SPHERE, header=False, sep=";", decimal=",", columns=[2, 1, 3]
        )[1:].tolist()
        == found.tolist()
    )
    (tmp_path / "x.tsv").write_text("1\t2\t3\n")
    assert read_records(tmp_path / "x.tsv", SPHERE, header=False).tolist() == [
        [1.0, 2.0, 3.0]
    ]


def test_lines_before_the_table_are_said_too(tmp_path):
    path = write(tmp_path / "x.csv", CLEAN, header=b"# made by hand\n# in May\nx,y,z\n")
    np.testing.assert_array_equal(read_records(path, SPHERE, header=True, skip=2), X)
    np.testing.assert_array_equal(read_records(path, SPHERE, header=False, skip=3), X)


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"header": True}, "columns is missing: .* 4 columns"),
        ({"header": True, "columns": ["x", "y"]}, "3 names or places"),
        ({"header": True, "columns": ["x", "y", "w"]}, "no column 'w'"),
        ({"header": True, "columns": [0, 1, 4]}, "no column 4"),
        ({"header": False, "columns": ["x", "y", "z"]}, "no header"),
        ({"header": True, "columns": "xyz"}, "3 names or places"),
        ({"header": True, "sep": ";;"}, "one character"),
        ({"header": True, "decimal": ","}, "differ from the separator"),
        ({"header": True, "decimal": "·"}, "'.' or ','"),
        ({"header": True, "skip": -1}, "skip="),
        ({"header": True, "skip": 0.5}, "skip="),
        ({"header": "yes"}, "header is missing"),
    ],
)
def test_public_choices_that_do_not_fit_are_one_line(tmp_path, choices, says):
    (tmp_path / "x.csv").write_text("id,x,y,z\n1,0,0,1\n")
    with pytest.raises(ParameterError, match=says) as caught:
        read_records(tmp_path / "x.csv", SPHERE, **choices)
    assert "\n" not in str(caught.value)


def test_a_record_taken_for_a_header_is_not_quoted(tmp_path):
    (tmp_path / "x.csv").write_text("0.1234567,0.2,0.3,0.4\n0,0,0,1\n")
    with pytest.raises(ParameterError) as caught:
        read_records(tmp_path / "x.csv", SPHERE, header=True)
    assert "1234567" not in str(caught.value)


def test_a_column_beside_the_records(tmp_path):
    """As many values as records, whatever a line holds."""
    for kind, bad in LINES.items():
        lines = [b"anna," + line for line in CLEAN]
        path = write(
            tmp_path / "x.csv",
            [*lines[:BAD], bad, *lines[BAD + 1 :]],
            header=b"who,x,y,z\n",
        )
        who = read_column(path, "who", header=True)
        assert (
            len(who)
            == len(read_records(path, SPHERE, header=True, columns=["x", "y", "z"]))
            == N
        ), kind
        assert set(np.delete(who, BAD)) == {"anna"}
    np.savez(tmp_path / "x.npz", x=X, who=np.arange(N))
    assert read_column(tmp_path / "x.npz", "who").tolist() == list(range(N))
    pandas = pytest.importorskip("pandas", reason="a test of pandas' frames")
    assert read_column(
        pandas.DataFrame({"who": ["a", "b"], "x": [1, 2]}), "who"
    ).tolist() == ["a", "b"]
    none = {
        "x.csv": "no column",
        "x.npy": "can be read",
        "none.csv": "does not exist",
        "x.npz": "key=",
    }
    for name, says in none.items():
        with pytest.raises(ParameterError, match=says):
            read_column(tmp_path / name, "where", header=True)
    with pytest.raises(ParameterError, match="header is missing"):
        read_column(path, 0)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "record",
    [
        b"#N/A,0,1",
        b"1,0",
        b"1,0,0,0",
        b'0.9,"0.1,0.2',
        b'"',
        b"\xff\xfe,0,1",
        b",,",
        b"a,b,c",
    ],
)
def test_whose_record_it_is_does_not_depend_on_the_record(tmp_path, record, last):
    """Cells too many or too few, open quotes, bytes that are no text: the name beside them is the same."""
    lines = [record if i == BAD else line for i, line in enumerate(CLEAN)]
    named = [
        b"%s,p%d" % (line, i) if last else b"p%d,%s" % (i, line)
        for i, line in enumerate(lines)
    ]
    path = write(
        tmp_path / "x.csv", named, header=b"x,y,z,who\n" if last else b"who,x,y,z\n"
    )
    assert read_column(path, "who", header=True).tolist() == [f"p{i}" for i in range(N)]
    assert len(read_records(path, SPHERE, header=True, columns=["x", "y", "z"])) == N


def test_a_name_in_the_middle_of_a_damaged_line_is_missing_and_not_another(tmp_path):
    path = write(
        tmp_path / "x.csv",
        [b"1,anna,0,0", b"1,2,anna,0,0", b"0,ben,0,1"],
        header=b"x,who,y,z\n",
    )
    assert read_column(path, "who", header=True).tolist() == ["anna", "", "ben"]


@pytest.mark.parametrize("header", ["x,y,z\n", "Ω,y,z\n"])
def test_files_in_other_encodings_are_refused_by_their_header(tmp_path, header):
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        (tmp_path / "x.csv").write_bytes((header + "1,0,0\n").encode(encoding))
        with pytest.raises(ParameterError, match="UTF-8"):
            read_records(tmp_path / "x.csv", SPHERE, header=True)


def test_a_tab_may_be_written_as_shells_pass_it(tmp_path):
    (tmp_path / "x.csv").write_text("1\t0\t0\n")
    assert read_records(
        tmp_path / "x.csv", SPHERE, header=False, sep=r"\t"
    ).tolist() == [[1.0, 0.0, 0.0]]


def test_columns_asked_for_by_name_are_those_of_a_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("who,x,y\nA,1,2\nB,3,4\n")
    assert read_records(path, Euclidean(2), columns=["x", "y"]).tolist() == [
        [1, 2],
        [3, 4],
    ]
    assert read_column(path, "who").tolist() == ["A", "B"]
    for columns in (None, [1, 2]):  # places say nothing about a header
        with pytest.raises(
            ParameterError, match="header is missing: say whether the first line"
        ):
            read_records(path, Euclidean(2), columns=columns)
    with pytest.raises(ParameterError, match="no header"):
        read_records(path, Euclidean(2), columns=["x", "y"], header=False)


def test_a_name_that_several_columns_have_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("x, x,z,k\n1,0,0,a\n0,1,0,b\n")
    for ask in (
        lambda: read_records(tmp_path / "x.csv", SPHERE, columns=["x", "x", "z"]),
        lambda: read_column(tmp_path / "x.csv", "x", header=True),
    ):
        with pytest.raises(
            ParameterError, match="2 columns called 'x'; say which by its place"
        ):
            ask()
    assert read_records(
        tmp_path / "x.csv", SPHERE, header=True, columns=[0, 1, 2]
    ).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_a_column_of_numbers_with_decimal_commas(tmp_path):
    (tmp_path / "x.csv").write_text("age;who\n20,5;1,2\n31,25;a\n")
    assert read_column(
        tmp_path / "x.csv", "age", sep=";", header=True, decimal=","
    ).astype(float).tolist() == [
        20.5,
        31.25,
    ]
    assert read_column(tmp_path / "x.csv", "who", sep=";", header=True).tolist() == [
        "1,2",
        "a",
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_columns_that_hold_something_else_need_not_be_left_out_by_hand(tmp_path, kind):
    """Records are in all columns but those of persons and labels, which are named."""
    pandas = pytest.importorskip("pandas")
    numbers = np.random.default_rng(0).normal(size=(5, 2))
    table = pandas.DataFrame(
        {"who": list("aabbc"), "x": numbers[:, 0], "task": 1, "y": numbers[:, 1]}
    )
    source, options = table, {}
    if kind == "csv":
        source, options = tmp_path / "t.csv", {"header": True}
        table.to_csv(source, index=False)
    if kind == "parquet":
        source = tmp_path / "t.parquet"
        table.to_parquet(source)
    plane = Euclidean(2)
    for others in (["who", "task"], [0, 2], ["who", 2]):
        found = read_records(source, plane, other_columns=others, **options)
        np.testing.assert_allclose(found, numbers)
    line = read_records(
        source, Euclidean(1), columns=["y"], other_columns=["y"], **options
    )
    np.testing.assert_allclose(line[:, 0], numbers[:, 1])
    for wrong in ([], ["who"], ["who", "task", "x"]):
        with pytest.raises(ParameterError, match="columns"):
            read_records(source, plane, other_columns=wrong, **options)
    with pytest.raises(ParameterError, match="no column"):
        read_records(source, plane, other_columns=["nobody", "task"], **options)
