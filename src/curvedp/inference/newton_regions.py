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
from curvedp.statistics.hyperbolic_moments import hessian_excess

# The fractions of 1 − level that a conservative region spends on the event that the mean
# square, the Hessian along one vector, or the length of the mean logarithm is farther
# from its released value than its bound. The rest is for the step itself. The values
# are choices.
_MEAN_SQUARE_SHARE = 0.05
_HESSIAN_SHARE = 0.1
_LENGTH_SHARE = 0.2

# The asymptotic region spends these fractions on the mean square, and on caps of the
# variances in single directions. The values are choices; they cost little.
_ASYMPTOTIC_MEAN_SQUARE_SHARE = 0.02
_VARIANCE_CAP_SHARE = 0.02

# The distance of the mean from w is bounded by this many rounds of an iteration. Every
# round gives a valid bound, so their number matters only for the width.
_MAX_ROUNDS = 60

# The asymptotic region is used only if the remainder is at most this fraction of its
# radius, by a bound that holds for all records. On real data the remainder is 3 to 70
# times smaller than the bound. On records that attain the bound, regions still covered
# more often than they say (docs/evidence/coverage.md).
_LARGEST_REMAINDER = 0.75

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


class ErrorBounds(NamedTuple):
    """Bounds on the errors of a released gradient and Hessian, which hold together.

    The error of the gradient is its noise N, or N + S with the sampling error S of the
    records.

    Attributes
    ----------
    length : float
        A bound on the length of the error of the gradient.
    after_division : float
        A bound on the length of that error after its division by the released Hessian.
    hessian : float
        A bound on |E·v|/|v|, for the noise E of the Hessian and the logarithm v of the
        mean.
    spread : float
        A bound on the root mean square distance of the records from the base point.
    """

    length: float
    after_division: float
    hessian: float
    spread: float


def shape_of_records(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    level: float,
    sampling_error: float,
) -> Shape:
    """Return the confidence ball of the records' mean after a Newton step.

    It is the ball of Theorem I11 (`_conservative_shape`), with bounds on the noise that
    hold together with the probability `level`.

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
    [length] = noise_quantiles(draw, [1 - _LENGTH_SHARE * (1 - level)])
    bounds = _error_bounds(draw, level, length, 0.0)
    return _conservative_shape(manifold, statistic, draw, bounds, sampling_error)


def shape_of_population(
    manifold: Manifold, statistic: Statistic, draw: NoisyDraw, level: float, n: int
) -> Shape:
    """Return a ball for the population's mean, with asymptotic coverage.

    Theorem (docs/theory/inference.md, Theorem I12). Let b be the population's mean, v
    its logarithm at w, and S the mean of the records' logarithms at b, whose
    expectation is 0. With the symbols of Theorem I11, v − H⁻¹g = H⁻¹(E·v − N − S − R).
    The radius is the largest quantile of the length of H⁻¹(E·v − N − S), over
    covariances of S whose trace is m²/(n − 1) and whose eigenvalues are no larger than
    the released Hessian allows, plus a bound on the mean of H⁻¹R, to the order 1/n.

    If R need not be small, the ball is that of Theorem I11, with N + S for N.

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
    Shape
        The ball, in the canonical frame.
    """
    shape = _asymptotic_shape(manifold, statistic, draw, level, n)
    if shape is not None:
        return shape
    failure = 1 - level
    variance = mean_square_bound(draw, _MEAN_SQUARE_SHARE * failure) / (n - 1)
    no_division = np.ones(draw.value.size)
    length = _largest_quantile(
        float(draw.law.scale),
        variance,
        np.full(draw.value.size, variance),
        no_division,
        1 - _LENGTH_SHARE * failure,
    )
    bounds = _error_bounds(draw, level, length + _rounding(draw), variance)
    shape = _conservative_shape(manifold, statistic, draw, bounds, 0.0)
    if shape.is_as_wide_as_ball:
        return shape
    theorem = "asymptotic, for many records (central limit theorem); "
    return shape._replace(theorem=theorem + shape.theorem)


def _error_bounds(
    draw: NoisyDraw, level: float, length: float, variance: float
) -> ErrorBounds:
    """Return the bounds on the errors of a draw that `_conservative_shape` needs.

    The bound on the length of the error is given, and the others are computed.

    Parameters
    ----------
    draw : NoisyDraw
        The drawn mean logarithm, with the mean square and the mean Hessian.
    level : float
        The probability with which all bounds hold.
    length : float
        A bound on the length of the error of the mean logarithm, which fails with a
        fifth of the probability 1 − level.
    variance : float
        The trace of the covariance of the sampling error; 0 for the noise alone.

    Returns
    -------
    ErrorBounds
        The bounds. That on the error after division is infinite if the released Hessian
        has an eigenvalue that is not positive.
    """
    released = draw.mean_hessian
    assert released is not None  # the caller has checked it
    failure = 1 - level
    step_share = 1 - _MEAN_SQUARE_SHARE - _HESSIAN_SHARE - _LENGTH_SHARE
    eigenvalues = _spectrum(released.matrix).eigenvalues
    after_division = inf
    if eigenvalues[0] > 0:
        after_division = _largest_quantile(
            float(draw.law.scale),
            variance,
            np.full(len(eigenvalues), variance),
            eigenvalues,
            1 - step_share * failure,
        )
        after_division += _rounding(draw) / float(eigenvalues[0])
    return ErrorBounds(
        length=length,
        after_division=after_division,
        hessian=_error_along_vector(released, _HESSIAN_SHARE * failure),
        spread=sqrt(mean_square_bound(draw, _MEAN_SQUARE_SHARE * failure)),
    )


def _conservative_shape(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    bounds: ErrorBounds,
    sampling_error: float,
) -> Shape:
    """Return the ball in which a mean lies if bounds on the errors of a draw hold.

    Let g be the drawn mean logarithm at w and H the released mean Hessian there.

    Theorem (docs/theory/inference.md, Theorem I11). Let N be the noise of g, E that of
    H, and v the logarithm of the mean at w. Then H·v = g − N + E·v − R with

        |R| ≤ ¼·k²·|v|²·(m + ⅔·(1 + k·m)·|v|),

    where m² is the mean square distance of the records from w, and −k² the curvature.
    So v is near H⁻¹g, and the ball is about exp_w(H⁻¹g). If Theorem I2 gives a smaller
    ball from the same bounds, it is returned.

    Parameters
    ----------
    manifold : Manifold
        The hyperbolic space of the records.
    statistic : Statistic
        The mean; its `value_ball` is the ball of the records.
    draw : NoisyDraw
        The drawn mean logarithm, with the mean Hessian.
    bounds : ErrorBounds
        Bounds on the errors of both.
    sampling_error : float
        A further distance of the mean from that of the records, or 0.

    Returns
    -------
    Shape
        The ball, in the canonical frame.
    """
    shape_by_curvature = shape_after_gradient(
        manifold, statistic, draw, bounds.length, sampling_error, bounds.spread
    )
    if bounds.after_division == inf:
        return shape_by_curvature
    assert draw.mean_hessian is not None  # the caller has checked it
    hessian = _spectrum(draw.mean_hessian.matrix)
    smallest = float(hessian.eigenvalues[0])

    # |v| is at most |G|, because the mean Hessian is at least 1 everywhere.
    step = hessian.divide(draw.value)
    step_length = float(np.linalg.norm(step))
    distance = float(np.linalg.norm(draw.value)) + bounds.length
    deviation = inf
    for _ in range(_MAX_ROUNDS):
        remainder = _remainder_bound(manifold, distance, bounds.spread)
        error = bounds.hessian * distance + remainder
        deviation = min(deviation, bounds.after_division + error / smallest)
        distance = min(distance, step_length + deviation)

    stretch = exp_stretch(manifold, max(distance, step_length))
    radius = stretch * deviation + sampling_error
    if radius >= shape_by_curvature.radius:
        return shape_by_curvature
    assert draw.base is not None  # a gradient is taken somewhere
    theorem = "conservative: one Newton step by the released mean Hessian"
    return Shape(draw.base, radius, theorem, step=step)


def _asymptotic_shape(
    manifold: Manifold, statistic: Statistic, draw: NoisyDraw, level: float, n: int
) -> Shape | None:
    """Return the ball of Theorem I12, or None if its remainder need not be small.

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
        The ball, in the canonical frame.
    """
    released = draw.mean_hessian
    ball = statistic.value_ball
    assert released is not None  # the caller has checked it
    assert ball is not None  # a gradient is of records in a ball
    failure = 1 - level
    mean_square = mean_square_bound(draw, _ASYMPTOTIC_MEAN_SQUARE_SHARE * failure)
    variance = mean_square / (n - 1)
    caps = _variance_caps(manifold, draw, _VARIANCE_CAP_SHARE * failure) / (n - 1)
    used_share = _ASYMPTOTIC_MEAN_SQUARE_SHARE + _VARIANCE_CAP_SHARE
    main_level = 1 - (1 - used_share) * failure

    # The mean Hessian is at least 1.
    hessian = _spectrum(released.matrix)
    hessian = hessian._replace(eigenvalues=np.maximum(hessian.eigenvalues, 1.0))
    smallest = float(hessian.eigenvalues[0])
    step = hessian.divide(draw.value)
    step_length = float(np.linalg.norm(step))

    # The noise E·v of the Hessian grows with the distance |v| of the mean. The first
    # round takes |v| from the radius without it.
    entry_variance = released.matrix_std**2 + released.mean_excess_std**2
    noise_std = 0.0
    quantile = 0.0
    distance = 0.0
    for _ in range(2):
        noise_std = sqrt(draw.law.scale**2 + entry_variance * distance**2)
        quantile = _largest_quantile(
            noise_std, variance, caps, hessian.eigenvalues, main_level
        )
        distance = step_length + quantile

    # A remainder of the typical size is added, and the largest one must not be large.
    spread = sqrt(mean_square)
    variances = noise_std**2 + _largest_variances(variance, caps, 1)
    error_square = float(np.sum(variances / hessian.eigenvalues**2))
    typical_distance = sqrt(step_length**2 + error_square)
    typical_remainder = _leading_remainder(manifold, typical_distance, spread)
    largest_remainder = _leading_remainder(manifold, distance, spread)
    deviation = quantile + (typical_remainder + _rounding(draw)) / smallest
    radius = exp_stretch(manifold, step_length + deviation) * deviation
    is_small = largest_remainder / smallest <= _LARGEST_REMAINDER * quantile
    if not is_small or radius >= ball.radius:
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


def _rounding(draw: NoisyDraw) -> float:
    """Return the largest length of the rounding error of a draw: half a cell per entry."""
    return sqrt(draw.value.size) * draw.grid_width / 2


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


def _leading_remainder(manifold: Manifold, distance: float, spread: float) -> float:
    """Bound the second-order term of the gradient near the mean: ¼·k²·|v|²·m.

    Lemma (docs/theory/inference.md, "The third derivative"). In the space of curvature
    −k² the third derivative of f = ½·mean d² satisfies |∇³f(e, e, ·)| ≤ ½·k²·(|∇f| +
    mean d) for unit vectors e. At the mean ∇f = 0, and mean d ≤ m.

    Parameters
    ----------
    manifold : Manifold
        The hyperbolic space.
    distance : float
        |v|, the distance from the mean.
    spread : float
        m, the root mean square distance of the records, or a bound on it.
    """
    k = curvature_roots(manifold).negative
    return 0.25 * k**2 * distance**2 * spread


def _remainder_bound(manifold: Manifold, distance: float, spread: float) -> float:
    """Bound the error of a linear approximation of the gradient: |R| of Theorem I11.

    Let v be the logarithm of the mean at a point w. The gradient of ½·mean d² at the
    mean, which is 0, differs from its linear approximation at w by at most ¼·k²·|v|²·(m
    + ⅔·(1 + k·m)·|v|).

    Parameters
    ----------
    manifold : Manifold
        The hyperbolic space of curvature −k².
    distance : float
        |v|, or a bound on it.
    spread : float
        m, the root mean square distance of the records from w, or a bound on it.
    """
    k = curvature_roots(manifold).negative
    gradient_on_the_way = 2 / 3 * (1 + k * spread) * distance
    return 0.25 * k**2 * distance**2 * (spread + gradient_on_the_way)


def _variance_caps(
    manifold: Manifold, draw: NoisyDraw, failure_probability: float
) -> np.ndarray:
    """Bound the eigenvalues of the second moment of the records' logarithms.

    Let s be the distance of a record from w in radii of curvature, u its direction, t =
    s·coth(s) − 1, and s ≤ ρ. Then s² ≤ t·ρ²/t(ρ), because t is concave in s². So the
    second moment, the mean of s²·uuᵀ, is at most ρ²/t(ρ) times A, the mean of t·uuᵀ. The
    eigenvalues of A are at most those of the released matrix plus σ(√(2d) + z), but for
    the probability 1 − Φ(z) (Davidson & Szarek 2001).

    Parameters
    ----------
    manifold : Manifold
        The hyperbolic space.
    draw : NoisyDraw
        The drawn mean logarithm, with the mean Hessian.
    failure_probability : float
        The probability with which a bound may fail.

    Returns
    -------
    array, shape (dim,)
        The bounds, the largest one first.
    """
    released = draw.mean_hessian
    assert released is not None  # the caller has checked it
    dim = len(released.matrix)
    z = -float(ndtri(failure_probability / 2))
    noise = released.matrix_std * (sqrt(2 * dim) + z) + z * released.mean_excess_std
    eigenvalues_of_hessian = np.linalg.eigvalsh(released.matrix)
    excess_eigenvalues = 1 + released.mean_excess - eigenvalues_of_hessian + noise
    longest = curvature_roots(manifold).negative * draw.max_length
    ratio = draw.max_length**2 / float(hessian_excess(longest))
    return np.asarray(ratio * np.maximum(excess_eigenvalues, 0.0))


def _largest_variances(total: float, caps: np.ndarray, n_axes: int) -> np.ndarray:
    """Divide a total variance evenly among the first `n_axes` axes, up to their caps.

    What the caps leave over goes to the next axes, the nearest first.

    Parameters
    ----------
    total : float
        The trace of a covariance.
    caps : array, shape (dim,)
        The largest variance along each axis, in falling order.
    n_axes : int
        Among how many axes the total is divided evenly. What does not fit below their
        caps goes to the next axes.

    Returns
    -------
    array, shape (dim,)
        The variances. Their sum is less than the total if the caps are.
    """
    variances = np.zeros(len(caps))
    left = total
    for axis, cap in enumerate(caps.tolist()):
        share = left / max(n_axes - axis, 1)
        variances[axis] = min(share, cap)
        left -= variances[axis]
    return variances


def _largest_quantile(
    noise_std: float,
    variance: float,
    variance_caps: np.ndarray,
    eigenvalues: np.ndarray,
    level: float,
) -> float:
    """Return a quantile of |H⁻¹(N + S)| for Gaussian noise N and a normal S.

    Of the covariance of S only the trace and bounds of its eigenvalues are known. The
    quantile is the largest one over covariances that divide the trace evenly among k
    axes, as far as the bounds allow, for several k. They are the axes on which H is
    smallest. At the usual levels k = 1 gives the largest quantile.

    Parameters
    ----------
    noise_std : float
        The standard deviation of N in each coordinate.
    variance : float
        The trace of the covariance of S.
    variance_caps : array, shape (dim,)
        Bounds of its eigenvalues, the largest one first.
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
        variances = noise_std**2 + _largest_variances(variance, variance_caps, k)
        lengths = np.sqrt(squares @ (variances / eigenvalues**2))
        quantiles.append(float(np.quantile(lengths, level)))
    return _SIMULATION_MARGIN * max(quantiles)
