"""Differential privacy on curved spaces: release a statistic of manifold data with a certificate anybody can check."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curvedp.checking import check
    from curvedp.errors import ReleaseWarning
    from curvedp.estimators import (
        PrivateDispersion,
        PrivateFrechetMean,
        PrivateFrechetMedian,
        PrivateGeodesicRegression,
        PrivateMDM,
        PrivatePCA,
        PrivateSoftmax,
        PrivateTangentSpace,
    )
    from curvedp.ledger import Ledger
    from curvedp.planning import plan
    from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RaoDP, RenyiDP
    from curvedp.privacy.compose import compose

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Ledger",
    "PrivateDispersion",
    "PrivateFrechetMean",
    "PrivateFrechetMedian",
    "PrivateGeodesicRegression",
    "PrivateMDM",
    "PrivatePCA",
    "PrivateSoftmax",
    "PrivateTangentSpace",
    "PureDP",
    "RaoDP",
    "ReleaseWarning",
    "RenyiDP",
    "check",
    "compose",
    "plan",
]
__version__ = version("curvedp")

_HOME = {
    **dict.fromkeys(("GDP", "ZCDP", "ApproxDP", "PureDP", "RaoDP", "RenyiDP", "compose"), "curvedp.privacy"),
    **dict.fromkeys(
        (
            "PrivateDispersion",
            "PrivateFrechetMean",
            "PrivateFrechetMedian",
            "PrivateGeodesicRegression",
            "PrivateMDM",
            "PrivatePCA",
            "PrivateSoftmax",
            "PrivateTangentSpace",
        ),
        "curvedp.estimators",
    ),
    "Ledger": "curvedp.ledger",
    "ReleaseWarning": "curvedp.errors",
    "check": "curvedp.checking",
    "plan": "curvedp.planning",
}


def __getattr__(name: str) -> Any:
    """Names are imported on first use, so that `import curvedp` and the command line start at once."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'curvedp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
