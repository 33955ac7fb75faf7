"""The radius of a Riemannian Gaussian or Laplace on a two-point homogeneous space, exactly, as a lazily refined real.

The radial density is e^h with h(r) = −r²/2σ² (or −r/σ) + Σ n·log sn_κ(r), as in `laws.radial`. h is concave, so each
tangent of h lies above it: a few tangents make an envelope of exponential pieces that is inverted in closed form (Gilks &
Wild 1992, with public points chosen once). All constants of the envelope are float64 numbers rounded to the safe side in
ball arithmetic, so the envelope is one fixed public function of (law, space, σ).
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import lru_cache

from flint import arb

from curvedp.entropy.bits import LazyUniforms, accepts
from curvedp.entropy.csprng import Source
from curvedp.errors import NotIntegrable
from curvedp.laws.logconcave import mode
from curvedp.laws.radial import Kind, Rays
from curvedp.numerics.enclosures import decide, float_up
from curvedp.numerics.enclosures import precision as at_precision

_OFFSETS = (
    -2.1,
    -0.9,
    0.0,
    0.9,
    2.1,
)  # tangent points, in units of 1/√−h″ around the mode: accepts about 95%


@dataclass(frozen=True)
class RadialBall:
    """Radial density ∝ e^{h(r)} on (0, end) of a Gaussian or Laplace law of the given scale, in balls."""

    kind: Kind
    rays: Rays
    scale: float

    def __post_init__(self) -> None:
        growth = sum(
            (count * arb(-k).sqrt() for k, count in self.rays.roots if k < 0), arb(0)
        )
        if self.kind == "laplace" and not self.scale * growth < 1:
            raise NotIntegrable(
                f"a Laplace law on hyperbolic space of dimension {self.rays.dim} exists only for scale < "
                f"{1 / float(growth):.17g}; scale={self.scale!r} gives infinite mass"
            )

    @property
    def end(self) -> arb:
        """The exact number of which `rays.end` is the float: π/j√κ, κ the smallest curvature, or π·j or π/j of a circle."""
        if math.isinf(self.rays.end):
            return arb.pos_inf()
        unit = (
            arb.pi()
            / arb(min((k for k, _ in self.rays.roots if k > 0), default=1.0)).sqrt()
        )
        ratio = float(unit) / self.rays.end
        return unit / round(ratio) if ratio > 0.75 else unit * round(1 / ratio)

    def log_density(self, r: arb) -> arb:
        """h(r)"""
        q = r * (1 / arb(self.scale))
        total = -q * q / 2 if self.kind == "gaussian" else -q
        for k, count in self.rays.roots:
            x = arb(abs(k)).sqrt() * r
            if k == 0:
                total = total + count * r.log()
            elif k > 0:
                total = total + count * x.sin().log()
            else:  # log sinh x = x + log(1 − e^{−2x}) − log 2, which does not overflow
                total = total + count * (
                    x + (-(-2 * x).expm1()).log() - arb.const_log2()
                )
        return total

    def slope(self, r: arb) -> arb:
        """h′(r)"""
        inverse = 1 / arb(self.scale)
        total = -r * inverse * inverse if self.kind == "gaussian" else -inverse
        for k, count in self.rays.roots:
            root = arb(abs(k)).sqrt()
            total = total + count * (
                1 / r
                if k == 0
                else root * ((root * r).cot() if k > 0 else (root * r).coth())
            )
        return total

    def bending(self, r: arb) -> arb:
        """−h″(r)"""
        inverse = 1 / arb(self.scale)
        total = inverse * inverse if self.kind == "gaussian" else arb(0)
        for k, count in self.rays.roots:
            root = arb(abs(k)).sqrt()
            size = (
                r
                if k == 0
                else ((root * r).sin() if k > 0 else (root * r).sinh()) / root
            )
            total = total + count / (size * size)
        return total


@dataclass(frozen=True)
class _Piece:
    """On [start, stop] the envelope of h is height + slope·(r − start). stop None: the end of the support."""

    start: float
    stop: float | None
    slope: float
    height: float

    def width(self, law: RadialBall) -> arb:
        return (law.end if self.stop is None else arb(self.stop)) - arb(self.start)

    def mass(self, law: RadialBall) -> arb:
        """∫ e^{height + slope (r − start)} dr"""
        if self.slope == 0:
            return self.width(law) * arb(self.height).exp()
        return (
            arb(self.height).exp()
            * _expm1(arb(self.slope) * self.width(law))
            / arb(self.slope)
        )

    def invert(self, law: RadialBall, u: arb) -> arb:
        """The point below which lies the share u of the mass."""
        if self.slope == 0:
            return arb(self.start) + u * self.width(law)
        rise = _expm1(arb(self.slope) * self.width(law))
        return arb(self.start) + (u * rise).log1p() / arb(self.slope)


@dataclass(frozen=True)
class _Envelope:
    law: RadialBall
    level: float = field(
        hash=False
    )  # subtracted from h, so that nothing over- or underflows
    pieces: tuple[_Piece, ...] = field(hash=False)


def _expm1(x: arb) -> arb:
    return x.expm1() if x.is_finite() else arb(-1)  # x = −∞ on the last, falling piece


@lru_cache(maxsize=256)
def _envelope(law: RadialBall) -> _Envelope:
    with at_precision(256):
        top = mode(law.kind, law.rays, law.scale)
        spread = 1 / law.bending(arb(top)).sqrt()
        width = float(spread) if spread.is_finite() else 0.0
        points = sorted(
            {
                t
                for t in (top + c * width for c in _OFFSETS)
                if t > 0 and arb(t) < law.end
            }
            | {top}
        )
        level = float(law.log_density(arb(top)))
        cuts = [_crossing(law, a, b) for a, b in itertools.pairwise(points)]
        ends = zip(points, [0.0, *cuts], [*cuts, None], strict=True)
        return _Envelope(law, level, tuple(_piece(law, level, *end) for end in ends))


def _piece(
    law: RadialBall, level: float, t: float, start: float, stop: float | None
) -> _Piece:
    """The tangent at t with a float64 slope, raised until it lies above the true tangent on all of [start, stop].

    With slope ≥ h′(t) the line through (t, h(t)) is above the tangent to the right of t; to its left it is below by at
    most (slope − h′(t))·(t − start), which is added.
    """
    at = arb(t)
    true_slope = law.slope(at)
    slope = float_up(true_slope)
    tangent = law.log_density(at) - level + true_slope * (arb(start) - at)
    return _Piece(
        start,
        stop,
        slope,
        float_up(tangent + (arb(slope) - true_slope) * (at - arb(start))),
    )


def _crossing(law: RadialBall, a: float, b: float) -> float:
    """About where the tangents at a < b meet. Any point serves: both tangents bound h everywhere."""
    slope_a, slope_b = law.slope(arb(a)), law.slope(arb(b))
    rise = law.log_density(arb(b)) - law.log_density(arb(a)) + slope_a * a - slope_b * b
    meet = float(rise / (slope_a - slope_b))
    return meet if a < meet < b else (a + b) / 2


@lru_cache(maxsize=1024)
def _cumulative(envelope: _Envelope, precision: int) -> list[arb]:
    with at_precision(precision + 16):
        return list(
            itertools.accumulate(
                (piece.mass(envelope.law) for piece in envelope.pieces), initial=arb(0)
            )
        )


class LazyRadius:
    """One radius, to any precision: the envelope's inverse CDF at a lazy uniform."""

    def __init__(self, envelope: _Envelope, u: LazyUniforms) -> None:
        self._envelope, self._u = envelope, u
        self._index = decide(self._locate)

    def _locate(self, precision: int) -> int | None:
        sums = _cumulative(self._envelope, precision)
        point = self._u.balls(precision)[0] * sums[-1]
        for i, (low, high) in enumerate(itertools.pairwise(sums)):
            if point > low and (point < high or i + 2 == len(sums)):
                return i
        return None

    def ball(self, precision: int) -> arb:
        sums = _cumulative(self._envelope, precision)
        i = self._index
        share = (self._u.balls(precision)[0] * sums[-1] - sums[i]) / (
            sums[i + 1] - sums[i]
        )
        return self._envelope.pieces[i].invert(self._envelope.law, share)

    def log_ratio(self, precision: int) -> arb:
        """log of target over envelope at this radius: at most 0."""
        r, piece = self.ball(precision), self._envelope.pieces[self._index]
        line = arb(piece.height) + arb(piece.slope) * (r - arb(piece.start))
        return self._envelope.law.log_density(r) - self._envelope.level - line


def draw_radius(law: RadialBall, source: Source) -> LazyRadius:
    """An exact draw: rejection until one is accepted, with no cap."""
    envelope = _envelope(law)
    while True:
        radius = LazyRadius(envelope, LazyUniforms(source, 1))
        if accepts(LazyUniforms(source, 1), radius.log_ratio):
            return radius
