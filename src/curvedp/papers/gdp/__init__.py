"""*Gaussian differential privacy on Riemannian manifolds* (Jiang et al. 2023): the
circle's δ(ε) and Algorithms 1 and 2, as printed and corrected, and draws of the
Riemannian Gaussian by Markov chains, which are NOT PRIVATE.

For a release use `curvedp.mechanisms.GaussianMechanism`, and for μ
`RiemannianGaussian(M, σ).profile(Δ)`.
"""

from curvedp.papers.gdp.algorithms import (
    Algorithm2Estimate,
    algorithm1_estimate,
    algorithm2_estimate,
    loss_sampler,
)
from curvedp.papers.gdp.circle import (
    circle_gaussian_delta,
    circle_gaussian_delta_printed,
)
from curvedp.papers.gdp.metropolis import metropolis_gaussian

__all__ = [
    "Algorithm2Estimate",
    "algorithm1_estimate",
    "algorithm2_estimate",
    "circle_gaussian_delta",
    "circle_gaussian_delta_printed",
    "loss_sampler",
    "metropolis_gaussian",
]
