"""How a statistic is released: the sampler and its privacy map in one frozen value."""

from curvedp.mechanisms.base import Mechanism, Release
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.kng import KNGMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.log_gaussian import LogGaussianMechanism, LogLaplaceMechanism
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity

__all__ = [
    "Certificate",
    "GaussianMechanism",
    "KNGMechanism",
    "LaplaceMechanism",
    "LogGaussianMechanism",
    "LogLaplaceMechanism",
    "Mechanism",
    "NewtonMechanism",
    "Release",
    "frechet_mean_sensitivity",
]
