"""Draws of a real number with a log-concave density f, by rejection. The logarithm of f
lies below each of its tangents, and the lowest tangent at each point makes up an
envelope. A point is proposed from the envelope and accepted with the probability
f/envelope, so that it follows f exactly.

See Gilks and Wild 1992; Devroye 1986, VII.2. The envelope is fixed and fine, and
rejects a few points in a thousand. Every proposal is checked against it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.errors import EnvelopeViolation
from curvedp.laws.backend import Floats, Kind
from curvedp.laws.isotropic.space import TwoPointHomogeneousSpace

Function = Callable[[Floats], Floats]
"""A function of a real variable, elementwise on arrays."""

# Tangents touch where the log-density has fallen by at most this; beyond the last touch
# point its tangent continues.
_MAX_LOG_DROP = 12.0

# Touch points on each side of the mode.
_TOUCH_POINTS_PER_SIDE = 24

# The log-envelope is raised by this much: far above the rounding error of log f − log
# envelope (about d·2^-52 in dimension d) and far too little to cost a rejection. A
# positive log-ratio is therefore a mathematical error, never one of rounding.
_LOG_ENVELOPE_MARGIN = 2.0**-30

# x/tan x and x/tanh x are 1 in floats below this x; at x = 0 they would be 0/0.
_SMALLEST_ANGLE = 1e-150

# Bisections of the radius of a knot: more than the 53 bits of a float.
_TOUCH_POINT_BISECTIONS = 64


class TangentEnvelope:
    """Sampler for the density ∝ exp(g(t)) on (low, high), where g is concave.

    Parameters
    ----------
    log_density : callable
        g, elementwise on arrays, with g(0) = 0 at or near its maximum.
    slope : callable
        g', elementwise on arrays.
    low, high : float
        The ends of the support, low ≤ 0 ≤ high; they may be infinite.
    width : float
        Any positive length; the search for touch points starts with it.
    """

    def __init__(
        self,
        log_density: Function,
        slope: Function,
        low: float,
        high: float,
        width: float,
    ) -> None:
        """Choose the tangents and compute the mass under each of them.

        Parameters
        ----------
        log_density : callable
            The concave function g, elementwise on arrays, with g(0) = 0.
        slope : callable
            Its derivative g', elementwise on arrays.
        low, high : float
            The ends of the support, low ≤ 0 ≤ high; they may be infinite.
        width : float
            Any positive length; the search for touch points starts with it.
        """
        # The minimum of the tangents is the log-envelope: one straight segment for each
        # tangent, from one crossing of neighboring tangents to the next.
        self._log_density = log_density
        knots = _knots(log_density, low, high, width)
        heights = log_density(knots)
        slopes = slope(knots)
        crossings = _tangent_crossings(knots, heights, slopes)
        segment_ends = np.concatenate([[low], crossings, [high]])

        # Each segment decays from its higher end.
        lengths = np.diff(segment_ends)
        rates = _decay_rates(slopes, lengths)
        is_rising = slopes > 0.0
        self._higher_end = np.where(is_rising, segment_ends[1:], segment_ends[:-1])

        # With a uniform number u, the point of a segment below which (seen from its
        # higher end) the fraction u of its mass lies is
        #     higher end + signed length·log(1 + u·decay),
        # where decay = e^{−rate·length} − 1 and the signed length is ±1/rate. The sign
        # leads into the segment, since the logarithm is negative.
        self._decay = np.expm1(-rates * lengths)
        self._signed_decay_length = np.where(is_rising, 1.0, -1.0) / rates
        self._slope = slopes
        self._log_height = (
            heights + slopes * (self._higher_end - knots) + _LOG_ENVELOPE_MARGIN
        )
        segment_masses = np.exp(self._log_height) * -self._decay / rates
        self._cumulative_mass = np.cumsum(segment_masses)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Return `size` independent draws; each is repeated until it is accepted.

        Parameters
        ----------
        rng : Generator
            The source of randomness.
        size : int
            The number of draws.

        Returns
        -------
        array, shape (size,)
            The draws.
        """
        draws = np.empty(size)
        rejected = self._propose(rng, draws, None)
        while rejected.size:
            rejected = self._propose(rng, draws, rejected)
        return draws

    def _propose(
        self,
        rng: np.random.Generator,
        draws: Floats,
        positions: NDArray[np.intp] | None,
    ) -> NDArray[np.intp]:
        """Write a proposal to each position and return the positions to draw again.

        A segment of the envelope is chosen in proportion to its mass, and a point in it
        by inverting the distribution function of its exponential density. The point t
        is accepted with probability f(t)/envelope(t).

        Every proposal is checked: log(f/envelope) must not be positive.
        tests/laws/isotropic/test_envelope.py checks that envelopes lie above their
        targets.

        Called by `draw` until no position is left.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        draws : array
            Overwritten at `positions`.
        positions : array of int, or None
            The entries that still need a draw; None means all of them.

        Returns
        -------
        array of int
            The positions whose proposal was rejected.
        """
        # The segment follows from the mass below the proposal, which is uniform.
        size = draws.size if positions is None else positions.size
        masses_below = rng.random(size) * self._cumulative_mass[-1]
        segment = np.searchsorted(
            self._cumulative_mass[:-1], masses_below, side="right"
        )

        # A point of the segment, by the formula in `__init__`.
        higher_end = self._higher_end[segment]
        proposals = np.log1p(rng.random(size) * self._decay[segment])
        proposals *= self._signed_decay_length[segment]
        proposals += higher_end

        # log(f/envelope) = log f(t) − height at the higher end − slope·(t − that end).
        log_ratios = self._slope[segment]
        log_ratios *= higher_end - proposals
        log_ratios -= self._log_height[segment]
        with np.errstate(divide="ignore"):
            # At an end of the interval log f can be −∞: such a proposal is rejected.
            log_ratios += self._log_density(proposals)
        _check_below_envelope(log_ratios, proposals)

        # An exponential variable is below x with probability 1 − e^{−x}.
        rejected = np.flatnonzero(rng.standard_exponential(size) < -log_ratios)
        if positions is None:
            draws[...] = proposals
            return rejected
        draws[positions] = proposals
        return np.asarray(positions[rejected])


def _knots(log_density: Function, low: float, high: float, width: float) -> Floats:
    """Return the points where tangents of g touch: 0, and points on both sides of it.

    Called once, when an envelope is made.

    Parameters
    ----------
    log_density : callable
        The concave function g with g(0) = 0.
    low, high : float
        The ends of the support; they may be infinite.
    width : float
        Any positive length; the search for the points starts with it.

    Returns
    -------
    array
        The points, in increasing order.
    """
    points = [np.zeros(1)]
    for end in (min(low, 0.0), max(high, 0.0)):
        if end != 0:
            points.append(_touch_points(log_density, end, width))
    return np.unique(np.concatenate(points))


def _decay_rates(slopes: Floats, lengths: Floats) -> Floats:
    """Return the rates |slope| at which the segments of an envelope decay; none is 0.

    A level segment has the rate 2^-60/length instead. This changes its density by less
    than a rounding error, and divisions by the rate need no special case.

    Parameters
    ----------
    slopes, lengths : arrays of shape (n,)
        The slope and the length of each segment; a length may be infinite.

    Returns
    -------
    array of shape (n,)
        Positive rates.
    """
    smallest_rate = np.where(np.isinf(lengths), 0.0, 2.0**-60 / lengths)
    return np.maximum(np.abs(slopes), smallest_rate)


def _check_below_envelope(log_ratios: Floats, proposals: Floats) -> None:
    """Raise `EnvelopeViolation` if a density f exceeds its envelope at a proposal.

    That would disprove the envelope, and the draws would not follow f.

    Parameters
    ----------
    log_ratios : array
        log(f/envelope) at the proposals, which must be ≤ 0; NaN fails.
    proposals : array
        The proposals, for the message.
    """
    if (log_ratios <= 0.0).all():
        return
    severity = np.where(np.isnan(log_ratios), np.inf, log_ratios)
    violating_point = proposals[np.argmax(severity)]
    raise EnvelopeViolation(
        f"log f − log envelope = {np.max(log_ratios)} > 0 at t = {violating_point}"
    )


def _touch_points(log_density: Function, end: float, width: float) -> Floats:
    """Return 24 points between 0 and `end` at which tangents of g should touch.

    There g is −12·(j/24)² for j = 1, …, 24; for a Gaussian these points are evenly
    spaced. If g does not fall to −12 before `end`, its value there takes the place of
    −12.

    Parameters
    ----------
    log_density : callable
        g, concave with g(0) = 0 at or near its maximum.
    end : float
        The end of the support on this side of 0; it may be infinite.
    width : float
        Any positive length; the search starts with it.

    Returns
    -------
    array, shape (24,)
        The points, from 0 outward.
    """
    with np.errstate(divide="ignore"):
        # Step outward, twice as far each time, until g has fallen to −12.
        while width < abs(end):
            point = np.array([math.copysign(width, end)])
            if not log_density(point)[0] > -_MAX_LOG_DROP:
                break
            width *= 2.0
        end = math.copysign(min(width, abs(end)), end)

        # Choose the values of g at which the tangents touch.
        largest_drop = min(_MAX_LOG_DROP, -float(log_density(np.array([end]))[0]))
        numbers = np.arange(1, _TOUCH_POINTS_PER_SIDE + 1)
        levels = -largest_drop * (numbers / _TOUCH_POINTS_PER_SIDE) ** 2

        # Bisection for all levels at once, between 0 and that end.
        inner = np.zeros(_TOUCH_POINTS_PER_SIDE)
        outer = np.full(_TOUCH_POINTS_PER_SIDE, end)
        for _ in range(_TOUCH_POINT_BISECTIONS):
            middle = (inner + outer) / 2
            is_above = log_density(middle) > levels
            inner = np.where(is_above, middle, inner)
            outer = np.where(is_above, outer, middle)
    return inner


def _tangent_crossings(knots: Floats, heights: Floats, slopes: Floats) -> Floats:
    """Return where the tangents at neighboring knots cross.

    The envelope changes from one tangent to the next at these points.

    If two tangents are too parallel for the crossing to be found, the middle of the two
    knots is returned: every cut between them gives a valid envelope.

    Parameters
    ----------
    knots, heights, slopes : arrays of shape (n,)
        Where the tangents touch, and the values and slopes of the function there.

    Returns
    -------
    array of shape (n − 1,)
        The crossings, one between each knot and the next.
    """
    # The tangents cross at the fraction 1 − drop/(bend·gap) of the gap.
    gaps = np.diff(knots)
    bends = -np.diff(slopes)
    # How far the second knot lies below the tangent at the first.
    drops = heights[:-1] + slopes[:-1] * gaps - heights[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = 1.0 - drops / (bends * gaps)
    is_between = (fractions > 0.0) & (fractions < 1.0)
    return np.asarray(knots[:-1] + gaps * np.where(is_between, fractions, 0.5))


@lru_cache(maxsize=256)
def radial_mode(kind: Kind, space: TwoPointHomogeneousSpace, scale: float) -> float:
    """Return approximately where the radial density weight(r)·∏ sn_κ(r)^n is largest.

    The product is over the curvatures κ of the space and their multiplicities n.
    Envelopes are centered at the mode. Their validity does not depend on it: an error
    only lowers the acceptance.

    sn_κ(r) is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for κ < 0.

    Parameters
    ----------
    kind : {'gaussian', 'laplace'}
        The weight exp(−r²/2σ²) or exp(−r/σ).
    space : TwoPointHomogeneousSpace
        The curvatures κ with multiplicities n, and the diameter.
    scale : float
        The scale σ > 0 of the law.

    Returns
    -------
    float
        The radius; 0 on a line.
    """
    if not space.jacobi_spectrum:
        return 0.0

    def scaled_slope(log_r: float) -> float:
        """Return r·(log-density)′ at r = e^{log_r}, a decreasing function."""
        r = math.exp(log_r)
        weight_term = (r / scale) ** 2 if kind == "gaussian" else r / scale
        volume_term = sum(
            count * _relative_growth_of_sn(kappa, r)
            for kappa, count in space.jacobi_spectrum
        )
        return volume_term - weight_term

    # Bracket log r, from the scale upward and then downward, in steps of 1.
    high = math.log(scale)
    while math.exp(high) < space.diameter and scaled_slope(high) > 0:
        high += 1.0
    high = min(high, math.log(space.diameter))
    low = high - 1.0
    while scaled_slope(low) <= 0:
        low -= 1.0

    if scaled_slope(high) > 0:
        # A law that is almost uniform rises up to the last bit of the diameter.
        return space.diameter
    return math.exp(scipy.optimize.brentq(scaled_slope, low, high, xtol=1e-15))


def _relative_growth_of_sn(kappa: float, r: float) -> float:
    """Return r·sn_κ′(r)/sn_κ(r), the relative growth of sn_κ per relative growth of r.

    The function sn_κ(r) is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ
    for κ < 0. So with the angle a = √|κ|·r the result is a/tan a, 1 or a/tanh a. It
    tends to 1 as r tends to 0.

    Called by `radial_mode`, which looks for the radius at which the density stops
    growing.

    Parameters
    ----------
    kappa : float
        The curvature κ.
    r : float
        A radius > 0.

    Returns
    -------
    float
        The product, at most 1 for κ > 0 and at least 1 for κ < 0.
    """
    angle = math.sqrt(abs(kappa)) * r
    if angle < _SMALLEST_ANGLE:
        return 1.0
    return angle / math.tan(angle) if kappa > 0 else angle / math.tanh(angle)


class RadiusSampler(NamedTuple):
    """Sampler of a radius r = mode + t: near the mode no digits of t = r − mode cancel.

    Attributes
    ----------
    mode : float
        About where the density of r is largest.
    deviation : TangentEnvelope
        The sampler of t.
    """

    mode: float
    deviation: TangentEnvelope

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return `count` independent radii.

        Parameters
        ----------
        rng : Generator
            The source of randomness.
        count : int
            The number of radii.

        Returns
        -------
        array, shape (count,)
            The radii.
        """
        radii = self.deviation.draw(rng, count)
        radii += self.mode
        return radii


@lru_cache(maxsize=256)
def radius_sampler(
    kind: Kind, space: TwoPointHomogeneousSpace, scale: float
) -> RadiusSampler:
    """Return the sampler of the radial density weight(r)·∏ sn_κ(r)^n.

    With m the mode and t = r − m, the log-density is, up to a constant,

        Gaussian:  g(t) = −t(2m + t)/2σ² + Σ n·log(sn_κ(m + t)/sn_κ(m)),
        Laplace:   g(t) = −t/σ           + Σ n·log(sn_κ(m + t)/sn_κ(m)).

    Both are concave, because every log sn_κ is.

    The product and the sums run over the curvatures κ of the space with multiplicities
    n. The function sn_κ(r) is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and
    sinh(√−κ·r)/√−κ for κ < 0.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    space : TwoPointHomogeneousSpace
        The curvatures κ with multiplicities n, and the diameter.
    scale : float
        The scale σ > 0 of the law.

    Returns
    -------
    RadiusSampler
        A sampler of r = m + t, with the mode m and the envelope of t.
    """
    mode = radial_mode(kind, space, scale)
    density = _DeviationDensity(kind, space, scale, mode)
    envelope = TangentEnvelope(
        density.log_density,
        density.slope,
        low=-mode,
        high=space.diameter - mode,
        width=scale,
    )
    return RadiusSampler(mode, envelope)


@dataclass(frozen=True)
class _DeviationDensity:
    """The density of t = r − mode, up to a constant, for `radius_sampler`.

    Attributes
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    space : TwoPointHomogeneousSpace
        The curvatures κ with multiplicities n.
    scale : float
        The scale σ of the law.
    mode : float
        m, about where the density of the radius r is largest.
    """

    kind: Kind
    space: TwoPointHomogeneousSpace
    scale: float
    mode: float

    def log_density(self, t: Floats) -> Floats:
        """Return g(t), the log-density at r = m + t minus that at the mode m."""
        sigma = self.scale
        if self.kind == "gaussian":
            value = (t / sigma) * (t / sigma + 2.0 * self.mode / sigma) / -2.0
        else:
            value = t / -sigma
        for kappa, count in self.space.jacobi_spectrum:
            value += count * _log_sn_ratio(kappa, self.mode, t)
        return value

    def slope(self, t: Floats) -> Floats:
        """Return g′(t), the slope of the log-density at r = m + t."""
        r = t + self.mode
        if self.kind == "gaussian":
            value = -(r / self.scale) / self.scale
        else:
            value = np.full_like(r, -1.0 / self.scale)
        for kappa, count in self.space.jacobi_spectrum:
            value = value + _volume_slope(kappa, count, r)
        return value


def _volume_slope(kappa: float, multiplicity: float, r: Floats) -> Floats:
    """Return the slope of log sn_κ(r)^n, one curvature's term of a radial log-density.

    The volume of a thin shell of radius r is proportional to the product of sn_κ(r)^n
    over the curvatures κ with multiplicities n. So one curvature contributes
    n·sn_κ′(r)/sn_κ(r) to the slope of the log-density:

        κ > 0:  sn_κ(r) = sin(√κ·r)/√κ,       which contributes n·√κ·cot(√κ·r),
        κ = 0:  sn_κ(r) = r,                  which contributes n/r,
        κ < 0:  sn_κ(r) = sinh(√−κ·r)/√−κ,    which contributes n·√−κ·coth(√−κ·r).

    Parameters
    ----------
    kappa : float
        The curvature κ.
    multiplicity : float
        n, the number of directions with this curvature.
    r : Floats
        Radii > 0.

    Returns
    -------
    Floats
        One slope for each radius.
    """
    root = math.sqrt(abs(kappa))
    if kappa == 0:
        return multiplicity / r
    if kappa > 0:
        return multiplicity * root / np.tan(root * r)
    return multiplicity * root / np.tanh(root * r)


def _log_sn_ratio(kappa: float, mode: float, t: Floats) -> Floats:
    """Return log(sn_κ(m + t)/sn_κ(m)), a term of a radial log-density with the mode m.

    sn_κ(r) is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for κ < 0.
    Absolute values are taken, since m + t can pass an end of the interval by a
    rounding.

    Parameters
    ----------
    kappa : float
        The curvature κ.
    mode : float
        The mode m > 0 of the density.
    t : array
        Deviations from the mode.

    Returns
    -------
    Floats
        One number for each t; −∞ at an end of the support.
    """
    root = math.sqrt(abs(kappa))
    if kappa == 0:
        return np.log(np.abs((t + mode) / mode))
    if kappa > 0:
        return np.log(np.abs(np.sin(root * (t + mode)) / math.sin(root * mode)))
    growth = np.expm1(-2.0 * root * (t + mode)) / math.expm1(-2.0 * root * mode)
    return root * t + np.log(np.abs(growth))
