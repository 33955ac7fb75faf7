"""One dimension in closed form: the circle of length 2π and the line.

Jiang et al. 2023, Cor. 3.2.1, prints another set where the loss exceeds ε on the circle, and a δ too small
(docs/errata.md, E1).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.privacy.loss.table import PrivacyLossLaw

_Z, _W = np.polynomial.legendre.leggauss(32)


@dataclass(frozen=True)
class CircleGaussianLoss(PrivacyLossLaw):
    """Tails of the loss of the density ∝ exp(−d²/2s²) on the circle, centers D apart. With y the signed angle from η₁, η₂
    at y = D, the loss exceeds t exactly on −r_b < y < y_a, where y_a = (D² − 2s²t)/2D and r_b = ((2π−D)² −
    2s²t)/(2(2π−D))."""

    s: float
    distance: float

    @property
    def max_loss(self) -> float:
        return self.distance * (2 * math.pi - self.distance) / (2 * self.s**2)

    @property
    def fisher(self) -> float:
        """√E[y²]/s²: Var of a normal truncated to ±π."""
        y = min(math.pi, 12 * self.s) * ((_Z + 1) / 2)
        p = _W / 2 * np.exp(-y * y / (2 * self.s**2))
        return math.sqrt(float(np.sum(p * y * y) / np.sum(p))) / self.s**2

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        s, D, far = self.s, self.distance, 2 * math.pi - self.distance
        y_a = (D * D - 2 * s * s * t) / (2 * D)
        r_b = (far * far - 2 * s * s * t) / (2 * far)
        edge = np.full_like(t, math.pi)
        mass = _log_normal_between(-edge[:1] / s, edge[:1] / s)[0]
        upper = _log_normal_between(-r_b / s, y_a / s) - mass
        parts = [
            _log_normal_between(y_a / s, edge / s),
            _log_normal_between(-edge / s, -r_b / s),
        ]
        return np.minimum(upper, 0.0), np.minimum(
            log_sum_exp(np.stack(parts), axis=0) - mass, 0.0
        )


@dataclass(frozen=True)
class _Laplace(PrivacyLossLaw):
    """A loss with atoms at ±D/s; |d/dη log p| = 1/s almost everywhere."""

    s: float
    distance: float

    @property
    def max_loss(self) -> float:
        return self.distance / self.s

    loss_scale = max_loss

    @property
    def fisher(self) -> float:
        return 1 / self.s

    @property
    def closest(self) -> float:  # type: ignore[override]  # a class attribute there
        """How far the table of tails goes: to T − t < 1e-4, since they vary with T − t itself next to the atom."""
        return max(16.0, math.log(self.max_loss) + 9.5)


@dataclass(frozen=True)
class CircleLaplaceLoss(_Laplace):
    """Tails of the loss of the density ∝ exp(−d/s) on the circle."""

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """L > t on −(π − (D+st)/2) < y < (D−st)/2."""
        s, D = self.s, self.distance
        a, b, whole = (
            (D - s * t) / (2 * s),
            (math.pi - (D + s * t) / 2) / s,
            math.pi / s,
        )
        mass = -2 * math.expm1(-whole)
        with np.errstate(divide="ignore"):
            upper = np.log(-(np.expm1(-a) + np.expm1(-b)) / mass)
            lower = np.logaddexp(
                np.log(-np.expm1(a - whole)) - a, np.log(-np.expm1(b - whole)) - b
            ) - math.log(mass)
        return np.minimum(upper, 0.0), np.minimum(lower, 0.0)


@dataclass(frozen=True)
class LineLaplaceLoss(_Laplace):
    """Tails of the loss of the density exp(−|y|/s)/2s on the line."""

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """L > t on y < (D − st)/2."""
        log_lower = -(self.distance / self.s - t) / 2 - math.log(2)
        return np.log1p(-np.exp(log_lower)), log_lower


def _log_normal_between(a: Array, b: Array) -> Array:
    """log(Φ(b) − Φ(a)) for a <= b, to relative precision in either tail and for close ends."""
    flip = a + b > 0  # into the left tail
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    width = np.maximum(b - a, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = width * np.maximum(np.abs(a), 1.0) < 4.0
        y = (
            np.where(near, a, 0.0)[..., None]
            + np.where(near, width, 0.0)[..., None] * (_Z + 1) / 2
        )
        by_quadrature = (
            np.log(width)
            + log_sum_exp(-y * y / 2 + np.log(_W / 2), axis=-1)
            - 0.5 * math.log(2 * math.pi)
        )
        high, low = scipy.special.log_ndtr(b), scipy.special.log_ndtr(a)
        by_difference = high + np.log(-np.expm1(np.minimum(low - high, -1e-300)))
    return np.where(near, by_quadrature, by_difference)
