"""Every exception that curvedp raises on purpose. Each names the value, shows it, and says what to do."""

__all__ = [
    "BudgetExceeded",
    "CurvedpError",
    "EnvelopeViolation",
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


class ParameterError(CurvedpError, ValueError):
    """A public parameter (a radius, a scale, a shape) is not usable. Never raised because of the data's values."""


class NotIntegrable(ParameterError):
    """The noise law asked for does not exist: its density has infinite mass."""


class NotResolved(CurvedpError, ArithmeticError):
    """A number could not be computed as accurately as is promised, and nothing weaker is returned in its place."""


class UnattainableGuarantee(CurvedpError, ValueError):
    """No scale of this mechanism meets the guarantee asked for; the message gives the floor and the alternative."""


class EnvelopeViolation(CurvedpError, RuntimeError):
    """A rejection sampler's envelope lay below its target: the sample would not follow the stated law."""


class FederationRefused(CurvedpError, RuntimeError):
    """Too few sites, or sites that do not agree: a federated run has stopped, and nothing was released.

    Attributes
    ----------
    code : str
        What a site tells the server of its refusal (`curvedp.federated.masking.REFUSALS`); the
        message stays at the site.
    """

    def __init__(self, message: str, code: str = "protocol") -> None:
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


class ReleaseWarning(UserWarning):
    """What the user of a release should know, told from public numbers and released values alone.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", ReleaseWarning)  # nothing doubtful is published by a script that nobody watches
    >>> warnings.resetwarnings()
    """
