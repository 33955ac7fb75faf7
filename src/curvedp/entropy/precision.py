"""The precision of Arb balls, one for the whole process."""

import os
import threading

from flint import ctx

_precision_lock = threading.RLock()


class precision:
    """`with precision(bits):` Arb computes to so many bits, and no other thread can change that meanwhile.

    python-flint keeps one precision for the whole process. Balls are valid at any precision, but not every bound that
    is derived from one is, and what is cached would stay coarse. Threads therefore compute with balls one at a time.
    """

    __slots__ = ("_bits", "_lock", "_old")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        self._lock = _precision_lock
        self._lock.acquire()
        self._old, ctx.prec = ctx.prec, self._bits

    def __exit__(self, *_: object) -> None:
        ctx.prec = self._old
        self._lock.release()


def _unlock_in_child() -> None:
    global _precision_lock
    _precision_lock = threading.RLock()  # a thread of the parent that is not here may have held it


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_unlock_in_child)
