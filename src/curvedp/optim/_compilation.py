"""JAX settings of a private optimizer: double precision, and a cache of compiled programs.
JAX compiles the steps of a run to a program, which can take most of a minute. Programs
of this library's own problems are therefore kept on disk for the next process.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from curvedp.optim.problem import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    Problem,
    SubspaceProblem,
)

# Problems whose compiled programs may be cached. Problems that a user derives from these
# may not, because their loss may contain records.
_LIBRARY_PROBLEMS = (FrechetMeanProblem, LeadingEigenvectorProblem, SubspaceProblem)


@contextmanager
def full_precision() -> Iterator[None]:
    """Let JAX compute in double precision and with full products inside a `with` block.

    By default JAX has no doubles, and some accelerators round the products of float32
    numbers to fewer bits. The settings are restored at the end of the block.
    """
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@contextmanager
def compiled_once(problem: Problem) -> Iterator[None]:
    """Cache on disk the programs that JAX compiles inside a `with` block.

    Only programs of this library's own problems are cached: the compiled program of a
    user's loss contains the variables that the loss refers to, which may be records.
    The folder must belong to the user alone, because the programs in it are executed.
    If the user has set a cache folder in JAX, nothing is changed.

    Parameters
    ----------
    problem : Problem
        The problem that is minimized inside the block.
    """
    folder = None
    is_cacheable = type(problem) in _LIBRARY_PROBLEMS
    if is_cacheable and jax.config.jax_compilation_cache_dir is None:
        folder = _own_cache_folder()
    try:
        if folder is not None:
            _set_cache_folder(str(folder))
        yield
    finally:
        if folder is not None:
            _set_cache_folder(None)


def _own_cache_folder() -> Path | None:
    """Return the user's cache folder of curvedp, or None if others can write to it.

    JAX executes the programs that it finds in this folder, so no one else may be able
    to put a program there.

    Returns
    -------
    Path or None
        `$XDG_CACHE_HOME/curvedp` or `~/.cache/curvedp`, which is made if it is missing;
        None if it cannot be made, belongs to another user, or lets others write.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "curvedp"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        others_can_write = status.st_mode & 0o022 != 0  # the group or anyone
        # Windows has no owner in this sense, and its folders count as writable.
        is_own = sys.platform != "win32" and status.st_uid == os.geteuid()
        if is_own and not others_can_write:
            return folder
    return None


def _set_cache_folder(folder: str | None) -> None:
    """Tell JAX where to keep compiled programs between processes.

    Called at both ends of a `with` block of `compiled_once`.

    Parameters
    ----------
    folder : str or None
        The folder; None to keep them nowhere.
    """
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()
