"""The radius of a Riemannian Gaussian or Laplace on constant curvature, exactly, as a lazily refined real.

The radial density is e^h with h(r) = −r²/2σ² (or −r/σ) + (d−1)·log sn(r), sn = sin, id, sinh for curvature 1, 0, −1.
h is concave, so each tangent of h lies above it: a few tangents make an envelope of exponential pieces that is
inverted in closed form (Gilks & Wild 1992, with public points chosen once). All constants of the envelope are float64
numbers rounded to the safe side in ball arithmetic, so the envelope is one fixed public function of (law, d, σ).
"""

import itertools
from dataclasses import dataclass
from functools import lru_cache

from flint import arb

from curvedp._numerics import precision as at_precision
from curvedp.entropy.balls import decide, float_up
from curvedp.entropy.bits import LazyUniforms, accepts
from curvedp.entropy.csprng import Source
from curvedp.errors import NotIntegrable

__all__ = ["LazyRadius", "RadialLaw", "draw_radius"]

_OFFSETS = (-2.1, -0.9, 0.0, 0.9, 2.1)  # tangent points, in units of 1/√−h″ around the mode: accepts about 95%


@dataclass(frozen=True)
class RadialLaw:
    """Radial density ∝ e^{h(r)} on (0, end) of a Gaussian or Laplace law of the given scale."""

    kind: str  # "gaussian" or "laplace"
    curvature: int  # 1, 0 or -1
    dim: int
    scale: float

    def __post_init__(self) -> None:
        if self.kind == "laplace" and self.curvature == -1 and not self.scale * arb(self.dim - 1) < 1:
            raise NotIntegrable(
                f"a Laplace law on hyperbolic space of dimension {self.dim} exists only for scale < "
                f"{1 / (self.dim - 1):.17g}; scale={self.scale!r} gives infinite mass"
            )

    @property
    def end(self) -> arb:
        return arb.pi() if self.curvature == 1 else arb.pos_inf()

    def log_density(self, r: arb) -> arb:
        scale = arb(self.scale)
        decay = -r * r / (2 * scale * scale) if self.kind == "gaussian" else -r / scale
        if self.dim == 1:
            return decay
        if self.curvature == 0:
            growth = r.log()
        elif self.curvature == 1:
            growth = r.sin().log()
        else:  # log sinh r = r + log(1 − e^{−2r}) − log 2, which does not overflow
            growth = r + (-(-2 * r).expm1()).log() - arb.const_log2()
        return decay + (self.dim - 1) * growth

    def slope(self, r: arb) -> arb:
        """h′(r)"""
        scale = arb(self.scale)
        decay = -r / (scale * scale) if self.kind == "gaussian" else -1 / scale
        if self.dim == 1:
            return decay
        pull = {0: lambda: 1 / r, 1: r.cot, -1: r.coth}[self.curvature]()
        return decay + (self.dim - 1) * pull

    def bending(self, r: arb) -> arb:
        """−h″(r)"""
        scale = arb(self.scale)
        decay = 1 / (scale * scale) if self.kind == "gaussian" else arb(0)
        if self.dim == 1:
            return decay
        size = {0: lambda: r, 1: r.sin, -1: r.sinh}[self.curvature]()
        return decay + (self.dim - 1) / (size * size)


@dataclass(frozen=True)
class _Piece:
    """On [start, stop] the envelope of h is height + slope·(r − start). stop None: the end of the support."""

    start: float
    stop: float | None
    slope: float
    height: float

    def width(self, law: RadialLaw) -> arb:
        return (law.end if self.stop is None else arb(self.stop)) - arb(self.start)

    def mass(self, law: RadialLaw) -> arb:
        """∫ e^{height + slope (r − start)} dr"""
        if self.slope == 0:
            return self.width(law) * arb(self.height).exp()
        return arb(self.height).exp() * _expm1(arb(self.slope) * self.width(law)) / arb(self.slope)

    def invert(self, law: RadialLaw, u: arb) -> arb:
        """The point below which lies the share u of the mass."""
        if self.slope == 0:
            return arb(self.start) + u * self.width(law)
        rise = _expm1(arb(self.slope) * self.width(law))
        return arb(self.start) + (u * rise).log1p() / arb(self.slope)


@dataclass(frozen=True)
class _Envelope:
    law: RadialLaw
    level: float  # subtracted from h, so that nothing over- or underflows
    pieces: tuple[_Piece, ...]

    def __hash__(self) -> int:
        return hash(self.law)


def _expm1(x: arb) -> arb:
    return x.expm1() if x.is_finite() else arb(-1)  # x = −∞ on the last, falling piece


@lru_cache(maxsize=256)
def _envelope(law: RadialLaw) -> _Envelope:
    with at_precision(256):
        mode = _mode(law)
        spread = 1 / law.bending(arb(mode)).sqrt() if mode > 0 or law.dim == 1 else arb.pos_inf()
        width = float(spread) if spread.is_finite() else 0.0
        points = sorted({t for t in (mode + c * width for c in _OFFSETS) if t > 0 and arb(t) < law.end} | {mode})
        level = float(law.log_density(arb(mode)))
        cuts = [0.0, *(_crossing(law, a, b) for a, b in itertools.pairwise(points))]
        pieces = []
        for i, (t, start) in enumerate(zip(points, cuts, strict=True)):
            stop = cuts[i + 1] if i + 1 < len(cuts) else None
            pieces.append(_piece(law, level, t, start, stop))
        return _Envelope(law, level, tuple(pieces))


def _piece(law: RadialLaw, level: float, t: float, start: float, stop: float | None) -> _Piece:
    """The tangent at t with a float64 slope, raised until it lies above the true tangent on all of [start, stop].

    With slope ≥ h′(t) the line through (t, h(t)) is above the tangent to the right of t; to its left it is below by at
    most (slope − h′(t))·(t − start), which is added.
    """
    at = arb(t)
    true_slope = law.slope(at)
    slope = float_up(true_slope)
    tangent = law.log_density(at) - level + true_slope * (arb(start) - at)
    return _Piece(start, stop, slope, float_up(tangent + (arb(slope) - true_slope) * (at - arb(start))))


def _crossing(law: RadialLaw, a: float, b: float) -> float:
    """About where the tangents at a < b meet. Any point serves: both tangents bound h everywhere."""
    slope_a, slope_b = law.slope(arb(a)), law.slope(arb(b))
    rise = law.log_density(arb(b)) - law.log_density(arb(a)) + slope_a * a - slope_b * b
    meet = float(rise / (slope_a - slope_b))
    return meet if a < meet < b else (a + b) / 2


def _mode(law: RadialLaw) -> float:
    """About where h is largest, by bisection of h′ on a logarithmic scale. Only efficiency depends on it."""
    if law.dim == 1:
        return 0.0
    low, high = -1070.0, 1.65 if law.curvature == 1 else 1020.0  # log2 r
    for _ in range(70):
        middle = (low + high) / 2
        r = arb(2) ** middle
        if r >= law.end or law.slope(r) < 0:
            high = middle
        else:
            low = middle
    return float(arb(2) ** low)


@lru_cache(maxsize=1024)
def _cumulative(envelope: _Envelope, precision: int) -> list[arb]:
    total, sums = arb(0), [arb(0)]
    with at_precision(precision + 16):
        for piece in envelope.pieces:
            total = total + piece.mass(envelope.law)
            sums.append(total)
    return sums


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
        share = (self._u.balls(precision)[0] * sums[-1] - sums[i]) / (sums[i + 1] - sums[i])
        return self._envelope.pieces[i].invert(self._envelope.law, share)

    def log_ratio(self, precision: int) -> arb:
        """log of target over envelope at this radius: at most 0."""
        r = self.ball(precision)
        piece = self._envelope.pieces[self._index]
        line = arb(piece.height) + arb(piece.slope) * (r - arb(piece.start))
        return self._envelope.law.log_density(r) - self._envelope.level - line


def draw_radius(law: RadialLaw, source: Source) -> LazyRadius:
    """An exact draw: rejection until one is accepted, with no cap."""
    envelope = _envelope(law)
    while True:
        radius = LazyRadius(envelope, LazyUniforms(source, 1))
        coin = LazyUniforms(source, 1)
        if accepts(coin, radius.log_ratio):
            return radius
