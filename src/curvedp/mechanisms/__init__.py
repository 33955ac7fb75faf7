"""How a statistic is released: the sampler and its privacy map in one frozen value."""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.mechanisms.base import Mechanism
    from curvedp.mechanisms.bundle_descent import BundleDescentMechanism
    from curvedp.mechanisms.certificate import Certificate, Release
    from curvedp.mechanisms.descent import DescentMechanism
    from curvedp.mechanisms.gaussian import GaussianMechanism
    from curvedp.mechanisms.gradient import GradientMechanism
    from curvedp.mechanisms.heat import HeatKernelMechanism
    from curvedp.mechanisms.kng import KNGMechanism
    from curvedp.mechanisms.laplace import LaplaceMechanism
    from curvedp.mechanisms.log_gaussian import LogGaussianMechanism, LogLaplaceMechanism
    from curvedp.mechanisms.median import MedianMechanism
    from curvedp.mechanisms.newton import NewtonMechanism
    from curvedp.mechanisms.private_ball import PrivateBallMechanism
    from curvedp.mechanisms.reduction import ReducedMeans, ReducedSoftmax
    from curvedp.mechanisms.regression import KNGRegressionMechanism
    from curvedp.mechanisms.selection import private_selection
    from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity
    from curvedp.mechanisms.statistic import Statistic
    from curvedp.mechanisms.sums import SumMechanism

__all__ = [
    "BundleDescentMechanism",
    "Certificate",
    "DescentMechanism",
    "GaussianMechanism",
    "GradientMechanism",
    "HeatKernelMechanism",
    "KNGMechanism",
    "KNGRegressionMechanism",
    "LaplaceMechanism",
    "LogGaussianMechanism",
    "LogLaplaceMechanism",
    "Mechanism",
    "MedianMechanism",
    "NewtonMechanism",
    "PrivateBallMechanism",
    "ReducedMeans",
    "ReducedSoftmax",
    "Release",
    "Statistic",
    "SumMechanism",
    "frechet_mean_sensitivity",
    "private_selection",
]

__getattr__, __dir__ = _lazy.exports(__name__)
