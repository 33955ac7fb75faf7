"""The command line: the main job from a shell, one-line errors, exit codes, JSON."""

import csv
import json
import re
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

from curvedp.geometry import Sphere
from curvedp.release.choose import mechanism_options
from curvedp.statistics.frechet_mean import FrechetMean
from support.shell import run


@pytest.mark.parametrize("name", ["x.npy", "x.csv", "x.npz", "x.parquet"])
def test_release_from_every_format(sphere_file, name):
    extra = {"x.npz": ["--key", "directions"], "x.csv": ["--header"]}.get(name, [])
    if name == "x.parquet":
        import pyarrow
        import pyarrow.parquet

        X = np.load(sphere_file / "x.npy")
        pyarrow.parquet.write_table(
            pyarrow.table({c: X[:, i] for i, c in enumerate("xyz")}), sphere_file / name
        )
    result = run(
        "release",
        sphere_file / name,
        "-m",
        "sphere:2",
        "-r",
        0.7,
        "--mu",
        1,
        "--json",
        *extra,
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert np.linalg.norm(answer["mean"]) == pytest.approx(1.0, abs=1e-8)
    assert answer["certificate"]["statistic"]["n"] == 200


def test_the_whole_round(sphere_file, request):
    paths = {
        name: sphere_file / name for name in ("c.json", "m.npy", "r.html", "b.ledger")
    }
    result = run(
        "release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.7, "--epsilon", 1, "--delta", 1e-6, "--ledger",
        paths["b.ledger"], "--budget-mu", 1.2, "--out", paths["m.npy"], "--certificate", paths["c.json"], "--report",
        paths["r.html"],
    )  # fmt: skip
    assert result.exit_code == 0, (
        result.output
    )  # (1, 1e-6) has no μ; the mechanism that meets it has, and is charged
    request.getfixturevalue("plain_pictures")  # they were drawn once
    result = run(
        "release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.7, "--mu", 0.6, "--ledger", paths["b.ledger"],
        "--out", paths["m.npy"], "--certificate", paths["c.json"], "--report", paths["r.html"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert np.load(paths["m.npy"]).shape == (3,)
    assert "<svg" in paths["r.html"].read_text()
    assert run("verify", paths["c.json"]).exit_code == 0
    shown = run("ledger", "show", paths["b.ledger"], "--json")
    charged = [
        entry["guarantee"]["mu"] for entry in json.loads(shown.stdout)["entries"]
    ]
    assert charged[1] == 0.6
    assert 0.1 < charged[0] < 0.9
    assert run("ledger", "show", paths["b.ledger"]).exit_code == 0
    again = run(
        "release",
        sphere_file / "x.npy",
        "-m",
        "sphere:2",
        "-r",
        0.7,
        "--mu",
        1.1,
        "--ledger",
        paths["b.ledger"],
    )
    assert again.exit_code == 2
    assert "remains" in again.output
    forged = json.loads(paths["c.json"].read_text())
    forged["claims"]["gdp"] *= 0.9
    paths["c.json"].write_text(json.dumps(forged))
    assert run("verify", paths["c.json"]).exit_code == 1


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(1)
    X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.4, (200, 3)))
    rows = [
        f"{x},{y},{z},{'ab'[i % 2]},{20 + i % 60},p{i // 2}"
        for i, (x, y, z) in enumerate(X)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,z,class,age,person", *rows]) + "\n")
    return tmp_path


STATISTICS = {
    "mean": ["-r", 0.7, "--groups", "person"],
    "median": ["-r", 1.0],
    "dispersion": ["-r", 0.7],
    "pca": ["-r", 1.2, "-m", "euclidean:3"],
    "mdm": ["-r", 0.7, "--labels", "class"],
    "classifier": [
        *("-m", "spd-affine:2", "--as", "upper"),
        *("--labels", "class", "--classes", "a,b", "--reduce", 1),
    ],
    "regression": [
        "-r",
        0.8,
        "--x",
        "age",
        "--x-range",
        "20,90",
        "--speed",
        1.5,
        "--clip",
        0.3,
    ],
}


@pytest.mark.starts_workers  # of each statistic a fresh process knows all that it needs
@pytest.mark.parametrize("statistic", STATISTICS)
def test_every_statistic_from_a_table(table, statistic):
    """Value, certificate, report and ledger of each; nothing is left half written."""
    given = [
        "-m",
        "sphere:2",
        "--mu",
        1,
        "--header",
        "--columns",
        "x,y,z",
        *STATISTICS[statistic],
    ]
    made = {option: table / name for option, name in
            (("out", "v.csv"), ("certificate", "c.json"), ("report", "r.html"), ("ledger", "l"))}  # fmt: skip
    targets = [part for option, path in made.items() for part in (f"--{option}", path)]
    result = run(
        "release", statistic, table / "t.csv", *given, *targets, "--budget-mu", 3
    )
    assert result.exit_code == 0, result.output
    cells = list(csv.reader(made["out"].read_text(encoding="utf-8").splitlines()))
    if statistic == "mdm":  # a line for each class, below the names of the columns
        assert [row[0] for row in cells] == [
            "released",
            "mean of class a",
            "mean of class b",
        ]
        cells = [row[1:] for row in cells[1:]]
    assert np.all(np.isfinite(np.array(cells, dtype=float)))
    certificates = sorted(table.glob("c*.json"))
    assert len(certificates) == (2 if statistic == "mdm" else 1)
    assert {run("verify", path).exit_code for path in certificates} == {0}
    assert "clipped to the ball" in made["report"].read_text(
        encoding="utf-8"
    ) or statistic in (
        "pca",
        "regression",
        "median",
    )
    assert not list(table.glob(".*.part"))
    again = run("release", statistic, table / "t.csv", *given, "--json")
    assert np.shape(json.loads(again.stdout)[statistic])
    n = json.loads(certificates[0].read_text())["statistic"]["n"]
    assert n == (100 if statistic in ("mean", "mdm") else 200), (
        "a person, or a record of a class, is one"
    )


@pytest.mark.parametrize(
    ("statistic", "given"),
    [("dispersion", ["--outer-radius", 3]), ("mdm", ["--labels", "class", "--ball", "shared"]),
     ("regression", ["--x", "age", "--x-range", "20,90"])],
)  # fmt: skip
def test_a_private_ball_from_a_table(table, statistic, given):
    common = [
        "-m",
        "sphere:2",
        "--mu",
        1,
        "--header",
        "--columns",
        "x,y,z",
        "-r",
        "private",
    ]
    result = run(
        "release",
        statistic,
        table / "t.csv",
        *common,
        *given,
        "--certificate",
        table / "c.json",
    )
    assert result.exit_code == 0, result.output
    assert {run("verify", path).exit_code for path in table.glob("c*.json")} == {0}
    about = (
        "the mean clipped direction"
        if statistic == "regression"
        else "clipped to the ball that was used"
    )
    assert about in result.output, (
        "what was left outside is not covered, and that is said"
    )


@pytest.mark.usefixtures("plain_pictures")
@pytest.mark.parametrize("statistic", STATISTICS)
def test_how_many_records_persons_have_is_theirs_and_not_told(table, statistic):
    """Nothing that leaves says 337: a person may give any number of records."""
    head, *lines = (table / "t.csv").read_text().splitlines()
    rows = [
        f"{line},{line.split(',')[3]}{i % 5}"
        for i, line in enumerate([*lines, *[lines[0]] * 137])
    ]
    (table / "w.csv").write_text("\n".join([f"{head},who", *rows]) + "\n")
    own = [
        option
        for option in STATISTICS[statistic]
        if option not in ("--groups", "person")
    ]
    given = [
        "-m",
        "sphere:2",
        "--mu",
        1,
        "--header",
        "--columns",
        "x,y,z",
        *own,
        "--groups",
        "who",
    ]
    said = run(
        "release",
        statistic,
        table / "w.csv",
        *given,
        "--certificate",
        table / "c.json",
        "--report",
        table / "r.html",
    )
    assert said.exit_code == 0, said.output
    page = re.sub(
        "<svg.*?</svg>|<style.*?</style>|<[^>]*>",
        " ",
        (table / "r.html").read_text(encoding="utf-8"),
        flags=re.S,
    )
    told = (
        said.output
        + page
        + "".join(made.read_text(encoding="utf-8") for made in table.glob("c*.json"))
    )
    assert not re.search(r"(?<![\w.])337(?![\w.])", told)


def test_nothing_is_overwritten(table):
    """Every output against every input, the ledger and every other output, by name, by another name and by link."""
    (table / "center.csv").write_text("1,0,0\n")
    assert run("ledger", "create", table / "l", "--mu", 5).exit_code == 0
    data, center, ledger = (table / name for name in ("t.csv", "center.csv", "l"))
    given = [
        "-m",
        "sphere:2",
        "-r",
        0.7,
        "--mu",
        1,
        "--header",
        "--columns",
        "x,y,z",
        "--center",
        center,
        "--ledger",
        ledger,
    ]
    before = {path: path.read_bytes() for path in (data, center, ledger)}
    (table / "link.csv").symlink_to(data)
    (table / "hard.csv").hardlink_to(data)
    (table / "sub").mkdir()
    for option in ("--out", "--certificate", "--report"):
        for target in (
            data,
            center,
            ledger,
            table / "sub" / ".." / "t.csv",
            table / "link.csv",
            table / "hard.csv",
        ):
            result = run("release", data, *given, option, target)
            assert (result.exit_code, len(result.output.strip().splitlines())) == (
                2,
                1,
            ), (
                option,
                target,
                result.output,
            )
    for a, b in (
        ("--out", "--certificate"),
        ("--out", "--report"),
        ("--certificate", "--report"),
    ):
        assert (
            run(
                "release",
                data,
                *given,
                a,
                table / "same.csv",
                b,
                table / "sub" / ".." / "same.csv",
            ).exit_code
            == 2
        )
    assert {path: path.read_bytes() for path in before} == before


def test_a_private_radius_a_plan_and_a_look(table):
    given = ["-m", "sphere:2", "--header", "--columns", "x,y,z"]
    result = run(
        "release", table / "t.csv", *given, "-r", "private", "--mu", 1, "--json"
    )
    assert json.loads(result.stdout)["certificate"]["mechanism"] == "private-ball"
    look = run("check", table / "t.csv", *given, "-r", 0.7, "--groups", "person")
    assert look.output.startswith("NOT PRIVATE"), look.output
    study = run(
        "plan",
        "-m",
        "sphere:2",
        "-n",
        200,
        "-r",
        0.7,
        "--mu",
        1,
        "--error",
        0.02,
        "--json",
    )
    assert json.loads(study.stdout)["too_small"] is False
    small = run("plan", "-m", "euclidean:20", "-n", 5, "-r", 1, "--mu", 0.1)
    assert "the public center alone would be as accurate" in small.output
    (table / "center.csv").write_text("0,1,0\n")
    misplaced = run(
        "release",
        table / "t.csv",
        *given,
        "-r",
        0.3,
        "--mu",
        9,
        "--center",
        table / "center.csv",
    )
    assert "note: the release lies on the edge" in misplaced.output


def test_calibrate():
    result = run(
        "calibrate", "-m", "sphere:2", "--mu", 0.5, "--sensitivity", 0.1, "--json"
    )
    scales = json.loads(result.stdout)["mechanisms"]
    assert scales["gaussian"]["scale"] == pytest.approx(0.2, rel=0.05)
    statistic = FrechetMean(Sphere(2), None, 0.5, 100)
    assert set(scales) < set(mechanism_options(statistic)), (
        "the names that --mechanism takes"
    )
    assert (
        run("calibrate", "-m", "lorentz:10", "--mu", 0.5, "--sensitivity", 1).exit_code
        == 0
    )
    assert (
        run("calibrate", "-m", "sphere:2", "--mu", 0.5, "-r", 0.5, "-n", 100).exit_code
        == 0
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["release", "missing.npy", "-m", "sphere:2", "-r", "0.5", "--mu", "1"],
        ["release", "X", "-m", "sfere:2", "-r", "0.5", "--mu", "1"],
        ["release", "X", "-m", "sphere:2", "-r", "nan", "--mu", "1"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "-1"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "1", "--epsilon", "1"],
        ["release", "X", "-m", "spd-affine:3", "-r", "0.5", "--mu", "1"],
        [
            "release",
            "X",
            "-m",
            "sphere:2",
            "-r",
            "0.5",
            "--mu",
            "1",
            "--out",
            "/nonexistent/folder/x.npy",
        ],
        [
            "release",
            "X",
            "-m",
            "sphere:2",
            "-r",
            "0.5",
            "--mu",
            "1",
            "--ledger",
            "missing.ledger",
        ],
        [
            "release",
            "X",
            "-m",
            "sphere:2",
            "-r",
            "0.5",
            "--mu",
            "1",
            "--mechanism",
            "magic",
        ],
        ["release", "mdm", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "1"],
        [
            "release",
            "regression",
            "X",
            "-m",
            "sphere:2",
            "-r",
            "0.5",
            "--mu",
            "1",
            "--x",
            "0",
            "--speed",
            "1",
            "--clip",
            "1",
        ],
        [
            "release",
            "pca",
            "X",
            "-m",
            "euclidean:3",
            "-r",
            "0.5",
            "--mu",
            "1",
            "--method",
            "magic",
        ],
        ["release", "X", "-m", "sphere:2", "-r", "wide", "--mu", "1"],
        ["plan", "-m", "sphere:2", "-n", "1", "-r", "0.5", "--mu", "1"],
        ["plan", "-m", "sphere:2", "-n", "100", "-r", "wide", "--mu", "1"],
        ["check", "missing.npy", "-m", "sphere:2"],
        ["calibrate", "-m", "sphere:2", "--mu", "1"],
        *(
            ["calibrate", "-m", "sphere:2", "--mu", "1", "--sensitivity", wrong]
            for wrong in ("0", "-1", "nan", "inf")
        ),
        [
            "plan",
            "-m",
            "sphere:2",
            "-n",
            "100",
            "-r",
            "0.5",
            "--mu",
            "1",
            "--error",
            "1e-300",
        ],
        ["verify", "missing.json"],
        ["ledger", "show", "missing.ledger"],
    ],
)
def test_mistakes_are_one_line_and_exit_2(sphere_file, arguments):
    result = run(*[sphere_file / "x.npy" if a == "X" else a for a in arguments])
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1, result.output
    assert "Traceback" not in result.output


def bad_files(folder):
    """Files that cannot be records on Sphere(2), by their form."""
    X = np.load(folder / "x.npy")
    np.save(folder / "one.npy", X[:1])
    np.save(folder / "none.npy", X[:0])
    np.save(folder / "complex.npy", X + 0j)
    np.save(folder / "number.npy", 3.0)
    np.save(folder / "narrow.npy", X[:, :2])
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:200])
    (folder / "damaged.npz").write_bytes(b"PK\x03\x04nothing")
    (folder / "damaged.parquet").write_bytes(b"PAR1nothing")
    (folder / "header.csv").write_text("x,y,z\n")
    (folder / "x.txt").write_text("1,0,0\n")
    return ["one.npy", "none.npy", "complex.npy", "number.npy", "narrow.npy", "cut.npy", "damaged.npz",
            "damaged.parquet", "header.csv", "x.csv", "x.txt", "x.npz", "."]  # fmt: skip


def test_unusable_files_are_one_line_and_nothing_is_made(sphere_file):
    made = [
        "--ledger",
        sphere_file / "l",
        "--budget-mu",
        2,
        "--out",
        sphere_file / "m.npy",
        "--certificate",
        sphere_file / "c",
    ]
    for name in bad_files(sphere_file):
        result = run(
            "release", sphere_file / name, "-m", "sphere:2", "-r", 0.5, "--mu", 1, *made
        )
        assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1), (
            name,
            result.output,
        )
    center = sphere_file / "center.npy"
    np.save(center, np.array([2.0, 0, 0]))
    for more in (
        ["--center", center],
        ["--mechanism", "magic"],
        ["--out", sphere_file],
    ):
        result = run(
            "release",
            sphere_file / "x.npy",
            "-m",
            "sphere:2",
            "-r",
            0.5,
            "--mu",
            1,
            *made,
            *more,
        )
        assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1), (
            more,
            result.output,
        )
    for given in (["-m", "sphere:2"], ["-r", 0.5]):
        result = run("release", sphere_file / "x.npy", "--mu", 1, *given, *made)
        assert (result.exit_code, "is missing" in result.output) == (2, True), (
            result.output
        )
    assert not [name for name in ("l", "m.npy", "c") if (sphere_file / name).exists()]


@pytest.mark.parametrize("option", ["--columns", "--groups", "--labels", "--x"])
@pytest.mark.parametrize("name", ["²", "x²", "٣", "größe"])
def test_column_names_of_all_scripts(table, option, name):
    """Whatever Python takes for a digit."""
    lines = (table / "t.csv").read_text().splitlines()
    old = {"--columns": "x", "--groups": "person", "--labels": "class", "--x": "age"}[
        option
    ]
    (table / "t.csv").write_text(
        "\n".join([lines[0].replace(old, name, 1), *lines[1:]]) + "\n"
    )
    statistic = {"--labels": "mdm", "--x": "regression"}.get(option, "mean")
    line = (
        ["--x-range", "20,90", "--speed", 1, "--clip", 0.3]
        if statistic == "regression"
        else []
    )
    columns = f"{name},y,z" if option == "--columns" else "x,y,z"
    asked = [] if option == "--columns" else [option, name]
    given = [
        "-m",
        "sphere:2",
        "-r",
        0.7,
        "--mu",
        1,
        "--columns",
        columns,
        *asked,
        *line,
    ]
    result = run("release", statistic, table / "t.csv", *given)
    assert result.exit_code == 0, result.output


def test_decimal_commas_of_the_predictor(table):
    """Read as texts they would be no numbers, and every predictor the middle of the range."""
    rows = [f"{0.0};{0.7 * k / 99};{k / 9.9}".replace(".", ",") for k in range(100)]
    (table / "d.csv").write_text("\n".join(["a;b;age", *rows]) + "\n")
    line = [
        "--columns",
        "a,b",
        "--x",
        "age",
        "--x-range",
        "0,10",
        "-r",
        1,
        "--speed",
        1,
        "--clip",
        1,
    ]
    given = [
        "-m",
        "euclidean:2",
        "--mu",
        1000,
        "--sep",
        ";",
        "--decimal",
        ",",
        "--json",
    ]
    result = run("release", "regression", table / "d.csv", *line, *given)
    np.testing.assert_allclose(
        json.loads(result.stdout)["regression"], [[0, 0], [0, 0.7]], atol=0.05
    )


def test_the_name_of_a_file_is_no_reason_to_refuse(sphere_file):
    for name in ("a" * 240 + ".npy", "tab\tbell\a.npy"):
        (sphere_file / name).write_bytes((sphere_file / "x.npy").read_bytes())
        book = [
            "--ledger",
            sphere_file / "l",
            *([] if (sphere_file / "l").exists() else ["--budget-mu", 5]),
        ]
        result = run(
            "release", sphere_file / name, "-m", "sphere:2", "-r", 0.5, "--mu", 1, *book
        )
        assert result.exit_code == 0, result.output


def test_bad_records_are_mapped(sphere_file):
    X = np.load(sphere_file / "x.npy")
    X[:5] = [[np.nan] * 3, [np.inf, 0, 0], [5, 5, 5], [0, 0, 0], [-1, 0, 0]]
    np.save(sphere_file / "bad.npy", np.asfortranarray(X, dtype=np.float32))
    center = sphere_file / "center.csv"
    center.write_text("1,0,0\n")
    result = run(
        "release",
        sphere_file / "bad.npy",
        "-m",
        "sphere:2",
        "-r",
        0.5,
        "--mu",
        1,
        "--center",
        center,
    )
    assert result.exit_code == 0, result.output


def test_demo(tmp_path, request):
    result = run("demo", "--output", tmp_path / "demo", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout[result.stdout.index("{") :])
    assert summary["accuracy"]["private"] > summary["accuracy"]["non-private"] - 0.1
    assert (tmp_path / "demo" / "report.html").exists()
    assert "computed without noise" in (tmp_path / "demo" / "report.html").read_text(
        encoding="utf-8"
    )
    assert run("verify", tmp_path / "demo" / "certificate-3.json").exit_code == 0
    first = (tmp_path / "demo" / "digits.ledger").read_bytes()
    request.getfixturevalue("plain_pictures")  # they were drawn once
    again = run("demo", "--output", tmp_path / "demo")
    assert again.exit_code == 0, again.output
    assert "computed without noise" in again.output, (
        "comparisons without noise are called so"
    )
    assert (tmp_path / "demo" / "digits.ledger").read_bytes() == first, (
        "a ledger is never deleted nor reused"
    )
    assert (tmp_path / "demo-2" / "digits.ledger").exists()


def test_a_warning_is_one_line(sphere_file, tmp_path):
    few = tmp_path / "few.npy"
    np.save(few, np.load(sphere_file / "x.npy")[:12])
    result = run("release", few, "-m", "sphere:2", "-r", "private", "--mu", "1")
    assert result.exit_code == 0
    assert result.output.count("small for a private ball") == 1
    assert result.output.count("and no error bar covers that") == 1
    assert "Warning" not in result.output
    assert ".py" not in result.output


def without(package, arguments, folder):
    """The command line where a package is not installed."""
    hidden = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[1:] = {arguments!r}"
    )
    code = f"{hidden}; from curvedp.__main__ import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("matplotlib", ["demo"]),
        ("starlette", ["studio", "--no-browser"]),
        ("matplotlib", ["release", "x.npy", "-m", "sphere:2", "-r", "1", "--mu", "1", "--report", "r.html", "--ledger", "l"]),
    ],
)  # fmt: skip
def test_a_missing_extra_is_named_in_one_line(sphere_file, package, arguments):
    done = without(package, arguments, sphere_file)
    assert done.returncode in (1, 2)
    assert "pip install 'curvedp[" in done.stderr
    assert len((done.stdout + done.stderr).strip().splitlines()) == 1
    assert not (sphere_file / "l").exists()


def test_the_help_text_begins_with_what_every_study_needs():
    text = run("--help").output
    assert "--version" in text
    parts = ["Every study", "Verify and publish", "Further releases", "Try and test"]
    assert [text.index(part) for part in parts] == sorted(map(text.index, parts))
    every_study = text.split(parts[0])[1].split(parts[1])[0]
    for command in ("check", "plan", "studio", "release", "ledger"):
        assert f" {command} " in every_study
    asked = run("--version")
    assert asked.exit_code == 0
    assert asked.output.split() == ["curvedp", version("curvedp")]


def test_the_version_needs_no_extra():
    done = without("typer", ["--version"], ".")
    assert done.stdout.split() == ["curvedp", version("curvedp")]
