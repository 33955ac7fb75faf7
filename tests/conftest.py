"""What holds for all tests: which of them `make check` leaves out, how JAX compiles; and files that several need."""

import ctypes
import gc
import io
import os
import shutil
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import entropy
from support.white_box import is_white_box
from support.worker import use_this_process

WHOLE = (
    "test_architecture.py",
    "test_docstrings.py",
)  # many quick cases that fail for different reasons
SLOW = frozenset(
    Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").split("\n")[2:]
)


def _quick_compiler() -> str:
    """XLA's former emitters compile in a third of the time, to the same bits, and programs that are not cut in parts for many
    cores in nine tenths of that. A flag that XLA does not know ends the process, so they are given to the versions that were
    seen to know them."""
    flags = (
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
    try:
        return flags if version("jaxlib").startswith("0.10.") else ""
    except PackageNotFoundError:
        return ""


def _keep_memory() -> None:
    """Large arrays that are freed stay with the process, where the C library is glibc: mapping them anew takes time."""
    if hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def _keep_files_in_memory() -> None:
    """Folders of tests lie in memory, where Linux has room for them.

    A ledger waits for the disk at every payment, and the tests pay some ten thousand
    times. What a ledger writes, and in which order, is the same.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return
    if shutil.disk_usage(memory).free > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


_keep_memory()
_keep_files_in_memory()
gc.set_threshold(
    50_000, 20
)  # more rarely than by default, which took 3% of the time of the files that were measured
os.environ.setdefault(
    "XLA_FLAGS", _quick_compiler()
)  # before JAX is imported; processes that tests start have it too


def pytest_configure(config: pytest.Config) -> None:
    """Give every test, those in docstrings too, entropy of its own."""
    config.pluginmanager.register(entropy, "curvedp-entropy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick lane has the first case of every test, but for tests that took long when they were measured.

    Tests that name something private are marked too."""
    seen: set[str] = set()
    for item in items:
        if isinstance(item, pytest.Function) and is_white_box(item.function):
            item.add_marker(pytest.mark.white_box)
        test = item.nodeid.split("[")[0]
        if test in SLOW or (test in seen and item.path.name not in WHOLE):
            item.add_marker(pytest.mark.slow)
        seen.add(test)


def pytest_collection_finish() -> None:
    """What is there now stays until the end: it need not be searched for garbage again and again."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What JAX compiles here runs once: it is compiled quickly, except where stored bits are compared. And the commands of
    the command line, whose making is nearly all that a call of it takes, are made once."""
    if (jax := sys.modules.get("jax")) is not None:
        jax.config.update(
            "jax_disable_most_optimizations", "golden" not in item.path.parts
        )
    runner = sys.modules.get("typer.testing")
    if hasattr(runner, "_get_command") and not hasattr(
        runner._get_command, "cache_info"
    ):
        runner._get_command = cache(runner._get_command)


@pytest.fixture(autouse=True)
def worker_in_this_process(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Certificates are recomputed without a process of their own, except where a test
    is marked `starts_workers`."""
    if request.node.get_closest_marker("starts_workers") is None:
        use_this_process(monkeypatch)


@pytest.fixture
def sphere_file(tmp_path: Path) -> Path:
    """A folder with 200 directions, as three files."""
    X = np.random.default_rng(0).normal([3.0, 0, 0], 0.4, (200, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", directions=X, other=np.zeros(3))
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="x,y,z", comments="")
    return tmp_path


@pytest.fixture
def plain_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of reports are made but not drawn, which takes most of a release's time: tests/report and
    `test_every_statistic_from_a_table` draw them."""
    from matplotlib.figure import Figure

    drawn = Figure.savefig

    def savefig(self: Figure, target: Any, *given: Any, **more: Any) -> None:
        if more.get("format") == "svg" and isinstance(target, io.StringIO):
            target.write('<?xml version="1.0"?><svg></svg>')
        else:
            drawn(self, target, *given, **more)

    monkeypatch.setattr(Figure, "savefig", savefig)
