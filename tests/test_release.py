"""What is handed out: archives that hold everything, install, work and are the same bytes each time; one version."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]


def _build(folder: Path) -> Path:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--outdir",
            str(folder),
            str(ROOT),
        ],
        check=True,
        capture_output=True,
        env=environment,
    )
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The source archive, and the wheel that is built from it."""
    return _build(tmp_path_factory.mktemp("dist"))


@pytest.mark.slow
def test_the_archives_hold_everything_and_nothing_else(dist):
    with zipfile.ZipFile(dist / f"curvedp-{VERSION}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/curvedp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == source
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(dist / f"curvedp-{VERSION}.tar.gz") as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CITATION.cff",
        "Makefile",
    } <= found
    assert {
        "src/curvedp/py.typed",
        "tests/test_release.py",
        "docs/index.md",
        "constraints.hashed.txt",
    } <= found
    assert not [
        name
        for name in found
        if name.startswith((".venv", "site/", "out/", ".peers", ".matrix"))
    ]


@pytest.mark.slow
def test_the_wheel_installs_and_its_core_works(dist, tmp_path):
    wheel = dist / f"curvedp-{VERSION}-py3-none-any.whl"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-compile",
            "--no-index",
            "--target",
            str(tmp_path),
            str(wheel),
        ],
        check=True,
        capture_output=True,
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "tests/support/core_only.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"curvedp {VERSION} ")


@pytest.mark.slow
def test_two_builds_are_the_same_bytes(dist, tmp_path):
    again = _build(tmp_path)
    assert {path.name: path.read_bytes() for path in dist.iterdir()} == {
        path.name: path.read_bytes() for path in again.iterdir()
    }


def test_one_version_everywhere():
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    headings = re.findall(
        r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert next(heading for heading in headings if heading != "Unreleased") == VERSION


def _pins(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    return {
        line.removesuffix("\\").strip()
        for line in lines
        if line and not line.startswith((" ", "#"))
    }


def test_constraints_and_hashes_name_the_same_versions():
    assert _pins("constraints.txt") == _pins("constraints.hashed.txt")
    hashed = (ROOT / "constraints.hashed.txt").read_text()
    assert all(
        "--hash=sha256:" in part for part in re.split(r"\n(?=\S)", hashed.strip())
    )


def test_every_dependency_is_pinned_and_none_is_below_its_bound():
    pinned = {
        re.sub(r"[-_.]+", "-", p.split("==")[0]).lower()
        for p in _pins("constraints.txt")
    }
    extras = PROJECT["optional-dependencies"]
    wanted = [
        *PROJECT["dependencies"],
        *(line for name in extras if name != "federated" for line in extras[name]),
    ]
    names = {re.split(r"[\[><=~! ]", line)[0].lower() for line in wanted} - {"curvedp"}
    assert names <= pinned


def test_the_core_is_small():
    """A private mean needs no plots and no JAX: whoever adds to the core says so here."""
    names = {re.split(r"[>=]", line)[0] for line in PROJECT["dependencies"]}
    small = {
        "numpy",
        "scipy",
        "scikit-learn",
        "array-api-compat",
        "python-flint",
        "cryptography",
        "typer",
        "rich",
    }
    assert names == small | {
        "threadpoolctl"
    }  # which scikit-learn brings; it is imported here too


@pytest.mark.parametrize("missing", ["matplotlib", "jax"])
def test_a_missing_extra_is_one_line_that_names_it(missing, tmp_path):
    """The package is hidden by one of the same name that cannot be imported, as if it were not installed."""
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text(
        f"import sys\nclass F:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {missing!r}:\n"
        f"            raise ModuleNotFoundError('No module named ' + name, name={missing!r})\n"
        "sys.meta_path.insert(0, F())\n"
    )
    module, extra = {"matplotlib": ("report", "report"), "jax": ("optim", "jax")}[
        missing
    ]
    command = ["-c", f"import curvedp.{module}"]
    path = os.pathsep.join(
        [str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    )
    run = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert (
        f"{missing}: pip install 'curvedp[{extra}]'".lower()
        in run.stderr.strip().splitlines()[-1].lower()
    )


def test_the_makefiles_help_lists_what_it_can_do():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)[1].split())
    described = set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE))
    assert targets - described == {"help", "clean"}
