"""From what a mechanism has drawn to a set that holds the truth: one theorem for each kind of draw (docs/inference.md)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, floor, inf, isfinite, log, pi, sinh, sqrt, tan, tanh
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtri

from curvedp import _validate
from curvedp.core.capabilities import NoisyDraw
from curvedp.core.statistic import PointStatistic, Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian
from curvedp.mechanisms.chart import CHART_ERROR
from curvedp.statistics.second_moment import vector_to_symmetric

_SWAPPED = 0.1  # of 1 − level: what a region of subspaces spends on eigenvalues not having changed places

# The radius of a region is sought by so many rounds of a fixed point, each of which asks for
# this much more, relative, so that it is reached.
_MOST_ROUNDS = 100
_FIXED_POINT_EXCESS = 1e-6


class Chart(NamedTuple):
    """Coordinates at `base` within `quantile` of `drawn`, and of length at most `reach`."""

    statistic: PointStatistic
    base: np.ndarray
    drawn: np.ndarray
    quantile: float
    reach: float

    def contains(self, manifold: Manifold, points: np.ndarray) -> np.ndarray:
        z = np.asarray(
            manifold.normal_coordinates(
                self.base, self.statistic.to_canonical_frame(points)
            )
        )
        inside = np.linalg.norm(z, axis=-1) <= self.reach * (
            1 + CHART_ERROR
        )  # as the floats of a chart are accurate
        near = (
            np.linalg.norm(z - self.drawn, axis=-1)
            <= self.quantile + self.reach * CHART_ERROR
        )
        return np.asarray(inside & near)

    def edge(self, manifold: Manifold, directions: np.ndarray) -> np.ndarray:
        z = np.stack(
            [_shortened(self.drawn + self.quantile * u, self.reach) for u in directions]
        )
        points = np.asarray(manifold.from_normal_coordinates(self.base, z))
        return np.asarray(self.statistic.to_data_frame(points))


class Subspaces(NamedTuple):
    """Subspaces that the drawn matrix moves by at most `quantile`: ‖(I − P)·drawn·P‖."""

    drawn: np.ndarray
    quantile: float

    def contains(self, manifold: Manifold, points: np.ndarray) -> np.ndarray:
        image = self.drawn @ points
        across = image - points @ (np.swapaxes(points, -1, -2) @ image)
        return np.asarray(np.linalg.norm(across, axis=(-2, -1)) <= self.quantile)


@dataclass(frozen=True, eq=False)
class Region:
    """A set that holds the truth with a stated probability over the noise (and the sample, where it says so).

    Attributes
    ----------
    manifold, center, radius : Manifold, ndarray, float
        Where it lies, its middle in the frame of the records, and the radius of a geodesic ball about it that holds it.
    level, of : float, {"records", "population"}
        The probability, at least, and whose statistic.
    about, theorem : str
        What it holds, in words; whether it is exact or conservative, and why.

    Examples
    --------
    >>> from curvedp import PrivateFrechetMean
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> region = PrivateFrechetMean(Sphere(2), radius=0.7).fit(X).confidence_region(level=0.95)
    >>> region.level, region.of, region.contains(X[:2]).shape
    (0.95, 'records', (2,))
    """

    manifold: Manifold
    center: np.ndarray
    radius: float
    level: float
    of: str
    about: str
    theorem: str
    within: Chart | Subspaces | None = None

    def contains(self, points: Any) -> np.ndarray:
        """Whether each point, shape (..., *point_shape), lies in the region; what is not finite does not."""
        points, axes = _validate.array("points", points), len(self.manifold.point_shape)
        if points.shape[points.ndim - axes :] != self.manifold.point_shape:
            raise ParameterError(
                f"points have shape {points.shape}; it must end with {self.manifold.point_shape}"
            )
        with np.errstate(all="ignore"):
            near = np.asarray(self.manifold.dist(self.center, points)) <= self.radius
            return np.asarray(
                near
                if self.within is None
                else near & self.within.contains(self.manifold, points)
            )

    def edge(self, directions: np.ndarray) -> np.ndarray:
        """Points of its boundary in these directions, unit vectors of shape (count, dim), as seen from its middle."""
        if isinstance(self.within, Chart):
            return self.within.edge(self.manifold, directions)
        return np.asarray(
            self.manifold.from_normal_coordinates(self.center, self.radius * directions)
        )

    def plot(self) -> Any:
        """A matplotlib figure of it, where it lies (extra: report)."""
        from curvedp.report.figures import region_figure

        return region_figure(self)


class Shape(NamedTuple):
    """A ball that holds the region, in the frame of the draw; what the region is, where that is less; and why. Its middle
    is `base`, or where the coordinates `step` lead from there."""

    base: np.ndarray
    radius: float
    theorem: str
    within: Chart | Subspaces | None = None
    step: np.ndarray | None = None

    def center(self, manifold: Manifold) -> np.ndarray:
        return (
            self.base
            if self.step is None
            else np.asarray(manifold.from_normal_coordinates(self.base, self.step))
        )


def _about_point(
    M: Manifold, statistic: Statistic, reading: NoisyDraw, q: float, sampled: float
) -> Shape:
    """d(drawn, truth) has the law's radial distribution, and distance is symmetric: an exact geodesic ball."""
    return Shape(reading.value, q + sampled, "exact: the law's own quantile")


def _in_chart(
    M: Manifold, statistic: Any, reading: NoisyDraw, q: float, sampled: float
) -> Shape:
    """A chart ball, exact, cut to where the statistic can be. The nearest vector z of length <= reach is within q of each of
    the region, and exp stretches the segment between them by at most sinh(s)/s."""
    z = _shortened(reading.value, reading.reach)
    longest = min(reading.reach, float(np.linalg.norm(z)) + q)
    radius = min(_stretch(M, longest) * q, float(np.linalg.norm(z)) + reading.reach)
    chart = Chart(statistic, _base(reading), reading.value, q, reading.reach)
    theorem = "exact: the law's own quantile in the chart"
    if (
        not sampled
        and float(np.linalg.norm(reading.value - z)) > q + reading.reach * CHART_ERROR
    ):
        theorem = "exact, and empty: the draw is farther from the ball than noise reaches at this level, which is a miss"
    return Shape(chart.base, radius + sampled, theorem, None if sampled else chart, z)


def _after_step(
    M: Manifold, statistic: Statistic, reading: NoisyDraw, q: float, sampled: float
) -> Shape:
    """Return a geodesic ball about exp_w(t·g), g the drawn mean logarithm at w.

    Theorem (docs/inference.md, "After a gradient"). Let |G| ≤ min(reach, |g| + q) for the true
    gradient G, D a bound on the distances from exp_w(u·G), 0 ≤ u ≤ t, to the records, and
    λ ≤ Hess ≤ H within D. The mean is within ρ of exp_w(t·G) for every ρ with
    ρ·λ(D + ρ) ≥ max(1 − tλ, tH − 1)·|G|, and exp_w(t·g) is within t·q·sinh(s)/s of that. On flat
    space the radius is q: exact. Where this gives more than the ball of the records, that is
    the region.
    """
    w, g = _base(reading), _shortened(reading.value, reading.reach)
    longest = min(reading.reach, float(np.linalg.norm(g)) + q)
    ball = statistic.value_ball
    assert ball is not None  # gradients are of means of records in a ball
    away = float(M.dist(ball.center, w))
    curvature_roots(M)  # refuses a space whose curvature has no bound
    if not ball.radius < M.convexity_radius:
        raise ParameterError(
            "no confidence region: the records are so spread out that the ball around "
            f"them has radius {ball.radius:.4g}, and on {M!r} records are known to have "
            f"only one mean in balls of radius below {M.convexity_radius:.4g}; the error "
            "of the release is not bounded by its noise. PrivateFrechetMedian varies less "
            "for such records; a public radius below "
            f"{M.convexity_radius:.4g} has a region for the mean of the records clipped to it"
        )
    whole_ball = Shape(
        ball.center,
        ball.radius * (1 + CHART_ERROR),
        "the ball itself: gradients say no more",
    )
    farthest = away + longest + ball.radius
    low, high = hessian_bounds(M, farthest)
    # A refusal here would follow the draw, and what is not refused would cover less often.
    if not (away + longest < M.convexity_radius and low > 0):
        return whole_ball
    t = min(1.0, 2 / (low + high))
    gradient_left = longest * max(1 - t * low, t * high - 1)
    mean_distance = _distance_to_mean(M, farthest, gradient_left)
    radius = _stretch(M, t * longest) * t * q + mean_distance + sampled
    if radius >= ball.radius:
        return whole_ball
    is_flat = low == high == 1
    theorem = "conservative: one step by Hessian bounds (Karcher)"
    if is_flat:
        theorem = "exact: the law's own quantile"
    return Shape(w, radius, theorem, None, t * g)


def _distance_to_mean(M: Manifold, farthest: float, gradient: float) -> float:
    """Return how far the mean can be from a point with a gradient of this length.

    Records are within `farthest` of the point. The answer is a radius ρ with
    ρ·λ(farthest + ρ) ≥ gradient, λ(D) the least eigenvalue of the Hessian within D: the flow of
    −∇f shrinks the gradient at rate λ as long as it is within ρ, so that it is not longer than
    gradient/λ ≤ ρ and ends at the mean. It is inf where no such radius is found.
    """
    distance = 0.0
    for _ in range(_MOST_ROUNDS):
        reach = farthest + distance
        low, _high = hessian_bounds(M, reach)
        if not (low > 0 and reach < M.injectivity_radius):
            return inf
        if distance * low >= gradient:
            return distance
        excess = _FIXED_POINT_EXCESS if distance > 0 else 0.0
        distance = gradient / low * (1 + excess)
    return inf


def _from_counts(
    M: Manifold, statistic: Any, reading: NoisyDraw, level: float, sampled: float
) -> Shape:
    """A ball about w that holds every geometric median, by how many records are near w: where a share p > ½ is within R it is
    at most 2pR/(2p − 1 − sampled) away (Lopuhaä & Rousseeuw 1991; Minsker 2015). The k counts' noises are fresh."""
    most = _exceeded(reading.law, reading.value.size, level) + reading.cell * np.arange(
        1, reading.value.size + 1
    )
    assert reading.radii is not None  # of counts
    near = [
        1 - max(0, floor(count + more)) / statistic.n
        for count, more in zip(reading.value, most, strict=True)
    ]
    pulls = [
        (2 * p * R * (1 + CHART_ERROR), 2 * p - 1 - sampled)
        for p, R in zip(near, reading.radii, strict=True)
    ]
    found = [length / pull for length, pull in pulls if pull > 0]
    if min(found, default=inf) < reading.reach:
        return Shape(
            _base(reading),
            min(found),
            "conservative: most records are near (Lopuhaä & Rousseeuw)",
        )
    center, radius = statistic.outer_ball
    return Shape(center, radius, "the outer ball itself: counts say no more")


def _exceeded(law: Any, k: int, level: float) -> np.ndarray:
    """What k noises all stay below with probability `level`. Gaussian ones, each a count's own: none exceeds z with
    probability Φ(z)^k. Of Laplace ones the j-th count has the sum of j: it exceeds t with probability at most
    e^(−st)/(1 − s²b²)^j for every s < 1/b (Chernoff), by a union bound."""
    if isinstance(law, RiemannianGaussian):
        return np.full(k, law.scale * float(ndtri(level ** (1 / k))))
    wanted, s = log(k / (1 - level)), np.linspace(0.01, 0.99, 99)[:, None]
    return np.asarray(
        law.scale
        * np.min((wanted - np.arange(1, k + 1) * np.log1p(-s * s)) / s, axis=0)
    )


SHAPES: dict[str, Callable[..., Shape]] = {
    "point": _about_point,
    "chart": _in_chart,
    "gradient": _after_step,
    "counts": _from_counts,
}


def principal_subspaces(
    statistic: Any, reading: NoisyDraw, level: float, components: int, sampled: float
) -> tuple[Manifold, Shape]:
    """Where the leading subspace of the records' second moment S is, from the drawn S + N: ‖(I − P)(S + N)P‖ is σ/√2 times χ.

    ‖N‖ <= e = σ(√(2d) + z) but for twice the tail of z (Davidson & Szarek 2001, Theorem 2.11; the mean is above the median,
    Kwapień 1994). Where the drawn gap is δ > 4e, the sin 2Θ theorem (Davis & Kahan 1970), for these corners alone and the
    Frobenius norm, gives √Σθ² <= ½·arcsin(2q/δ): the most is one angle, as arcsin²√y is convex. S may be within `sampled` of
    what is asked for: that is noise too, whose corner is at most √½ of it.
    """
    d, (sigma, miss) = statistic.features, _as_gaussian(reading, 1 - level)
    if not 0 < components < d:
        raise ParameterError(
            f"{components} components of {d} features: a region is of 1 to {d - 1}"
        )
    drawn = vector_to_symmetric(reading.value, d)
    grid = sqrt(reading.value.size) * reading.cell / 2
    q = (
        sigma
        / sqrt(2)
        * sqrt(
            2 * gammainccinv(components * (d - components) / 2, miss * (1 - _SWAPPED))
        )
        + grid
    )
    q, grid = q + sampled / sqrt(2), grid + sampled
    e = sigma * (sqrt(2 * d) - float(ndtri(miss * _SWAPPED / 2))) + grid
    values, vectors = np.linalg.eigh(drawn)
    center, gap = (
        vectors[:, ::-1][:, :components],
        float(values[-components] - values[-components - 1]),
    )
    M = Grassmann(d, components)
    if not gap > max(4 * e, 2 * q):
        widest = sqrt(min(components, d - components)) * pi / 2
        return M, Shape(center, widest, "everything: noise hides the directions")
    radius = float(np.arcsin(2 * q / gap)) / 2
    return M, Shape(
        center,
        radius,
        "exact but for swapped eigenvalues (Davis & Kahan)",
        Subspaces(drawn, q),
    )


def _as_gaussian(reading: NoisyDraw, miss: float) -> tuple[float, float]:
    """(σ, what is left of `miss`). Laplace noise in D dimensions is (|N|/|Z|)·Z for Z ~ N(0, I), |N| ~ b·Gamma(D) independent
    of Z/|Z|: but for a part of `miss` that is at most σZ in every norm."""
    if isinstance(reading.law, RiemannianGaussian):
        return reading.law.scale, miss
    size, tail = reading.value.size, miss * _SWAPPED / 2
    least = sqrt(2 * gammaincinv(size / 2, tail))
    return reading.law.scale * float(gammainccinv(size, tail)) / least, miss * (
        1 - _SWAPPED
    )


def quantiles(reading: NoisyDraw, levels: Sequence[float]) -> list[float]:
    """How far noise reaches at these levels: the least radius with P(d <= radius) >= level, by 64 sections at a time, rounded
    up, and half a cell a coordinate. For counts, the levels themselves."""
    law, level = reading.law, np.asarray(levels, dtype=np.float64)[:, None]
    if reading.kind == "counts":
        return list(levels)
    low, high = np.zeros(len(level)), np.full(len(level), law.scale)
    while np.any(short := ~(law.radial_cdf(high) >= level[:, 0])):
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
        if not np.all(np.isfinite(high)):
            raise ParameterError(
                "is beyond what the law's distribution function resolves",
                parameter="level",
                value=max(levels),
            )
    while np.any(high - low > 1e-13 * high):
        ends = np.linspace(low, high, 65, axis=1)
        place = 1 + np.argmax(
            np.append(
                law.radial_cdf(ends[:, 1:-1]) >= level, np.ones_like(level), axis=1
            ),
            axis=1,
        )
        low, high = (
            np.take_along_axis(ends, at[:, None], 1)[:, 0] for at in (place - 1, place)
        )
    return [float(q) + sqrt(reading.value.size) * reading.cell / 2 for q in high]


def _base(reading: NoisyDraw) -> np.ndarray:
    assert reading.base is not None  # of all kinds but "point"
    return reading.base


def _shortened(z: np.ndarray, reach: float) -> np.ndarray:
    length = float(np.linalg.norm(z))
    return z if length <= reach else z * (reach / length)


def curvature_roots(M: Manifold) -> tuple[float, float]:
    """√ of how negative and how positive curvature can be."""
    low, high = (0.0, 0.0) if M.dim == 1 else M.curvature_bounds
    if not (isfinite(low) and isfinite(high)):
        raise ParameterError(
            f"no region on {M!r}, whose curvature has no public bound; use another metric"
        )
    return sqrt(max(-low, 0.0)), sqrt(max(high, 0.0))


def _stretch(M: Manifold, length: float) -> float:
    """How much exp stretches vectors of up to this length: sinh(s)/s, at least 1 (Rauch)."""
    s = curvature_roots(M)[0] * length
    return sinh(s) / s if 0 < s < 700 else (1.0 if s == 0 else exp(700.0))


def hessian_bounds(M: Manifold, distance: float) -> tuple[float, float]:
    """Of ½d²(·, y) at distances up to this: s·cot s and s·coth s (Karcher 1977); 0 or less where it is not convex."""
    negative, positive = (root * distance for root in curvature_roots(M))
    low = (
        (positive / tan(positive) if positive < pi / 2 else -inf)
        if positive > 0
        else 1.0
    )
    return low, negative / tanh(negative) if negative > 0 else 1.0
