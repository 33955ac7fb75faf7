"""A statistic of another package appears everywhere: in Python, shell, studio, report, verification and plan.

The package is the code of docs/project/extending.md, word for word, with the entry points of that page.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import GDP, Ledger, PrivateFrechetMean
from curvedp.cli.release import build_release_app
from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from curvedp.releasing import OFFERS, RADIUS, Offer, Option
from curvedp.studio.desk import Desk
from curvedp.studio.rehearsal import predict_release
from curvedp.studio.study import Study

PAGE = Path(__file__).parents[2] / "docs" / "project" / "extending.md"


def code_blocks(page: str, title: str, language: str) -> list[str]:
    """Return the code blocks of one section of a page."""
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install the page's package into a folder, as pip would, and return the folder."""
    page = PAGE.read_text()
    folder = tmp_path_factory.mktemp("site")
    package = folder / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    estimators = code_blocks(page, "An estimator", "python")
    source = [
        code_blocks(page, "A statistic", "python")[0],
        estimators[0].split("\n\nfitted = ")[0],
        estimators[1].split("\n\ncheck_statistic(")[0],
        *code_blocks(page, "From Python to the command line", "python"),
    ]
    (package / "mean_distance.py").write_text("\n\n".join(source))

    metadata = folder / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n"
    )
    (toml,) = code_blocks(page, "From Python to the command line", "toml")
    entry_points = toml.replace('[project.entry-points."', "[").replace('"]', "]")
    entry_points = re.sub(r'= "(.*?)".*', r"= \1", entry_points)
    (metadata / "entry_points.txt").write_text(entry_points)

    records = np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (400, 3))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    np.save(folder / "x.npy", records)
    return folder


def run(site: Path, *arguments: str, program: str = "-m curvedp"):
    """Run a program in a process that has the package installed."""
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *program.split(), *arguments],
        cwd=site,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


# Runs several commands in one process, which imports the library only once.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from curvedp.cli import app

answers = []
for arguments in json.load(sys.stdin):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    ended = result.exception is None or isinstance(result.exception, SystemExit)
    answers.append([result.exit_code, result.stdout, result.stderr, ended])
json.dump(answers, sys.__stdout__)
"""


class Answer(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str
    ended_in_words: bool  # and not with an exception that nobody caught


def run_all(site: Path, *commands: list[str]) -> list[Answer]:
    """Run commands in one process that has the package installed."""
    process = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site)},
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [Answer(*each) for each in json.loads(process.stdout)]


RELEASE = ["release", "mean-distance", "x.npy", "-m", "sphere:2", "-r", "0.7"]


def test_the_command_line_releases_reports_and_verifies_it(site):
    outputs = ["--certificate", "c.json", "--report", "r.html", "--json"]
    released = run(site, *RELEASE, "--mu", "1", *outputs)
    assert released.returncode == 0, released.stderr
    (value,) = json.loads(released.stdout)["mean-distance"]
    distances = Sphere(2).dist(Sphere(2).origin, np.load(site / "x.npy"))
    assert value == pytest.approx(np.minimum(distances, 0.7).mean(), abs=0.02)
    assert "mean distance to the center" in (site / "r.html").read_text()

    verified = run(site, "verify", "c.json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    forged = (site / "c.json").read_text().replace('"radius": 0.7', '"radius": 0.6')
    (site / "forged.json").write_text(forged)
    refuted, missing_radius = run_all(
        site, ["verify", "forged.json"], [*RELEASE[:-2], "--mu", "1"]
    )
    assert refuted.returncode == 1
    assert missing_radius.returncode == 2
    assert "--radius" in missing_radius.stderr


def test_the_command_line_plans_it(site):
    arguments = ["plan", "-m", "sphere:2", "-n", "400", "--mu", "1"]
    named = ["--statistic", "mean-distance", "--error", "0.001", "--json"]
    planned, private, unknown = run_all(
        site,
        [*arguments, "-r", "0.7", *named],
        [*arguments, "-r", "private", *named],
        [*arguments, "-r", "0.7", "--statistic", "mean-distanse"],
    )
    assert planned.returncode == 0, planned.stderr
    prediction = json.loads(planned.stdout)
    assert prediction["statistic"] == "mean distance to the center"
    # Noise of standard deviation r/(nμ) has the mean absolute value √(2/π) of that.
    assert prediction["error"] == pytest.approx(0.7 / 400 * 0.8, rel=0.05)
    assert "for an error of 0.001: " in prediction["advice"][-1]

    assert private.returncode == 2
    assert unknown.returncode == 2
    assert "--statistic" in unknown.stderr


STUDIO = """
from pathlib import Path
from curvedp.studio.desk import Desk

desk = Desk(Path("studio"), Path("x.npy"))
fields = desk.state()["offers"]["mean-distance"]["options"]
assert [field["name"] for field in fields] == ["radius", "center"], fields
desk.start_ledger({"kind": "gdp", "mu": 3.0})
study = {"manifold": "sphere:2", "statistic": "mean-distance", "radius": 0.7}
prediction = desk.plan({"study": study})
assert prediction["of"] == "of the mean distance", prediction
assert prediction["error"] < 0.01
release = desk.release({"key": prediction["key"], "study": study})
assert "report.html" in release["files"], release
print((Path("studio") / "release-1" / "release.py").read_text())
desk.close()
"""


def test_the_studio_releases_it_and_its_script_runs(site):
    studio = run(site, STUDIO, program="-c")
    assert studio.returncode == 0, studio.stderr
    assert "from my_package.mean_distance import PrivateMeanDistance" in studio.stdout
    script = run(site, "studio/release-1/release.py", program="")
    assert script.returncode == 0, script.stderr


# ---- a parameter of its own: the direction of a variance

AXIS_RELEASE = ["release", "axis-variance", *RELEASE[2:], "--mu", "1"]


def test_its_own_parameter_reaches_the_value_and_the_certificate(site):
    values = {}
    outputs = ["--certificate", "axis.json", "--json"]
    commands = []
    for axis in ("1,0", "0,1"):
        commands += [[*AXIS_RELEASE, "--axis", axis, *outputs], ["verify", "axis.json"]]
    answers = run_all(site, *commands)
    for axis, released, verified in zip(
        ("1,0", "0,1"), answers[::2], answers[1::2], strict=True
    ):
        assert released.returncode == 0, released.stderr
        (values[axis],) = json.loads(released.stdout)["axis-variance"]
        assert verified.returncode == 0, verified.stdout + verified.stderr
    statistic = json.loads((site / "axis.json").read_text())["statistic"]
    assert statistic["axis"] == [0.0, 1.0]
    assert all(0 <= value <= 0.49 for value in values.values())


def test_wrong_values_of_it_are_refused_before_they_are_paid(site, tmp_path):
    ledgers = [str(tmp_path / f"{number}.json") for number in range(3)]
    commands = []
    for axis, ledger in zip(("1,a", "1,0,0", "0,0"), ledgers, strict=True):
        payment = ["--ledger", ledger, "--budget-mu", "3"]
        commands.append([*AXIS_RELEASE, "--axis", axis, *payment])
    for refused in run_all(site, *commands):
        assert refused.returncode == 2
        assert "--axis" in refused.stderr
        assert refused.ended_in_words
    for ledger in ledgers:
        assert not Path(ledger).exists() or Ledger(ledger, GDP(3.0)).entries == []


def test_a_parameter_of_its_own_that_is_missing_is_named(site):
    plan = ["plan", "--statistic", "axis-variance", "-m", "sphere:2", "-r", "0.7"]
    refused, unplanned = run_all(site, AXIS_RELEASE, [*plan, "--mu", "1", "-n", "400"])
    assert refused.returncode == 2
    assert "--axis is missing: the variance is that along one" in refused.stderr
    assert unplanned.returncode == 2
    assert "parameters of its own (axis)" in unplanned.stderr


STUDIO_WITH_AXIS = """
from pathlib import Path
from curvedp.studio.desk import Desk

desk = Desk(Path("studio-axis"), Path("x.npy"))
desk.start_ledger({"kind": "gdp", "mu": 3.0})
study = {
    "manifold": "sphere:2", "statistic": "axis-variance", "radius": 0.7, "axis": "1,0"
}
prediction = desk.plan({"study": study})
assert prediction["of"] == "of the variance", prediction
assert prediction["error"] < 0.01
desk.release({"key": prediction["key"], "study": study})
print((Path("studio-axis") / "release-1" / "release.py").read_text())
desk.close()
"""


def test_the_studio_predicts_and_releases_with_it(site):
    studio = run(site, STUDIO_WITH_AXIS, program="-c")
    assert studio.returncode == 0, studio.stderr
    assert "axis=" in studio.stdout
    script = run(site, "studio-axis/release-1/release.py", program="")
    assert script.returncode == 0, script.stderr


def test_a_name_that_is_taken_is_refused(site, tmp_path):
    metadata = tmp_path / "other-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: other\nVersion: 1.0\n")
    entry = "[curvedp.offers]\nmean = my_package.mean_distance:OFFER\n"
    (metadata / "entry_points.txt").write_text(entry)
    both = Path(os.pathsep.join([str(site), str(tmp_path)]))
    environment = {**os.environ, "PYTHONPATH": str(both)}
    program = [sys.executable, "-c", "from curvedp.releasing import *; find_offer('x')"]
    refused = subprocess.run(
        program, env=environment, capture_output=True, text=True, check=False
    )
    assert "which is taken" in refused.stderr


# ---- an option of its own, in this process ----


class ToyMean(PrivateFrechetMean):
    """A mean with one more public parameter."""

    def __init__(self, manifold, radius, trim=0.0, **others):
        super().__init__(manifold, radius, **others)
        self.trim = trim


TOY = Offer(
    estimator=f"{__name__}:ToyMean",
    title="trimmed mean",
    description="A toy.",
    options=(
        RADIUS,
        Option(
            name="trim",
            flags=("--trim",),
            kind=float,
            help="how much is cut off",
            label="trimmed share",
            note="a public number",
        ),
    ),
)


@pytest.fixture
def toy_in_table(monkeypatch):
    monkeypatch.setitem(OFFERS, "toy", TOY)


def test_its_option_is_on_the_command_line(tmp_path, toy_in_table):
    app = build_release_app()
    wide = {"COLUMNS": "200", "TERM": "dumb"}
    help_text = CliRunner().invoke(app, ["toy", "--help"], env=wide).output
    assert "--trim" in help_text
    assert "how much is cut off" in help_text
    assert "--trim" not in CliRunner().invoke(app, ["mean", "--help"], env=wide).output

    np.save(tmp_path / "x.npy", np.eye(3)[np.arange(40) % 3])
    arguments = ["toy", str(tmp_path / "x.npy"), "-m", "sphere:2", "-r", "0.7"]
    result = CliRunner().invoke(app, [*arguments, "--mu", "1", "--trim", "0.25"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, [*arguments, "--mu", "1", "--trim", "much"])
    assert result.exit_code == 2


def test_its_option_is_on_the_page_and_in_the_script(tmp_path, toy_in_table):
    desk = Desk(tmp_path)
    fields = desk.state()["offers"]["toy"]["options"]
    desk.close()
    assert [field["name"] for field in fields] == ["radius", "trim"]
    assert fields[1]["label"] == "trimmed share: a public number"
    assert fields[1]["keyboard"] == "decimal"

    chosen = {"manifold": "sphere:2", "statistic": "toy", "radius": 0.7, "trim": 0.25}
    script = Study.from_page(chosen).script("x.npy", "study.ledger", "toy")
    assert f"from {__name__} import ToyMean" in script
    assert "radius=0.7, trim=0.25, guarantee=GDP(1.0)" in script
    with pytest.raises(ParameterError, match="trim is not of the kind"):
        Study.from_page({**chosen, "trim": "much"})


def test_a_statistic_without_a_prediction_is_not_predicted_as_a_mean(toy_in_table):
    options = Study.from_page(
        {"manifold": "sphere:2", "statistic": "toy", "radius": 0.7}
    ).options()
    with pytest.raises(ParameterError, match="no prediction of the error of the trim"):
        predict_release(TOY, options, GDP(1.0), [300])
