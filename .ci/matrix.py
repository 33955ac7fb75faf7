"""`make matrix`: what the workflow runs, here, on every Python that is installed.

`make matrix LANES='core-3.12 oldest-3.11'` runs some.

| lane | what is installed | what is run |
|---|---|---|
| newest | everything, at the versions of constraints.txt | `make check`'s tests |
| oldest | the core at the lowest allowed versions | tests/support/core_only.py, tests of ledger and accounting |
| core | the core alone, from a wheel | tests/support/core_only.py |
| hashed | everything, each archive checked against constraints.hashed.txt | tests/support/core_only.py |
| torch | everything and PyTorch | the tests on PyTorch's arrays |
| adapters | pyRiemann, MNE, MOABB, DIPY, nilearn, geoopt, OpenDP and what they bring | tests/adapters |
| geomstats | geomstats, which does not import beside NumPy 2.4 | its spaces against ours |
| federated | Flower, whose requirements exclude the newest typer and rich | tests/federated |
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
CHECK = ["-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow"]
ALL = ["-m", "pytest", "-p", "no:cacheprovider"]  # every case of every test
CORE = ["-W", "error", "tests/support/core_only.py"]
PEERS = ["pyriemann", "mne", "moabb", "dipy", "nilearn", "geoopt", "opendp"]
TESTERS = ["pytest", "pytest-xdist", "hypothesis", "mpmath", "dp-accounting"]
LANES = {
    "newest": (
        [["-c", "constraints.txt", ".[test]"]],
        [[*CHECK, "-n", "2", "--dist", "worksteal"]],
    ),
    "oldest": (
        [["-c", ".matrix/oldest.txt", ".", *TESTERS]],
        [CORE, [*CHECK, "tests/ledger", "tests/privacy"]],
    ),
    "core": ([["-c", "constraints.txt", "."]], [CORE]),
    "hashed": (
        [
            ["--require-hashes", "-r", "constraints.hashed.txt"],
            ["--no-deps", "--no-build-isolation", "."],
        ],
        [CORE],
    ),
    # PyTorch brings sympy, which wants an older mpmath than constraints.txt has
    "torch": ([[".[test]", "torch"]], [[*ALL, "-k", "torch"]]),
    "adapters": ([[".", *TESTERS, *PEERS]], [[*ALL, "tests/adapters"]]),
    "geomstats": (
        [[".", "numpy<2.4", "scikit-learn<1.9", "geomstats", *TESTERS]],
        [[*ALL, "tests/adapters/test_spaces.py"]],
    ),
    "federated": ([[".[federated]", *TESTERS]], [[*CHECK, "tests/federated"]]),
}
# The others run on every Python.
ONCE = {
    "oldest": "3.11",
    "hashed": "3.11",
    "torch": "3.13",
    "adapters": "3.12",
    "geomstats": "3.12",
    "federated": "3.12",
}


def found(version: str) -> str | None:
    """A Python of this version that runs."""
    managed = sorted(
        Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    )
    for path in (shutil.which(f"python{version}"), *map(str, managed)):
        if (
            path
            and subprocess.run(
                [path, "-c", ""], capture_output=True, check=False
            ).returncode
            == 0
        ):
            return path
    return None


def lowest() -> str:
    """The lower bounds of pyproject.toml's core as exact versions."""
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "dependencies"
    ]
    return "".join(
        re.sub(r">=(\S+)", lambda m: f"=={m[1]}{'.0' * (2 - m[1].count('.'))}", line)
        + "\n"
        for line in core
    )


def run(lane: str, version: str) -> str:
    """One lane in an environment of its own: passed, or what failed."""
    python = found(version)
    if python is None:
        return f"no Python {version} here"
    home, (installs, commands) = HOME / f"{lane}-{version}", LANES[lane]
    subprocess.run([python, "-m", "venv", "--clear", str(home)], check=True)
    inside = str(home / "bin/python")
    pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for what, command in [
        *(("installing", [*pip, *i]) for i in installs),
        *(("tests", [inside, *c]) for c in commands),
    ]:
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return f"{what} FAILED"
    shutil.rmtree(home)
    return "passed"


def asked(names: list[str]) -> Iterator[tuple[str, str]]:
    if names:
        yield from (tuple(name.split("-")) for name in names)  # type: ignore[misc]  # a lane has two parts, or the caller unpacks in vain
        return
    for lane in LANES:
        yield from (
            (lane, version) for version in PYTHONS if ONCE.get(lane, version) == version
        )


def main(names: list[str]) -> int:
    HOME.mkdir(exist_ok=True)
    (HOME / "oldest.txt").write_text(lowest())
    rows = []
    for lane, version in asked(names):
        rows.append((lane, version, run(lane, version)))
        print(f"{lane:10s} {version:5s} {rows[-1][2]}", flush=True)
    return int(any("FAILED" in row[2] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
