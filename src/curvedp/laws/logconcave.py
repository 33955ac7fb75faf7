"""Exact draws from a log-concave density on an interval, under a hat of tangent lines.

Any tangent of a concave function lies above it, so exp of a piecewise choice of tangents of log f is a hat for f
wherever its pieces meet: the accepted points follow f exactly (Gilks and Wild 1992; Devroye 1986, VII.2). The hat is
fixed and fine: it rejects a few points in a thousand. Every proposal is checked against it.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.errors import EnvelopeViolation
from curvedp.laws.radial import Floats, Kind, Rays

Function = Callable[[Floats], Floats]

_FALL = 12.0  # knots lie where the density has fallen by up to e^-12; beyond them the last tangent is the hat
_KNOTS = 24  # on each side of the mode
# The hat is raised by this much: far above the rounding error of log f − hat (about d·2^-52), far below what would cost
# a rejection. A log-ratio above 0 is then an error in the mathematics and never one of rounding.
_RAISE = 2.0**-30


class TangentHat:
    """Draws t from the density ∝ exp(g(t)) on (low, high), g concave with g(0) = 0 at or near its maximum; `width` is any
    positive length to start the search for knots with."""

    def __init__(
        self, g: Function, slope: Function, low: float, high: float, width: float
    ) -> None:
        self._g = g
        sides = [
            _fallen(g, end, width) for end in (min(low, 0.0), max(high, 0.0)) if end
        ]
        knots = np.unique(np.concatenate([np.zeros(1), *sides]))
        height, rise = g(knots), slope(knots)
        ends = np.concatenate([[low], _meeting_points(knots, height, rise), [high]])
        # A piece decays from its `top` end at rate |rise|; a level one gets a rate too small to change anything.
        length = np.diff(ends)
        up = rise > 0.0
        self._top = np.where(up, ends[1:], ends[:-1])
        rate = np.maximum(
            np.abs(rise), np.where(np.isinf(length), 0.0, 2.0**-60 / length)
        )
        self._decay = np.expm1(-rate * length)
        self._step = np.where(up, 1.0, -1.0) / rate
        self._rise = rise
        self._level = height + rise * (self._top - knots) + _RAISE
        self._cumulative = np.cumsum(np.exp(self._level) * -self._decay / rate)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """`size` independent draws. Each place is drawn again until it is accepted, however long that takes."""
        t = np.empty(size)
        waiting = self._propose(rng, t, None)
        while waiting.size:
            waiting = self._propose(rng, t, waiting)
        return t

    def _propose(
        self, rng: np.random.Generator, t: Floats, places: NDArray[np.intp] | None
    ) -> NDArray[np.intp]:
        """Proposes at the given places of t (None: all) and returns those that were rejected."""
        size = t.size if places is None else places.size
        piece = np.searchsorted(
            self._cumulative[:-1], rng.random(size) * self._cumulative[-1], side="right"
        )
        top = self._top[piece]
        proposal = np.log1p(rng.random(size) * self._decay[piece])
        proposal *= self._step[piece]
        proposal += top
        log_ratio = self._rise[piece]
        log_ratio *= top - proposal
        log_ratio -= self._level[piece]
        with np.errstate(divide="ignore"):  # log 0 at an end of the interval: rejected
            log_ratio += self._g(proposal)
        if not (log_ratio <= 0.0).all():
            worst = proposal[
                np.argmax(np.where(np.isnan(log_ratio), np.inf, log_ratio))
            ]
            raise EnvelopeViolation(
                f"log f − hat = {np.max(log_ratio)} > 0 at t = {worst}"
            )
        rejected = np.flatnonzero(rng.standard_exponential(size) < -log_ratio)
        t[... if places is None else places] = proposal
        return rejected if places is None else np.asarray(places[rejected])


def _fallen(g: Function, end: float, width: float) -> Floats:
    """Points between 0 and the end where g = −12 (j/24)²: evenly spaced under a Gaussian."""
    with np.errstate(divide="ignore"):
        while width < abs(end) and g(np.array([math.copysign(width, end)]))[0] > -_FALL:
            width *= 2.0
        end = math.copysign(min(width, abs(end)), end)
        deepest = min(_FALL, -float(g(np.array([end]))[0]))
        levels = -deepest * (np.arange(1, _KNOTS + 1) / _KNOTS) ** 2
        near, far = np.zeros(_KNOTS), np.full(_KNOTS, end)
        for _ in range(64):
            middle = (near + far) / 2
            above = g(middle) > levels
            near, far = np.where(above, middle, near), np.where(above, far, middle)
    return near


def _meeting_points(knots: Floats, height: Floats, rise: Floats) -> Floats:
    """Where neighboring tangents meet; the middle of the two knots where they are too parallel to tell."""
    gap, bend = np.diff(knots), -np.diff(rise)
    drop = (
        height[:-1] + rise[:-1] * gap - height[1:]
    )  # of the second knot below the first tangent
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1.0 - drop / (bend * gap)
    return np.asarray(
        knots[:-1] + gap * np.where((share > 0.0) & (share < 1.0), share, 0.5)
    )


@lru_cache(maxsize=256)
def mode(kind: Kind, rays: Rays, scale: float) -> float:
    """About the largest point of weight(r)·∏ sn^n: exactness rests on tangents alone, an error costs acceptance."""
    if not rays.roots:
        return 0.0

    def fall(log_r: float) -> float:
        """r·(log density)′; it falls."""
        r = math.exp(log_r)
        weight = (r / scale) ** 2 if kind == "gaussian" else r / scale
        return sum(count * _log_derivative(k, r) for k, count in rays.roots) - weight

    high = math.log(scale)
    while math.exp(high) < rays.end and fall(high) > 0:
        high += 1.0
    high = min(high, math.log(rays.end))
    low = high - 1.0
    while fall(low) <= 0:
        low -= 1.0
    if (
        fall(high) > 0
    ):  # up to the last bit of π/2, as for a law that is all but uniform
        return rays.end
    return math.exp(scipy.optimize.brentq(fall, low, high, xtol=1e-15))


def _log_derivative(k: float, r: float) -> float:
    """r·sn_κ′/sn_κ"""
    x = math.sqrt(abs(k)) * r
    return 1.0 if x < 1e-150 else x / (math.tan(x) if k > 0 else math.tanh(x))


@lru_cache(maxsize=256)
def radius_sampler(kind: Kind, rays: Rays, scale: float) -> tuple[float, TangentHat]:
    """(m, hat): m + hat.draw follows weight(r)·∏ sn_κ(r)^n. In t = r − m no digits cancel near the mode m.

    Gaussian −t(2m+t)/2σ² + Σ n·log(sn(m+t)/sn m), Laplace −t/σ + Σ n·log(sn(m+t)/sn m): concave, as every log sn is.
    """
    s, m = scale, mode(kind, rays, scale)

    def g(t: Floats) -> Floats:
        weight = (
            (t / s) * (t / s + 2.0 * m / s) / -2.0 if kind == "gaussian" else t / -s
        )
        for k, count in rays.roots:
            weight += count * _log_sn_ratio(k, m, t)
        return weight

    def slope(t: Floats) -> Floats:
        r = t + m
        weight = -(r / s) / s if kind == "gaussian" else np.full_like(r, -1.0 / s)
        for k, count in rays.roots:
            root = math.sqrt(abs(k))
            pull = (
                count / r
                if k == 0
                else count * root / (np.tan(root * r) if k > 0 else np.tanh(root * r))
            )
            weight = weight + pull
        return weight

    return m, TangentHat(g, slope, -m, rays.end - m, s)


def _log_sn_ratio(k: float, m: float, t: Floats) -> Floats:
    """log(sn_κ(m+t)/sn_κ(m)); abs, since m + t can pass an end of the interval by an ulp."""
    root = math.sqrt(abs(k))
    if k == 0:
        return np.log(np.abs((t + m) / m))
    if k > 0:
        return np.log(np.abs(np.sin(root * (t + m)) / math.sin(root * m)))
    return root * t + np.log(
        np.abs(np.expm1(-2.0 * root * (t + m)) / math.expm1(-2.0 * root * m))
    )
