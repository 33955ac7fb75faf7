"""Confidence regions of a geodesic that was fitted by a private descent. A *pair* is a
point and velocities there, which determine the geodesic. The last release of the
descent is a linearization of the regression at a pair (`Neighborhood`); its noise and
its error bound the distance to the true pair.

The linearization at a pair (p, V) of a point and velocities consists of the mean
clipped direction g, the normal matrix Ñ = mean aaᵀ, and the mean remainder ẽ, all with
noise.

Theorem (docs/theory/inference.md, Theorem I5). Let λ be the least eigenvalue of Ñ, q a
bound on the noise in g, and χ the remainder ẽ plus bounds on the noise in ẽ and in Ñ.
If λ > χ, then the pair at which the mean direction vanishes is within r = (q + χ|ẑ|)/(λ
− χ) of ẑ = Ñ⁻¹g. For the population, with a bound |G| on the mean direction of the
records at the population's pair, the distance is larger by at most |G|/(λ − χ), for
large n.
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
from curvedp.regression.bounds import MAX_PREDICTOR, PREDICTOR_UNIT
from curvedp.regression.linearity import (
    Neighborhood,
    prediction_stretch,
    transport_factor,
)
from curvedp.statistics.geodesic import GeodesicLine

# The fraction of the failure probability that is spent on the noise in the normal
# matrix. The same fraction is spent on the noise in the mean remainder. The value is a
# choice.
_LINEARIZATION_SHARE = 0.1

_DESCRIPTION = (
    "the geodesic on which the mean clipped direction of the {} vanishes: least squares "
    "where none is clipped"
)
_ASYMPTOTIC = (
    "asymptotic (delta method, directions being at most the clip); of the noise: "
)

# The number of quadrature nodes for the distribution of the length of a part of the
# noise.
_QUADRATURE_NODES = 40


@dataclass(frozen=True, eq=False, kw_only=True)
class LineRegion(Region):
    """A confidence region of a geodesic.

    It is a `Region` of the geodesic's footpoint, together with a region of its velocity
    and a band around the geodesic.

    Attributes
    ----------
    velocity : ndarray
        The velocity in the middle of the region, a tangent vector at `center`, in the
        form of `PrivateGeodesicRegression.velocity_`.
    velocity_radius : float
        A bound on the distance between the velocity of the true pair and that of
        `pairs.pair`, for all predictors together. The two are compared at the middles
        of the geodesics, after transport from the true middle to that of the region.
    pairs : PairBall
        The pairs (p, V) of a point and velocities that the region contains.

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
        """Return one region for the prediction at each x, with simultaneous coverage.

        With probability `level`, all of them contain their predictions, and the regions
        of footpoint and velocity contain theirs.

        Parameters
        ----------
        x : array of shape (m,) or (m, k)
            Predictors in their own units. Outside their range the band widens.

        Returns
        -------
        list of Region
            One geodesic ball for each row of `x`.

        Raises
        ------
        ParameterError
            If `x` does not have one column for each predictor.
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
        # The region of a predictor that is not finite is empty.
        with np.errstate(all="ignore"):
            fractions = (x.reshape(-1, n_predictors) - low) / (high - low)
            for centered_predictors in fractions - MAX_PREDICTOR:
                ball = self.pairs.predictions_at(centered_predictors)
                region = Region(
                    self.manifold,
                    ball.center,
                    ball.radius,
                    self.level,
                    self.of,
                    description,
                    self.theorem,
                )
                regions.append(region)
        return regions


class PredictionBall(NamedTuple):
    """A geodesic ball that contains the predictions of all pairs of a `PairBall`.

    Attributes
    ----------
    center : array of shape point_shape
        The prediction of the middle pair.
    radius : float
        A bound on the distance of the other predictions from it.
    """

    center: np.ndarray
    radius: float


class PairBall(NamedTuple):
    """The pairs (p, V) of a point and velocities within some distance of one pair.

    The distance combines that of the points with PREDICTOR_UNIT times that of the
    velocities.

    Attributes
    ----------
    line : GeodesicLine
        The statistic, with the public domain of pairs.
    pair : (array, array)
        The middle of the ball: p and V, in the coordinates of the records.
    radius : float
        The radius of the ball; inf if the noise allows the whole public domain.
    reach : float
        A bound on the distance of all pairs from the pair at which the linearization
        was released.
    """

    line: GeodesicLine
    pair: tuple[np.ndarray, np.ndarray]
    radius: float
    reach: float

    @property
    def is_bounded(self) -> bool:
        """Whether the ball is smaller than the public domain."""
        return isfinite(self.radius)

    def predictions_at(self, x: np.ndarray) -> PredictionBall:
        """Return a ball that contains the predictions of all pairs at one predictor.

        Parameters
        ----------
        x : array of shape (k,)
            The centered predictors: each is between −½ and ½ inside its range.

        Returns
        -------
        PredictionBall
            If `radius` is inf, it contains the predictions of all geodesics of the
            public domain.
        """
        manifold = self.line.manifold
        domain = self.line.domain
        p, velocities = self.pair
        tangent = np.tensordot(x, velocities, axes=1)
        prediction = np.asarray(manifold.exp(p, tangent))
        if not self.is_bounded:
            radius = domain.radius + float(np.sum(np.abs(x))) * domain.speed
            return PredictionBall(prediction, radius)

        scaled_predictor = float(np.linalg.norm(x)) / PREDICTOR_UNIT
        tangent_length = float(manifold.norm(p, tangent))
        stretch = prediction_stretch(
            manifold, tangent_length, scaled_predictor, self.reach
        )
        # Cauchy-Schwarz for the changes of the point and of the scaled velocities.
        pair_factor = sqrt(1 + scaled_predictor * scaled_predictor)
        return PredictionBall(prediction, stretch * pair_factor * self.radius)


def line_region(
    statistic: GeodesicLine,
    draw: NoisyDraw,
    level: float,
    sampling_error: float | None = None,
) -> LineRegion:
    """Return the confidence region of a privately fitted geodesic.

    If the noise is too large for a smaller region, it is the public domain.

    Parameters
    ----------
    statistic : GeodesicLine
        The regression, with its public domain.
    draw : NoisyDraw
        The released linearization (a draw of the kind "line").
    level : float
        The coverage of the region.
    sampling_error : float, optional
        If given, the region is about the population's geodesic instead of the records'.
        It bounds the mean direction of the records at the population's geodesic; half
        of 1 − level is spent on this bound.

    Returns
    -------
    LineRegion
        The regions of the footpoint, the velocity and the predictions.
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
        # Like `PrivateGeodesicRegression`, the region states the footpoint at the lower
        # end of the predictor's range, where the centered predictor is −½.
        footpoint = pairs.predictions_at(np.full(1, -MAX_PREDICTOR))
        velocity = np.asarray(manifold.transport(p, footpoint.center, velocities[0]))
    else:
        footpoint = pairs.predictions_at(np.full(n_predictors, 0.0))
        velocity = np.asarray(manifold.transport(p, footpoint.center, velocities))

    if pairs.is_bounded:
        speed = float(np.linalg.norm(manifold.norm(p, velocities)))
        factor = transport_factor(manifold, speed, pairs.reach)
        velocity_radius = factor * pairs.radius / PREDICTOR_UNIT
        theorem = "conservative: directions change nearly linearly (Jacobi fields)"
    else:
        velocity_radius = sqrt(n_predictors) * statistic.domain.speed
        theorem = "the whole public domain"
    if sampling_error is not None:
        theorem = _ASYMPTOTIC + theorem
    return LineRegion(
        manifold,
        footpoint.center,
        footpoint.radius,
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
    """Return a ball of pairs (p, V) that contains the pair of the true geodesic.

    The descent released, at a pair of a point and velocities, the mean clipped
    direction of the records and how it changes with the pair. The true geodesic is
    where the direction vanishes. The equation is solved in coordinates at the pair; the
    solution is moved along the manifold, and the bound on its distance is the radius of
    the ball.

    Parameters
    ----------
    statistic : GeodesicLine
        The regression, with its public domain.
    neighborhood : Neighborhood
        Describes the release: its parts, and how far the linearization is valid.
    draw : NoisyDraw
        The released linearization; `draw.base` is the pair at which it was computed.
    failure_probability : float
        The probability that the bounds on the noise may fail.
    sampling_error : float
        A bound on the mean direction at the population's pair; 0 for the records' own.

    Returns
    -------
    PairBall
        The ball, or the whole public domain if the theorem does not apply.
    """
    manifold = statistic.manifold
    assert draw.base is not None  # Draws of lines have a pair as their base.
    p = draw.base[0]
    velocities = draw.base[1:]
    solution = _solve_linearization(neighborhood, draw, failure_probability)
    z = solution.z
    largest_distance = float(np.linalg.norm(z)) + solution.radius
    if not largest_distance <= neighborhood.reach:
        # The theorem does not apply: all pairs of the public domain are possible.
        no_velocities = np.zeros_like(velocities)
        center = statistic.pair_to_data_frame(statistic.ball.center, no_velocities)
        return PairBall(statistic, center, inf, neighborhood.reach)

    point = np.asarray(manifold.exp(p, manifold.from_coordinates(p, z[0])))
    velocity_changes = np.asarray(manifold.from_coordinates(p, z[1:] / PREDICTOR_UNIT))
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
    """The zero of a linearized mean direction, with a bound on its error.

    Attributes
    ----------
    z : array of shape (1 + k, dim)
        ẑ = Ñ⁻¹g, the zero of the linearization.
    radius : float
        r = (q + χ|ẑ|)/(λ − χ), a bound on the distance of the true zero from ẑ; inf if
        λ ≤ χ.
    slope : float
        λ − χ; 0 if λ ≤ χ.
    """

    z: np.ndarray
    radius: float
    slope: float


def _solve_linearization(
    neighborhood: Neighborhood, draw: NoisyDraw, failure_probability: float
) -> _LinearSolution:
    """Return where the mean direction vanishes, and how accurate that is.

    Theorem (docs/theory/inference.md, Theorem I5). Let g be the released mean
    direction, Ñ the released normal matrix with least eigenvalue λ, and ẽ the released
    mean remainder. Let q bound the noise in g, and χ be ẽ plus bounds on the noise in ẽ
    and in Ñ. If λ > χ, the direction vanishes within r = (q + χ|ẑ|)/(λ − χ) of ẑ =
    Ñ⁻¹g.

    The noise of the three parts is bounded separately: 0.8 of the failure probability
    goes to g, 0.1 to Ñ, and 0.1 to ẽ.

    Parameters
    ----------
    neighborhood : Neighborhood
        Says how the release is composed of its three parts, and in which units.
    draw : NoisyDraw
        The release.
    failure_probability : float
        The probability that one of the three bounds may fail.

    Returns
    -------
    _LinearSolution
        The zero ẑ of the linearization, with a bound on the distance of the true zero.
    """
    direction, normal_matrix, remainder = neighborhood.unpack(draw.value)
    direction_size = neighborhood.direction_size
    matrix_size = neighborhood.release_size - direction_size - 1
    small_probability = failure_probability * _LINEARIZATION_SHARE
    direction_probability = failure_probability * (1 - 2 * _LINEARIZATION_SHARE)

    q = _part_quantile(draw, direction_size, 1 - direction_probability)
    matrix_noise = _part_quantile(draw, matrix_size, 1 - small_probability)
    remainder_noise = _part_quantile(draw, 1, 1 - small_probability)
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
    """Return the quantile of the length of the noise in some of the drawn numbers.

    Called for each of the three parts of a released linearization.

    Parameters
    ----------
    draw : NoisyDraw
        The whole draw, with its noise law.
    size : int
        How many of its numbers the part has.
    level : float
        The probability with which the noise of the part is not longer.

    Returns
    -------
    float
        The least length with that property, rounded up.
    """
    part_law = PartLengthLaw(draw.law, draw.value.size, size)
    part_draw = draw._replace(law=part_law, value=np.empty(size))
    return noise_quantiles(part_draw, [level])[0]


class PartLengthLaw:
    """The distribution of the length of m coordinates of an isotropic vector in R^D.

    The length is √B times that of the whole vector, where B has the distribution
    Beta(m/2, (D − m)/2) and is independent of the vector's length.

    Parameters
    ----------
    law
        The law of the whole vector, with `scale` and `radial_cdf`.
    full_size, part_size : int
        The numbers D and m of coordinates.
    """

    def __init__(self, law: Any, full_size: int, part_size: int) -> None:
        """Compute the nodes and weights of a quadrature over B = (part/whole length)².

        Gauss-Jacobi quadrature with the nodes t in (−1, 1) integrates against the
        density of 2B − 1.
        """
        self.law = law
        self.scale = law.scale
        nodes, weights = roots_jacobi(
            _QUADRATURE_NODES, (full_size - part_size) / 2 - 1, part_size / 2 - 1
        )
        self._length_ratios = np.sqrt((1 + nodes) / 2)
        self._weights = weights / np.sum(weights)

    def radial_cdf(self, radius: Any) -> np.ndarray:
        """Return the probability that the length is at most `radius`, for each radius.

        It is the mean over √B of the whole vector's distribution function at radius/√B,
        by quadrature.

        Parameters
        ----------
        radius : float or array
            Lengths of the part.

        Returns
        -------
        array of the shape of `radius`
            Probabilities.
        """
        full_lengths = np.asarray(radius)[..., None] / self._length_ratios
        return np.asarray(self.law.radial_cdf(full_lengths) @ self._weights)
