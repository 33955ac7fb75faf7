"""A line for those who wait: what takes long, from two seconds on, where somebody watches a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

_PATIENCE = 2.0  # seconds


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is being done if it takes long, and wipe it when it is done; silent where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    line = f"curvedp: {what} ..."
    timer = Timer(_PATIENCE, lambda: print(line, end="", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        said = timer.finished.is_set()
        timer.cancel()
        if said:
            print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)
