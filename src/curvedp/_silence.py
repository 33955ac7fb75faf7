"""What a record contains must not decide about a warning or an exception.

A warning that one record causes tells that the record is there, with certainty and at
no cost: it is a release without noise. So is an exception. Every entry point that reads
records (`fit`, `Mechanism.release`, the optimizers, the tests of hypotheses, the sites
of a federation, `check`) therefore runs inside `quiet_about_records`, from the point
where its public parameters have been checked until its release is complete. Code that
runs in other threads or processes enters `numerical_silence` or `quiet_about_records`
there once more, because floating-point settings belong to one thread.
docs/theory/threat-model.md says what this protects, and what it does not.
"""

import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np

from curvedp.errors import ReleaseWarning


@contextmanager
def numerical_silence() -> Iterator[None]:
    """Let floating-point arithmetic in this thread neither warn nor raise.

    Overflow, underflow, division by zero and invalid operations give the values that
    IEEE 754 says, whatever the caller has set by `numpy.seterr`, by
    `scipy.special.seterr`, or by JAX's `debug_nans` and `debug_infs`.
    """
    with np.errstate(all="ignore"):
        settings = _settings_of_other_libraries()
        if not settings:  # the usual case, and this guard is entered often
            yield
            return
        with ExitStack() as stack:
            for setting in settings:
                stack.enter_context(setting)
            yield


def _settings_of_other_libraries() -> list[AbstractContextManager[Any]]:
    """Return what has to be entered so that SciPy and JAX are silent as well.

    Libraries that nobody has imported have no settings yet. Those of SciPy are slow to
    change, so they are left alone inside another guard.
    """
    settings: list[AbstractContextManager[Any]] = []
    if "scipy.special" in sys.modules:
        import scipy.special

        if set(scipy.special.geterr().values()) != {"ignore"}:
            settings.append(scipy.special.errstate(all="ignore"))
    if "jax" in sys.modules:
        import jax

        settings += [jax.debug_nans(False), jax.debug_infs(False)]
    return settings


@contextmanager
def quiet_about_records() -> Iterator[None]:
    """Hide everything that a record's value could cause to be printed or raised.

    Inside, floating-point arithmetic is silent (`numerical_silence`) and warnings of
    every category are ignored, whoever issues them, also where the caller has turned
    warnings into errors. A `ReleaseWarning` is not ignored: it is computed from public
    parameters and released values alone, and is shown, raised or hidden as the caller
    has asked for.

    Python keeps one list of warning filters for all threads of a process. While a
    guard is open in one thread, other threads do not hear warnings either; the last
    guard to close restores the list.
    """
    with numerical_silence(), _only_release_warnings():
        yield


@contextmanager
def _only_release_warnings() -> Iterator[None]:
    """Ignore all warnings but a `ReleaseWarning`; several threads may be inside."""
    if sys.version_info >= (3, 14) and sys.flags.context_aware_warnings:
        with warnings.catch_warnings():  # each thread has filters of its own
            _ignore_all_but_release_warnings()
            yield
        return
    with _lock:
        first_inside = not _guards
        guard = warnings.catch_warnings() if first_inside else None
        if guard is not None:
            guard.__enter__()
            _ignore_all_but_release_warnings()
        _guards.append(guard)
    try:
        yield
    finally:
        with _lock:
            # Threads leave in any order. Whoever leaves takes the youngest entry, so
            # that the oldest, which holds the caller's filters, is taken last.
            guard = _guards.pop()
            if guard is not None:
                guard.__exit__(None, None, None)


_lock = threading.Lock()
_guards: list["warnings.catch_warnings[None] | None"] = []


def _ignore_all_but_release_warnings() -> None:
    """Narrow the caller's filters to `ReleaseWarning` and ignore everything else."""
    filters = list(warnings.filters)
    warnings.resetwarnings()
    for action, message, category, module, line in filters:
        categories = category if isinstance(category, tuple) else (category,)
        for one in categories:
            if issubclass(one, ReleaseWarning):
                narrowed = one
            elif issubclass(ReleaseWarning, one):
                narrowed = ReleaseWarning
            else:
                continue
            warnings.filterwarnings(
                action,  # type: ignore[arg-type]  # the caller's own, hence valid
                _pattern(message),
                narrowed,
                _pattern(module),
                line,
                append=True,
            )
    warnings.simplefilter("default", ReleaseWarning, append=True)
    warnings.simplefilter("ignore", append=True)


def _pattern(expression: "re.Pattern[str] | str | None") -> str:
    """Return the text of a filter's regular expression; "" matches everything."""
    if expression is None:
        return ""
    return expression if isinstance(expression, str) else expression.pattern
