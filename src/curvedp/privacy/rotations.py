"""Rigorous δ(ε) on the real projective space of dimension 3, such as the rotations of space, in ball arithmetic.

In units in which the diameter is π/2 the radial density is ρ(r) = weight(r)·sin²r, and w of `projective` is uniform on
(−1, 1), so every share is elementary: with b₊ on the level L = ε and b₋ on L = −ε,

    P₁(L > ε)   = ∫ρ over r < r_a (if all of it exceeds ε) + ∫ρ·(1 + R − c)/2 over (r_a, r_c) + ∫ρ·R over (r_c, r_e),
    P₁(L <= −ε) = ∫ρ·(1 − R + c)/2 over r > r₀ (the near lift) + ∫ρ·(1 − R − c)/2 over r > r₁ (the other one),

R = cos b/(sin r·sin D), c = cot r·cot D. Each integrand is entire in r: cos √z is even in √z. δ(ε) = P₁(L > ε) −
e^ε·P₁(L <= −ε), since an isometry swaps the centers. The float path only suggests a tolerance.
"""

from collections.abc import Callable
from typing import Any

from flint import acb, arb

from curvedp import _validate
from curvedp.entropy.precision import precision
from curvedp.privacy._space_form import Kind
from curvedp.privacy.certify import enclosed, integral, outward
from curvedp.privacy.projective import ProjectiveProfile

_LEAST = 1e-300  # a smaller δ is bounded from above only


def certified_rotation_delta(
    kind: Kind, curvature: float, scale: float, sensitivity: float, eps: float
) -> tuple[float, float]:
    """(lower, upper): rigorous bounds on δ(eps), at most 1e-6 apart relative to δ; Rotations(3) has the curvature ¼."""
    profile = ProjectiveProfile(kind, "real", 3, curvature, scale, sensitivity)
    eps, guess = _validate.nonnegative("eps", eps), float(profile.delta(eps))
    ball = enclosed(lambda _: _Law(profile).delta(arb(eps), max(guess, _LEAST)), guess <= _LEAST)
    with precision(96):
        lower, upper = outward(ball)
    return lower, min(upper, 1.0)


class _Law:
    """The law in units of diameter π/2, at the precision that is set."""

    def __init__(self, profile: ProjectiveProfile) -> None:
        root = arb(profile.curvature).sqrt()
        self.kind, self.s = profile.kind, arb(profile.scale) * root
        half = arb.pi() / 2
        distance = arb(profile.sensitivity) * root
        self.end, self.D = half, distance if distance < half else half
        peak = arb(profile.law.mode)
        self.unit = self._weight(peak) * peak.sin() ** 2  # integrals are in units of about the largest density

    def _weight(self, r: Any) -> Any:
        return (-r * r / (2 * self.s * self.s)).exp() if self.kind == "gaussian" else (-r / self.s).exp()

    def delta(self, eps: arb, guess: float) -> arb:
        """A ball around δ(eps)."""
        if self._capped(eps):
            return arb(0)
        mass = self._integral(self._rho, arb(0), self.end, arb(1e-16))
        tolerance = arb(guess) * mass.lower() * arb(2) ** -40
        lift = eps.exp()
        return (self._above(eps, tolerance) - lift * self._below(eps, tolerance / lift)) / mass

    def _capped(self, eps: arb) -> bool:
        D, s = self.D, self.s
        most = D * (2 * self.end - D) / (2 * s * s) if self.kind == "gaussian" else D / s
        return bool(eps >= most.upper())

    def _rho(self, r: acb) -> acb:
        return self._weight(r) * r.sin() ** 2 / self.unit

    def _level(self, r: acb, t: arb) -> acb:
        """cos b on L = t."""
        return (r * r + 2 * self.s**2 * t).sqrt().cos() if self.kind == "gaussian" else (r + self.s * t).cos()

    def _cut(self, length: arb, t: arb) -> arb:
        """Where the level L = t meets the geodesic through both centers: b = |r − length|."""
        if self.kind == "gaussian":
            return (length * length - 2 * self.s**2 * t) / (2 * length)
        return (length - self.s * t) / 2

    def _share(self, r: acb, t: arb, near: int, far: int) -> acb:
        """ρ·(1 + near·R − far·c)/2 with the division by sin r carried out."""
        front = self._weight(r) * r.sin() / self.unit / (2 * self.D.sin())
        return front * (r.sin() * self.D.sin() + near * self._level(r, t) - far * r.cos() * self.D.cos())

    def _above(self, t: arb, tolerance: arb) -> arb:
        """∫ of ρ where L > t."""
        first, second = self._cut(self.D, t), self._cut(2 * self.end - self.D, t)
        if self.kind == "gaussian":
            last = (self.end**2 - 2 * self.s**2 * t).sqrt()
        else:
            last = self.end - self.s * t
        total = self._integral(self._rho, arb(0), first, tolerance) if first > 0 else arb(0)
        first = abs(first)
        total += self._integral(lambda r: self._share(r, t, 1, 1), first, second, tolerance)

        def both(r: acb) -> acb:
            return self._weight(r) * r.sin() * self._level(r, t) / (self.unit * self.D.sin())

        return total + self._integral(both, second, last, tolerance)

    def _below(self, t: arb, tolerance: arb) -> arb:
        """∫ of ρ where L <= −t."""
        near, far = self._cut(self.D, -t), self._cut(2 * self.end - self.D, -t)
        total = self._integral(lambda r: self._share(r, -t, -1, -1), near, self.end, tolerance)
        return total + self._integral(lambda r: self._share(r, -t, -1, 1), far, self.end, tolerance)

    def _integral(self, f: Callable[[acb], acb], a: arb, b: arb, tolerance: arb) -> arb:
        """∫_a^b f, 0 where a >= b; where that is not certain, f is small next to a breakpoint and the ball says how small."""
        if a >= b:
            return arb(0)
        if not a < b:
            return (b - a) * f(acb(a.union(b))).real.union(arb(0))
        return integral(lambda r, _: f(r), a, b, tolerance)
