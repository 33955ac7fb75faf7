"""The exact distance r of a noisy point from its center, to as many digits as are
needed. The logarithm h of its density is concave. So it lies below tangents, which make
up an envelope: r is proposed from the envelope and accepted with the probability
density/envelope.

The density is e^h with h(r) = −r²/2σ² (or −r/σ) + Σ n·log sn_κ(r), as in
`laws.isotropic.density`. A few tangents make an envelope of exponential segments that
is inverted in closed form (Gilks and Wild 1992, with public points chosen once). All
constants of the envelope are float64 numbers rounded to the safe side in ball
arithmetic (numbers with error bounds), so the envelope is one fixed public function of
(law, space, σ).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from flint import arb

from curvedp.errors import NotIntegrable
from curvedp.laws.backend import Kind
from curvedp.laws.isotropic.envelope import radial_mode
from curvedp.laws.isotropic.space import TwoPointHomogeneousSpace
from curvedp.numerics.enclosures import decide, float_up
from curvedp.numerics.enclosures import precision as at_precision
from curvedp.randomness.csprng import Source
from curvedp.randomness.lazy_reals import LazyUniforms, accepts

# Where tangents touch, in units of 1/√−h″ around the mode: about 95 % are accepted.
_TOUCH_OFFSETS = (-2.1, -0.9, 0.0, 0.9, 2.1)


@dataclass(frozen=True)
class ExactRadialDensity:
    """Radial density ∝ e^{h(r)} on (0, end) of a Gaussian or Laplace law, in Arb balls.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The weight exp(−r²/2σ²) or exp(−r/σ).
    space : TwoPointHomogeneousSpace
        The curvatures κ with multiplicities n.
    scale : float
        σ > 0, taken as an exact number.

    Raises
    ------
    NotIntegrable
        If a Laplace law has infinite mass.
    """

    kind: Kind
    space: TwoPointHomogeneousSpace
    scale: float

    def __post_init__(self) -> None:
        """Refuse a Laplace law of infinite mass, in ball arithmetic.

        With the growth rate h = Σ n·√−κ of the volume, over the negative curvatures κ
        with multiplicities n, its mass is finite only if scale·h < 1.
        """
        growth_rate = arb(0)
        for kappa, count in self.space.jacobi_spectrum:
            if kappa < 0:
                growth_rate = growth_rate + count * arb(-kappa).sqrt()

        if self.kind == "laplace" and not self.scale * growth_rate < 1:
            raise NotIntegrable(
                f"a Laplace law on hyperbolic space of dimension {self.space.dim} exists "
                f"only for scale < {1 / float(growth_rate):.17g}; "
                f"scale={self.scale!r} gives infinite mass"
            )

    @property
    def end(self) -> arb:
        """The end of the support, to any precision; `space.diameter` is its float.

        On a sphere of curvature κ it is π/√κ, and on a projective space half of that. A
        circle of any length counts as π·j or π/j with an integer j. So j is found by
        rounding the ratio of π/√κ to the float; κ is the smallest curvature.
        """
        if math.isinf(self.space.diameter):
            return arb.pos_inf()
        curvatures = [kappa for kappa, _ in self.space.jacobi_spectrum if kappa > 0]
        unit = arb.pi() / arb(min(curvatures, default=1.0)).sqrt()

        # The ratio is about j, or 1/j for a circle: at least 1, or at most ½.
        ratio = float(unit) / self.space.diameter
        is_integer = ratio > 0.75  # between ½ and 1
        if is_integer:
            return unit / round(ratio)
        return unit * round(1 / ratio)

    def log_density(self, r: arb) -> arb:
        """Return h(r), the logarithm of the density of the radius r up to a constant.

        With the curvatures κ of the space and their multiplicities n, it is

            h(r) = log weight(r) + Σ n·log sn_κ(r).

        With the scale σ of the law, the weight is exp(−r²/2σ²) (Gaussian) or exp(−r/σ)
        (Laplace). Up to a constant factor, sn_κ(r) is sin(√κ·r) for κ > 0, r for κ = 0,
        and sinh(√−κ·r) for κ < 0.

        Parameters
        ----------
        r : arb
            A radius r > 0, below the diameter.

        Returns
        -------
        arb
            A ball around h(r).
        """
        # log weight(r).
        scaled_radius = r * (1 / arb(self.scale))
        if self.kind == "gaussian":
            total = -scaled_radius * scaled_radius / 2
        else:
            total = -scaled_radius

        # Σ n·log sn_κ(r).
        for kappa, count in self.space.jacobi_spectrum:
            angle = arb(abs(kappa)).sqrt() * r
            if kappa == 0:
                log_sn = r.log()
            elif kappa > 0:
                log_sn = angle.sin().log()
            else:
                # log sinh in a form that does not overflow.
                log_sn = angle + (-(-2 * angle).expm1()).log() - arb.const_log2()
            total = total + count * log_sn
        return total

    def slope(self, r: arb) -> arb:
        """Return h′(r), the derivative of `log_density`.

        With the scale σ of the law, the weight contributes −r/σ² (Gaussian) or −1/σ
        (Laplace). Each curvature κ of multiplicity n contributes n·sn_κ′(r)/sn_κ(r),
        which is n·√κ·cot(√κ·r) for κ > 0, n/r for κ = 0, and n·√−κ·coth(√−κ·r) for
        κ < 0.

        Parameters
        ----------
        r : arb
            A radius r > 0, below the diameter.

        Returns
        -------
        arb
            A ball around h′(r).
        """
        inverse_scale = 1 / arb(self.scale)
        if self.kind == "gaussian":
            total = -r * inverse_scale * inverse_scale
        else:
            total = -inverse_scale

        for kappa, count in self.space.jacobi_spectrum:
            root = arb(abs(kappa)).sqrt()
            if kappa == 0:
                log_sn_slope = 1 / r
            elif kappa > 0:
                log_sn_slope = root * (root * r).cot()
            else:
                log_sn_slope = root * (root * r).coth()
            total = total + count * log_sn_slope
        return total

    def curvature(self, r: arb) -> arb:
        """Return −h″(r), minus the second derivative of `log_density`; it is positive.

        With the scale σ of the law, the weight contributes 1/σ² (Gaussian) or 0
        (Laplace). Each curvature κ of multiplicity n contributes n/sn_κ(r)². Here
        sn_κ(r) is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for κ < 0.

        Parameters
        ----------
        r : arb
            A radius r > 0, below the diameter.

        Returns
        -------
        arb
            A ball around −h″(r).
        """
        # The weight.
        inverse_scale = 1 / arb(self.scale)
        total = inverse_scale * inverse_scale if self.kind == "gaussian" else arb(0)

        # Each curvature adds n/sn_κ(r)².
        for kappa, count in self.space.jacobi_spectrum:
            root = arb(abs(kappa)).sqrt()
            if kappa == 0:
                sn = r
            elif kappa > 0:
                sn = (root * r).sin() / root
            else:
                sn = (root * r).sinh() / root
            total = total + count / (sn * sn)
        return total


class LogConcaveDensity(Protocol):
    """A density ∝ e^h on (0, end) with concave h, in Arb balls."""

    @property
    def end(self) -> arb:
        """The end of the support, as a ball at the current precision."""
        ...

    def log_density(self, r: arb) -> arb:
        """Return h(r), the log-density at r up to a constant.

        Parameters
        ----------
        r : arb
            A point of the support.

        Returns
        -------
        arb
            A ball around h(r).
        """
        ...

    def slope(self, r: arb) -> arb:
        """Return h′(r), the derivative of the log-density at r.

        Parameters
        ----------
        r : arb
            A point of the support.

        Returns
        -------
        arb
            A ball around h′(r).
        """
        ...


@dataclass(frozen=True)
class EnvelopeSegment:
    """On [start, stop] the envelope of h is height + slope·(r − start).

    Parameters
    ----------
    start : float
        The left end.
    stop : float or None
        The right end; None means the end of the support.
    slope, height : float
        The line.
    """

    start: float
    stop: float | None
    slope: float
    height: float

    def width(self, density: LogConcaveDensity) -> arb:
        """Return the length stop − start of the segment.

        Parameters
        ----------
        density : LogConcaveDensity
            The density, which knows the end of the support.

        Returns
        -------
        arb
            A ball around the length; infinite for the last segment of an unbounded
            support.
        """
        stop = density.end if self.stop is None else arb(self.stop)
        return stop - arb(self.start)

    def mass(self, density: LogConcaveDensity) -> arb:
        """Return the mass ∫ e^{height + slope·(r − start)} dr of the segment.

        Parameters
        ----------
        density : LogConcaveDensity
            The density, which knows the end of the support.

        Returns
        -------
        arb
            A ball around the mass.
        """
        if self.slope == 0:
            return self.width(density) * arb(self.height).exp()
        growth = _expm1(arb(self.slope) * self.width(density))
        return arb(self.height).exp() * growth / arb(self.slope)

    def quantile(self, density: LogConcaveDensity, fraction: arb) -> arb:
        """Return the radius below which a given fraction of the segment's mass lies.

        With a line of slope b it solves (e^{b·(r − start)} − 1)/(e^{b·width} − 1) =
        fraction.

        Parameters
        ----------
        density : LogConcaveDensity
            The density, which knows the end of the support.
        fraction : arb
            A number from 0 to 1.

        Returns
        -------
        arb
            A ball around the radius.
        """
        if self.slope == 0:
            return arb(self.start) + fraction * self.width(density)
        growth = _expm1(arb(self.slope) * self.width(density))
        return arb(self.start) + (fraction * growth).log1p() / arb(self.slope)


@dataclass(frozen=True)
class RadialEnvelope:
    """An upper bound of h by lines, which is one public function of the density.

    Envelopes are keys of caches. Equality compares all fields, but the hash reads the
    density alone: equal envelopes have equal densities, hence equal hashes, and few
    envelopes share a density.

    Parameters
    ----------
    density : LogConcaveDensity
        The density e^h.
    level : float
        About the largest value of h. It is subtracted from h, so that nothing overflows
        or underflows.
    segments : tuple of EnvelopeSegment
        The lines, from left to right.
    """

    density: LogConcaveDensity
    level: float = field(hash=False)
    segments: tuple[EnvelopeSegment, ...] = field(hash=False)


def _expm1(x: arb) -> arb:
    """Return e^x − 1, also for x = −∞: the last segment may fall forever."""
    return x.expm1() if x.is_finite() else arb(-1)


@lru_cache(maxsize=256)
def radial_envelope(density: ExactRadialDensity) -> RadialEnvelope:
    """Return the envelope of tangents of a radial density, for rejection sampling.

    The logarithm of the density is concave, so that it lies below each of its tangents.
    The envelope is the smallest of the tangents at points around the mode: radii at
    fixed multiples of the standard deviation of the normal density with the same
    curvature at the mode.

    Parameters
    ----------
    density : ExactRadialDensity
        The density of the radius, which is log-concave.

    Returns
    -------
    RadialEnvelope
        The envelope, one line for each tangent.
    """
    with at_precision(256):
        # The mode, and the standard deviation of the normal density of its curvature.
        mode = radial_mode(density.kind, density.space, density.scale)
        deviation = 1 / density.curvature(arb(mode)).sqrt()
        width = float(deviation) if deviation.is_finite() else 0.0

        # The tangents touch at the mode, and at points of the support next to it.
        candidates = (mode + offset * width for offset in _TOUCH_OFFSETS)
        touch_points = {
            radius for radius in candidates if radius > 0 and arb(radius) < density.end
        }
        touch_points.add(mode)
        level = float(density.log_density(arb(mode)))
        return tangent_envelope(density, level, sorted(touch_points))


def tangent_envelope(
    density: LogConcaveDensity, level: float, points: Sequence[float]
) -> RadialEnvelope:
    """Return the envelope of the tangents at given points.

    A sampler by rejection proposes radii from the envelope. The logarithm h of the
    density is concave, so that it lies below each of its tangents. Each point of the
    support is given to one tangent: segments end about where neighboring tangents
    cross.

    Any points give a valid envelope; better ones accept more.

    Parameters
    ----------
    density : LogConcaveDensity
        The density e^h.
    level : float
        About the largest value of h. It is subtracted from h.
    points : sequence of float
        The radii at which the tangents touch, in increasing order, inside the support.

    Returns
    -------
    RadialEnvelope
        The envelope, one line for each tangent.
    """
    with at_precision(256):
        # Segments end where neighboring tangents cross; the last one has no end.
        cuts = [
            _tangent_crossing(density, left, right)
            for left, right in itertools.pairwise(points)
        ]
        starts = [0.0, *cuts]
        stops = [*cuts, None]
        segments = tuple(
            _tangent_segment(density, level, touch, start, stop)
            for touch, start, stop in zip(points, starts, stops, strict=True)
        )
        return RadialEnvelope(density, level, segments)


def _tangent_segment(
    density: LogConcaveDensity,
    level: float,
    touch: float,
    start: float,
    stop: float | None,
) -> EnvelopeSegment:
    """Return a line with float64 constants that lies above the tangent at `touch`.

    Let h be the logarithm of the density. The slope of the tangent, h′(touch), is
    rounded up to a float. The line with this larger slope through (touch, h(touch)) is
    above the tangent to the right of the touch point. To its left the line is below the
    tangent by at most (slope − h′(touch))·(touch − start). This is the `correction`
    that is added to the height.

    The line must lie above the density on the whole segment; `accepts` raises
    `EnvelopeViolation` where it does not, and tests/laws/exact/test_envelopes.py checks
    it in high precision.

    Parameters
    ----------
    density : LogConcaveDensity
        The density e^h.
    level : float
        The number that is subtracted from h.
    touch : float
        The radius at which the tangent touches h.
    start, stop : float
        The ends of the segment; stop=None means the end of the support.

    Returns
    -------
    EnvelopeSegment
        The line and its range.
    """
    # The slope, rounded up.
    touch_ball = arb(touch)
    start_ball = arb(start)
    true_slope = density.slope(touch_ball)
    slope = float_up(true_slope)

    # The height at the start, raised by what the rounding of the slope takes away
    # there.
    height_at_touch = density.log_density(touch_ball) - level
    tangent_at_start = height_at_touch + true_slope * (start_ball - touch_ball)
    correction = (arb(slope) - true_slope) * (touch_ball - start_ball)
    return EnvelopeSegment(start, stop, slope, float_up(tangent_at_start + correction))


def _tangent_crossing(density: LogConcaveDensity, a: float, b: float) -> float:
    """Return the approximate point where the tangents to h at a < b cross.

    Let h be the logarithm of the density. The tangents cross at

        (h(b) − h(a) + h′(a)·a − h′(b)·b)/(h′(a) − h′(b)).

    Any point between a and b gives a valid envelope, since both tangents bound h
    everywhere.

    Parameters
    ----------
    density : LogConcaveDensity
        The density e^h.
    a : float
        The radius at which the first tangent touches h.
    b : float
        The radius at which the second tangent touches h, b > a.

    Returns
    -------
    float
        A point strictly between a and b.
    """
    # Find where the two lines are equal.
    slope_a = density.slope(arb(a))
    slope_b = density.slope(arb(b))
    rise = density.log_density(arb(b)) - density.log_density(arb(a))
    crossing = float((rise + slope_a * a - slope_b * b) / (slope_a - slope_b))
    return crossing if a < crossing < b else (a + b) / 2


@lru_cache(maxsize=1024)
def _cumulative_masses(envelope: RadialEnvelope, precision: int) -> list[arb]:
    """Return 0 and the partial sums of the masses of an envelope's segments, cached.

    Used to find the segment of a proposed radius from a uniform number.

    Parameters
    ----------
    envelope : RadialEnvelope
        The envelope.
    precision : int
        The number of bits.

    Returns
    -------
    list of arb
        One number more than there are segments; the last one is the mass of the
        envelope.
    """
    with at_precision(precision + 16):
        masses = [segment.mass(envelope.density) for segment in envelope.segments]
        return list(itertools.accumulate(masses, initial=arb(0)))


class LazyRadius:
    """One proposed radius, to any precision: the envelope's quantile of a lazy uniform.

    Parameters
    ----------
    envelope : RadialEnvelope
        The distribution of the proposal.
    uniform : LazyUniforms
        One uniform real.
    """

    def __init__(self, envelope: RadialEnvelope, uniform: LazyUniforms) -> None:
        """Find the segment of the envelope in which the radius lies.

        Parameters
        ----------
        envelope : RadialEnvelope
            The distribution of the proposal.
        uniform : LazyUniforms
            One uniform real: the fraction of the envelope's mass below the radius.
        """
        self._envelope = envelope
        self._uniform = uniform
        self._segment_index = decide(self._find_segment)

    def _find_segment(self, precision: int) -> int | None:
        """Return the segment that contains the radius; None if that is not certain yet.

        Called by the constructor with more and more bits until the segment is certain.

        Parameters
        ----------
        precision : int
            The number of bits.

        Returns
        -------
        int or None
            The index of the segment.
        """
        sums = _cumulative_masses(self._envelope, precision)
        mass_below = self._uniform.balls(precision)[0] * sums[-1]
        last_segment = len(sums) - 2
        for i, (low, high) in enumerate(itertools.pairwise(sums)):
            if mass_below > low and (mass_below < high or i == last_segment):
                return i
        return None

    def ball(self, precision: int) -> arb:
        """Return the radius to about the given number of bits.

        The radius is the quantile of the uniform number u under the envelope, whose
        density is exponential on each of its segments. u times the mass of the envelope
        is the mass below the radius. What exceeds the mass of all earlier segments lies
        in the radius's own segment, whose quantile function has a closed form. More
        bits of u are drawn if the precision needs them, and are kept for later calls.

        Parameters
        ----------
        precision : int
            The number of bits.

        Returns
        -------
        arb
            A ball around the radius.
        """
        cumulative_masses = _cumulative_masses(self._envelope, precision)
        total_mass = cumulative_masses[-1]
        mass_before_segment = cumulative_masses[self._segment_index]
        mass_with_segment = cumulative_masses[self._segment_index + 1]

        # The fraction of the segment's mass that lies below the radius, and its
        # quantile.
        (u,) = self._uniform.balls(precision)
        mass_in_segment = u * total_mass - mass_before_segment
        fraction = mass_in_segment / (mass_with_segment - mass_before_segment)
        segment = self._envelope.segments[self._segment_index]
        return segment.quantile(self._envelope.density, fraction)

    def log_ratio(self, precision: int) -> arb:
        """Return log(target/envelope) at this radius, at most 0.

        The radius is accepted if this ratio exceeds the logarithm of a uniform number.

        Parameters
        ----------
        precision : int
            The number of bits.

        Returns
        -------
        arb
            A ball around the logarithm.
        """
        r = self.ball(precision)
        segment = self._envelope.segments[self._segment_index]
        line = arb(segment.height) + arb(segment.slope) * (r - arb(segment.start))
        log_density = self._envelope.density.log_density(r) - self._envelope.level
        return log_density - line


def draw_radius(density: ExactRadialDensity, source: Source) -> LazyRadius:
    """Return an exact draw of the radius, by rejection with no limit on the trials.

    Parameters
    ----------
    density : ExactRadialDensity
        The law of the radius.
    source : Source
        The random bits.

    Returns
    -------
    LazyRadius
        The accepted radius, a real number that can be computed to any precision.
    """
    return draw_under(radial_envelope(density), source)


def draw_under(envelope: RadialEnvelope, source: Source) -> LazyRadius:
    """Return an exact draw by rejection from an envelope, with no limit on the trials.

    Parameters
    ----------
    envelope : RadialEnvelope
        It lies above the density that is drawn from.
    source : Source
        The random bits.

    Returns
    -------
    LazyRadius
        The accepted radius, a real number that can be computed to any precision.
    """
    while True:
        radius = LazyRadius(envelope, LazyUniforms(source, 1))
        if accepts(LazyUniforms(source, 1), radius.log_ratio):
            return radius
