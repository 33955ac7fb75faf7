"""Asymptotic confidence regions for the Fréchet mean of a population.
Used for releases that no finite-sample theorem covers: means in a ball that was found
privately, and means in wide balls. The mean logarithm of n independent records is
nearly normal (central limit theorem). Its covariance has a trace of at most V/n, where
V is the mean squared distance of the records, released with the mean or bounded by the
ball. The proofs are in docs/theory/inference.md, "Regions of the population".
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from curvedp.core.capabilities import NoisyDraw
from curvedp.core.chart import chart_stretch
from curvedp.core.statistic import Ball, Statistic
from curvedp.errors import ParameterError
from curvedp.geometry.comparison import exp_stretch, hessian_bounds
from curvedp.geometry.manifold import Manifold
from curvedp.inference.newton_regions import shape_of_population
from curvedp.inference.shapes import (
    SHAPES,
    Shape,
    mean_square_bound,
    noise_quantiles,
    shape_after_gradient,
    step_after_gradient,
    whole_ball,
)
from curvedp.laws import RiemannianGaussian

# The fractions of 1 − level that are spent on the mean square, and on bounds of the
# length of the mean logarithm from below and from above. The values are choices; they
# cost little.
_MEAN_SQUARE_SHARE = 0.05
_LENGTH_SHARE = 0.05
_LONGEST_SHARE = 0.05

# The radius of a region is found by at most this many rounds of a fixed-point
# iteration; each adds this relative excess.
_MAX_ROUNDS = 50
_FIXED_POINT_EXCESS = 1e-4

# Quantiles of noise and sampling error together are computed from this many simulated
# draws with a public seed. Their standard error is below half a percent, which the
# margin covers.
_SIMULATED_DRAWS = 40_000
_SIMULATION_MARGIN = 1.01
_SEED = 20240229


class Variability(NamedTuple):
    """Bounds on the variance of the records' logarithms.

    Attributes
    ----------
    variance : float
        A bound on the trace of their covariance.
    root_mean_square : float
        A bound on their root mean square length; inf where it was not released.
    """

    variance: float
    root_mean_square: float

    @property
    def is_released(self) -> bool:
        """Whether the bound is a private estimate, and not just the ball."""
        return self.root_mean_square < inf


def asymptotic_shape(
    manifold: Manifold, statistic: Statistic, draw: NoisyDraw, level: float
) -> Shape:
    """Return a ball for the population's mean, with asymptotic coverage.

    For many records, the ball contains the population's mean with probability `level`.

    In the canonical frame an isometry has moved the ball's center to where floats are
    most accurate: the origin, or the center itself on a compact space.

    Parameters
    ----------
    manifold : Manifold
        Where the records and their mean live.
    statistic : FrechetMean
        The mean of n records in the ball that was used.
    draw : NoisyDraw
        The noisy mean logarithm of the records, or their noisy mean.
    level : float
        The coverage of the ball.

    Returns
    -------
    Shape
        The ball in the canonical frame, with the theorem in words.

    Raises
    ------
    ParameterError
        If the mean need not be unique in the ball.
    """
    n = statistic.public_count
    ball = statistic.value_ball
    if ball is None or n is None or draw.kind not in ("gradient", "point", "chart"):
        raise ParameterError(
            f"is not possible: no theorem covers the {statistic.name}",
            parameter="of",
            value="population",
        )
    if draw.mean_hessian is not None:
        return shape_of_population(manifold, statistic, draw, level, n)
    if draw.kind == "gradient":
        return _shape_from_gradient(manifold, statistic, draw, level, ball, n)
    return _shape_from_mean(manifold, statistic, draw, level, ball, n)


def _shape_from_gradient(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    level: float,
    ball: Ball,
    n: int,
) -> Shape:
    """Return the ball about exp_w(t·g), with sampling error counted as noise.

    If no variance was released with the gradient, it is the ball of
    `shape_after_gradient`, whose two bounds are added up. Otherwise it follows from the
    law of the sum.

    Theorem (docs/theory/inference.md, Theorem I9). The drawn gradient g at w differs
    from the population's, G, by N + S: noise, and the sampling error of a mean of n
    logarithms. The population's mean is within E of exp_w(t·G) by Theorem I2, so its
    logarithm at w differs from t·G by a fixed vector e of length at most E·s/sin s. The
    mean is within the stretch of exp times |t·(N + S) + e| of exp_w(t·g). The radius is
    a quantile of that, the largest one over e and over the covariances of S.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    statistic : FrechetMean
        The mean of n records in the ball that was used.
    draw : NoisyDraw
        The noisy mean logarithm of the records at a public point.
    level : float
        The coverage of the ball.
    ball : Ball
        The ball into which the records were clipped.
    n : int
        The public number of records.

    Returns
    -------
    Shape
        The ball, or the whole ball of the records if the theorem gives no smaller one.
    """
    failure = 1 - level
    variability = _variability(draw, failure)
    variance = variability.variance / (n - 1)
    theorem = "asymptotic, for many records (central limit theorem); "
    if not variability.is_released:
        quantile = noise_and_sampling_quantile(draw, variance, level)
        shape = shape_after_gradient(manifold, statistic, draw, quantile, 0.0)
        if shape.is_as_wide_as_ball:
            return shape
        theorem += "the ball bounds the variance of the records"
        return shape._replace(theorem=theorem)

    # The true gradient is at most this long.
    drawn_length = float(np.linalg.norm(draw.value))
    error_bound = noise_and_sampling_quantile(
        draw, variance, 1 - _LONGEST_SHARE * failure
    )
    longest = min(draw.max_length, drawn_length + error_bound)
    step = step_after_gradient(
        manifold, statistic, draw, longest, variability.root_mean_square
    )
    if step is None or step.distance_to_mean >= ball.radius:
        return whole_ball(ball)

    # No point of the segment from t·g to the mean's logarithm is farther than this.
    reach = step.size * longest + step.distance_to_mean
    offset = chart_stretch(manifold, reach) * step.distance_to_mean
    used_share = _MEAN_SQUARE_SHARE + _LENGTH_SHARE + _LONGEST_SHARE
    quantile = noise_and_sampling_quantile(
        draw, variance, 1 - (1 - used_share) * failure, step.size, offset
    )
    radius = exp_stretch(manifold, step.size * longest + offset) * quantile
    if radius >= ball.radius:
        return whole_ball(ball)
    g = draw.value * (draw.max_length / max(drawn_length, draw.max_length))
    assert draw.base is not None  # A gradient is taken somewhere.
    theorem += "the variance of the records was released with their mean"
    return Shape(draw.base, radius, theorem, step=step.size * g)


def _variability(draw: NoisyDraw, failure: float) -> Variability:
    """Return bounds on the variance of the records' logarithms at the base of a draw.

    The variance is the mean square minus the squared length of the mean logarithm. That
    length is at least the drawn length minus the quantile of the noise.

    Parameters
    ----------
    draw : NoisyDraw
        The drawn mean logarithm, possibly with a mean square.
    failure : float
        The probability with which one of the bounds may fail.

    Returns
    -------
    Variability
        Bounds that hold together except with that probability. Without a released mean
        square, they follow from the ball.
    """
    largest = draw.max_length**2
    mean_square = mean_square_bound(draw, _MEAN_SQUARE_SHARE * failure)
    if mean_square == inf:
        return Variability(largest, inf)
    [noise] = noise_quantiles(draw, [1 - _LENGTH_SHARE * failure])
    shortest_mean = max(0.0, float(np.linalg.norm(draw.value)) - noise)
    variance = max(0.0, min(mean_square, largest) - shortest_mean**2)
    return Variability(variance, sqrt(mean_square))


def _shape_from_mean(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    level: float,
    ball: Ball,
    n: int,
) -> Shape:
    """Return the ball about a mean that was itself drawn, as a point or in a chart.

    The records' mean differs from the population's by nearly H⁻¹ times a mean of n
    logarithms, with H ≥ λ the mean Hessian. In a chart that difference is stretched by
    at most the Lipschitz constant of the logarithm.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    statistic : FrechetMean
        The mean of n records in the ball.
    draw : NoisyDraw
        The noisy mean, of kind "point" or "chart".
    level : float
        The coverage of the ball.
    ball : Ball
        The ball into which the records were clipped.
    n : int
        The public number of records.

    Returns
    -------
    Shape
        The ball. Its radius is a fixed point: the Hessian's bound λ depends on how far
        the population's mean may be, which depends on λ.

    Raises
    ------
    ParameterError
        If squared distances need not be convex at the distances of the records.
    """
    shape = SHAPES[draw.kind](manifold, statistic, draw, 0.0, 0.0)
    distance_to_center = float(manifold.dist(ball.center, shape.center(manifold)))

    radius = 0.0
    for _ in range(_MAX_ROUNDS):
        # The population's mean is within `radius` of the drawn point.
        farthest = min(2 * ball.radius, distance_to_center + radius + ball.radius)
        lowest, _ = hessian_bounds(manifold, farthest)
        if not lowest > 0:
            raise ParameterError(
                f"is too wide for a population region on {manifold!r}: no theorem "
                "applies",
                parameter="radius",
                value=ball.radius,
            )
        sampling_std = ball.radius / lowest / sqrt(n - 1)
        next_radius = _radius_about_mean(manifold, draw, ball, sampling_std, level)
        if next_radius <= radius * (1 + _FIXED_POINT_EXCESS):
            break
        radius = next_radius * (1 + _FIXED_POINT_EXCESS)
    return shape._replace(
        radius=radius,
        within=None,
        theorem=(
            "asymptotic, for many records (central limit theorem); the ball bounds the "
            "variance of the records; mechanism='gradient' releases that variance with "
            "the mean"
        ),
    )


def _radius_about_mean(
    manifold: Manifold, draw: NoisyDraw, ball: Ball, sampling_std: float, level: float
) -> float:
    """Return the radius about a drawn mean within which the population's mean lies.

    Called by `_shape_from_mean` in each round of its iteration.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    draw : NoisyDraw
        The noisy mean, of kind "chart" or "point".
    ball : Ball
        The ball of the records.
    sampling_std : float
        The root mean square distance of the records' mean from the population's.
    level : float
        The coverage.

    Returns
    -------
    float
        A distance on the manifold.
    """
    if draw.kind == "chart":
        stretched_std = chart_stretch(manifold, ball.radius) * sampling_std
        quantile = noise_and_sampling_quantile(draw, stretched_std**2, level)
        return exp_stretch(manifold, ball.radius) * quantile
    # The noise is on the manifold, and not in one flat space with the sampling error. So
    # the two errors are bounded separately, each with half of the failure probability.
    half = (1 - level) / 2
    [noise] = noise_quantiles(draw, [1 - half])
    return noise + sampling_std * -float(ndtri(half / 2))


def noise_and_sampling_quantile(
    draw: NoisyDraw,
    variance: float,
    level: float,
    factor: float = 1.0,
    offset: float = 0.0,
) -> float:
    """Return a quantile of |t·(N + S) + e| for the noise N of a draw and a normal S.

    Only the trace of the covariance of S and the length of the fixed vector e are
    known. The quantile is the largest one over covariances with k equal eigenvalues and
    no others, for several k, with e along one of their axes. At the usual levels that
    is k = 1 (Székely & Bakirov 2003, for S alone).

    Parameters
    ----------
    draw : NoisyDraw
        A draw with Gaussian or Laplace noise in d dimensions.
    variance : float
        The trace of the covariance of S.
    level : float
        The probability.
    factor : float
        t ≥ 0.
    offset : float
        The length of e.

    Returns
    -------
    float
        The simulated quantile, from a public seed, plus a margin for the simulation and
        the rounding of the draw.
    """
    d = draw.value.size
    ranks = sorted({1, 2, 4, 16, d} & set(range(1, d + 1)))
    rng = np.random.default_rng(_SEED)
    quantiles = []
    for k in ranks:
        # S lies in a space of k dimensions. Of the d − k other entries of the noise
        # only the sum of squares matters, which is a χ² variable.
        noise = rng.standard_normal((_SIMULATED_DRAWS, k))
        other_squares = np.zeros(_SIMULATED_DRAWS)
        if d > k:
            other_squares = rng.chisquare(d - k, _SIMULATED_DRAWS)
        scale = _noise_scales(rng, draw, noise, other_squares)

        sampling = sqrt(variance / k) * rng.standard_normal((_SIMULATED_DRAWS, k))
        errors = factor * (scale[:, None] * noise + sampling)
        across = (factor * scale) ** 2 * other_squares
        errors[:, 0] += offset
        lengths = np.sqrt(np.sum(errors**2, axis=1) + across)
        quantiles.append(float(np.quantile(lengths, level)))
    rounding = factor * sqrt(d) * draw.grid_width / 2
    return _SIMULATION_MARGIN * max(quantiles) + rounding


def _noise_scales(
    rng: np.random.Generator,
    draw: NoisyDraw,
    noise: np.ndarray,
    other_squares: np.ndarray,
) -> np.ndarray:
    """Return the factors by which standard normal vectors become draws of the noise.

    Laplace noise of scale b in d dimensions is b·Gamma(d)·Z/|Z| for a normal vector Z.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the lengths of Laplace noise.
    draw : NoisyDraw
        The draw, whose noise law is Gaussian or Laplace.
    noise : array, shape (draws, k)
        The first k entries of each vector Z.
    other_squares : array, shape (draws,)
        The sum of the squares of the other entries of each Z.

    Returns
    -------
    array, shape (draws,)
        σ for Gaussian noise; b·Gamma(d)/|Z| for Laplace noise.
    """
    n_draws = len(noise)
    if isinstance(draw.law, RiemannianGaussian):
        return np.full(n_draws, draw.law.scale)
    d = draw.value.size
    lengths = np.sqrt(np.sum(noise**2, axis=1) + other_squares)
    return np.asarray(draw.law.scale * rng.gamma(d, size=n_draws) / lengths)
