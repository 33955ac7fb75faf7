"""No command runs code of the working folder or of a folder above it.

Records lie in folders that others may write to. A file `numpy.py` beside them must never
be imported, neither by a command nor by a process that a command starts. Nor may the
settings of a library, which some read from the working folder, start a program.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer.main

import curvedp
from curvedp import PrivateFrechetMean
from curvedp.cli import app
from curvedp.geometry import Sphere
from curvedp.signing import new_identity, write_key
from curvedp.studio.desk import Desk
from studio.desks import STUDY, directions

# As the installed command does: the folder of the program is on the path, and the working
# folder is not.
PROGRAM = (
    "from curvedp.__main__ import main\n\nif __name__ == '__main__':\n    main()\n"
)

# The same, and each file that is opened is written down.
WATCHED_PROGRAM = """\
import os
import sys

log = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def write_down(event, arguments):
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        os.write(log, f"{os.path.abspath(arguments[0])}\\n".encode())


sys.addaudithook(write_down)
"""

# Matplotlib cannot be told to leave this file alone; what it says is not followed.
READ_AND_IGNORED = {"matplotlibrc"}

OTHERS = ["numpy", "scipy", "sklearn", "typer", "click", "rich", "flint", "jax"]
PACKAGES = ["curvedp", "reproductions"]
HOSTILE_NAMES = sorted({*sys.stdlib_module_names, *OTHERS} - {"__main__"})


def plant(folder, traces):
    """Put a module of every name into a folder; each leaves a trace when it is imported."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in HOSTILE_NAMES:
        (folder / f"{name}.py").write_text(hostile_code(name, folder, traces))
    for name in PACKAGES:
        (folder / name).mkdir()
        for file in ("__init__", "runner", "verify_worker", "__main__"):
            code = hostile_code(f"{name}.{file}", folder, traces)
            (folder / name / f"{file}.py").write_text(code)
    # Matplotlib reads this file, and starts LaTeX for every text of a figure.
    (folder / "matplotlibrc").write_text("text.usetex: True\n")


def plant_latex(bin_folder, traces):
    """Put a program `latex` on the path, which leaves a trace where it is started."""
    latex = bin_folder / "latex"
    latex.write_text(f"#!/bin/sh\ntouch {traces / 'latex'}\n")
    latex.chmod(0o700)


def hostile_code(name, folder, traces):
    trace = str(traces / f"{folder.name}-{name}")
    return f"open({trace!r}, 'w').close()\nraise SystemExit('hostile')\n"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A working folder among hostile modules, and the folder where they leave traces."""
    root = tmp_path_factory.mktemp("root")
    traces, bin_folder = root / "traces", root / "bin"
    traces.mkdir()
    bin_folder.mkdir()
    (bin_folder / "curvedp-program.py").write_text(PROGRAM)
    parent = root / "parent"
    working = parent / "working"
    plant(parent, traces)
    plant(working, traces)
    plant_latex(bin_folder, traces)

    fitted = PrivateFrechetMean(Sphere(2), radius=0.7, mechanism="tangent-gaussian")
    fitted.fit(directions())
    fitted.certificate_.save(working / "certificate.json")
    np.save(working / "value.npy", fitted.location_)
    np.save(working / "records.npy", directions())
    write_key(working / "our.key", new_identity())
    return root


def run(root, *arguments, program=None):
    program = program or [str(root / "bin" / "curvedp-program.py")]
    environment = {**os.environ, "PYTHONPATH": str(Path(curvedp.__file__).parents[1])}
    environment.pop("PYTHONSAFEPATH", None)
    environment["OPENED"] = str(root / "opened")
    environment["PATH"] = os.pathsep.join([str(root / "bin"), environment["PATH"]])
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        cwd=root / "parent" / "working",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def run_watched(root, *arguments):
    """Run a command; return its process, and the names of the files of the working
    folder that the command opened."""
    log = root / "opened"
    log.unlink(missing_ok=True)
    (root / "bin" / "watched.py").write_text(WATCHED_PROGRAM + PROGRAM)
    process = run(root, *arguments, program=[str(root / "bin" / "watched.py")])
    paths = [Path(line) for line in log.read_text().splitlines()]
    working = root / "parent" / "working"
    return process, {path.name for path in paths if working in path.parents}


def traces(root):
    return sorted(path.name for path in (root / "traces").iterdir())


# Every command, what is typed for it, and its exit code. None: it starts no process and
# has no need of a run, because it imports as those do that have one.
BALL = ["-m", "sphere:2", "-r", "0.7", "--mu", "1"]
CALLS = {
    "verify": (["certificate.json"], 0),
    "sign": (["certificate.json", "--key", "our.key"], 0),
    "statement": (["certificate.json", "--study", "s.yaml", "--out", "out"], 0),
    "figure": (["certificate.json", "--plot", "figure.svg", "--of", "records"], 0),
    "test": None,
    "region": (["certificate.json", "value.npy", "--plot", "region.svg"], 0),
    "audit": (["--samples", "100", "--only", "riemannian-laplace", "-j", "2"], None),
    "reproduce": (["--list"], 0),
    "release": (["records.npy", *BALL, "--report", "report.html"], 0),
    "studio": None,  # below: it serves until it is stopped
    "key": None,
    "ledger": None,
    "check": None,
    "plan": (["-n", "100", *BALL, "--plot", "plan.svg"], 0),
    "plan-connectome": (["-n", "100", "--regions", "9", "--mu", "1"], 0),
    "synthesize": (["records.npy", *BALL, "--out", "out.npy", "--plot", "s.svg"], 0),
    "perturb": (
        ["records.npy", "-m", "sphere:2", "--epsilon", "4", "--out", "p.npy"],
        0,
    ),
    "topics": (["records.npy", "--mu", "1", "--out", "t.csv", "--plot", "t.svg"], 0),
    "calibrate": None,
    "demo": None,
}


def test_every_command_is_listed():
    assert set(typer.main.get_command(app).commands) == set(CALLS)


@pytest.mark.parametrize("command", [name for name in CALLS if CALLS[name]])
def test_no_command_runs_code_of_the_working_folder(hostile, command):
    """Nor reads settings of a library, beside those that are known and not followed."""
    arguments, code = CALLS[command]
    process, opened = run_watched(hostile, command, *arguments)
    assert traces(hostile) == []
    assert "Traceback" not in process.stderr, process.stderr
    if code is not None:
        assert process.returncode == code, process.stderr

    told = {name for name in arguments if not name.startswith("-")}
    beside = {f"{name}.sig" for name in told}
    unfinished = {
        name
        for name in opened
        if name.endswith(".part") and name[1:].startswith((*told, *beside))
    }
    assert opened <= told | beside | unfinished | READ_AND_IGNORED


def test_reproductions_come_from_the_installed_package(hostile):
    """A module of the same name in the working folder is not run."""
    process = run(hostile, "reproduce", "--list")
    assert process.returncode == 0, process.stderr
    assert "gdp-fig1" in process.stdout
    assert traces(hostile) == []


def test_the_studio_signs_without_code_of_the_working_folder(hostile, monkeypatch):
    working = hostile / "parent" / "working"
    monkeypatch.chdir(working)
    desk = Desk(working / "studio", working / "records.npy", working / "our.key")
    desk.start_ledger({"kind": "gdp", "mu": 1.0})
    desk.release({"study": STUDY, "key": desk.plan({"study": STUDY})["key"]})
    assert "signed by" in desk.sign({"number": 1})["said"]
    desk.close()
    assert traces(hostile) == []


def test_the_traces_would_be_seen(hostile, tmp_path):
    """With the working folder on the path, its modules run."""
    process = run(hostile, "--version", program=["-m", "curvedp"])
    assert process.returncode != 0
    found = traces(hostile)
    assert found
    for name in found:
        (hostile / "traces" / name).unlink()
