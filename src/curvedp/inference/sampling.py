"""How far the statistic of n independent records is from that of their population (proofs: docs/inference.md).

All lengths are finite-sample, by McDiarmid's inequality (1989): what moves by at most c where one record is replaced exceeds
its expectation by more than c·√(n·log(1/miss)/2) with probability at most `miss`.
"""

from functools import singledispatch
from math import log, pi, sin, sqrt

from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold
from curvedp.inference.shapes import curvature_roots, hessian_bounds
from curvedp.mechanisms.median import GeometricMedian
from curvedp.mechanisms.regression import GeodesicLine
from curvedp.mechanisms.second_moment import SecondMoment
from curvedp.mechanisms.sensitivity import dispersion_sensitivity
from curvedp.mechanisms.statistic import FrechetMean, FrechetVariance, Statistic


@singledispatch
def sampling(statistic: Statistic, miss: float) -> float:
    """What the sample adds, but with probability `miss`: a distance, or for medians and geodesics the length of the mean
    direction at the population's."""
    raise ParameterError(
        f"of='population' is for statistics in a public ball, and medians; the {statistic.name} was found in another"
    )


@sampling.register
def _of_mean(statistic: FrechetMean, miss: float) -> float:
    """d(mean, b) <= |G|/λ, G = mean log_b xᵢ at the population's mean b: of expectation 0, E|G|² <= r²/n, c = 2rS/n, S the
    stretch of log_b. This is the form of Brunel & Serres 2024 with constants proved here."""
    convex, s = _convexity(statistic.manifold, statistic.radius)
    stretch = s / sin(s) if s > 0 else 1.0
    return statistic.radius * _length(statistic.n, miss, stretch) / convex


@sampling.register
def _of_variance(statistic: FrechetVariance, miss: float) -> float:
    """It is within c·√(n·log(2/miss)/2) of its expectation, c its sensitivity, which is at most E|G|²/λ below the
    population's variance: ½·mean d² is λ-convex and its gradient at b is −G."""
    M, r, n = statistic.manifold, statistic.radius, statistic.n
    convex, _ = _convexity(M, r)
    return dispersion_sensitivity(M, r, n) * sqrt(n * log(2 / miss) / 2) + r * r / (n * convex)


@sampling.register
def _of_second_moment(statistic: SecondMoment, miss: float) -> float:
    """Its length: E‖S − Σ‖² <= r⁴/n, c = √2·r²/n."""
    return statistic.radius**2 * _length(statistic.n, miss, sqrt(0.5))


@sampling.register
def _of_median(statistic: GeometricMedian, miss: float) -> float:
    """|G|, G the mean of directions at the population's median: each of length at most 1, of expectation 0."""
    M, diameter = statistic.manifold, 2 * statistic.outer_radius
    if not (diameter * curvature_roots(M)[1] < pi / 2 and diameter < M.injectivity_radius):
        raise ParameterError(
            f"outer_radius={statistic.outer_radius:.6g} is too wide for a region of the population on {M!r}: "
            "distances are not convex in it"
        )
    return _length(statistic.n, miss)


@sampling.register
def _of_line(statistic: GeodesicLine, miss: float) -> float:
    """|G|, G the mean of clipped directions at the population's pair: each at most the clip, of expectation 0."""
    return statistic.domain.clip * _length(statistic.n, miss)


def _length(n: int, miss: float, stretch: float = 1.0) -> float:
    """Of the mean of n vectors of lengths up to 1 and expectation 0, which a record moves by at most 2·stretch/n."""
    return (1 + stretch * sqrt(2 * log(1 / miss))) / sqrt(n)


def _convexity(M: Manifold, radius: float) -> tuple[float, float]:
    """(λ, s): the least eigenvalue of Hess ½d² at distances up to s/√κ, the ball's diameter."""
    convex, _ = hessian_bounds(M, 2 * radius)
    if not convex > 0 or not 2 * radius < M.injectivity_radius:
        raise ParameterError(
            f"radius={radius:.6g} is too wide for a region of the population on {M!r}: no theorem applies"
        )
    return convex, 2 * radius * curvature_roots(M)[1]
