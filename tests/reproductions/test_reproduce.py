"""The runner and the command: lists, refusals, and that an expectation can fail."""

import json

import pytest
from typer.testing import CliRunner

from curvedp.cli import app
from curvedp.papers import runner as runner_module
from curvedp.papers.runner import (
    Reproduction,
    Setting,
    check_figures,
    find_reproductions,
)

runner = CliRunner()

RUN = """
from matplotlib.figure import Figure

def toy_fig1(setting):
    return {"value": [1.0, 2.0], "full": setting.full}, Figure(figsize=(1, 1))

def toy_fig2(setting):
    return setting.data_file("toy.csv", "Toys", "the toy shop"), None
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """A checkout of its own, with two reproductions."""
    folder = tmp_path / "reproductions" / "toy_paper"
    folder.mkdir(parents=True)
    (folder / "run.py").write_text(RUN)
    expect = [
        {"figure": "value/1", "expected": 2.0, "tolerance": 0.1, "printed": "3.0"},
        {"figure": "value/0", "at_least": 5.0, "timing": True},
    ]
    seconds = {"reduced": 1, "full": 2}
    entries = {
        "toy-fig1": {"title": "toys", "seconds": seconds, "expect": expect},
        "toy-fig2": {"title": "toys from data", "seconds": seconds, "expect": []},
    }
    (folder / "expected.json").write_text(json.dumps(entries))
    found = find_reproductions(tmp_path / "reproductions")
    monkeypatch.setattr(runner_module, "find_reproductions", lambda: found)
    monkeypatch.setattr(
        Reproduction,
        "function",
        lambda self: load(folder / "run.py")[self.name.replace("-", "_")],
    )
    return tmp_path


def load(path):
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


def run(*arguments):
    return runner.invoke(
        app, ["reproduce", *(str(a) for a in arguments)], env={"CURVEDP_DATA": None}
    )


def test_list_is_one_name_a_line():
    result = run("--list")
    assert result.exit_code == 0
    names = result.stdout.split("\n")[:-1]
    assert {"gdp-fig1", "rao-table1", "opt-fig1"} <= set(names)
    assert all(callable(find_reproductions()[name].function()) for name in names)
    assert all(
        (find_reproductions()[name].folder / "README.md").is_file() for name in names
    )


def test_an_unknown_name_lists_the_names(tmp_path):
    result = run("gdp-fig1", "gdp-fig7", "--out", tmp_path)
    assert result.exit_code == 2
    assert "no reproduction gdp-fig7" in result.stderr
    assert "rao-table1" in result.stderr
    assert len(result.stderr.strip().split("\n")) == 1
    assert list(tmp_path.iterdir()) == []  # refused before anything is run
    assert run().exit_code == 2


def test_a_run_writes_picture_and_numbers(toys):
    result = run("toy-fig1", "--out", toys / "made", "--full")
    assert result.exit_code == 0, (
        result.output
    )  # what depends on the machine is no failure
    assert {file.name for file in (toys / "made").iterdir()} == {
        "toy-fig1.png",
        "toy-fig1.svg",
        "toy-fig1.json",
    }
    record = json.loads((toys / "made" / "toy-fig1.json").read_text())
    assert record["figures"] == {"value": [1.0, 2.0], "full": True}
    assert record["form"] == "full"
    first = record["checks"][0]
    assert (first["holds"], first["agrees_with_print"]) == (True, False)


def test_a_number_that_is_off_is_exit_1(toys):
    file = toys / "reproductions" / "toy_paper" / "run.py"
    file.write_text(RUN.replace("2.0]", "2.2]"))
    result = run("toy-fig1", "--out", toys / "made")
    assert result.exit_code == 1
    assert "toy-fig1: value/1" in result.stderr


def test_missing_data_names_the_set_its_source_and_the_option(toys):
    result = run("toy-fig2", "--out", toys)
    assert result.exit_code == 2
    for part in ("Toys", "toy.csv", "the toy shop", "--data-dir"):
        assert part in result.stderr
    result = run("all", "--out", toys / "made")  # the others are made all the same
    assert result.exit_code == 2
    assert (toys / "made" / "toy-fig1.png").is_file()
    (toys / "toy.csv").write_text("")
    assert (
        Setting(data_dir=toys).data_file("toy.csv", "Toys", "the toy shop")
        == toys / "toy.csv"
    )


def test_expectations_can_fail():
    def holds(value, **entry):
        toy = Reproduction("toy", None, "", {}, [{"figure": "a/0", **entry}])
        return [check.holds for check in check_figures(toy, {"a": [value]}, full=False)]

    assert holds(1.0, expected=1.1, tolerance=0.2) == [True]
    assert holds(1.0, expected=1.3, tolerance=0.2) == [False]
    assert holds(float("nan"), expected=1.3, tolerance=0.2) == [False]
    assert holds(float("nan"), at_least=0) == [False]
    assert holds(1.0, at_least=1.5) == [False]
    assert holds(1.0, at_most=0.5) == [False]
    assert holds(1.0, at_most=0.5, form="full") == []
    for missing in ("b", "a/7", "a/0/c", "a/x"):
        assert holds(1.0, at_least=0, figure=missing) == [False], (
            "a figure that was not made is a failure, not a crash"
        )


def test_equal_means_within_rounding_and_sampling_error_and_otherwise_the_ratio():
    def beside(found, printed, sd=0.0):
        toy = Reproduction(
            "toy",
            None,
            "",
            {},
            [{"figure": "a", "printed": printed, "sd": sd, "at_least": 0}],
        )
        return check_figures(toy, {"a": found, "spread": 0.03}, full=False)[0].beside

    assert beside(0.9544, "0.954") == "0.954 ="
    assert beside(0.96, "0.954") == "0.954 ×1.01"
    assert beside(0.969, "0.954", 0.051) == "0.954 = (sd 0.051)"
    assert beside(1.86, "0.954", 0.64) == "0.954 = (×1.95, sd 0.64)"
    assert beside(1.86, "0.954", 0.051) == "0.954 ×1.95"
    assert beside(1.0, "0.954", "spread") == "0.954 = (sd 0.03)"
    assert beside(0.4, "0.0") == "0 ≠"
    assert beside(float("nan"), "0.954").startswith("0.954 ×")
