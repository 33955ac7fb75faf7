"""The two tails of the privacy loss of an isotropic law on a space of constant curvature, as one radial integral.

Units in which the curvature is k = −1, 0 or 1. P₁(L > t) = ∫ρ(r)·I_x(a, a) dr, a = (d−1)/2, and by half angles x keeps every
digit (docs/exact-profiles.md, The integral).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.errors import NotResolved
from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp, log_symmetric_beta
from curvedp.numerics.quadrature import endpoint_quadrature
from curvedp.privacy.loss.table import PrivacyLossLaw

Kind = Literal["gaussian", "laplace"]

_DEPTH = 42.0  # the window of a radial integral ends where the integrand is e^-42 of its peak, below half an ulp
_TINY = (
    -600.0
)  # log y from which the next term, of relative size a·y, is nothing beside a rounding
_LADDER = 4.0 ** np.arange(-5.0, 7.0)


@dataclass(frozen=True)
class SpaceFormLoss(PrivacyLossLaw):
    """The isotropic law of scale s on the d-dimensional space form of curvature k (d >= 2), at two centers D apart."""

    kind: Kind
    k: int
    d: int
    s: float
    distance: float
    order: int = 64  # quadrature nodes

    _small: ClassVar[
        float
    ] = -0.7  # logarithm below which the upper tail is the one that is integrated

    def resolved(self) -> "SpaceFormLoss":
        """The same law with as many nodes as its radial integrals need: doubling them changes nothing."""
        law = self
        while law.order < 4096:
            finer = replace(law, order=2 * law.order)
            t = law.loss_scale * np.array([0.0, 0.5, 2.0, 6.0])
            if (
                law.max_loss < math.inf
            ):  # near its cap a loss varies on the scale of what is left
                t = np.append(
                    t[t < 0.9 * law.max_loss],
                    law.max_loss * np.array([0.9, 0.97, 0.995]),
                )
            a, b = law.log_tails(t)[0], finer.log_tails(t)[0]
            if abs(law.log_mass - finer.log_mass) < 1e-12 and np.all(
                np.abs(a - b) <= 1e-11 + 1e-13 * np.abs(a)
            ):
                return law
            law = finer
        raise NotResolved(f"the radial integral of {self} could not be resolved")

    # ---- the radial law, written about its mode so that nothing large cancels ----

    @cached_property
    def mode(self) -> float:
        """The mode of ρ: (d−1)·ct(m) = m/s² (Gaussian) or 1/s (Laplace)."""
        n, s = self.d - 1, self.s
        if self.kind == "laplace":
            return {
                0: n * s,
                1: math.atan(n * s),
                -1: math.atanh(n * s) if n * s < 1 else math.inf,
            }[self.k]
        if self.k == 0:
            return math.sqrt(n) * s
        target = n * s * s
        if (
            self.k == 1
        ):  # m·tan m = target; in the form m·sin m − target·cos m it has no pole
            scale, top = (
                max(target, 1.0),
                min(math.sqrt(target), math.pi / 2),
            )  # m² ≤ m·tan m
            if top * math.sin(top) <= target * math.cos(
                top
            ):  # to the last bit, as for a law that is all but uniform
                return top
            return float(
                scipy.optimize.brentq(
                    lambda m: (m * math.sin(m) - target * math.cos(m)) / scale,
                    0.0,
                    top,
                    xtol=1e-300,
                )
            )
        top = (
            target + math.sqrt(target) + 1e-300
        )  # m tanh m >= m²/(1+m), whose root is below √T + T
        return float(
            scipy.optimize.brentq(
                lambda m: m * math.tanh(m) / target - 1.0, 0.0, 2 * top, xtol=1e-300
            )
        )

    def log_rho(self, u: Array) -> Array:
        """log ρ(m + u) − log ρ(m); −inf outside the space."""
        m, s, n = self.mode, self.s, self.d - 1
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == 0:
                growth = n * np.log1p(np.maximum(u / m, -1.0))
            elif self.k == 1:
                half = np.sin(
                    u / 2
                )  # sin(m+u)/sin m = 1 + 2·sin(u/2)·(cot m·cos(u/2) − sin(u/2))
                growth = n * np.log1p(
                    np.maximum(2 * half * (np.cos(u / 2) / math.tan(m) - half), -1.0)
                )
            else:  # log(sinh(m+u)/sinh m) = u + log1p(−expm1(−2u)/expm1(2m))
                em = math.expm1(2 * m) if m < 350 else math.inf
                if m < 350:
                    growth = n * np.log1p(np.maximum(-np.expm1(-2 * u) / em, -1.0))
                else:
                    growth = n * np.log(-np.expm1(-2 * np.maximum(m + u, 0.0)))
                # the linear terms of weight and growth cancel at the mode up to this remainder
                if self.kind == "gaussian":
                    return np.asarray(-u * u / (2 * s * s) - 2 * n * u / em + growth)
                return np.asarray(-(1 / s - n) * u + growth)
            if self.kind == "gaussian":
                return np.asarray(-u * (2 * m + u) / (2 * s * s) + growth)
            return np.asarray(-u / s + growth)

    @cached_property
    def width(self) -> float:
        """(−(log ρ)″)^{−1/2} at the mode, the scale on which ρ varies."""
        m, n = self.mode, self.d - 1
        sn = {0: m, 1: math.sin(m), -1: math.sinh(m) if m < 350 else math.inf}[self.k]
        curvature = n / (sn * sn) + (1 / self.s**2 if self.kind == "gaussian" else 0.0)
        if (
            self.kind == "laplace" and self.k == -1
        ):  # towards its limit of integrability the law is nearly exponential
            return min(1 / math.sqrt(curvature), 1 / (1 / self.s - n))
        return 1 / math.sqrt(curvature)

    @cached_property
    def log_mass(self) -> float:
        """log ∫ρ, in the units of `log_rho`."""
        return float(
            self._integral(
                np.array([0.0]),
                np.array([-self.mode]),
                np.array([self._right_end]),
                "full",
            )[0]
        )

    @cached_property
    def mean_square(self) -> float:
        """E[r²]."""
        lo, hi = self._window(
            np.array([0.0]), np.array([-self.mode]), np.array([self._right_end]), "full"
        )
        u, log_w = self._nodes_in(lo, hi)
        p = np.exp(self.log_rho(u) + log_w - self.log_mass)
        return float(np.sum(p * (self.mode + u) ** 2))

    @cached_property
    def fisher(self) -> float:
        """√ of the Fisher information of the location family in any unit direction: √(E[r²]/d)/s² or 1/(s√d)."""
        if self.kind == "laplace":
            return 1 / (self.s * math.sqrt(self.d))
        return math.sqrt(self.mean_square / self.d) / self.s**2

    @property
    def _diameter(self) -> float:
        return math.pi if self.k == 1 else math.inf

    @property
    def _right_end(self) -> float:
        return self._diameter - self.mode

    # ---- the level sets of the loss ----

    @property
    def max_loss(self) -> float:
        """The supremum of L: D/s for Laplace, D(2·diameter − D)/2s² for the Gaussian, on the cut locus of η₂."""
        if self.kind == "laplace":
            return self.distance / self.s
        return self.distance * (2 * self._diameter - self.distance) / (2 * self.s**2)

    def _level(self, r: Array, t: Array) -> Array:
        """b, the value of d₂ on the level L = t."""
        return (
            np.sqrt(r * r + 2 * self.s**2 * t)
            if self.kind == "gaussian"
            else r + self.s * t
        )

    def _x(self, r: Array, t: Array) -> tuple[Array, Array]:
        """(x, 1−x), each with its own digits."""
        D, s, b = self.distance, self.s, self._level(r, t)
        gap = s * t + 0.0 * r  # b − r
        if self.kind == "gaussian":
            with np.errstate(invalid="ignore", divide="ignore"):
                gap = np.where(t > 0, 2 * s * s * t / (b + r), 0.0)
        p, q = (D - gap) / 2, (r + D + b) / 2
        p_, q_ = (D + gap) / 2, (b + r - D) / 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == 0:
                x, y = p * q / (r * D), p_ * q_ / (r * D)
            elif self.k == 1:
                below = np.sin(r) * math.sin(D)
                x, y = np.sin(p) * np.sin(q) / below, np.sin(p_) * np.sin(q_) / below
            else:  # sinh z = e^z(1−e^{−2z})/2, and the exponentials cancel: nothing overflows at any radius
                below = np.expm1(-2 * r) * math.expm1(-2 * D)
                x = np.expm1(-2 * p) * np.expm1(-2 * q) / below
                y = np.exp(-2 * p) * np.expm1(-2 * p_) * np.expm1(-2 * q_) / below
        return np.fmin(np.fmax(x, 0.0), 1.0), np.fmin(
            np.fmax(y, 0.0), 1.0
        )  # 0 where there is no number

    def _breaks(self, t: Array) -> tuple[list[Array], NDArray[np.bool_]]:
        """([r_a, r_b], inner): x goes through (0, 1) for r between r_a and r_b only; for r < r_a, L > t iff `inner`."""
        D, far, level = (
            self.distance,
            2 * self._diameter - self.distance,
            2 * self.s**2 * t,
        )
        if self.kind == "laplace":
            a = np.maximum(D - self.s * t, 0.0) / 2
            return [a, np.maximum((far - self.s * t) / 2, a)], np.ones_like(
                t, dtype=bool
            )
        a = np.abs(D * D - level) / (2 * D)
        b = (
            (far * far - level) / (2 * far)
            if math.isfinite(far)
            else np.full_like(t, math.inf)
        )
        return [a, np.maximum(b, a)], level < D * D

    # ---- integrals over r, a row for each t ----

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        t = np.asarray(t, np.float64)
        breaks, inner = self._breaks(t)
        ends = (
            np.stack([np.zeros_like(t), *breaks, np.full_like(t, self._diameter)])
            - self.mode
        )
        below = self._integral(t, ends[0], ends[1], "full")
        pieces = [np.where(inner, below, -math.inf)]
        pieces += [
            self._integral(t, low, high, "upper") for low, high in pairwise(ends[1:-1])
        ]
        log_s = np.minimum(log_sum_exp(np.stack(pieces), axis=0) - self.log_mass, 0.0)
        # the smaller tail carries the digits, the other is its complement: integrate the lower one only where it is small
        log_f = np.full_like(t, -math.inf)
        with np.errstate(divide="ignore"):
            right = log_s < self._small
            log_f[right] = np.log1p(-np.exp(log_s[right]))
        left = ~right
        if np.any(left):
            t, ends = t[left], ends[:, left]
            pieces = [np.where(inner[left], -math.inf, below[left])]
            pieces += [
                self._integral(t, low, high, "lower")
                for low, high in pairwise(ends[1:-1])
            ]
            pieces.append(self._integral(t, ends[-2], ends[-1], "full"))
            log_f[left] = np.minimum(
                log_sum_exp(np.stack(pieces), axis=0) - self.log_mass, -0.5
            )
            log_s[left] = np.log1p(-np.exp(log_f[left]))
        return log_s, log_f

    def _log_integrand(
        self, u: Array, t: Array, part: str, rough: bool = False
    ) -> Array:
        log_rho = self.log_rho(u)
        if part == "full":
            return log_rho
        x, y = self._x(self.mode + u, t)
        if part == "lower":
            x, y = y, x
        with np.errstate(divide="ignore"):
            if rough:  # I_x(a,a) up to a slowly varying factor: enough to find where the integrand lives
                return log_rho + np.where(
                    x < 0.5, (self.d - 1) / 2 * np.log(4 * x * y), 0.0
                )
            return log_rho + log_symmetric_beta((self.d - 1) / 2, x, y)

    def _window(self, t: Array, lo: Array, hi: Array, part: str) -> tuple[Array, Array]:
        """The part of (lo, hi) that carries the integral: the integrand is unimodal, so three grids close in on it."""
        t, anchor = t[:, None], np.clip(0.0, lo, hi)[:, None]
        lo, hi = lo[:, None], hi[:, None]
        rungs = self.width * np.concatenate([-_LADDER[::-1], [0.0], _LADDER])
        u = np.clip(anchor + rungs, lo, hi)
        h = self._log_integrand(u, t, part, rough=True)
        # on a non-compact space go out until ρ alone is below the peak
        while np.any(
            open_end := (u[:, -1:] < hi)
            & (h[:, -1:] > h.max(axis=1, keepdims=True) - _DEPTH)
        ):
            last = np.where(
                open_end, np.minimum(anchor + 2 * (u[:, -1:] - anchor), hi), u[:, -1:]
            )
            u = np.concatenate([u, last], axis=1)
            h = np.concatenate(
                [h, self._log_integrand(last, t, part, rough=True)], axis=1
            )
        left, right = _hull(u, h)
        for _ in range(2):
            u = left + (right - left) * np.linspace(0.0, 1.0, 17)
            left, right = _hull(u, self._log_integrand(u, t, part, rough=True))
        return left[:, 0], right[:, 0]

    def _nodes_in(
        self, lo: Array, hi: Array, logarithmic: bool = False
    ) -> tuple[Array, Array]:
        """Gauss–Legendre in θ of u = mid − half·cos θ: the half-integer powers at a breakpoint become analytic.
        `logarithmic`: the same in log r, for an integrand that varies on the scale of its lower end and on that of ρ."""
        offset, weight = endpoint_quadrature(self.order)
        with np.errstate(divide="ignore"):
            if logarithmic:
                r_lo = np.maximum(lo + self.mode, 1e-9 * self.width)[
                    :, None
                ]  # any positive number would do
                half = np.log1p((hi - lo)[:, None] / r_lo) / 2
                step = r_lo * np.expm1(half * offset)
                return np.minimum(lo[:, None] + step, hi[:, None]), np.log(
                    (r_lo + step) * half * weight
                )
            half = ((hi - lo) / 2)[:, None]
            return np.minimum(lo[:, None] + half * offset, hi[:, None]), np.log(
                half * weight
            )

    def _integral(self, t: Array, lo: Array, hi: Array, part: str) -> Array:
        out = np.full(t.shape, -math.inf)
        some = hi > lo
        if not np.any(some):
            return out
        t, lo, hi = t[some], lo[some], hi[some]
        knee = (
            20.0 - self.mode
        )  # from here on sinh is an exponential: two scales, if the law barely exists
        if (
            part == "full"
            and self.kind == "laplace"
            and self.k == -1
            and np.any(hi > knee)
            and np.any(lo < knee)
        ):
            near = self._integral(t, lo, np.minimum(hi, knee), part)
            out[some] = np.logaddexp(
                near, self._integral(t, np.maximum(lo, knee), hi, part)
            )
            return out
        left, right = self._window(t, lo, hi, part)
        u, log_w = self._nodes_in(
            left, right, logarithmic=self.kind == "laplace" and part != "full"
        )
        out[some] = log_sum_exp(
            self._log_integrand(u, t[:, None], part) + log_w, axis=1
        )
        return out


def _hull(u: Array, h: Array) -> tuple[Array, Array]:
    """The grid points around {h > max − depth}, one beyond on each side."""
    keep = h >= h.max(axis=1, keepdims=True) - _DEPTH
    first = np.maximum(np.argmax(keep, axis=1) - 1, 0)
    last = np.minimum(
        keep.shape[1] - np.argmax(keep[:, ::-1], axis=1), keep.shape[1] - 1
    )
    return np.take_along_axis(u, first[:, None], 1), np.take_along_axis(
        u, last[:, None], 1
    )


@dataclass(frozen=True)
class LimitingLoss(PrivacyLossLaw):
    """The loss (d−1)·log(cosh D − sinh D cos φ) between the harmonic measures seen from two points of H^d. cos²(φ/2) ~
    Beta(a, a), a = (d−1)/2, and cosh D − sinh D cos φ = e^D − 2 sinh D cos²(φ/2)."""

    d: int
    distance: float

    @property
    def max_loss(self) -> float:
        return (self.d - 1) * self.distance

    @property
    def loss_scale(self) -> float:
        return (self.d - 1) * self.distance / math.sqrt(self.d)

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """L > t iff cos²(φ/2) < x = (e^D − e^{t/(d−1)})/2 sinh D."""
        D, level = self.distance, t / (self.d - 1)
        x = np.expm1(level - D) / math.expm1(-2 * D)
        y = np.exp(level - D) * np.expm1(-level - D) / math.expm1(-2 * D)
        a = (self.d - 1) / 2
        # Where y is below every float the regularized beta function is its first term, y^a/(a·B(a, a)).
        log_y = level - D + np.log(np.expm1(-level - D) / math.expm1(-2 * D))
        first = a * log_y - math.log(a) - float(scipy.special.betaln(a, a))
        return log_symmetric_beta(a, x, y), np.where(
            log_y < _TINY, first, log_symmetric_beta(a, y, x)
        )
