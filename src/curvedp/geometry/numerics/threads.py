"""Blocks of records on all cores: NumPy lets go of the interpreter's lock inside its loops."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["blocks", "in_threads"]

T = TypeVar("T")


def blocks(count: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover range(count)."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def in_threads(work: Callable[[slice], T], parts: list[slice]) -> list[T]:
    """[work(part) for part in parts], in order of the parts, on as many threads as there are cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(cores, len(parts))
    if threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
