"""A manifold of another package: an entry point makes it known to every process."""

import os
import subprocess
import sys

import numpy as np
import pytest

MODULE = """
from dataclasses import dataclass
from typing import ClassVar

from curvedp.geometry import Sphere


@dataclass(frozen=True)
class Directions(Sphere):
    kind: ClassVar[str] = "test-directions"
"""
ENTRY_POINTS = "[curvedp.manifolds]\ndirections = directions_of_a_stranger\n"
METADATA = "Metadata-Version: 2.1\nName: directions\nVersion: 1.0\n"


@pytest.fixture
def installed(tmp_path):
    """A folder that holds the package as an installation would leave it."""
    folder = tmp_path / "packages"
    information = folder / "directions-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "directions_of_a_stranger.py").write_text(MODULE)
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (information / "METADATA").write_text(METADATA)
    return folder


def run_curvedp(folder, *arguments, packages=""):
    return subprocess.run(
        [sys.executable, "-P", "-m", "curvedp", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(packages), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def test_release_and_verification_know_a_manifold_that_is_installed(
    tmp_path, installed
):
    records = np.random.default_rng(0).normal([3.0, 0.0, 0.0], 0.5, (200, 3))
    np.save(tmp_path / "x.npy", records / np.linalg.norm(records, axis=1)[:, None])
    options = ["-m", "test-directions:2", "-r", "0.7", "--mu", "1"]
    files = ["x.npy", "--certificate", "c.json"]
    release = run_curvedp(tmp_path, "release", *files, *options, packages=installed)
    assert release.returncode == 0, release.stderr + release.stdout
    verified = run_curvedp(tmp_path, "verify", "c.json", packages=installed)
    assert verified.returncode == 0, verified.stderr + verified.stdout

    unknown = run_curvedp(tmp_path, "verify", "c.json")
    assert unknown.returncode != 0
    assert "test-directions:2" in unknown.stderr + unknown.stdout


def test_an_entry_point_in_the_working_folder_is_not_loaded(tmp_path, installed):
    answer = run_curvedp(
        installed,
        "plan",
        "-m",
        "test-directions:2",
        "-n",
        "100",
        "-r",
        "0.7",
        "--mu",
        "1",
    )
    assert answer.returncode != 0
    assert "is not a known name" in " ".join((answer.stderr + answer.stdout).split())
