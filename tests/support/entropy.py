"""The entropy of a test: by default a fixed sequence of bytes for each test.

Releases draw their noise from the operating system, so that a test which reads a release
could fail once in a thousand runs through bad luck alone; with twenty thousand tests this
stopped a sound change every few days. As a plugin of pytest, this module gives
`SecureSource` the same entropy every time a test runs, in whatever order and in whichever
process. What else a test draws has a seed of its own.

`CURVEDP_TEST_ENTROPY=fresh` takes the entropy of the operating system, to look for tests
that depend on luck; any other text is another seed. Processes that a test starts have
fresh entropy, and so do tests marked `fresh_entropy`.
"""

import hashlib
import os
import types
from collections.abc import Iterator

import pytest

from curvedp.randomness import csprng

_SEED = os.environ.get("CURVEDP_TEST_ENTROPY", "curvedp")


class _RepeatableEntropy(types.ModuleType):
    """Stand in for the module `os` where `csprng` reads it.

    Attributes
    ----------
    label : str or None
        What the bytes are computed from; None for fresh bytes.
    """

    def __init__(self) -> None:
        super().__init__("os")
        self.label: str | None = None
        self._process = os.getpid()
        self._n_calls = 0

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def start(self, label: str | None) -> None:
        """Begin the sequence of bytes that belongs to a label."""
        self.label = label
        self._n_calls = 0
        for source in list(csprng._live_sources):
            source._idle.clear()

    def urandom(self, n: int) -> bytes:
        """Return n bytes; in the child of a fork they are the operating system's."""
        if self.label is None or os.getpid() != self._process:
            return os.urandom(n)
        self._n_calls += 1
        text = f"{_SEED}:{self._n_calls}:{self.label}"
        return hashlib.shake_256(text.encode()).digest(n)


_entropy = _RepeatableEntropy()


def _start(label: str, item: pytest.Item | None = None) -> None:
    """Begin the bytes of a label, or fresh ones for those who ask for them."""
    is_fresh = item is not None and item.get_closest_marker("fresh_entropy") is not None
    _entropy.start(None if is_fresh else label)


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the operating system, unless fresh entropy is asked for."""
    if _SEED != "fresh":
        csprng.os = _entropy


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """A module that releases something when it is imported has bytes of its own."""
    _start(collector.nodeid)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The fixtures of a test have bytes of their own."""
    _start(f"{item.nodeid} setup", item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """A test has bytes of its own, whatever its fixtures have drawn."""
    _start(item.nodeid, item)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest
) -> Iterator[object]:
    """A fixture that several tests share has the same bytes whichever is the first."""
    if fixturedef.scope == "function":
        return (yield)
    parameter = request.param_index if hasattr(request, "param") else ""
    _start(f"{fixturedef.baseid} {fixturedef.argname} {parameter}")
    value = yield
    _start(f"{request.node.nodeid} after {fixturedef.argname}")
    return value
