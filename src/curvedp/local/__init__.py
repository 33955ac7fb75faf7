"""Local privacy: each person perturbs their own record, and nobody holds the records.
`MetricLaplace` is for places, directions and rotations (geo-indistinguishability),
`PrivUnit` for one unit vector of many dimensions. Read `metric` first.
"""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.local.bounded import LocalGaussian, LocalLaplace
    from curvedp.local.certificate import LocalCertificate
    from curvedp.local.device import DeviceLedger, EarthCells, TraceCost
    from curvedp.local.estimates import MeanEstimate
    from curvedp.local.metric import MetricLaplace
    from curvedp.local.plan import TrustComparison, TrustRow, compare_trust
    from curvedp.local.privunit import PrivUnit
    from curvedp.local.reports import (
        DensityEstimate,
        HistogramEstimate,
        PublicCells,
        estimate_density,
        estimate_histogram,
        estimate_mean,
    )
    from curvedp.local.spaces import Earth
    from curvedp.local.verify import verify_local_certificate

__all__ = [
    "DensityEstimate",
    "DeviceLedger",
    "Earth",
    "EarthCells",
    "HistogramEstimate",
    "LocalCertificate",
    "LocalGaussian",
    "LocalLaplace",
    "MeanEstimate",
    "MetricLaplace",
    "PrivUnit",
    "PublicCells",
    "TraceCost",
    "TrustComparison",
    "TrustRow",
    "compare_trust",
    "estimate_density",
    "estimate_histogram",
    "estimate_mean",
    "verify_local_certificate",
]

__getattr__, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.local.bounded": ["LocalGaussian", "LocalLaplace"],
        "curvedp.local.certificate": ["LocalCertificate"],
        "curvedp.local.device": ["DeviceLedger", "EarthCells", "TraceCost"],
        "curvedp.local.estimates": ["MeanEstimate"],
        "curvedp.local.metric": ["MetricLaplace"],
        "curvedp.local.plan": ["TrustComparison", "TrustRow", "compare_trust"],
        "curvedp.local.privunit": ["PrivUnit"],
        "curvedp.local.reports": [
            "DensityEstimate",
            "HistogramEstimate",
            "PublicCells",
            "estimate_density",
            "estimate_histogram",
            "estimate_mean",
        ],
        "curvedp.local.spaces": ["Earth"],
        "curvedp.local.verify": ["verify_local_certificate"],
    },
)
