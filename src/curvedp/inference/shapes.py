"""Confidence sets for the true value behind a noisy draw, one theorem per kind of draw.
A `NoisyDraw` is a noisy number, and names the unknown quantity that it estimates. A
`Shape` is a set that contains this quantity with a stated probability.

The functions in `SHAPES` turn a `NoisyDraw` into a `Shape`, and
`curvedp.inference.region` turns that into a public `Region`. The proofs are in
docs/theory/inference.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtri

from curvedp import _validate
from curvedp.core.capabilities import NoisyDraw
from curvedp.core.chart import CHART_ERROR
from curvedp.core.statistic import Ball, PointStatistic, Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann
from curvedp.geometry.comparison import (
    curvature_roots,
    exp_stretch,
    mean_hessian_bounds,
)
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian
from curvedp.statistics.second_moment import vector_to_symmetric

# The fraction of 1 − level that a region of subspaces spends on the event that the
# noise swaps eigenvalues. The value is a choice; it costs little.
_SWAP_SHARE = 0.1

# The fraction of 1 − level that a region spends on the event that the mean square of
# the records' distances is larger than was released. The value is a choice; it costs
# little.
_MEAN_SQUARE_SHARE = 0.1

# The radius of a region is found by at most this many rounds of a fixed-point
# iteration. Each round adds this relative excess, so that the fixed point is reached
# from above.
_MAX_ROUNDS = 100
_FIXED_POINT_EXCESS = 1e-6

# A quantile is found by repeatedly cutting an interval into this many sections, until
# its relative width is below the tolerance.
_SECTIONS = 64
_QUANTILE_TOLERANCE = 1e-13


class ChartBall(NamedTuple):
    """A ball in normal coordinates, intersected with where the statistic can be.

    It contains the points whose coordinates at `base` are within `quantile` of `drawn`
    and have length at most `reach`.

    Attributes
    ----------
    statistic : PointStatistic
        Its canonical frame is that of `base`.
    base : array
        The point at which the chart is.
    drawn : array of shape (dim,)
        The coordinates that were drawn.
    quantile : float
        The largest distance of coordinates in the set from the drawn coordinates.
    reach : float
        The largest length of coordinates in the set.
    """

    statistic: PointStatistic
    base: np.ndarray
    drawn: np.ndarray
    quantile: float
    reach: float

    def contains(self, manifold: Manifold, points: np.ndarray) -> np.ndarray:
        """Return whether each point lies in the set.

        Both bounds are widened by the accuracy of normal coordinates in floats.

        Parameters
        ----------
        manifold : Manifold
            Where the points live.
        points : array of shape (n, *point_shape)
            Points in the coordinates of the records.

        Returns
        -------
        array of bool, shape (n,)
            Whether each point is in the set.
        """
        canonical_points = self.statistic.to_canonical_frame(points)
        z = np.asarray(manifold.normal_coordinates(self.base, canonical_points))
        lengths = np.linalg.norm(z, axis=-1)
        distances = np.linalg.norm(z - self.drawn, axis=-1)
        is_possible = lengths <= self.reach * (1 + CHART_ERROR)
        is_near_draw = distances <= self.quantile + self.reach * CHART_ERROR
        return np.asarray(is_possible & is_near_draw)

    def edge(self, manifold: Manifold, directions: np.ndarray) -> np.ndarray:
        """Return points of the boundary in the given directions from the drawn point.

        Parameters
        ----------
        manifold : Manifold
            Where the set lies.
        directions : array of shape (count, dim)
            Unit vectors.

        Returns
        -------
        array of shape (count, *point_shape)
            In the coordinates of the records.
        """
        coordinates = [
            _shorten(self.drawn + self.quantile * direction, self.reach)
            for direction in directions
        ]
        points = manifold.from_normal_coordinates(self.base, np.stack(coordinates))
        return np.asarray(self.statistic.to_data_frame(np.asarray(points)))


class NearlyInvariantSubspaces(NamedTuple):
    """The subspaces that the drawn matrix leaves nearly invariant.

    With P the projection onto a subspace, these are the subspaces that satisfy
    ‖(I − P)·drawn·P‖ ≤ quantile.

    Attributes
    ----------
    drawn : array, shape (d, d)
        The drawn symmetric matrix.
    quantile : float
        A quantile of the norm of its noise, outside the subspace.
    """

    drawn: np.ndarray
    quantile: float

    def contains(self, manifold: Manifold, points: np.ndarray) -> np.ndarray:
        """Return whether each subspace lies in the set.

        Parameters
        ----------
        manifold : Manifold
            The Grassmann manifold. Not used: the condition is one on matrices.
        points : array of shape (..., d, k)
            Subspaces, as matrices with orthonormal columns.

        Returns
        -------
        array of bool, shape (...)
            Whether ‖(I − P)·drawn·P‖ is at most the quantile.
        """
        # With orthonormal columns U, P = UUᵀ, and the norm of a product with U on the
        # right is the same as that with P.
        image = self.drawn @ points
        image_inside = points @ (np.swapaxes(points, -1, -2) @ image)
        distance_from_invariance = np.linalg.norm(image - image_inside, axis=(-2, -1))
        return np.asarray(distance_from_invariance <= self.quantile)


@dataclass(frozen=True, eq=False)
class Region:
    """A confidence region: a set that contains the true value with a stated probability.

    The probability is over the noise, and over the sample too if `of` is "population".

    Attributes
    ----------
    manifold : Manifold
        Where the region lies.
    center : ndarray
        Its middle, in the frame of the records.
    radius : float
        The radius of a geodesic ball around the center that contains the region.
    level : float
        A lower bound on the probability.
    of : {"records", "population"}
        Whether the region is about the statistic of the records or of the population.
    description : str
        What the region is about, in words.
    theorem : str
        Whether it is exact or conservative, and why.
    within : ChartBall, NearlyInvariantSubspaces or None
        A smaller set: the region is its intersection with the geodesic ball. If it is
        None, the region is all of that geodesic ball.
    is_as_wide_as_ball : bool
        Whether the region is no narrower than the ball of the records, which holds
        their mean anyway.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import PrivateFrechetMean
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> mean = PrivateFrechetMean(Sphere(2), radius=0.7).fit(X)
    >>> region = mean.confidence_region(level=0.95)
    >>> region.level, region.of, region.contains(X[:2]).shape
    (0.95, 'records', (2,))
    """

    manifold: Manifold
    center: np.ndarray
    radius: float
    level: float
    of: str
    description: str
    theorem: str
    within: ChartBall | NearlyInvariantSubspaces | None = None
    is_as_wide_as_ball: bool = False

    def contains(self, points: Any) -> np.ndarray:
        """Return whether each point lies in the region; one that is not finite does not.

        Parameters
        ----------
        points : array of shape (..., *point_shape)
            Points of the manifold.

        Returns
        -------
        array of bool, shape (...)
            One answer for each point.

        Raises
        ------
        ParameterError
            If the points do not have the shape of points of the manifold.
        """
        points = _validate.array("points", points)
        point_shape = self.manifold.point_shape
        if points.shape[points.ndim - len(point_shape) :] != point_shape:
            raise ParameterError(
                f"points have shape {points.shape}; it must end with {point_shape}"
            )
        with np.errstate(all="ignore"):
            distances = np.asarray(self.manifold.dist(self.center, points))
            is_inside = distances <= self.radius
            if self.within is not None:
                is_inside = is_inside & self.within.contains(self.manifold, points)
            return np.asarray(is_inside)

    def edge(self, directions: np.ndarray) -> np.ndarray:
        """Return points of the boundary in the given directions from the center.

        Parameters
        ----------
        directions : array of shape (count, dim)
            Unit vectors.

        Returns
        -------
        array of shape (count, *point_shape)
            Points in the frame of the records, for pictures.
        """
        if isinstance(self.within, ChartBall):
            return self.within.edge(self.manifold, directions)
        steps = self.radius * directions
        return np.asarray(self.manifold.from_normal_coordinates(self.center, steps))

    def plot(self) -> Any:
        """Return a matplotlib figure that shows the region on its manifold.

        The extra "report" (matplotlib) is needed.

        Returns
        -------
        matplotlib.figure.Figure
            The figure, which the caller shows or saves.
        """
        from curvedp.report.figures import region_figure

        return region_figure(self)


class Shape(NamedTuple):
    """A geodesic ball that contains a region, in the coordinates of the draw.

    Attributes
    ----------
    base : array
        The center of the ball, or the point of the manifold from which `step` leads to
        it.
    radius : float
        The radius of the ball.
    theorem : str
        Why the ball contains the true value.
    within : ChartBall, NearlyInvariantSubspaces or None
        A smaller set: the region is its intersection with the ball.
    step : array of shape (dim,), optional
        The normal coordinates of the center at `base`.
    is_as_wide_as_ball : bool
        Whether it is the ball of the records, which holds every value.
    """

    base: np.ndarray
    radius: float
    theorem: str
    within: ChartBall | NearlyInvariantSubspaces | None = None
    step: np.ndarray | None = None
    is_as_wide_as_ball: bool = False

    def center(self, manifold: Manifold) -> np.ndarray:
        """Return the center of the ball: the point exp_base(step), or `base` itself.

        Parameters
        ----------
        manifold : Manifold
            The manifold of the ball.
        """
        if self.step is None:
            return self.base
        return np.asarray(manifold.from_normal_coordinates(self.base, self.step))


def _shape_of_point(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    quantile: float,
    sampling_error: float,
) -> Shape:
    """Return the confidence ball around a point that was drawn with isotropic noise.

    The distance of the draw from the true value has the radial distribution of the
    noise law. Distance is symmetric, so the ball around the draw whose radius is a
    quantile of that distribution has exactly this coverage.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the value. Not needed for this kind of draw.
    statistic : Statistic
        The statistic. Not needed for this kind of draw.
    draw : NoisyDraw
        The drawn point.
    quantile : float
        The quantile of the distance, at the level of the region.
    sampling_error : float
        A bound on the distance of the population's value from that of the records; 0
        for a region of the records' value.

    Returns
    -------
    Shape
        The ball about the drawn point.
    """
    return Shape(draw.value, quantile + sampling_error, "exact: quantile of the noise")


def _shape_in_chart(
    manifold: Manifold,
    statistic: Any,
    draw: NoisyDraw,
    quantile: float,
    sampling_error: float,
) -> Shape:
    """Return a ball in normal coordinates, cut to where the statistic can be.

    The ball of coordinates has exact coverage. To bound its geodesic radius, let z be
    the vector nearest to the draw among those of length at most `draw.max_length`. It
    is within the quantile of every vector of the region, and exp stretches the segment
    between them by at most sinh(s)/s, with s the length of the longest vector in units
    of curvature.

    In the canonical frame an isometry has moved the ball's center to where floats are
    most accurate: the origin, or the center itself on a compact space.

    Parameters
    ----------
    manifold : Manifold
        Where the value lives.
    statistic : PointStatistic
        The statistic in whose canonical frame the coordinates are.
    draw : NoisyDraw
        The drawn coordinates at `draw.base`.
    quantile : float
        The quantile of the length of the noise, at the level of the region.
    sampling_error : float
        A bound on the distance of the population's value from that of the records; 0
        for a region of the records' value.

    Returns
    -------
    Shape
        A geodesic ball, within which the region is the set of the chart.
    """
    z = _shorten(draw.value, draw.max_length)
    z_length = float(np.linalg.norm(z))
    longest = min(draw.max_length, z_length + quantile)
    radius = min(exp_stretch(manifold, longest) * quantile, z_length + draw.max_length)
    chart = ChartBall(statistic, _base_of(draw), draw.value, quantile, draw.max_length)
    theorem = "exact: quantile of the noise in normal coordinates"
    if sampling_error:
        # The population's value may lie outside the chart ball of the records' value.
        return Shape(chart.base, radius + sampling_error, theorem, None, z)

    distance_to_ball = float(np.linalg.norm(draw.value - z))
    if distance_to_ball > quantile + draw.max_length * CHART_ERROR:
        theorem = (
            "exact, and empty: the draw is farther from the ball than noise reaches at "
            "this level, which is a miss"
        )
    return Shape(chart.base, radius, theorem, chart, z)


def shape_after_gradient(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    quantile: float,
    sampling_error: float,
    root_mean_square: float = inf,
) -> Shape:
    """Return the confidence ball of a mean, from a noisy gradient.

    Let w be the base point of the draw, g the drawn mean logarithm at w, G the true
    one, and q the quantile of the noise. Then |G| ≤ min(reach, |g| + q).

    Theorem (docs/theory/inference.md, Theorem I2). Let D bound the distances from
    exp_w(u·G), 0 ≤ u ≤ t, to the records, and m the root mean square of those from w.
    Let λ ≤ Hess ≤ H for all mean Hessians of records with these two bounds. For tH ≤ 2
    the root mean square does not exceed m on the way to exp_w(t·G), nor from there to
    the mean, because the cost falls. The mean is within ρ of exp_w(t·G) for every ρ
    with ρ·λ(D + ρ) ≥ max(1 − tλ, tH − 1)·|G|. The point exp_w(t·g) is within
    t·q·sinh(s)/s of exp_w(t·G), with s the length of the step in units of curvature. On
    flat space the radius is q, which is exact.

    The center of the ball is exp_w(t·g). If the theorem gives no smaller ball than that
    of the records, the latter is the region.

    Parameters
    ----------
    manifold : Manifold
        Where the records and their mean live.
    statistic : Statistic
        The mean; its `value_ball` is the ball of the records.
    draw : NoisyDraw
        The drawn gradient g at w = `draw.base`.
    quantile : float
        q, the quantile of the length of the noise at the level of the region.
    sampling_error : float
        A bound on the distance of the population's mean from that of the records; 0 for
        a region of the records' mean.
    root_mean_square : float
        A bound on the root mean square length of the records' logarithms at w, where
        one is known. It narrows the bounds λ and H.

    Returns
    -------
    Shape
        The ball about exp_w(t·g), with its theorem in words.

    Raises
    ------
    ParameterError
        If records in the ball may have several means, or the curvature has no upper
        bound.
    """
    g = _shorten(draw.value, draw.max_length)
    longest_gradient = min(draw.max_length, float(np.linalg.norm(g)) + quantile)
    step = step_after_gradient(
        manifold, statistic, draw, longest_gradient, root_mean_square
    )
    ball = statistic.value_ball
    assert ball is not None  # Gradients are of means of records in a ball.
    if step is None:
        return whole_ball(ball)

    # From exp_w(t·g) to exp_w(t·G), from there to the mean, and to the population's.
    t = step.size
    noise_distance = exp_stretch(manifold, t * longest_gradient) * t * quantile
    radius = noise_distance + step.distance_to_mean + sampling_error
    if radius >= ball.radius:
        return whole_ball(ball)
    theorem = "conservative: one step by Hessian bounds (Karcher)"
    if step.is_exact:
        theorem = "exact: quantile of the noise"
    return Shape(_base_of(draw), radius, theorem, None, t * g)


def whole_ball(ball: Ball) -> Shape:
    """Return the ball of the records as the region of their mean.

    Parameters
    ----------
    ball : Ball
        The ball into which the records were clipped.
    """
    return Shape(
        ball.center,
        ball.radius * (1 + CHART_ERROR),
        "the whole ball: a gradient gives no narrower region",
        is_as_wide_as_ball=True,
    )


class GradientStep(NamedTuple):
    """A step along a gradient toward the mean.

    Attributes
    ----------
    size : float
        t, by which the gradient is multiplied.
    distance_to_mean : float
        A bound on the distance from exp_w(t·G), for the true gradient G, to the mean.
    is_exact : bool
        Whether that point is the mean, as on flat space.
    """

    size: float
    distance_to_mean: float
    is_exact: bool


def step_after_gradient(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    longest_gradient: float,
    root_mean_square: float,
) -> GradientStep | None:
    """Return the step after which the mean is nearest, by Theorem I2.

    Parameters
    ----------
    manifold : Manifold
        Where the records and their mean live.
    statistic : Statistic
        The mean; its `value_ball` is the ball of the records.
    draw : NoisyDraw
        The drawn gradient at w = `draw.base`.
    longest_gradient : float
        A bound on the length of the true gradient.
    root_mean_square : float
        A bound on the root mean square length of the records' logarithms at w; inf
        where none is known.

    Returns
    -------
    GradientStep or None
        None if squared distances need not be convex as far as the mean may be.

    Raises
    ------
    ParameterError
        If records in the ball may have several means, or the curvature has no upper
        bound.
    """
    ball = statistic.value_ball
    assert ball is not None  # Gradients are of means of records in a ball.
    curvature_roots(manifold)  # This refuses a space whose curvature has no bound.
    _check_unique_mean(manifold, ball)

    distance_to_center = float(manifold.dist(ball.center, _base_of(draw)))
    farthest_record = distance_to_center + ball.radius
    farthest = farthest_record + longest_gradient
    # The root mean square distance from w, which bounds those from all later points.
    spread = min(root_mean_square, farthest_record)
    lowest, highest = mean_hessian_bounds(manifold, farthest, spread)
    # An error here would depend on the draw, and the regions that are returned would then
    # cover the mean less often than they claim.
    is_convex_nearby = distance_to_center + longest_gradient < manifold.convexity_radius
    if not (is_convex_nearby and lowest > 0):
        return None

    # The step size t makes max(1 − tλ, tH − 1) least, by which the gradient shrinks.
    t = min(1.0, 2 / (lowest + highest))
    gradient_left = longest_gradient * max(1 - t * lowest, t * highest - 1)
    distance = _distance_to_mean(manifold, farthest, spread, gradient_left)
    return GradientStep(t, distance, is_exact=lowest == highest == 1)


def mean_square_bound(draw: NoisyDraw, failure_probability: float) -> float:
    """Bound the mean squared length of the logarithms whose noisy mean was drawn.

    The bound is the released mean square plus a quantile of its Gaussian noise.

    Parameters
    ----------
    draw : NoisyDraw
        A draw of kind "gradient".
    failure_probability : float
        The probability with which the bound may fail.

    Returns
    -------
    float
        The bound; inf if no mean square was released.
    """
    released = draw.mean_square
    if released is None:
        return inf
    noise_bound = -float(ndtri(failure_probability)) * released.noise_std
    return max(0.0, released.value + noise_bound)


def shape_from_two_moments(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    level: float,
    sampling_error: float,
) -> Shape:
    """Return the confidence ball of a mean from a noisy gradient and mean square.

    A tenth of 1 − level is spent on the mean square, on curved spaces. On flat ones the
    gradient says all.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    statistic : Statistic
        The mean; its `value_ball` is the ball of the records.
    draw : NoisyDraw
        The drawn mean logarithm, with the drawn mean square.
    level : float
        The level of the region.
    sampling_error : float
        A bound on the distance of the population's mean from that of the records; 0 for
        a region of the records' mean.

    Returns
    -------
    Shape
        The ball about the point to which the gradient leads.
    """
    is_flat = curvature_roots(manifold) == (0.0, 0.0)
    share = 0.0 if is_flat else _MEAN_SQUARE_SHARE
    failure_probability = 1 - level
    root_mean_square = inf
    if not is_flat:
        root_mean_square = sqrt(mean_square_bound(draw, share * failure_probability))
    [quantile] = noise_quantiles(draw, [1 - (1 - share) * failure_probability])
    return shape_after_gradient(
        manifold, statistic, draw, quantile, sampling_error, root_mean_square
    )


def _check_unique_mean(manifold: Manifold, ball: Ball) -> None:
    """Raise `ParameterError` if records in a ball of this radius may have several means.

    A region about the mean says nothing if there are several.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    ball : Ball
        The ball into which they were clipped.
    """
    if ball.radius < manifold.convexity_radius:
        return
    raise ParameterError(
        "no confidence region: the records are so spread out that the ball around "
        f"them has radius {ball.radius:.4g}, and on {manifold!r} records are known to "
        "have only one mean in balls of radius below "
        f"{manifold.convexity_radius:.4g}; the error of the release is not bounded by "
        "its noise. PrivateFrechetMedian varies less for such records; a public radius "
        f"below {manifold.convexity_radius:.4g} has a region for the mean of the records "
        "clipped to it"
    )


def _distance_to_mean(
    manifold: Manifold, farthest: float, spread: float, gradient: float
) -> float:
    """Return a bound on the distance of the mean from a point, given the gradient there.

    The mean minimizes the cost f(x) = ½·mean d(x, xᵢ)². Let λ(ρ) be a lower bound on
    the eigenvalues of its Hessian at points within ρ of the given point. The result is
    a radius ρ with ρ·λ(ρ) ≥ |∇f|.

    Proof. Follow the flow of −∇f from the point. While it stays within ρ, the length of
    the gradient falls at least as fast as e^{−λt}. So the path is at most |∇f|/λ ≤ ρ
    long: it never leaves the ball, and ends where the gradient is 0, at the mean. The
    cost falls along the flow, so the root mean square distance does not grow.

    λ(ρ) falls with ρ, so ρ is found by the fixed-point iteration ρ ← |∇f|/λ(ρ) from
    ρ = 0. Its iterates grow toward the fixed point and would reach it only in the
    limit, so each one after the first is raised a little (`_FIXED_POINT_EXCESS`). Every
    result is checked, so the excess decides only about the number of rounds.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    farthest : float
        A bound on the distance of the records from the point.
    spread : float
        A bound on the root mean square of these distances, at the point or at one with
        a higher cost.
    gradient : float
        The length |∇f| of the gradient at the point, or a bound on it.

    Returns
    -------
    float
        ρ; inf if no such radius is found.
    """
    distance = 0.0
    for _ in range(_MAX_ROUNDS):
        # Bounds on the distances of the records from points within `distance`.
        largest_distance = farthest + distance
        lowest_eigenvalue, _ = mean_hessian_bounds(manifold, largest_distance, spread)
        is_within_injectivity = largest_distance < manifold.injectivity_radius
        if not (lowest_eigenvalue > 0 and is_within_injectivity):
            return inf

        if distance * lowest_eigenvalue >= gradient:
            return distance
        excess = _FIXED_POINT_EXCESS if distance > 0 else 0.0
        distance = gradient / lowest_eigenvalue * (1 + excess)
    return inf


def _shape_from_counts(
    manifold: Manifold,
    statistic: Any,
    draw: NoisyDraw,
    level: float,
    sampling_error: float,
) -> Shape:
    """Return a ball that contains every geometric median, from noisy counts of records.

    Theorem (Lopuhaä & Rousseeuw 1991; Minsker 2015). If a fraction p > ½ of the records
    is within R of w, every median is within 2pR/(2p − 1 − t) of w, where t is the
    sampling error. The noises of the counts are fresh and are bounded together.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    statistic : GeometricMedian
        The statistic, with the number of records and the public outer ball.
    draw : NoisyDraw
        The noisy numbers of records farther from w = `draw.base` than each of
        `draw.radii`.
    level : float
        The level of the region; all noises are bounded at once with this probability.
    sampling_error : float
        t; 0 for a region of the records' median.

    Returns
    -------
    Shape
        A ball about w, or the outer ball if that is smaller.
    """
    assert draw.radii is not None  # Counts are drawn at radii.
    n_counts = draw.value.size
    rounding = draw.grid_width * np.arange(1, n_counts + 1)
    noise_bounds = joint_noise_bounds(draw.law, n_counts, level) + rounding

    candidates = []
    for count, bound, radius in zip(draw.value, noise_bounds, draw.radii, strict=True):
        most_beyond = max(0, floor(count + bound))
        p = 1 - most_beyond / statistic.n
        majority = 2 * p - 1 - sampling_error
        if majority > 0:
            candidates.append(2 * p * radius * (1 + CHART_ERROR) / majority)
    smallest = min(candidates, default=inf)
    if smallest < draw.max_length:
        theorem = "conservative: most records are near (Lopuhaä & Rousseeuw)"
        return Shape(_base_of(draw), smallest, theorem)
    center, outer_radius = statistic.outer_ball
    return Shape(
        center,
        outer_radius,
        "the whole outer ball: counts give no narrower region",
        is_as_wide_as_ball=True,
    )


def joint_noise_bounds(law: Any, n_counts: int, level: float) -> np.ndarray:
    """Return upper bounds on the noises of several counts, which hold all at once.

    They turn noisy counts of the records beyond k radii into sure upper bounds, up to a
    probability of 1 − level.

    - Gaussian counts have independent noises. All k noises are at most z (in units of
      the scale) with probability Φ(z)^k, the normal distribution function's power.
    - Laplace counts are partial sums of the noisy counts of shells between the radii,
      each with fresh noise of scale b. So the noise of the j-th count is a sum of j
      Laplace variables. It exceeds x with probability at most e^(−sx)/(1 − s²b²)^j for
      every s in (0, 1/b) (Chernoff). Each of the k counts gets the failure probability
      (1 − level)/k, so that all bounds hold together.

    Parameters
    ----------
    law
        The noise law, with its scale b.
    n_counts : int
        The number k of counts.
    level : float
        The probability with which all bounds hold.

    Returns
    -------
    array of shape (n_counts,)
        A bound on the noise of each count, in the unit of counts.
    """
    if isinstance(law, RiemannianGaussian):
        return np.full(n_counts, law.scale * float(ndtri(level ** (1 / n_counts))))
    # One row for each s, in units of 1/b, and one column for each count j: the x at
    # which Chernoff's bound is (1 − level)/k. Every s gives a valid bound, so the
    # smallest one over a grid is valid too, and a grid of 99 is close to the best s.
    log_inverse_failure = log(n_counts / (1 - level))
    s = np.linspace(0.01, 0.99, 99)[:, None]
    n_noises = np.arange(1, n_counts + 1)
    bounds_of_each_s = (log_inverse_failure - n_noises * np.log1p(-s * s)) / s
    return np.asarray(law.scale * np.min(bounds_of_each_s, axis=0))


# One theorem for each kind of draw. Each function is given the quantile of the noise,
# but for counts, which need the level itself.
SHAPES: dict[str, Callable[..., Shape]] = {
    "point": _shape_of_point,
    "chart": _shape_in_chart,
    "gradient": shape_after_gradient,
    "counts": _shape_from_counts,
}


def principal_subspaces(
    statistic: Any,
    draw: NoisyDraw,
    level: float,
    components: int,
    sampling_error: float,
) -> tuple[Manifold, Shape]:
    """Return the confidence region of the leading subspace of a second moment S.

    S + N was drawn, with symmetric Gaussian noise N of deviation σ in d dimensions. Let
    P be the projection onto the leading subspace of S, and δ the gap between the drawn
    eigenvalues of the subspace and the others.

    1. The corner ‖(I − P)(S + N)P‖ is σ/√2 times a χ variable; q is its quantile.
    2. ‖N‖ ≤ e = σ(√(2d) + z), except with twice the tail probability of z (Davidson &
       Szarek 2001, Theorem 2.11; the mean is above the median, Kwapień 1994).
    3. If δ > 4e, the sin 2Θ theorem (Davis & Kahan 1970), for these corners alone and
       the Frobenius norm, bounds the principal angles θ: √Σθ² ≤ ½·arcsin(2q/δ). The
       largest case is a single angle, because arcsin²√y is convex.
    4. The population's second moment is within `sampling_error` of S. This acts as
       further noise, whose corner is at most √½ of it.

    The proof is in docs/theory/inference.md.

    Parameters
    ----------
    statistic : SecondMoment
        The second moment of records with d features.
    draw : NoisyDraw
        S + N, in orthonormal coordinates of the symmetric matrices.
    level : float
        The level of the region.
    components : int
        The dimension of the subspace.
    sampling_error : float
        0 for a region of the records' own subspace.

    Returns
    -------
    manifold : Manifold
        The Grassmann manifold of these subspaces.
    shape : Shape
        The region; it is the whole manifold if the noise hides the gap.
    """
    d = statistic.features
    if not 0 < components < d:
        raise ParameterError(
            f"{components} components of {d} features: a region is of 1 to {d - 1}"
        )
    gaussian = bound_by_gaussian(draw, 1 - level)
    sigma = gaussian.sigma
    failure_probability = gaussian.failure_probability
    drawn_matrix = vector_to_symmetric(draw.value, d)
    # Half a cell of the grid for each coordinate.
    rounding = sqrt(draw.value.size) * draw.grid_width / 2

    # q of step 1 and e of step 2, which share the failure probability. The sampling
    # error acts as further noise (step 4).
    n_corner_entries = components * (d - components)
    corner_probability = failure_probability * (1 - _SWAP_SHARE)
    corner_chi = sqrt(2 * gammainccinv(n_corner_entries / 2, corner_probability))
    q = sigma / sqrt(2) * corner_chi + rounding
    q = q + sampling_error / sqrt(2)
    z = -float(ndtri(failure_probability * _SWAP_SHARE / 2))
    e = sigma * (sqrt(2 * d) + z) + (rounding + sampling_error)

    # NumPy sorts eigenvalues from small to large; the leading ones are last.
    eigenvalues, eigenvectors = np.linalg.eigh(drawn_matrix)
    center = eigenvectors[:, ::-1][:, :components]
    gap = float(eigenvalues[-components] - eigenvalues[-components - 1])
    manifold = Grassmann(d, components)
    if not gap > max(4 * e, 2 * q):
        diameter = sqrt(min(components, d - components)) * pi / 2
        shape = Shape(center, diameter, "everything: noise hides the directions")
        return manifold, shape
    radius = float(np.arcsin(2 * q / gap)) / 2
    theorem = "exact but for swapped eigenvalues (Davis & Kahan)"
    subspaces = NearlyInvariantSubspaces(drawn_matrix, q)
    return manifold, Shape(center, radius, theorem, subspaces)


class GaussianBound(NamedTuple):
    """Gaussian noise that is at least as long as the actual noise, in every norm.

    Attributes
    ----------
    sigma : float
        The deviation of the Gaussian noise.
    failure_probability : float
        The rest of the failure probability, after the part that is spent on the
        comparison of the two noises.
    """

    sigma: float
    failure_probability: float


def bound_by_gaussian(draw: NoisyDraw, failure_probability: float) -> GaussianBound:
    """Bound the noise of a draw by Gaussian noise of some deviation σ.

    Laplace noise N in D dimensions is (|N|/|Z|)·Z for Z ~ N(0, I), where |N| has the
    distribution b·Gamma(D) and is independent of the direction of Z. Except for a small
    part of the failure probability, |N|/|Z| is at most σ. Then N is at most σZ in every
    norm.

    Parameters
    ----------
    draw : NoisyDraw
        A draw with Gaussian or Laplace noise of scale b.
    failure_probability : float
        The failure probability that may be spent in total.

    Returns
    -------
    GaussianBound
        σ, and the part of the failure probability that is left.
    """
    if isinstance(draw.law, RiemannianGaussian):
        return GaussianBound(draw.law.scale, failure_probability)
    size = draw.value.size
    tail = failure_probability * _SWAP_SHARE / 2
    shortest_gaussian = sqrt(2 * gammaincinv(size / 2, tail))
    longest_noise = draw.law.scale * float(gammainccinv(size, tail))
    return GaussianBound(
        longest_noise / shortest_gaussian, failure_probability * (1 - _SWAP_SHARE)
    )


def noise_quantiles(draw: NoisyDraw, levels: Sequence[float]) -> list[float]:
    """Return the quantiles of the length of the noise of a draw, rounded up.

    For each level this is the least radius with P(length of the noise ≤ radius) ≥
    level, plus the largest rounding error: half a cell of the grid for each coordinate.

    Parameters
    ----------
    draw : NoisyDraw
        The draw, with its noise law.
    levels : sequence of float
        Probabilities below 1.

    Returns
    -------
    list of float
        One radius for each level, from a few sections of an interval that all levels
        share.

    Raises
    ------
    ParameterError
        If a level is too close to 1 for the law's distribution function in floats.
    """
    law = draw.law
    level = np.asarray(levels, dtype=np.float64)[:, None]
    low = np.zeros(len(level))
    high = np.full(len(level), law.scale)

    # Double the upper ends until all are beyond the quantiles.
    is_short = ~(law.radial_cdf(high) >= level[:, 0])
    while np.any(is_short):
        low = np.where(is_short, high, low)
        high = np.where(is_short, 2 * high, high)
        if not np.all(np.isfinite(high)):
            raise ParameterError(
                "is beyond what the law's distribution function resolves",
                parameter="level",
                value=max(levels),
            )
        is_short = ~(law.radial_cdf(high) >= level[:, 0])

    # Cut all intervals into sections, and keep the first whose upper end is beyond.
    while np.any(high - low > _QUANTILE_TOLERANCE * high):
        ends = np.linspace(low, high, _SECTIONS + 1, axis=1)
        is_beyond = law.radial_cdf(ends[:, 1:-1]) >= level
        is_beyond = np.append(is_beyond, np.ones_like(level), axis=1)
        upper_end = (1 + np.argmax(is_beyond, axis=1))[:, None]
        low = np.take_along_axis(ends, upper_end - 1, 1)[:, 0]
        high = np.take_along_axis(ends, upper_end, 1)[:, 0]
    rounding = sqrt(draw.value.size) * draw.grid_width / 2
    return [float(quantile) + rounding for quantile in high]


def _base_of(draw: NoisyDraw) -> np.ndarray:
    """Return the public point at which a draw was made.

    Parameters
    ----------
    draw : NoisyDraw
        A draw of any kind but "point".
    """
    assert draw.base is not None  # Every kind of draw but "point" has one.
    return draw.base


def _shorten(z: np.ndarray, max_length: float) -> np.ndarray:
    """Return the vector nearest to z of length at most `max_length`.

    Parameters
    ----------
    z : array of shape (dim,)
        A vector of normal coordinates.
    max_length : float
        The largest length, ≥ 0.

    Returns
    -------
    array of shape (dim,)
        z itself, or its multiple of that length.
    """
    length = float(np.linalg.norm(z))
    if length <= max_length:
        return z
    return z * (max_length / length)
