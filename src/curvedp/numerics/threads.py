"""Blocks of records on all cores: NumPy lets go of the interpreter's lock inside its loops.

Threads of ours and threads of the BLAS never multiply: while ours run, the BLAS has one each (two sets of threads on the same
cores spin while they wait for each other, and beside another busy process that takes fifty times as long).
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it ships no types

from curvedp._silence import numerical_silence

T = TypeVar("T")
Part = TypeVar("Part")


def blocks(count: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover range(count)."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def in_threads(work: Callable[[Part], T], parts: Sequence[Part]) -> list[T]:
    """Return [work(part) for part in parts], computed on as many threads as cores.

    The work is on records, so no part of it warns or raises because of a value:
    floating-point settings belong to one thread, and each enters `numerical_silence`.
    """

    def silent_work(part: Part) -> T:
        with numerical_silence():
            return work(part)

    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    if min(cores, len(parts)) <= 1 or getattr(_here, "busy", False):
        return [silent_work(part) for part in parts]
    with one_blas_thread():
        return list(_pool(os.getpid(), cores).map(silent_work, parts))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """The BLAS on one thread inside; the setting is the process's, so the last to leave restores it."""
    with _lock:
        _inside.append(
            None if _inside else _controller().limit(limits=1, user_api="blas")
        )
    try:
        yield
    finally:
        with _lock:
            limiter = (
                _inside.pop()
            )  # the last to leave takes what the first has left there
            if limiter is not None:
                limiter.restore_original_limits()


_lock, _here, _controller = (
    threading.Lock(),
    threading.local(),
    cache(ThreadpoolController),
)
_inside: list[Any] = []


@cache
def _pool(process: int, cores: int) -> ThreadPoolExecutor:
    """Kept for the life of a process; a fork has its own. Work inside a thread stays there."""
    return ThreadPoolExecutor(
        cores, "curvedp", initializer=setattr, initargs=(_here, "busy", True)
    )
