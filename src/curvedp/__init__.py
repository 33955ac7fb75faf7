"""Differential privacy on curved spaces: release a statistic of manifold data with a certificate anybody can check."""

from importlib import import_module
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

    __version__: str

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

_HOME = {"Ledger": "ledger", "ReleaseWarning": "errors", "check": "checking", "plan": "planning"}


def __getattr__(name: str) -> Any:
    """Names are imported on first use, so that `import curvedp` and the command line start at once."""
    if name == "__version__":
        return import_module("importlib.metadata").version("curvedp")
    if name not in __all__:
        raise AttributeError(f"module 'curvedp' has no attribute {name!r}")
    home = _HOME.get(name, "estimators" if name.startswith("Private") else "privacy")
    return getattr(import_module(f"curvedp.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
