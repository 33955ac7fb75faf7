"""Compiled programs are kept for the next process, where that tells nobody anything."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curvedp.geometry import Sphere
from curvedp.optim import FrechetMeanProblem, Problem, dp_rgd


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A home of its own, in which everything that is compiled would be kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    yield tmp_path / "curvedp"
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before)


def run(problem, records=7):
    X = np.eye(4)[:3].repeat(
        records, axis=0
    )  # a shape of its own: nothing in this process has compiled it
    dp_rgd(problem, X, np.eye(4)[0], steps=2, clip=1.0, learning_rate=0.1, noise=0.1)


def kept(folder):
    return len(list(folder.glob("*"))) if folder.exists() else 0


def test_programs_of_this_library_are_kept_and_nobody_elses(folder):
    run(FrechetMeanProblem(Sphere(3)))
    some = kept(folder)
    assert some > 0
    assert folder.stat().st_mode & 0o777 == 0o700
    secret = np.full(4, 0.125)
    jax.jit(lambda x: jnp.cosh(x) + secret)(np.ones(4))  # the user's own, afterwards
    run(
        Problem(Sphere(3), lambda w, z: -((w @ (z + secret)) ** 2))
    )  # a loss that closes over something
    assert kept(folder) == some
    assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_that_others_can_write_to_is_not_used(folder):
    folder.mkdir()
    folder.chmod(0o777)
    run(FrechetMeanProblem(Sphere(3)), records=8)
    assert kept(folder) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such owners")
def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    """Its owner can put programs into it, however strict its mode is."""
    folder.mkdir(mode=0o755)
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    run(FrechetMeanProblem(Sphere(3)), records=10)
    assert kept(folder) == 0


def test_an_unwritable_home_folder_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    run(FrechetMeanProblem(Sphere(3)), records=9)


def test_many_records_on_stiefel_manifolds_do_not_wait_for_ever():
    """XLA's program for all of them at once never ended inside a loop, on two cores: in a process that can be ended."""
    code = (
        "import numpy as np; from curvedp.geometry import Stiefel; from curvedp.optim import dp_rgd, FrechetMeanProblem;"
        "M = Stiefel(5, 3); z = 0.1 * np.random.default_rng(0).normal(size=(900, M.dim));"
        "X = M.from_normal_coordinates(M.origin, z);"
        "print(dp_rgd(FrechetMeanProblem(M), X, M.origin, steps=3, clip=1.0, learning_rate=0.5, noise=1e-9).point.shape)"
    )
    usual = os.environ | {"XLA_FLAGS": ""}  # compiled as users' programs are
    command = [sys.executable, "-c", code]
    said = subprocess.run(
        command, env=usual, capture_output=True, text=True, timeout=240, check=True
    )
    assert said.stdout.strip() == "(5, 3)"
