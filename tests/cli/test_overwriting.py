"""No command overwrites a file that it reads: each option that names a file is tried."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from curvedp import Ledger
from curvedp.cli import app
from curvedp.privacy import GDP
from curvedp.signing import new_identity, write_key
from support.shell import run

RELEASE = ("-m", "sphere:2", "-r", "0.7", "--mu", "1")
STATISTICS = {
    "mean": (),
    "median": (),
    "dispersion": (),
    "pca": (),
    "tangent-pca": ("--components", "1"),
    "mdm": ("--labels", "group"),
    "classifier": ("--labels", "group"),
    "regression": ("--x", "x", "--x-range", "0,1", "--speed", "1", "--clip", "1"),
    "kmeans": ("--clusters", "2"),
}

# Options and arguments that name what is read. All others that name a file are outputs,
# and are tried below.
READ = {
    *("data", "files", "mask", "ledger", "ledger_key", "key", "names", "center"),
    *("certificate_argument", "certificates", "value", "against", "labels", "volumes"),
    *("folder_argument", "vocabulary", "init", "data_dir", "signature", "encoder"),
    "path",
}
# Outputs of commands that read no file of the user, or write into a new folder alone.
FREE = {
    "curvedp plan --plot",
    "curvedp plan-connectome --plot",
    "curvedp demo --output",
    "curvedp reproduce --out",
    "curvedp studio --folder",
    "curvedp key path",
    "curvedp ledger create path",
    "curvedp ledger key path",
}


def path_parameters(command, name="curvedp"):
    """Yield the command and the name of each option that takes a path."""
    for parameter in command.params:
        if "path" in str(parameter.type_descriptor).lower():
            yield name, parameter
    for subname, subcommand in getattr(command, "commands", {}).items():
        yield from path_parameters(subcommand, f"{name} {subname}")


def outputs():
    """Return the command and the option of every file that is written."""
    found = set()
    for command, parameter in path_parameters(get_command(app)):
        is_argument = parameter.param_type_name == "argument"
        name = parameter.name
        is_read = name in READ or (is_argument and f"{name}_argument" in READ)
        # `certificate` is written by releases, and read where it is an argument.
        if name == "certificate" and not is_argument:
            is_read = False
        if not is_read:
            found.add(f"{command} {parameter.opts[0] if not is_argument else name}")
    return found - FREE


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder with everything that the commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    points = np.random.default_rng(0).normal([3.0, 0, 0], 0.4, (60, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    np.save(folder / "x.npy", points)
    np.save(folder / "ids.npy", np.arange(60) // 2)
    typed = ("--certificate", folder / "c.json", "--out", folder / "v.npy")
    result = run("release", folder / "x.npy", *RELEASE, *typed)
    assert result.exit_code == 0, result.output
    Ledger(folder / "b.ledger", GDP(9.0))
    write_key(folder / "k.pem", new_identity())
    (folder / "study.toml").write_text("")
    return folder


def overwriting(folder):
    """Return the arguments of each command with the output that is an input of it."""
    x, ids, c, v = (folder / name for name in ("x.npy", "ids.npy", "c.json", "v.npy"))
    table = folder / "x.csv"
    shutil.copy(x, folder / "picture.svg")
    picture = folder / "picture.svg"
    cases = {}
    for statistic, typed in STATISTICS.items():
        words = ("release", statistic, table, "-m", "sphere:2", "--mu", 1, *typed)
        for option, suffix in (("out", ".csv"), ("certificate", ""), ("report", "")):
            target = table if suffix else ids
            people = () if suffix else ("--groups", ids)
            cases[f"curvedp release {statistic} --{option}"] = (
                *words,
                *people,
                f"--{option}",
                target,
            )
    tensors = ("release", "regions", picture, "--labels", c, "--mu", 1)
    matrices = ("release", "connectome", folder, "--mu", 1)
    relmat = folder / "sub-1_relmat.tsv"
    relmat.write_text("a\n")
    tests = ("-m", "sphere:2", "-r", 0.7, "--mu", 1, "--certificate", ids)
    perturb = ("perturb", picture, "-m", "sphere:2", "--epsilon", 1)
    earth = ("perturb", picture, "--as", "latlon-degrees", "--epsilon-per-km", 1)
    synthesize = ("synthesize", picture, "--n", 5, *RELEASE)
    topics = ("topics", picture, "--mu", 1, "--vocabulary", c)
    cases |= {
        "curvedp release regions --out": (*tensors, "--out", c),
        "curvedp release regions --plot": (*tensors, "--plot", picture),
        "curvedp release regions --certificate": (*tensors, "--certificate", c),
        "curvedp release connectome --out": (*matrices, "--out", relmat),
        "curvedp release connectome --plot": (*matrices, "--plot", picture),
        "curvedp release connectome --certificate": (*matrices, "--certificate", v),
        "curvedp perturb --out": (*perturb, "--out", picture),
        "curvedp perturb --certificate": (*perturb, "--certificate", picture),
        "curvedp perturb --plot": (*perturb, "--plot", picture),
        "curvedp perturb --map": (*earth, "--map", picture),
        "curvedp synthesize --out": (*synthesize, "--groups", ids, "--out", ids),
        "curvedp synthesize --plot": (*synthesize, "--plot", picture),
        "curvedp synthesize --certificate": (*synthesize, "--certificate", picture),
        "curvedp topics --out": (*topics, "--out", c),
        "curvedp topics --plot": (*topics, "--plot", picture),
        "curvedp topics --report": (*topics, "--report", c),
        "curvedp topics --certificate": (*topics, "--certificate", c),
        "curvedp region --plot": ("region", c, picture, "--plot", picture),
        "curvedp figure --plot": ("figure", picture, "--plot", picture),
        "curvedp statement --study": (
            *("statement", c, "--study", folder / "study.toml", "--out", folder),
            *("--ledger", folder / "label.html"),
        ),
        "curvedp statement --out": (
            *("statement", folder / "label.html", "--study", folder / "study.toml"),
            *("--out", folder),
        ),
    }
    for test in ("two-sample", "k-sample", "paired"):
        words = ("test", test, x, v, "--groups", ids, *tests)
        cases[f"curvedp test {test} --certificate"] = words
    return cases


def test_every_output_is_tried(tmp_path):
    """A new command that writes a file must have a case here."""
    (tmp_path / "x.npy").touch()
    assert outputs() == set(overwriting(tmp_path))


NAMES = sorted(outputs())


@pytest.mark.parametrize("name", NAMES)
def test_an_input_is_never_overwritten(name, source, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(source, folder)
    (folder / "x.csv").write_text("a,b,c,group,x\n1,0,0,u,0.5\n0,1,0,v,0.5\n")
    (folder / "label.html").write_text("not to be lost")
    words = overwriting(folder)[name]
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "overwritten" in result.stderr.replace("\n", " ")
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before


def test_a_signature_never_replaces_a_key(source, tmp_path):
    shutil.copy(source / "c.json", tmp_path / "c.json")
    write_key(tmp_path / "c.json.sig", new_identity())
    result = run("sign", tmp_path / "c.json", "--key", tmp_path / "c.json.sig")
    assert result.exit_code == 2
    assert (tmp_path / "c.json.sig").read_bytes().startswith(b"-----BEGIN")


def test_what_is_written_beside_a_matrix_is_checked_too(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    sidecar = folder / "group_relmat.json"
    sidecar.write_text(json.dumps({}))
    out = folder / "group_relmat.tsv"
    result = run("release", "connectome", folder, "--mu", 1, "--out", out)
    assert result.exit_code == 2
    assert "sidecar" in result.stderr
    assert Path(sidecar).read_text() == "{}"
