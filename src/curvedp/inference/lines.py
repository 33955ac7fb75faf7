"""Where the geodesic through the records is, from the last release of a private descent.

That release is the linearization of the regression at a pair (p, V) (`Neighborhood`):
the mean clipped direction g, Ñ = mean aaᵀ and the mean remainder ẽ, all with noise.

Theorem (docs/inference.md, Geodesics). Let λ be the least eigenvalue of Ñ, and χ = ẽ
plus what noise may hide of the remainder and of Ñ. Where λ > χ, the pair at which the
direction vanishes is within r = (q + χ|ẑ|)/(λ − χ) of ẑ = Ñ⁻¹g. The population's pair
is farther by
|G|/(λ − χ) at most, for n large.
"""

from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import roots_jacobi

from curvedp import _validate
from curvedp.core.capabilities import NoisyDraw
from curvedp.errors import ParameterError
from curvedp.inference.shapes import Region, noise_quantiles
from curvedp.regression.bounds import DEVIATION, HALF
from curvedp.regression.linearity import (
    Neighborhood,
    prediction_stretch,
    transport_factor,
)
from curvedp.statistics.geodesic import GeodesicLine

# The share of 1 − level that is spent twice: on the noise in the mean of aaᵀ, and on
# the noise in the mean remainder.
_LINEARIZATION_SHARE = 0.1

_DESCRIPTION = (
    "the geodesic on which the mean clipped direction of the {} vanishes: least squares "
    "where none is clipped"
)
_ASYMPTOTIC = (
    "asymptotic (delta method, directions being at most the clip); of the noise: "
)

# Nodes of the quadrature of the law of a part of the noise.
_QUADRATURE_NODES = 40


@dataclass(frozen=True, eq=False, kw_only=True)
class LineRegion(Region):
    """Where the geodesic through the records is.

    It is a `Region` of the geodesic's foot point, with its velocity and a band about
    it.

    Attributes
    ----------
    velocity : ndarray
        In the middle of the region, at `center`, as
        `PrivateGeodesicRegression.velocity_`.
    velocity_radius : float
        How far the true velocity is from it, at most, after transport to `center`; for
        all predictors together.
    pairs : PairBall
        The pairs (p, V) that the region holds.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import PrivateGeodesicRegression
    >>> from curvedp.geometry import Euclidean
    >>> x = np.linspace(0, 1, 500)
    >>> line = PrivateGeodesicRegression(
    ...     Euclidean(3), radius=1.0, speed=2.0, clip=0.5, x_range=(0, 1)
    ... )
    >>> line = line.fit(x, np.outer(x, np.ones(3)))
    >>> region = line.confidence_region()
    >>> len(region.band([0.2, 0.8]))
    2
    """

    velocity: np.ndarray
    velocity_radius: float
    pairs: "PairBall"

    def band(self, x: Any) -> list[Region]:
        """Return the regions of the predictions at x.

        They hold all at once, and together with the regions of foot point and velocity.

        Parameters
        ----------
        x : array of shape (m,) or (m, k)
            Predictors in their own units; outside their range the band widens.
        """
        low, high = self.pairs.line.x_range.T
        n_predictors = len(low)
        x = np.asarray(_validate.array("x", x), dtype=float)
        has_wrong_width = n_predictors > 1 and x.shape[-1:] != low.shape
        if x.ndim > 2 or has_wrong_width:
            raise ParameterError(
                f"x has shape {x.shape}; the model has {n_predictors} predictor(s)"
            )
        description = f"a prediction of {self.description}"
        regions = []
        # A predictor that is not finite has a region that holds nothing.
        with np.errstate(all="ignore"):
            centered = (x.reshape(-1, n_predictors) - low) / (high - low) - HALF
            for row in centered:
                ball = self.pairs.predictions_at(row)
                regions.append(
                    Region(
                        self.manifold,
                        ball.center,
                        ball.radius,
                        self.level,
                        self.of,
                        description,
                        self.theorem,
                    )
                )
        return regions


class PredictionBall(NamedTuple):
    """A geodesic ball that holds the predictions of all pairs of a `PairBall`."""

    center: np.ndarray
    radius: float


class PairBall(NamedTuple):
    """The pairs (p, V) within some distance of one, in the coordinates (p, unit·v).

    Attributes
    ----------
    line : GeodesicLine
    pair : (array, array)
        The middle: p and V, in the frame of the records.
    radius : float
        inf where noise leaves nothing but the public domain.
    reach : float
        All pairs are within this of the pair where the linearization was released.
    """

    line: GeodesicLine
    pair: tuple[np.ndarray, np.ndarray]
    radius: float
    reach: float

    @property
    def is_bounded(self) -> bool:
        """Whether the ball is less than the public domain."""
        return isfinite(self.radius)

    def predictions_at(self, x: np.ndarray) -> PredictionBall:
        """Return a ball that holds the predictions at centered predictors x, shape (k,).

        Where the radius is inf it holds those of all geodesics of the public domain.
        """
        manifold = self.line.manifold
        domain = self.line.domain
        p, velocities = self.pair
        move = np.tensordot(x, velocities, axes=1)
        prediction = np.asarray(manifold.exp(p, move))
        if not self.is_bounded:
            radius = domain.radius + float(np.sum(np.abs(x))) * domain.speed
            return PredictionBall(prediction, radius)
        t = float(np.linalg.norm(x)) / DEVIATION
        move_length = float(manifold.norm(p, move))
        stretch = prediction_stretch(manifold, move_length, t, self.reach)
        return PredictionBall(prediction, stretch * sqrt(1 + t * t) * self.radius)


def line_region(
    statistic: GeodesicLine,
    draw: NoisyDraw,
    level: float,
    sampling_error: float | None = None,
) -> LineRegion:
    """Return the region of the geodesic through the records, or of the population's.

    It is the public domain where noise leaves no smaller region.

    Parameters
    ----------
    statistic : GeodesicLine
    draw : NoisyDraw
        Of the kind "line".
    level : float
    sampling_error : float, optional
        For the population: a bound on the mean direction of the records at the
        population's geodesic. Half of 1 − level is spent on it.
    """
    manifold = statistic.manifold
    n_predictors = len(statistic.x_range)
    of = "records" if sampling_error is None else "population"
    failure_probability = 1 - level
    if sampling_error is not None:
        failure_probability = failure_probability / 2
    neighborhood = Neighborhood(manifold, statistic.domain, draw.law.scale)
    pairs = _pairs_of_draw(
        statistic, neighborhood, draw, failure_probability, sampling_error or 0.0
    )

    p, velocities = pairs.pair
    if n_predictors == 1:
        # The foot point belongs to the lower end of the range, as the estimator's does.
        foot = pairs.predictions_at(np.full(1, -HALF))
        velocity = np.asarray(manifold.transport(p, foot.center, velocities[0]))
    else:
        foot = pairs.predictions_at(np.full(n_predictors, 0.0))
        velocity = np.asarray(manifold.transport(p, foot.center, velocities))

    if pairs.is_bounded:
        speed = float(np.linalg.norm(manifold.norm(p, velocities)))
        factor = transport_factor(manifold, speed, pairs.reach)
        velocity_radius = factor * pairs.radius / DEVIATION
        theorem = "conservative: directions change nearly linearly (Jacobi fields)"
    else:
        velocity_radius = sqrt(n_predictors) * statistic.domain.speed
        theorem = "the public domain itself"
    if sampling_error is not None:
        theorem = _ASYMPTOTIC + theorem
    return LineRegion(
        manifold,
        foot.center,
        foot.radius,
        level,
        of,
        _DESCRIPTION.format(of),
        theorem,
        velocity=velocity,
        velocity_radius=velocity_radius,
        pairs=pairs,
    )


def _pairs_of_draw(
    statistic: GeodesicLine,
    neighborhood: Neighborhood,
    draw: NoisyDraw,
    failure_probability: float,
    sampling_error: float,
) -> PairBall:
    """Return the pairs (p, V) at which the direction may vanish.

    The arguments are those of `line_region`; `failure_probability` is that of the
    noise, and `sampling_error` is 0 for the records' own pair.
    """
    manifold = statistic.manifold
    assert draw.base is not None  # Draws of lines have a pair as their base.
    p = draw.base[0]
    velocities = draw.base[1:]
    solution = _solve_linearization(neighborhood, draw, failure_probability)
    z = solution.z
    if not float(np.linalg.norm(z)) + solution.radius <= neighborhood.reach:
        still = np.zeros_like(velocities)
        center = statistic.pair_to_data_frame(statistic.ball.center, still)
        return PairBall(statistic, center, inf, neighborhood.reach)

    point = np.asarray(manifold.exp(p, manifold.from_coordinates(p, z[0])))
    velocity_changes = np.asarray(manifold.from_coordinates(p, z[1:] / DEVIATION))
    transported = np.asarray(
        manifold.transport(p, point, velocities + velocity_changes)
    )
    sampling_distance = sampling_error / solution.slope
    return PairBall(
        statistic,
        statistic.pair_to_data_frame(point, transported),
        solution.radius + sampling_distance,
        neighborhood.reach + sampling_distance,
    )


class _LinearSolution(NamedTuple):
    """Where the linearized direction vanishes.

    Attributes
    ----------
    z : array of shape (1 + k, dim)
        ẑ = Ñ⁻¹g.
    radius : float
        r = (q + χ|ẑ|)/(λ − χ); inf where λ ≤ χ.
    slope : float
        λ − χ.
    """

    z: np.ndarray
    radius: float
    slope: float


def _solve_linearization(
    neighborhood: Neighborhood, draw: NoisyDraw, failure_probability: float
) -> _LinearSolution:
    """Return where the linearized direction vanishes, by the theorem at the top.

    The noise of the three parts of the release is bounded part by part: 0.8 of the
    failure probability goes to the direction, 0.1 to the mean of aaᵀ and 0.1 to the
    remainder.
    """
    direction, normal_matrix, remainder = neighborhood.unpack(draw.value)
    direction_size = neighborhood.direction_size
    matrix_size = neighborhood.release_size - direction_size - 1
    small_share = failure_probability * _LINEARIZATION_SHARE
    direction_share = failure_probability * (1 - 2 * _LINEARIZATION_SHARE)

    q = _part_quantile(draw, direction_size, 1 - direction_share)
    matrix_noise = _part_quantile(draw, matrix_size, 1 - small_share)
    remainder_noise = _part_quantile(draw, 1, 1 - small_share)
    units = neighborhood.units
    chi = (
        max(remainder, 0.0)
        + units.normal_matrix * matrix_noise
        + units.remainder * remainder_noise
    )
    least_eigenvalue = float(np.linalg.eigvalsh(normal_matrix)[0])
    if not least_eigenvalue > chi:
        return _LinearSolution(np.zeros_like(direction), inf, 0.0)
    z = np.linalg.solve(normal_matrix, direction)
    slope = least_eigenvalue - chi
    radius = (q + chi * float(np.linalg.norm(z))) / slope
    return _LinearSolution(z, radius, slope)


def _part_quantile(draw: NoisyDraw, size: int, level: float) -> float:
    """Return how far the noise of `size` of the drawn numbers reaches at a level."""
    part_law = PartLengthLaw(draw.law, draw.value.size, size)
    part_draw = draw._replace(law=part_law, value=np.empty(size))
    return noise_quantiles(part_draw, [level])[0]


class PartLengthLaw:
    """The law of the length of m of the D coordinates of an isotropic random vector.

    The length is √B times that of the whole vector, with B independent of it and from
    Beta(m/2, (D − m)/2).

    Parameters
    ----------
    law
        The law of the whole vector, with `scale` and `radial_cdf`.
    full_size, part_size : int
        D and m.
    """

    def __init__(self, law: Any, full_size: int, part_size: int) -> None:
        self.law = law
        self.scale = law.scale
        nodes, weights = roots_jacobi(
            _QUADRATURE_NODES, (full_size - part_size) / 2 - 1, part_size / 2 - 1
        )
        self._length_ratios = np.sqrt((1 + nodes) / 2)
        self._weights = weights / np.sum(weights)

    def radial_cdf(self, radius: Any) -> np.ndarray:
        """Return P(length ≤ radius), by Gauss-Jacobi quadrature over B."""
        full_lengths = np.asarray(radius)[..., None] / self._length_ratios
        return np.asarray(self.law.radial_cdf(full_lengths) @ self._weights)
