"""Messages name what was typed: options of the shell, never parameters of Python."""

import ast
import io
import logging
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer.main
from rich.console import Console

import curvedp
from curvedp import PrivateFrechetMean
from curvedp.cli import app
from curvedp.cli.console import waiting
from curvedp.geometry import Euclidean
from support.shell import run


def commands(group, path: tuple[str, ...] = ()):
    """Every command, with what is typed for it."""
    if not hasattr(group, "commands"):
        yield path, group
        return
    for name, each in group.commands.items():
        yield from commands(each, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
BALL = ("-m", "sphere:2", "-r", "0.7")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (40, 3))
    np.save("x.npy", x)
    np.savez("two.npz", a=x, b=x)
    np.savetxt("x.csv", x, delimiter=",")
    return tmp_path


MISTAKES = {
    "release x.npy --epsilon 1 --delta 2": "--delta 2.0 must lie in (0, 1)",
    "release x.npy --epsilon -1": "--epsilon -1.0 must be finite and > 0",
    "release x.csv --mu 1": "--header or --no-header",
    "release x.csv --mu 1 --no-header --sep ;;": "--sep ';;' must be one character",
    "release two.npz --mu 1": "--key is missing: two.npz holds the arrays ['a', 'b']; say which",
    "release x.csv --mu 1 --no-header --columns 0,1": "--columns [0, 1] must be 3 names or places",
    "release x.npy --mu 1 -r 45": "--radius 45.0 must be < 1.5708",
    "release x.npy --mu 1 -r wide": "--radius wide must be a number > 0, or 'private'",
    "release x.npy --mu 1 --as latlon": "--as latlon does not say enough",
    "release x.npy --mu 1 --mechanism best": "--mechanism best must be one of 'auto'",
    "release x.npy --mu 1 --outer-radius 3": "--outer-radius 3.0 is for a private radius",
    "release x.npy --mu 1 -m sphere:99999999": "--manifold sphere:99999999 is too large",
    "release pca x.npy --mu 1 -m euclidean:3 -r 1 --components 9": "--components 9 is more than",
    "release regression x.npy --mu 1": "--x-range is missing",
    "release mdm x.npy --mu 1": "--labels is missing",
    "release x.npy --mu 1 --ledger l.json": "`curvedp ledger create` starts one",
    "release x.npy --mu 1 --ledger l.json --budget-mu -3": "--budget-mu -3.0 must be finite and > 0",
    "check x.npy -m spd-affine:3": "needs (n, 3, 3)",
    "check x.csv --no-header --sep ;": "header, columns, separator, decimal sign, thousands separators, encoding, form",
    "plan -n 1 --mu 1": "--records 1 must be >= 2",
    "plan -n 9 --mu 1 -m sphere:99999999": "--manifold sphere:99999999 is too large",
    "plan -n 9 --mu 1 -m sphere:999999": "plans are for at most 100000",
    "plan -n 9 --mu 1 --statistic mode": "--statistic mode must be one of",
    "plan -n 9 --mu 1 --statistic regression": "--radius 0.7 must be 'private'",
    "calibrate -r 5 -n 9 --mu 1": "--radius 5.0 must be < 1.5708",
    "calibrate -m sphere:2 --sensitivity 1e9 --mu 1": "--sensitivity 1000000000.0 must not exceed the diameter 3.14159",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_told_in_the_words_of_the_shell(folder, monkeypatch, line) -> None:
    monkeypatch.setattr("curvedp.cli.console.console.width", 300)
    monkeypatch.setattr("curvedp.cli.console.errors.width", 300)
    words = line.split()
    own = [
        word
        for option in (BALL[:2], BALL[2:])
        if option[0] not in words
        for word in option
    ]
    own = [] if "--sensitivity" in words else own
    found = run(*words, *own)
    assert MISTAKES[line] in " ".join(found.output.split())
    path = next(
        path
        for path in (tuple(words[:2]), (words[0],), ("release", "mean"))
        if path in COMMANDS
    )
    for parameter in COMMANDS[path].params:
        assert not re.search(rf"(?<!\w)(?<!\w\(){parameter.name}=", found.output)


@pytest.mark.parametrize("watched", [False, True])
def test_waiting_is_announced_on_terminals_only(monkeypatch, watched):
    """The library logs and prints nothing; a command says what takes long."""
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=watched)
    monkeypatch.setattr("curvedp.cli.console.errors", terminal)
    with waiting("drawing exact noise"):
        pass
    assert ("drawing exact noise" in stream.getvalue()) is watched


def test_fit_prints_nothing_and_logs(capsys, caplog, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    points = np.random.default_rng(0).normal(size=(50, 2)) * 0.1
    with caplog.at_level(logging.INFO, logger="curvedp"):
        PrivateFrechetMean(Euclidean(2), radius=1.0).fit(points)
    assert [record.name for record in caplog.records] == ["curvedp"]
    assert "drawing exact noise" in caplog.text
    assert capsys.readouterr() == ("", "")


def strings_of_the_package():
    """Every text in the package's source, but for docstrings."""
    for path in Path(curvedp.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.value


def test_every_command_that_a_message_advises_exists():
    advised = {
        (path.name, found)
        for path, text in strings_of_the_package()
        for found in re.findall(r"`curvedp ([a-z]+)(?: ([a-z]+)\b(?=[ `]))?", text)
    }
    assert len(advised) > 4
    names = {path[:2] for path in COMMANDS} | {path[:1] for path in COMMANDS}
    for file, (name, subcommand) in advised:
        assert (name,) in names, file
        if name == "ledger":
            assert (name, subcommand) in names, file


def test_every_extra_that_a_message_advises_exists():
    """An extra that is installed beside curvedp: `pip install 'curvedp[report]'`."""
    advised = {
        extra
        for _, text in strings_of_the_package()
        for extras in re.findall(r"curvedp\[([a-z,]+)\]", text)
        for extra in extras.split(",")
    }
    project = Path(curvedp.__file__).parents[2] / "pyproject.toml"
    metadata = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    assert "report" in advised
    assert advised <= set(metadata["optional-dependencies"])
    core = " ".join(metadata["dependencies"])
    assert "typer" in core
    assert "rich" in core
