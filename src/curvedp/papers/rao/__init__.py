"""*Rao differential privacy*: its laws, distances, corollaries and other definitions.

For a release at a Rao budget use `curvedp.privacy.RaoDP` with any estimator.
"""

from curvedp.papers.rao.concentrated import OffsetZCDP
from curvedp.papers.rao.discrete import (
    discrete_gaussian_rao,
    geometric_rao,
    randomized_response_rao,
)
from curvedp.papers.rao.generalized import GeneralizedGaussianMechanism
from curvedp.papers.rao.laws import (
    CoordinatewiseLaplace,
    GeneralizedGaussian,
    MultivariateGaussian,
    MultivariateLaplace,
    SphericalGeneralizedGaussian,
)
from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
from curvedp.papers.rao.mechanisms import (
    bernoulli_distance,
    exponential_distance,
    gaussian_distance,
    gaussian_hellinger,
    gaussian_theta,
    generalized_gaussian_hellinger,
    generalized_gaussian_theta,
    laplace_hellinger,
    laplace_theta,
    parametric_theta,
    poisson_distance,
    riemannian_gaussian_theta,
    riemannian_laplace_theta,
)
from curvedp.papers.rao.normals import RaoTest, normal_distance, rao_test

__all__ = [
    "KLDP",
    "CoordinatewiseLaplace",
    "GeneralizedGaussian",
    "GeneralizedGaussianMechanism",
    "MeanConcentratedDP",
    "MultivariateGaussian",
    "MultivariateLaplace",
    "OffsetZCDP",
    "RaoTest",
    "SphericalGeneralizedGaussian",
    "bernoulli_distance",
    "discrete_gaussian_rao",
    "exponential_distance",
    "gaussian_distance",
    "gaussian_hellinger",
    "gaussian_theta",
    "generalized_gaussian_hellinger",
    "generalized_gaussian_theta",
    "geometric_rao",
    "laplace_hellinger",
    "laplace_theta",
    "normal_distance",
    "parametric_theta",
    "poisson_distance",
    "randomized_response_rao",
    "rao_test",
    "riemannian_gaussian_theta",
    "riemannian_laplace_theta",
]
