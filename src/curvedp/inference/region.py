"""Confidence regions about what was released, from the certificate alone.

Of the records: the noise law's own quantile about the draw BEFORE shrinkage and projection, which the certificate keeps. Of
the population: that, and how far the mean of n independent records is from the population's (docs/inference.md).
"""

from dataclasses import dataclass
from math import exp, inf, isfinite, log, pi, sin, sinh, sqrt, tan, tanh
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold
from curvedp.mechanisms.base import FLOAT, Mechanism, Reading
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import CHART_ERROR, GRID
from curvedp.mechanisms.statistic import FrechetMean, Statistic
from curvedp.mechanisms.verify import rebuild_mechanism

__all__ = ["Region", "region_of"]

_RECORDS = "the released statistic of the records, as they were moved into the public ball"
_POPULATION = (
    "the Fréchet mean of the population, moved into the public ball, of which the records are independent draws"
)


class _Chart(NamedTuple):
    """Coordinates at `base` within `quantile` of `drawn`, and of length at most `reach`."""

    statistic: Statistic
    base: np.ndarray
    drawn: np.ndarray
    quantile: float
    reach: float


@dataclass(frozen=True, eq=False)
class Region:
    """A set that holds the truth with a stated probability over the noise (and the sample, where it says so).

    Attributes
    ----------
    manifold : Manifold
        Where it lies.
    center : ndarray
        Its middle, in the frame of the records.
    radius : float
        A geodesic ball of this radius about the center holds the region.
    level : float
        The probability, at least.
    of : {"records", "population"}
        Whose mean.
    about : str
        What it holds, in words.

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
    chart: Any = None

    def contains(self, points: Any) -> np.ndarray:
        """Whether each point, shape (..., *point_shape), lies in the region; what is not finite does not."""
        points, axes = _validate.array("points", points), len(self.manifold.point_shape)
        if points.shape[points.ndim - axes :] != self.manifold.point_shape:
            raise ParameterError(f"points have shape {points.shape}; it must end with {self.manifold.point_shape}")
        with np.errstate(all="ignore"):
            if self.chart is None:
                return np.asarray(np.asarray(self.manifold.dist(self.center, points)) <= self.radius)
            statistic, base, drawn, quantile, reach = self.chart
            z = np.asarray(self.manifold.chart(base, statistic.unplaced(points)))
            inside = np.linalg.norm(z, axis=-1) <= reach * (1 + CHART_ERROR)  # as the floats of a chart are accurate
            return np.asarray(inside & (np.linalg.norm(z - drawn, axis=-1) <= quantile + reach * CHART_ERROR))


def region_of(certificate: Certificate, level: float = 0.95, of: str = "records") -> Region:
    """The confidence region that a certificate implies; neither data nor budget are needed.

    Parameters
    ----------
    certificate : Certificate
        Of a mean or a variance, drawn exactly, with its integers.
    level : float
        Between 0 and 1.
    of : {"records", "population"}
        "records": the statistic of the records as they were moved into the ball; exact at every n for noise about the
        statistic, conservative after gradient steps on curved space. "population": finite-sample, for means of independent
        records: half of 1 − level goes to the noise, half to the sample.

    Raises
    ------
    ParameterError
        If the level is no probability, the draw was in floats, its integers are not kept, or no theorem applies.
    """
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    _validate.choice("of", of, ("records", "population"))
    if not isinstance(certificate, Certificate):
        raise ParameterError(f"certificate={_validate.shown(certificate)} must be a curvedp certificate")
    mechanism = rebuild_mechanism(certificate)
    if mechanism.path == FLOAT:
        raise ParameterError(f"{mechanism.name} draws in floats: no region; release with mechanism='log-gaussian', say")
    if of == "records":
        return _of_records(mechanism, certificate, level)
    spread = _sampling_radius(mechanism.statistic, (1 - level) / 2)
    noise = _of_records(mechanism, certificate, 1 - (1 - level) / 2)
    return Region(noise.manifold, noise.center, noise.radius + spread, level, of, _POPULATION)


def _of_records(mechanism: Mechanism, certificate: Certificate, level: float) -> Region:
    reading, M, statistic = mechanism.reading(certificate), mechanism.manifold, mechanism.statistic
    # half a cell of the grid in each coordinate
    q = _quantile(reading.law, level) + sqrt(reading.drawn.size) * 2.0 ** -(GRID + 1)
    shapes = {"point": _about_point, "chart": _in_chart, "gradient": _after_step}
    center, radius, chart = shapes[reading.kind](M, statistic, reading, q)
    return Region(M, statistic.placed(center[None])[0], radius, level, "records", _RECORDS, chart)


def _quantile(law: Any, level: float) -> float:
    """The least radius with P(d <= radius) >= level, by bisection, rounded up."""
    low, high = 0.0, law.scale
    while not law.radial_cdf(high) >= level:
        low, high = high, 2 * high
        if not isfinite(high):
            raise ParameterError(f"level={level!r} is beyond what the law's distribution function resolves")
    while (middle := (low + high) / 2) > low and high - low > 1e-13 * high:
        low, high = (low, middle) if law.radial_cdf(middle) >= level else (middle, high)
    return float(high)


def _about_point(M: Manifold, statistic: Statistic, reading: Reading, q: float) -> tuple[np.ndarray, float, Any]:
    """d(drawn, truth) has the law's radial distribution, and distance is symmetric: an exact geodesic ball."""
    return reading.drawn, q, None


def _in_chart(M: Manifold, statistic: Statistic, reading: Reading, q: float) -> tuple[np.ndarray, float, Any]:
    """A chart ball, exact, cut to where the statistic can be.

    The nearest vector z' of length <= reach to the drawn z is no farther from any vector of that length than z is (a
    projection onto a convex set), so that |w − z'| <= q for each w of the region; exp stretches the segment from z' to w,
    whose vectors have length at most min(reach, |z'| + q), by at most sinh(s)/s (Rauch).
    """
    z = _shortened(reading.drawn, reading.reach)
    longest = min(reading.reach, float(np.linalg.norm(z)) + q)
    radius = min(_stretch(M, longest) * q, float(np.linalg.norm(z)) + reading.reach)
    chart = _Chart(statistic, _base(reading), reading.drawn, q, reading.reach)
    return np.asarray(M.unchart(_base(reading), z)), radius, chart


def _after_step(M: Manifold, statistic: Statistic, reading: Reading, q: float) -> tuple[np.ndarray, float, Any]:
    """A geodesic ball about exp_w(t·g), g the drawn mean logarithm at w.

    Let f = ½·mean d²(·, xᵢ), G = −∇f(w), λ <= Hess f <= H where distances to records are at most D (Karcher 1977). Along
    exp_w(u·t·G) the gradient turns into −(I − tA)G with λ <= A <= H, and f is λ-convex, so that the mean is within
    max(1−tλ, tH−1)·|G|/λ of exp_w(t·G); and exp_w(t·g) is within t·q·sinh(s)/s of that. |G| <= min(reach, |g| + q).
    On flat space the radius is q: exact. Where this gives more than the public ball, that is the region.
    """
    w, g = _base(reading), _shortened(reading.drawn, reading.reach)
    longest = min(reading.reach, float(np.linalg.norm(g)) + q)
    ball = statistic.values
    assert ball is not None  # gradients are of means of records in a ball
    away = float(M.dist(ball.center, w))
    if not ball.radius < M.convexity_radius:
        raise ParameterError("the ball is too wide for a region after gradient steps: the mean may lie outside it")
    whole = ball.center, ball.radius * (1 + CHART_ERROR), None
    low, high = _hessian_bounds(M, away + longest + ball.radius)
    if not (away + longest < M.convexity_radius and low > 0):
        return whole  # a refusal here would follow the draw, and what is not refused would cover less often
    t = min(1.0, 2 / (low + high))
    radius = _stretch(M, t * longest) * t * q + longest * max(1 - t * low, t * high - 1) / low
    return whole if radius >= ball.radius else (np.asarray(M.unchart(w, t * g)), radius, None)


def _base(reading: Reading) -> np.ndarray:
    assert reading.base is not None  # of all kinds but "point"
    return reading.base


def _shortened(z: np.ndarray, reach: float) -> np.ndarray:
    length = float(np.linalg.norm(z))
    return z if length <= reach else z * (reach / length)


def _curvature(M: Manifold) -> tuple[float, float]:
    low, high = (0.0, 0.0) if M.dim == 1 else M.curvature_bounds
    if not (isfinite(low) and isfinite(high)):
        raise ParameterError(f"no region on {M!r}, whose curvature has no public bound; use another metric")
    return sqrt(max(-low, 0.0)), sqrt(max(high, 0.0))


def _stretch(M: Manifold, length: float) -> float:
    """How much exp stretches vectors of up to this length: sinh(s)/s, at least 1 (Rauch)."""
    s = _curvature(M)[0] * length
    return sinh(s) / s if 0 < s < 700 else (1.0 if s == 0 else exp(700.0))


def _hessian_bounds(M: Manifold, distance: float) -> tuple[float, float]:
    """Of ½d²(·, y) at distances up to this: s·cot s and s·coth s (Karcher 1977); 0 or less where it is not convex."""
    negative, positive = (root * distance for root in _curvature(M))
    low = (positive / tan(positive) if positive < pi / 2 else -inf) if positive > 0 else 1.0
    return low, negative / tanh(negative) if negative > 0 else 1.0


def _sampling_radius(statistic: Statistic, miss: float) -> float:
    """With probability 1 − miss, how far the mean of n independent records in a ball of radius r is from the population's.

    Let b be the population's mean and G = mean log_b xᵢ, of expectation 0. Then d(mean, b) <= |G|/λ, λ the least
    eigenvalue of Hess ½d² at distances up to 2r; E|G| <= √(E d²(b, x)/n) <= r/√n, as b minimizes; and replacing a record
    moves |G| by at most 2rS/n, S the stretch of log_b (1 on Hadamard manifolds), so that McDiarmid's inequality (1989) gives
    |G| <= (r/√n)(1 + S·√(2·log(1/miss))). This is the form of Brunel & Serres 2024 with constants proved here.
    """
    if not isinstance(statistic, FrechetMean):
        raise ParameterError(f"of='population' is for Fréchet means, not the {statistic.name}")
    M, r = statistic.manifold, statistic.radius
    convex, _ = _hessian_bounds(M, 2 * r)
    s = 2 * r * _curvature(M)[1]
    if not convex > 0 or not 2 * r < M.injectivity_radius:
        raise ParameterError(f"radius={r:.6g} is too wide for a region of the population on {M!r}: no theorem applies")
    stretch = s / sin(s) if s > 0 else 1.0
    return r / sqrt(statistic.n) * (1 + stretch * sqrt(2 * log(1 / miss))) / convex
