"""Every exception that curvedp raises on purpose. Each says what is wrong and what to do.
A `ParameterError` keeps the parameter, its value and the rule apart, so that Python,
the command line and the studio can each name the parameter as their users know it.
"""

import reprlib
import shlex
from collections.abc import Mapping
from typing import Any

__all__ = [
    "BudgetExceeded",
    "CurvedpError",
    "EnvelopeViolation",
    "ExperimentalWarning",
    "FederationRefused",
    "LedgerCorrupted",
    "MissingExtra",
    "NotIntegrable",
    "NotResolved",
    "ParameterError",
    "ReleaseWarning",
    "UnattainableGuarantee",
    "VerificationFailed",
]


class CurvedpError(Exception):
    """Base of all errors below, so that one `except` catches what curvedp refuses."""


class _NoValue:
    """Stands for a value that a message does not show."""

    def __repr__(self) -> str:
        return "NO_VALUE"

    def __reduce__(self) -> str:
        return "NO_VALUE"  # It stays the same object when it is pickled or copied.


NO_VALUE = _NoValue()


class ParameterError(CurvedpError, ValueError):
    """A public parameter (a radius, a scale, a shape) is not usable.

    It is never raised because of the data's values.

    Parameters
    ----------
    rule : str
        What the parameter must be, as the rest of a sentence about it: "must be > 0".
        The whole message where no parameter is named.
    parameter : str, optional
        The parameter's name in Python.
    value : object, optional
        The value that was refused. Without it the message shows the name alone.

    Examples
    --------
    >>> error = ParameterError("must be > 0", parameter="outer_radius", value=-1.0)
    >>> str(error)
    'outer_radius=-1.0 must be > 0'
    >>> error.render({"outer_radius": "--outer-radius"})
    '--outer-radius -1.0 must be > 0'
    """

    def __init__(
        self, rule: str = "", *, parameter: str | None = None, value: object = NO_VALUE
    ) -> None:
        """Keep the rule, the parameter and the value apart, so that each can be rendered.

        Parameters
        ----------
        rule : str
            What the parameter must be, as the rest of a sentence about it.
        parameter : str, optional
            The parameter's name in Python.
        value : object, optional
            The value that was refused.
        """
        super().__init__(rule)
        self.rule = rule
        self.parameter = parameter
        self.value = value

    def __str__(self) -> str:
        """Return the message in the terms of Python."""
        return self.render({})

    def render(self, names: Mapping[str, str]) -> str:
        """Return the message, with the parameter named as the user knows it.

        Parameters
        ----------
        names : mapping
            What the user typed or clicked for each of Python's parameters, such as
            {"n": "--records"}. Parameters that are not in it are named as in Python.

        Returns
        -------
        str
            Such as "--radius -1.0 must be finite and > 0".
        """
        if self.parameter is None:
            return self.rule
        name = names.get(self.parameter)
        if self.value is NO_VALUE:
            subject = name or self.parameter
        elif name is None:
            subject = f"{self.parameter}={shown(self.value)}"
        elif isinstance(self.value, str) and len(self.value) < 60:
            subject = f"{name} {shlex.quote(self.value)}"
        else:
            subject = f"{name} {shown(self.value)}"
        separator = "" if self.rule.startswith((":", ",")) else " "
        return f"{subject}{separator}{self.rule}"


def shown(value: Any) -> str:
    """Return a short text for a value in an error message, but never quote records.

    It is Python's `repr`, shortened if it is long. An array or a long list may contain
    private records, so only its type is shown.

    Parameters
    ----------
    value : object
        What the caller passed.
    """
    if _may_be_records(value):
        return f"<{type(value).__name__}>"
    try:
        return reprlib.repr(value)
    except ValueError:  # A whole number of more than 4300 digits has no repr.
        return f"<{type(value).__name__}>"


def _may_be_records(value: Any) -> bool:
    """Return whether a value may be private records: a long list, or any array.

    A list is long if it has more than 4 entries, unless they are texts. Arrays of any
    library are recognized by their attribute `ndim`, so that no library needs to be
    imported.

    Parameters
    ----------
    value : object
        What the caller passed.
    """
    if isinstance(value, list | tuple):
        return len(value) > 4 and not isinstance(value[0], str)
    return hasattr(value, "ndim") and value.ndim > 0


class NotIntegrable(ParameterError):
    """The requested noise distribution does not exist: its density has infinite mass."""


class NotResolved(CurvedpError, ArithmeticError):
    """A number could not be computed as accurately as is promised, and nothing weaker is returned in its place."""


class UnattainableGuarantee(CurvedpError, ValueError):
    """No scale of this mechanism meets the requested guarantee; the message gives the floor and the alternative."""


class EnvelopeViolation(CurvedpError, RuntimeError):
    """A rejection sampler's envelope lay below its target: the sample would not follow the stated law."""


class FederationRefused(CurvedpError, RuntimeError):
    """Too few sites, or sites that do not agree: a federated run has stopped, and nothing was released.

    Attributes
    ----------
    code : str
        What a site tells the server of its refusal
        (`curvedp.federated.masking.REFUSALS`); the message stays at the site.
    """

    def __init__(self, message: str, code: str = "protocol") -> None:
        """Keep the code beside the message.

        Parameters
        ----------
        message : str
            Why the site or the server refuses; it stays where it was raised.
        code : str
            What a site tells the server of it.
        """
        super().__init__(message)
        self.code = code


class BudgetExceeded(CurvedpError):
    """Spending this would pass the ledger's budget. Nothing was spent."""


class LedgerCorrupted(CurvedpError):
    """The ledger's hash chain does not hold, so what has been spent is unknown. Nothing can be spent."""


class MissingExtra(CurvedpError, ImportError):
    """A part of curvedp needs a package that is not installed; the message names the extra that brings it."""


class VerificationFailed(CurvedpError):
    """A certificate claims something that could not be recomputed."""


class ExperimentalWarning(FutureWarning):
    """A part of curvedp is experimental: it has not been reviewed as the others have.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", ExperimentalWarning)  # the risk is known
    >>> warnings.resetwarnings()
    """


class ReleaseWarning(UserWarning):
    """A warning about a release, derived from public parameters and released values alone.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", ReleaseWarning)  # nothing doubtful is published by a script that nobody watches
    >>> warnings.resetwarnings()
    """
