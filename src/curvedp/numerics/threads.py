"""Run NumPy work on blocks of records in parallel, on as many threads as cores.

NumPy releases the interpreter's lock in its loops, so that threads help. The BLAS, the
library of matrix products, has threads of its own; while ours run, it gets one each.
Two sets of threads on the same cores would spin while they wait for each other, and
beside another busy process that takes fifty times as long.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it ships no types

from curvedp._silence import numerical_silence

Result = TypeVar("Result")
Part = TypeVar("Part")


class _ThreadState(threading.local):
    """What each thread knows of itself: whether it is one of `in_threads`."""

    is_worker = False


_lock = threading.Lock()
_this_thread = _ThreadState()
_controller = cache(ThreadpoolController)


class _BlasLimit:
    """How many callers are inside `one_blas_thread`, and the limit that they share.

    Both are read and changed under `_lock`.
    """

    n_inside = 0
    limiter: Any = None


def blocks(count: int, size: int) -> list[slice]:
    """Return slices of at most `size` that cover range(count).

    Parameters
    ----------
    count : int
        The number of records, or of rows.
    size : int
        The largest number of rows of a slice.

    Returns
    -------
    list of slice
        Slices of equal length, but for the last one.
    """
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def in_threads(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """Return [work(part) for part in parts], computed on as many threads as cores.

    The work is on records, so no part of it warns or raises because of a value:
    floating-point settings belong to one thread, and each enters `numerical_silence`.
    Work that is started inside one of these threads stays in it.

    Parameters
    ----------
    work : callable
        The function of one part.
    parts : sequence
        The arguments of the function, such as blocks of records.

    Returns
    -------
    list
        One result for each part, in the order of the parts.
    """

    def silent_work(part: Part) -> Result:
        """Do the work on one part, without floating-point warnings or errors."""
        with numerical_silence():
            return work(part)

    # Work in this thread if there is nothing to gain from others.
    n_cores = _available_cores()
    if min(n_cores, len(parts)) <= 1 or _this_thread.is_worker:
        return [silent_work(part) for part in parts]

    with one_blas_thread():
        return list(_pool(os.getpid(), n_cores).map(silent_work, parts))


def _available_cores() -> int:
    """Return how many cores this process may use.

    Returns
    -------
    int
        On Linux, the number to which the process is restricted; elsewhere, all cores.
    """
    if sys.platform == "linux":
        n_cores = len(os.sched_getaffinity(0))
    else:
        n_cores = os.cpu_count() or 1
    return n_cores


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the BLAS on one thread inside this context.

    The BLAS is the library of matrix products. The setting belongs to the whole
    process, and several threads may be inside at a time: the first one to enter sets
    the limit, and the last one to leave restores the number of threads from before.
    """
    with _lock:
        if _BlasLimit.n_inside == 0:
            _BlasLimit.limiter = _controller().limit(limits=1, user_api="blas")
        _BlasLimit.n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _BlasLimit.n_inside -= 1
            if _BlasLimit.n_inside == 0:
                _BlasLimit.limiter.restore_original_limits()
                _BlasLimit.limiter = None


@cache
def _pool(process: int, n_cores: int) -> ThreadPoolExecutor:
    """Return the pool of threads of a process, which is made once and then reused.

    The child of a fork has another process number, and so makes a pool of its own: the
    threads of its parent do not exist there.

    Parameters
    ----------
    process : int
        The number of the process.
    n_cores : int
        The number of threads.

    Returns
    -------
    ThreadPoolExecutor
        A pool whose threads know that they are workers, and so start none themselves.
    """
    return ThreadPoolExecutor(
        n_cores,
        "curvedp",
        initializer=setattr,
        initargs=(_this_thread, "is_worker", True),
    )
