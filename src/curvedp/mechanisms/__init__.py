"""How a statistic is released: the sampler and its privacy map in one frozen value."""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.mechanisms.base import Mechanism
    from curvedp.mechanisms.certificate import Certificate, Release
    from curvedp.mechanisms.gaussian import GaussianMechanism
    from curvedp.mechanisms.kng import KNGMechanism
    from curvedp.mechanisms.laplace import LaplaceMechanism
    from curvedp.mechanisms.log_gaussian import (
        LogGaussianMechanism,
        LogLaplaceMechanism,
    )
    from curvedp.mechanisms.selection import private_selection
    from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity
    from curvedp.mechanisms.statistic import Statistic

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
    "private_selection",
]

__getattr__, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.mechanisms.base": ["Mechanism"],
        "curvedp.mechanisms.certificate": ["Certificate", "Release"],
        "curvedp.mechanisms.gaussian": ["GaussianMechanism"],
        "curvedp.mechanisms.kng": ["KNGMechanism"],
        "curvedp.mechanisms.laplace": ["LaplaceMechanism"],
        "curvedp.mechanisms.log_gaussian": [
            "LogGaussianMechanism",
            "LogLaplaceMechanism",
        ],
        "curvedp.mechanisms.selection": ["private_selection"],
        "curvedp.mechanisms.sensitivity": ["frechet_mean_sensitivity"],
        "curvedp.mechanisms.statistic": ["Statistic"],
    },
)
