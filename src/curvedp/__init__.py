"""Differential privacy on curved spaces: release a statistic of manifold data with a certificate anyone can check."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.checking import check
    from curvedp.errors import ReleaseWarning
    from curvedp.estimators import (
        PrivateDispersion,
        PrivateFrechetMean,
        PrivateFrechetMedian,
        PrivateGeodesicRegression,
        PrivateKMeans,
        PrivateMDM,
        PrivatePCA,
        PrivatePrototypes,
        PrivateRecenter,
        PrivateSoftmax,
        PrivateSynthesizer,
        PrivateTangentPCA,
        PrivateTangentSpace,
    )
    from curvedp.ledger import Ledger
    from curvedp.planning import plan
    from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RaoDP, RenyiDP
    from curvedp.privacy.composition import compose

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
    "PrivateKMeans",
    "PrivateMDM",
    "PrivatePCA",
    "PrivatePrototypes",
    "PrivateRecenter",
    "PrivateSoftmax",
    "PrivateSynthesizer",
    "PrivateTangentPCA",
    "PrivateTangentSpace",
    "PureDP",
    "RaoDP",
    "ReleaseWarning",
    "RenyiDP",
    "check",
    "compose",
    "plan",
]

_find, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.checking": ["check"],
        "curvedp.errors": ["ReleaseWarning"],
        "curvedp.estimators": [
            "PrivateDispersion",
            "PrivateFrechetMean",
            "PrivateFrechetMedian",
            "PrivateGeodesicRegression",
            "PrivateKMeans",
            "PrivateMDM",
            "PrivatePCA",
            "PrivatePrototypes",
            "PrivateRecenter",
            "PrivateSoftmax",
            "PrivateSynthesizer",
            "PrivateTangentPCA",
            "PrivateTangentSpace",
        ],
        "curvedp.ledger": ["Ledger"],
        "curvedp.planning": ["plan"],
        "curvedp.privacy": ["GDP", "ZCDP", "ApproxDP", "PureDP", "RaoDP", "RenyiDP"],
        "curvedp.privacy.composition": ["compose"],
    },
)


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that `import curvedp` and the command line start at once."""
    if name == "__version__":
        return import_module("importlib.metadata").version("curvedp")
    return _find(name)
