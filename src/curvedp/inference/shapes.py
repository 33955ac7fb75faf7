"""From what a mechanism has drawn to a set that holds the truth, by one theorem for each kind.

A `NoisyDraw` says about which unknown quantity a draw was made. The functions in
`SHAPES` lead from it to a `Shape`; `curvedp.inference.region` makes a public `Region`
of that. The proofs are in docs/inference.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtri

from curvedp import _validate
from curvedp.core.capabilities import NoisyDraw
from curvedp.core.statistic import Ball, PointStatistic, Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann
from curvedp.geometry.comparison import curvature_roots, exp_stretch, hessian_bounds
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian
from curvedp.mechanisms.chart import CHART_ERROR
from curvedp.statistics.second_moment import vector_to_symmetric

# The share of 1 − level that a region of subspaces spends on the event that eigenvalues
# have not changed places. A choice: little is lost by it.
_SWAP_SHARE = 0.1

# The radius of a region is found by so many rounds of a fixed point iteration, each of
# which takes this much more, relative, so that the fixed point is reached.
_MAX_ROUNDS = 100
_FIXED_POINT_EXCESS = 1e-6

# A quantile is found by cutting an interval into so many sections again and again,
# until its width is this small, relative.
_SECTIONS = 64
_QUANTILE_TOLERANCE = 1e-13


class ChartBall(NamedTuple):
    """A ball in normal coordinates, cut to where the statistic can be.

    It holds the points whose coordinates at `base` are within `quantile` of `drawn` and
    of length at most `reach`.

    Attributes
    ----------
    statistic : PointStatistic
        Its canonical frame is that of `base`.
    base : array
        The point at which the chart is.
    drawn : array of shape (dim,)
        The coordinates that were drawn.
    quantile, reach : float
    """

    statistic: PointStatistic
    base: np.ndarray
    drawn: np.ndarray
    quantile: float
    reach: float

    def contains(self, manifold: Manifold, points: np.ndarray) -> np.ndarray:
        """Return whether each point, in the frame of the records, lies in the set.

        Both bounds are widened by as much as the floats of a chart are accurate.
        """
        canonical_points = self.statistic.to_canonical_frame(points)
        z = np.asarray(manifold.normal_coordinates(self.base, canonical_points))
        lengths = np.linalg.norm(z, axis=-1)
        distances = np.linalg.norm(z - self.drawn, axis=-1)
        is_possible = lengths <= self.reach * (1 + CHART_ERROR)
        is_near_draw = distances <= self.quantile + self.reach * CHART_ERROR
        return np.asarray(is_possible & is_near_draw)

    def edge(self, manifold: Manifold, directions: np.ndarray) -> np.ndarray:
        """Return points of the boundary in these directions, in the frame of the records.

        Parameters
        ----------
        manifold : Manifold
        directions : array of shape (count, dim)
            Unit vectors.
        """
        coordinates = [
            _shorten(self.drawn + self.quantile * direction, self.reach)
            for direction in directions
        ]
        points = manifold.from_normal_coordinates(self.base, np.stack(coordinates))
        return np.asarray(self.statistic.to_data_frame(np.asarray(points)))


class NearlyInvariantSubspaces(NamedTuple):
    """Subspaces that the drawn matrix leaves nearly invariant: ‖(I − P)·drawn·P‖ ≤ quantile.

    P is the projection onto the subspace.
    """

    drawn: np.ndarray
    quantile: float

    def contains(self, manifold: Manifold, points: np.ndarray) -> np.ndarray:
        """Return whether each subspace, given by orthonormal columns, lies in the set."""
        image = self.drawn @ points
        image_inside = points @ (np.swapaxes(points, -1, -2) @ image)
        escape = np.linalg.norm(image - image_inside, axis=(-2, -1))
        return np.asarray(escape <= self.quantile)


@dataclass(frozen=True, eq=False)
class Region:
    """A set that holds the truth with a stated probability.

    The probability is over the noise, and where `of` is "population" also over the
    sample.

    Attributes
    ----------
    manifold : Manifold
        Where the region lies.
    center : ndarray
        Its middle, in the frame of the records.
    radius : float
        The radius of a geodesic ball about the center that holds the region.
    level : float
        The probability, at least.
    of : {"records", "population"}
        Whose statistic the region is about.
    description : str
        What the region holds, in words.
    theorem : str
        Whether it is exact or conservative, and why.
    within : ChartBall, NearlyInvariantSubspaces or None
        What the region is inside that geodesic ball; None for all of the ball.

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

    @property
    def about(self) -> str:
        """The description, under its earlier name."""
        return self.description

    def contains(self, points: Any) -> np.ndarray:
        """Return whether each point lies in the region; one that is not finite does not.

        Parameters
        ----------
        points : array of shape (..., *point_shape)

        Returns
        -------
        array of shape (...)
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
        """Return points of the boundary in these directions, as seen from the middle.

        Parameters
        ----------
        directions : array of shape (count, dim)
            Unit vectors.
        """
        if isinstance(self.within, ChartBall):
            return self.within.edge(self.manifold, directions)
        steps = self.radius * directions
        return np.asarray(self.manifold.from_normal_coordinates(self.center, steps))

    def plot(self) -> Any:
        """Return a matplotlib figure of the region, where it lies (extra: report)."""
        from curvedp.report.figures import region_figure

        return region_figure(self)


class Shape(NamedTuple):
    """A geodesic ball that holds a region, in the frame of the draw.

    Attributes
    ----------
    base : array
        The middle of the ball, or where the chart of `step` is.
    radius : float
    theorem : str
        Why the ball holds the truth.
    within : ChartBall, NearlyInvariantSubspaces or None
        What the region is, where that is less than the ball.
    step : array of shape (dim,), optional
        Coordinates at `base` that lead to the middle.
    """

    base: np.ndarray
    radius: float
    theorem: str
    within: ChartBall | NearlyInvariantSubspaces | None = None
    step: np.ndarray | None = None

    def center(self, manifold: Manifold) -> np.ndarray:
        """Return the middle of the ball."""
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
    """Return a geodesic ball about a point that was drawn with isotropic noise.

    d(drawn, truth) has the law's radial distribution, and distance is symmetric, so
    that the ball of that law's quantile about the draw is exact.

    Parameters
    ----------
    manifold : Manifold
        Where the value lives.
    statistic : Statistic
        Not needed for this kind of draw.
    draw : NoisyDraw
        What was drawn.
    quantile : float
        How far noise reaches at the level of the region.
    sampling_error : float
        What the sample adds; 0 for a region of the records.
    """
    return Shape(draw.value, quantile + sampling_error, "exact: the law's own quantile")


def _shape_in_chart(
    manifold: Manifold,
    statistic: Any,
    draw: NoisyDraw,
    quantile: float,
    sampling_error: float,
) -> Shape:
    """Return a ball in a normal chart, cut to where the statistic can be.

    The ball of coordinates is exact. Let z be the vector of length at most `reach`
    nearest to the draw: it is within the quantile of every vector of the region, and
    exp stretches the segment between them by at most sinh(s)/s, which bounds the
    geodesic radius.

    Parameters
    ----------
    manifold : Manifold
        Where the value lives.
    statistic : PointStatistic
        In whose canonical frame the chart is.
    draw : NoisyDraw
        The drawn coordinates, at `draw.base`.
    quantile : float
        How far noise reaches at the level of the region.
    sampling_error : float
        What the sample adds; 0 for a region of the records.
    """
    z = _shorten(draw.value, draw.reach)
    z_length = float(np.linalg.norm(z))
    longest = min(draw.reach, z_length + quantile)
    radius = min(exp_stretch(manifold, longest) * quantile, z_length + draw.reach)
    chart = ChartBall(statistic, _base_of(draw), draw.value, quantile, draw.reach)
    theorem = "exact: the law's own quantile in the chart"
    if sampling_error:
        # The population's value may lie outside the chart ball of the records' value.
        return Shape(chart.base, radius + sampling_error, theorem, None, z)

    distance_to_ball = float(np.linalg.norm(draw.value - z))
    if distance_to_ball > quantile + draw.reach * CHART_ERROR:
        theorem = (
            "exact, and empty: the draw is farther from the ball than noise reaches at "
            "this level, which is a miss"
        )
    return Shape(chart.base, radius, theorem, chart, z)


def _shape_after_gradient(
    manifold: Manifold,
    statistic: Statistic,
    draw: NoisyDraw,
    quantile: float,
    sampling_error: float,
) -> Shape:
    """Return a geodesic ball about exp_w(t·g), g the drawn mean logarithm at w.

    Theorem (docs/inference.md, "After a gradient"). Let |G| ≤ min(reach, |g| + q) for
    the true gradient G, D a bound on the distances from exp_w(u·G), 0 ≤ u ≤ t, to the
    records, and λ ≤ Hess ≤ H within D. The mean is within ρ of exp_w(t·G) for every ρ
    with ρ·λ(D + ρ) ≥ max(1 − tλ, tH − 1)·|G|, and exp_w(t·g) is within t·q·sinh(s)/s of
    that. On flat space the radius is q: exact. Where this gives more than the ball of
    the records, that ball is the region.

    Parameters
    ----------
    manifold : Manifold
        Where the records and their mean live.
    statistic : Statistic
        The mean; its `value_ball` is the ball of the records.
    draw : NoisyDraw
        The drawn gradient g, at w = `draw.base`.
    quantile : float
        q, how far noise reaches at the level of the region.
    sampling_error : float
        What the sample adds; 0 for a region of the records.
    """
    w = _base_of(draw)
    g = _shorten(draw.value, draw.reach)
    longest_gradient = min(draw.reach, float(np.linalg.norm(g)) + quantile)
    ball = statistic.value_ball
    assert ball is not None  # Gradients are of means of records in a ball.
    curvature_roots(manifold)  # This refuses a space whose curvature has no bound.
    _check_unique_mean(manifold, ball)
    whole_ball = Shape(
        ball.center,
        ball.radius * (1 + CHART_ERROR),
        "the ball itself: gradients say no more",
    )

    distance_to_center = float(manifold.dist(ball.center, w))
    farthest = distance_to_center + longest_gradient + ball.radius
    lowest, highest = hessian_bounds(manifold, farthest)
    # A refusal here would depend on the draw, and what is not refused would then cover
    # less often than it says.
    is_convex_nearby = distance_to_center + longest_gradient < manifold.convexity_radius
    if not (is_convex_nearby and lowest > 0):
        return whole_ball

    t = min(1.0, 2 / (lowest + highest))
    gradient_left = longest_gradient * max(1 - t * lowest, t * highest - 1)
    mean_distance = _distance_to_mean(manifold, farthest, gradient_left)
    noise_distance = exp_stretch(manifold, t * longest_gradient) * t * quantile
    radius = noise_distance + mean_distance + sampling_error
    if radius >= ball.radius:
        return whole_ball
    is_flat = lowest == highest == 1
    theorem = "conservative: one step by Hessian bounds (Karcher)"
    if is_flat:
        theorem = "exact: the law's own quantile"
    return Shape(w, radius, theorem, None, t * g)


def _check_unique_mean(manifold: Manifold, ball: Ball) -> None:
    """Refuse a ball in which records may have several means."""
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


def _distance_to_mean(manifold: Manifold, farthest: float, gradient: float) -> float:
    """Return how far the mean can be from a point with a gradient of this length.

    Records are within `farthest` of the point. The answer is a radius ρ with
    ρ·λ(farthest + ρ) ≥ gradient, λ(D) the least eigenvalue of the Hessian within D: the
    flow of −∇f shrinks the gradient at rate λ as long as it is within ρ, so that it is
    not longer than gradient/λ ≤ ρ and ends at the mean. It is inf where no such radius
    is found.
    """
    distance = 0.0
    for _ in range(_MAX_ROUNDS):
        reach = farthest + distance
        lowest, _highest = hessian_bounds(manifold, reach)
        if not (lowest > 0 and reach < manifold.injectivity_radius):
            return inf
        if distance * lowest >= gradient:
            return distance
        excess = _FIXED_POINT_EXCESS if distance > 0 else 0.0
        distance = gradient / lowest * (1 + excess)
    return inf


def _shape_from_counts(
    manifold: Manifold,
    statistic: Any,
    draw: NoisyDraw,
    level: float,
    sampling_error: float,
) -> Shape:
    """Return a ball about w that holds every geometric median, from noisy counts.

    Where a share p > ½ of the records is within R of w, every median is at most 2pR/(2p
    − 1 − t) away, t what the sample adds (Lopuhaä & Rousseeuw 1991; Minsker 2015). The
    counts of records beyond each radius have fresh noises, which are bounded together
    at the level.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    statistic : GeometricMedian
    draw : NoisyDraw
        How many records are farther from w = `draw.base` than each of `draw.radii`.
    level : float
        Of the region; all noises are bounded at once with this probability.
    sampling_error : float
        t, what the sample adds; 0 for a region of the records.
    """
    assert draw.radii is not None  # Counts are drawn at radii.
    n_counts = draw.value.size
    rounding = draw.cell * np.arange(1, n_counts + 1)
    noise_bounds = joint_noise_bounds(draw.law, n_counts, level) + rounding

    candidates = []
    for count, bound, radius in zip(draw.value, noise_bounds, draw.radii, strict=True):
        most_beyond = max(0, floor(count + bound))
        p = 1 - most_beyond / statistic.n
        majority = 2 * p - 1 - sampling_error
        if majority > 0:
            candidates.append(2 * p * radius * (1 + CHART_ERROR) / majority)
    smallest = min(candidates, default=inf)
    if smallest < draw.reach:
        theorem = "conservative: most records are near (Lopuhaä & Rousseeuw)"
        return Shape(_base_of(draw), smallest, theorem)
    center, outer_radius = statistic.outer_ball
    return Shape(center, outer_radius, "the outer ball itself: counts say no more")


def joint_noise_bounds(law: Any, n_counts: int, level: float) -> np.ndarray:
    """Return what the noises of several counts all stay below, with probability `level`.

    Gaussian noises are independent: none of k exceeds z with probability Φ(z)^k. Of
    Laplace noises the j-th count has the sum of j: it exceeds t with probability at
    most e^(−st)/(1 − s²b²)^j for every s < 1/b (Chernoff), and the bounds hold together
    by a union bound.

    Parameters
    ----------
    law
        The noise law, with its scale.
    n_counts : int
        k.
    level : float

    Returns
    -------
    array of shape (n_counts,)
    """
    if isinstance(law, RiemannianGaussian):
        return np.full(n_counts, law.scale * float(ndtri(level ** (1 / n_counts))))
    exponent = log(n_counts / (1 - level))
    s = np.linspace(0.01, 0.99, 99)[:, None]
    n_noises = np.arange(1, n_counts + 1)
    bounds = (exponent - n_noises * np.log1p(-s * s)) / s
    return np.asarray(law.scale * np.min(bounds, axis=0))


# One theorem for each kind of draw. Each function is given the quantile of the noise,
# but for counts, which need the level itself.
SHAPES: dict[str, Callable[..., Shape]] = {
    "point": _shape_of_point,
    "chart": _shape_in_chart,
    "gradient": _shape_after_gradient,
    "counts": _shape_from_counts,
}


def principal_subspaces(
    statistic: Any,
    draw: NoisyDraw,
    level: float,
    components: int,
    sampling_error: float,
) -> tuple[Manifold, Shape]:
    """Return where the leading subspace of the records' second moment S is.

    What was drawn is S + N. With P the projection onto the subspace, ‖(I − P)(S + N)P‖
    is σ/√2 times a χ variable: its quantile q bounds it. ‖N‖ ≤ e = σ(√(2d) + z) but for
    twice the tail of z (Davidson & Szarek 2001, Theorem 2.11; the mean is above the
    median, Kwapień 1994). Where the drawn gap of eigenvalues is δ > 4e, the sin 2Θ
    theorem (Davis & Kahan 1970), for these corners alone and the Frobenius norm, gives
    √Σθ² ≤ ½·arcsin(2q/δ): the largest is one angle, as arcsin²√y is convex. S may be
    within `sampling_error` of the population's second moment: that is noise too, whose
    corner is at most √½ of it.

    Parameters
    ----------
    statistic : SecondMoment
    draw : NoisyDraw
        S + N, in orthonormal coordinates of the symmetric matrices.
    level : float
    components : int
        The dimension of the subspace.
    sampling_error : float

    Returns
    -------
    manifold : Manifold
        The Grassmann manifold.
    shape : Shape
    """
    d = statistic.features
    if not 0 < components < d:
        raise ParameterError(
            f"{components} components of {d} features: a region is of 1 to {d - 1}"
        )
    gaussian = _as_gaussian(draw, 1 - level)
    sigma = gaussian.sigma
    failure_probability = gaussian.failure_probability
    drawn_matrix = vector_to_symmetric(draw.value, d)
    rounding = sqrt(draw.value.size) * draw.cell / 2

    n_corner_entries = components * (d - components)
    corner_probability = failure_probability * (1 - _SWAP_SHARE)
    corner_chi = sqrt(2 * gammainccinv(n_corner_entries / 2, corner_probability))
    q = sigma / sqrt(2) * corner_chi + rounding
    q = q + sampling_error / sqrt(2)
    z = -float(ndtri(failure_probability * _SWAP_SHARE / 2))
    e = sigma * (sqrt(2 * d) + z) + (rounding + sampling_error)

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


class _GaussianBound(NamedTuple):
    """Gaussian noise of deviation sigma that is longer than the noise in every norm.

    Attributes
    ----------
    sigma : float
    failure_probability : float
        What is left of it, after the part for which the comparison may fail.
    """

    sigma: float
    failure_probability: float


def _as_gaussian(draw: NoisyDraw, failure_probability: float) -> _GaussianBound:
    """Bound the noise of a draw by Gaussian noise.

    Laplace noise in D dimensions is (|N|/|Z|)·Z for Z ~ N(0, I) and |N| ~ b·Gamma(D)
    independent of Z/|Z|. But for a part of the failure probability, |N|/|Z| is at most
    σ, so that the noise is at most σZ in every norm.
    """
    if isinstance(draw.law, RiemannianGaussian):
        return _GaussianBound(draw.law.scale, failure_probability)
    size = draw.value.size
    tail = failure_probability * _SWAP_SHARE / 2
    shortest_gaussian = sqrt(2 * gammaincinv(size / 2, tail))
    longest_noise = draw.law.scale * float(gammainccinv(size, tail))
    return _GaussianBound(
        longest_noise / shortest_gaussian, failure_probability * (1 - _SWAP_SHARE)
    )


def noise_quantiles(draw: NoisyDraw, levels: Sequence[float]) -> list[float]:
    """Return how far noise reaches at these levels.

    That is the least radius with P(length of the noise ≤ radius) ≥ level, rounded up,
    and half a cell of the grid for each coordinate.
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
    rounding = sqrt(draw.value.size) * draw.cell / 2
    return [float(quantile) + rounding for quantile in high]


def _base_of(draw: NoisyDraw) -> np.ndarray:
    """Return the point at which the draw was made."""
    assert draw.base is not None  # Every kind of draw but "point" has one.
    return draw.base


def _shorten(z: np.ndarray, max_length: float) -> np.ndarray:
    """Return the vector nearest to z of length at most `max_length`."""
    length = float(np.linalg.norm(z))
    if length <= max_length:
        return z
    return z * (max_length / length)
