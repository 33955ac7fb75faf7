"""Local privacy: each person perturbs their own record, and nobody holds the records.

`MetricLaplace` is for places, directions and rotations (geo-indistinguishability),
`PrivUnit` for one unit vector of many dimensions. Read `metric` first.
"""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.local.bounded import LocalGaussian, LocalLaplace
    from curvedp.local.certificate import LocalCertificate
    from curvedp.local.metric import MetricLaplace
    from curvedp.local.privunit import PrivUnit
    from curvedp.local.spaces import Earth
    from curvedp.local.verify import verify_local_certificate

__all__ = [
    "Earth",
    "LocalCertificate",
    "LocalGaussian",
    "LocalLaplace",
    "MetricLaplace",
    "PrivUnit",
    "verify_local_certificate",
]

__getattr__, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.local.bounded": ["LocalGaussian", "LocalLaplace"],
        "curvedp.local.certificate": ["LocalCertificate"],
        "curvedp.local.metric": ["MetricLaplace"],
        "curvedp.local.privunit": ["PrivUnit"],
        "curvedp.local.spaces": ["Earth"],
        "curvedp.local.verify": ["verify_local_certificate"],
    },
)
