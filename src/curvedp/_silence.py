"""Guards that keep records from causing a warning or an exception.
A warning that a record causes reveals that the record is there: it is a release
without noise. So is an exception. Code that reads private records therefore runs inside
the guard `quiet_about_records`.

Every entry point that reads records (`fit`, `Mechanism.release`, the optimizers, the
tests of hypotheses, the sites of a federation, `check`) enters it when its public
parameters have been checked, and leaves it when its release is complete. Code that runs
in other threads or processes enters `numerical_silence` or `quiet_about_records` there
once more, because floating-point settings belong to one thread.
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
    """Keep floating-point arithmetic in this thread from warning and raising.

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
    """Return context managers inside which SciPy and JAX neither warn nor raise.

    There is none for a library that has not been imported. SciPy's settings are slow to
    change, so there is none either if SciPy is already silent.

    Returns
    -------
    list of context managers
        Empty if both libraries are silent already.
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
    """Hide all warnings that the value of a record could cause.

    Code that reads private records runs inside this guard. There, floating-point
    arithmetic neither warns nor raises (`numerical_silence`), and warnings of every
    category are ignored, even if the caller has turned warnings into errors. Only a
    `ReleaseWarning` is treated as the caller wishes: it is computed from public
    parameters and released values alone.

    Python keeps one list of warning filters for all threads of a process. While a guard
    is open in one thread, other threads do not see warnings either; the last guard to
    close restores the list.
    """
    with numerical_silence(), _only_release_warnings():
        yield


@contextmanager
def _only_release_warnings() -> Iterator[None]:
    """Ignore all warnings except `ReleaseWarning`.

    Several threads may be inside at once. The first one to enter changes the process's
    warning filters, and the last one to leave restores them. `_guards` has an entry for
    each thread inside; only the first entry holds the caller's filters.
    """
    if sys.version_info >= (3, 14) and sys.flags.context_aware_warnings:
        # Each thread has filters of its own.
        with warnings.catch_warnings():
            _ignore_all_but_release_warnings()
            yield
        return

    with _lock:
        is_first_inside = not _guards
        guard = warnings.catch_warnings() if is_first_inside else None
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


# Protects `_guards` and the process's warning filters.
_lock = threading.Lock()

# An entry for each guard that is open now; only the first one holds saved filters.
_guards: list["warnings.catch_warnings[None] | None"] = []


def _ignore_all_but_release_warnings() -> None:
    """Replace the warning filters by filters that let only `ReleaseWarning` through.

    The caller's own filters are kept, but each is narrowed to `ReleaseWarning` and its
    subclasses, so that such warnings are shown, raised or hidden as before.
    """
    filters = list(warnings.filters)
    warnings.resetwarnings()
    for action, message, category, module, line in filters:
        categories = category if isinstance(category, tuple) else (category,)
        for filtered_category in categories:
            if issubclass(filtered_category, ReleaseWarning):
                narrowed_category = filtered_category
            elif issubclass(ReleaseWarning, filtered_category):
                narrowed_category = ReleaseWarning
            else:
                continue
            warnings.filterwarnings(
                action,  # type: ignore[arg-type]  # the caller's own, hence valid
                _pattern(message),
                narrowed_category,
                _pattern(module),
                line,
                append=True,
            )
    warnings.simplefilter("default", ReleaseWarning, append=True)
    warnings.simplefilter("ignore", append=True)


def _pattern(expression: "re.Pattern[str] | str | None") -> str:
    """Return the regular expression of a warning filter as text; "" matches everything.

    Python stores it compiled, as text, or as None.

    Parameters
    ----------
    expression : re.Pattern, str or None
        The part of a filter for the message or for the module.
    """
    if expression is None:
        return ""
    return expression if isinstance(expression, str) else expression.pattern
