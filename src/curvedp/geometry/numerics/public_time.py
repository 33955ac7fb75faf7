"""Time that tells nothing about the points: for the last steps before a release, which an adversary may time."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_on = ContextVar("public_time", default=False)


@contextmanager
def public_time() -> Iterator[None]:
    """Inside, NumPy kernels do for every point the work of the hardest one: iterations run to their caps, and no
    branch depends on where a point is. Answers are the same. This is about how much work is done; what the
    processor makes of equal work is not in our hands."""
    token = _on.set(True)
    try:
        yield
    finally:
        _on.reset(token)


def in_public_time() -> bool:
    """Whether the caller is inside `public_time`."""
    return _on.get()
