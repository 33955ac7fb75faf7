"""Confidence regions of a Fréchet mean in hyperbolic space, from a gradient and a Hessian
that were released together.

The last of several Newton steps releases the mean logarithm of the records at a public
point w, their mean square distance and their mean Hessian
(`curvedp.statistics.hyperbolic_moments`). The Hessian says how far a change of the mean
logarithm moves the mean: several times less than the bound 1 that holds for every
Hessian. The proofs are in docs/theory/inference.md, Theorems I11 and I12.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from curvedp.core.capabilities import NoisyDraw, NoisyMeanHessian
from curvedp.core.statistic import Statistic
from curvedp.geometry.comparison import curvature_roots, exp_stretch
from curvedp.geometry.manifold import Manifold
from curvedp.inference.shapes import (
    Shape,
    mean_square_bound,
    noise_quantiles,
    shape_after_gradient,
)

# The fractions of 1 − level that a region of the records spends on the event that the
# mean square, the mean Hessian excess, or the Hessian along one vector is farther from
# its released value than its bound. The values are choices; they cost little.
_MEAN_SQUARE_SHARE = 0.05
_EXCESS_SHARE = 0.05
_HESSIAN_SHARE = 0.1

# A region of the population spends this fraction on the mean square.
_POPULATION_MEAN_SQUARE_SHARE = 0.05

# The supremum of t(s)·(coth s − 1) over s > 0, for t(s) = s·coth(s) − 1, rounded up. It
# is attained near s = 0.74.
_LARGEST_DIFFERENCE = 0.105

# The distance of the mean from w is bounded by this many rounds of an iteration. Every
# round gives a valid bound, so their number matters only for the width.
_MAX_ROUNDS = 60

# The asymptotic region is used only if a bound on what it leaves out is at most this
# fraction of its radius. The bound takes all records' third derivatives to be alike;
# the actual remainder was 3 to 90 times smaller on real data.
_LARGEST_REMAINDER = 0.5

# Quantiles of the sum of noise and sampling error are those of this many draws from a
# public seed, with a margin for their standard error.
_SIMULATED_DRAWS = 40_000
_SIMULATION_MARGIN = 1.01
_SEED = 20240229


class SpectralHessian(NamedTuple):
    """The released mean Hessian in its eigenbasis.

    Attributes
    ----------
    eigenvalues : array, shape (dim,)
        The eigenvalues from the smallest one on.
    eigenvectors : array, shape (dim, dim)
        The eigenvectors, one in each column.
    """

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray

    def divide(self, vector: np.ndarray) -> np.ndarray:
        """Return H⁻¹v for a vector v of shape (dim,)."""
        components = self.eigenvectors.T @ vector
        return np.asarray(self.eigenvectors @ (components / self.eigenvalues))


def shape_of_records(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    level: float,
    sampling_error: float,
) -> Shape:
    """Return the confidence ball of the records' mean after a Newton step.

    Let g be the drawn mean logarithm at w and H the released mean Hessian there.

    Theorem (docs/theory/inference.md, Theorem I11). Let N be the noise of g, E that of
    H, and v the logarithm of the mean at w. Then H·v = g − N + E·v − R with

        |R| ≤ ½·√−κ·|v|²·(T + 0.105 + √−κ·|v|/3),

    where T is the mean Hessian excess. So v is near H⁻¹g, and the ball is about
    exp_w(H⁻¹g). If Theorem I2 gives a smaller ball from the same bounds on the noise,
    it is returned.

    Parameters
    ----------
    manifold : Manifold
        The hyperbolic space of the records.
    statistic : Statistic
        The mean; its `value_ball` is the ball of the records.
    draw : NoisyDraw
        The drawn mean logarithm, with the mean square and the mean Hessian.
    level : float
        The coverage of the ball.
    sampling_error : float
        A bound on the distance of the population's mean from that of the records; 0 for
        a region of the records' mean.

    Returns
    -------
    Shape
        The ball, in the canonical frame.
    """
    released = draw.mean_hessian
    assert released is not None  # the caller has checked it
    failure = 1 - level
    noise_share = 1 - _MEAN_SQUARE_SHARE - _EXCESS_SHARE - _HESSIAN_SHARE
    [noise_bound] = noise_quantiles(draw, [1 - noise_share * failure])
    mean_square = mean_square_bound(draw, _MEAN_SQUARE_SHARE * failure)
    shape_by_curvature = shape_after_gradient(
        manifold, statistic, draw, noise_bound, sampling_error, sqrt(mean_square)
    )

    hessian = _spectrum(released.matrix)
    smallest = float(hessian.eigenvalues[0])
    if smallest <= 0:
        return shape_by_curvature

    # Bounds on the mean excess T, and on |E·v|/|v|.
    excess_margin = -float(ndtri(_EXCESS_SHARE * failure)) * released.mean_excess_std
    mean_excess = max(0.0, released.mean_excess + excess_margin)
    hessian_error = _error_along_vector(released, _HESSIAN_SHARE * failure)

    # |v| is at most |G|, because the mean Hessian is at least 1 everywhere.
    step = hessian.divide(draw.value)
    step_length = float(np.linalg.norm(step))
    distance = float(np.linalg.norm(draw.value)) + noise_bound
    deviation = inf
    for _ in range(_MAX_ROUNDS):
        remainder = _remainder_bound(manifold, distance, mean_excess)
        error = noise_bound + hessian_error * distance + remainder
        deviation = min(deviation, error / smallest)
        distance = min(distance, step_length + deviation)

    stretch = exp_stretch(manifold, max(distance, step_length))
    radius = stretch * deviation + sampling_error
    if radius >= shape_by_curvature.radius:
        return shape_by_curvature
    assert draw.base is not None  # a gradient is taken somewhere
    theorem = "conservative: one Newton step by the released mean Hessian"
    return Shape(draw.base, radius, theorem, step=step)


def shape_of_population(
    manifold: Manifold, statistic: Statistic, draw: NoisyDraw, level: float, n: int
) -> Shape | None:
    """Return a ball for the population's mean, with asymptotic coverage.

    Theorem (docs/theory/inference.md, Theorem I12). Let b be the population's mean, v
    its logarithm at w, and S the mean of the records' logarithms at b, whose
    expectation is 0. With the symbols of Theorem I11, v − H⁻¹g is H⁻¹(E·v − N − S) but
    for a remainder of order 1/n. The radius is the largest quantile of the length of
    that vector, over covariances of S whose trace is the mean square divided by n − 1.

    Parameters
    ----------
    manifold : Manifold
        The hyperbolic space of the records.
    statistic : Statistic
        The mean; its `value_ball` is the ball of the records.
    draw : NoisyDraw
        The drawn mean logarithm, with the mean square and the mean Hessian.
    level : float
        The coverage of the ball.
    n : int
        The public number of records.

    Returns
    -------
    Shape or None
        The ball in the canonical frame; None if the remainder need not be small.
    """
    released = draw.mean_hessian
    ball = statistic.value_ball
    assert released is not None and ball is not None  # the caller has checked it
    failure = 1 - level
    mean_square = mean_square_bound(draw, _POPULATION_MEAN_SQUARE_SHARE * failure)
    sampling_variance = mean_square / (n - 1)
    main_level = 1 - (1 - _POPULATION_MEAN_SQUARE_SHARE) * failure

    # The mean Hessian is at least 1.
    hessian = _spectrum(released.matrix)
    hessian = hessian._replace(eigenvalues=np.maximum(hessian.eigenvalues, 1.0))
    step = hessian.divide(draw.value)
    step_length = float(np.linalg.norm(step))

    # The noise E·v of the Hessian grows with the distance |v| of the mean. The first
    # round takes |v| from the radius without it.
    noise_std = float(draw.law.scale)
    entry_variance = released.matrix_std**2 + released.mean_excess_std**2
    quantile = 0.0
    distance = 0.0
    for _ in range(2):
        total_std = sqrt(noise_std**2 + entry_variance * distance**2)
        quantile = _quantile_after_division(
            total_std, sampling_variance, hessian.eigenvalues, main_level
        )
        distance = step_length + quantile

    smallest = float(hessian.eigenvalues[0])
    remainder = _remainder_bound(manifold, distance, max(0.0, released.mean_excess))
    rounding = sqrt(draw.value.size) * draw.grid_width / 2 / smallest
    radius = exp_stretch(manifold, distance) * (quantile + rounding)
    if remainder / smallest > _LARGEST_REMAINDER * quantile or radius >= ball.radius:
        return None
    assert draw.base is not None  # a gradient is taken somewhere
    theorem = (
        "asymptotic, for many records (central limit theorem); the variance and the "
        "mean Hessian of the records were released with their mean"
    )
    return Shape(draw.base, radius, theorem, step=step)


def _spectrum(matrix: np.ndarray) -> SpectralHessian:
    """Return the eigenvalues and eigenvectors of a symmetric matrix."""
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    return SpectralHessian(eigenvalues, eigenvectors)


def _error_along_vector(
    released: NoisyMeanHessian, failure_probability: float
) -> float:
    """Bound |E·v|/|v| for the noise E of the mean Hessian and a fixed vector v.

    The component of E·v along v has at most the variance σ² + τ² per unit of |v|², where
    σ and τ are the deviations of the matrix and of the mean excess. The d − 1 other
    components have the variance σ²/2. The length is a √(σ² + τ²)-Lipschitz function of
    independent normal variables, so it exceeds its mean by z times that with at most
    the probability 1 − Φ(z) (Borell; Tsirelson, Ibragimov & Sudakov).

    Parameters
    ----------
    released : NoisyMeanHessian
        The released Hessian, with the deviations of its noise.
    failure_probability : float
        The probability with which the bound may fail.
    """
    dim = len(released.matrix)
    along = released.matrix_std**2 + released.mean_excess_std**2
    across = (dim - 1) * released.matrix_std**2 / 2
    return sqrt(along + across) - float(ndtri(failure_probability)) * sqrt(along)


def _remainder_bound(
    manifold: Manifold, distance: float, mean_excess: float
) -> float:
    """Bound what the Hessian at w says wrongly of the gradient at a distance from w.

    Lemma (docs/theory/inference.md, Theorem I11). For |v| = `distance` the gradient of
    ½·mean d² at exp_w(v), moved to w along the geodesic, differs from its linear
    approximation by at most ½·√−κ·|v|²·(T + 0.105 + √−κ·|v|/3).

    Parameters
    ----------
    manifold : Manifold
        The hyperbolic space.
    distance : float
        |v|.
    mean_excess : float
        T, the mean Hessian excess of the records at w, or a bound on it.
    """
    root = curvature_roots(manifold).negative
    third_derivative = mean_excess + _LARGEST_DIFFERENCE + root * distance / 3
    return 0.5 * root * distance**2 * third_derivative


def _quantile_after_division(
    noise_std: float, variance: float, eigenvalues: np.ndarray, level: float
) -> float:
    """Return a quantile of |H⁻¹(N + S)| for Gaussian noise N and a normal S.

    Only the trace of the covariance of S is known. The quantile is the largest one over
    covariances with k equal eigenvalues and no others, for several k, along the axes
    on which H is smallest. At the usual levels that is k = 1.

    Parameters
    ----------
    noise_std : float
        The standard deviation of N in each coordinate.
    variance : float
        The trace of the covariance of S.
    eigenvalues : array, shape (dim,)
        The eigenvalues of H, from the smallest one on.
    level : float
        The probability.

    Returns
    -------
    float
        The simulated quantile, from a public seed, with a margin for the simulation.
    """
    dim = len(eigenvalues)
    ranks = sorted({1, 2, 4, 16, dim} & set(range(1, dim + 1)))
    rng = np.random.default_rng(_SEED)
    squares = rng.standard_normal((_SIMULATED_DRAWS, dim)) ** 2
    quantiles = []
    for k in ranks:
        variances = np.full(dim, noise_std**2)
        variances[:k] += variance / k
        lengths = np.sqrt(squares @ (variances / eigenvalues**2))
        quantiles.append(float(np.quantile(lengths, level)))
    return _SIMULATION_MARGIN * max(quantiles)
