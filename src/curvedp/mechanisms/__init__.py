"""How statistics are released: samplers and their privacy profiles in one frozen value."""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.core.certificate import Certificate, Release
    from curvedp.core.mechanism import Mechanism
    from curvedp.core.statistic import Statistic
    from curvedp.mechanisms.isotropic.gaussian import GaussianMechanism
    from curvedp.mechanisms.isotropic.laplace import LaplaceMechanism
    from curvedp.mechanisms.isotropic.tangent import (
        LogGaussianMechanism,
        LogLaplaceMechanism,
    )
    from curvedp.mechanisms.knorm_gradient import KNGMechanism
    from curvedp.statistics.sensitivity import frechet_mean_sensitivity

__all__ = [
    "Certificate",
    "GaussianMechanism",
    "KNGMechanism",
    "LaplaceMechanism",
    "LogGaussianMechanism",
    "LogLaplaceMechanism",
    "Mechanism",
    "Release",
    "Statistic",
    "frechet_mean_sensitivity",
]

__getattr__, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.core.certificate": ["Certificate", "Release"],
        "curvedp.core.mechanism": ["Mechanism"],
        "curvedp.core.statistic": ["Statistic"],
        "curvedp.mechanisms.isotropic.gaussian": ["GaussianMechanism"],
        "curvedp.mechanisms.isotropic.laplace": ["LaplaceMechanism"],
        "curvedp.mechanisms.isotropic.tangent": [
            "LogGaussianMechanism",
            "LogLaplaceMechanism",
        ],
        "curvedp.mechanisms.knorm_gradient": ["KNGMechanism"],
        "curvedp.statistics.sensitivity": ["frechet_mean_sensitivity"],
    },
)
