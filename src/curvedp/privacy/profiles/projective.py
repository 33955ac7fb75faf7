"""Exact profiles of the Riemannian Gaussian and Laplace on real and complex projective spaces.

In units in which the cut locus is at π/2, with η₂ at distance D and x at distance r from η₁ (docs/exact-profiles.md,
Theorem 1), cos d₂ = |cos r·cos D + sin r·sin D·w|, w real or complex. So the loss exceeds t, d₂ > b, on |w + c| < R with
c = cot r·cot D and R = cos b/(sin r·sin D): an interval of the real w, whose law is a Beta, or a disc of the complex w,
with the density (n−1)/π·(1−|w|²)^{n−2} on ℂPⁿ. One radial integral of that probability remains, as on spheres
(`_space_form`).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp, log_symmetric_beta
from curvedp.privacy.loss.space_form import SpaceFormLoss
from curvedp.privacy.profiles.constant_curvature import RadialProfile

_HALF = math.pi / 2
_SCALES, _RATIOS = (1e-12, 1e6), (1e-12, 1e6)
_Z, _W = np.polynomial.legendre.leggauss(64)
_RADII = np.sqrt(
    (np.polynomial.legendre.leggauss(12)[0] + 1) / 2
)  # of a disc, evenly in area
_AREAS = np.polynomial.legendre.leggauss(12)[1] / 2
_DEEP = -500.0  # logarithm of what is near enough to the end of the doubles
_COSINES = np.cos(2 * math.pi * (np.arange(48) + 0.5) / 48)


@dataclass(frozen=True)
class ProjectiveLoss(SpaceFormLoss):
    """The isotropic law of scale s on the projective space of real dimension d, diameter π/2, at two centers D apart."""

    is_complex: bool = False

    # ---- the radial law: that of the sphere up to π/2, times cos r on ℂPⁿ ----

    @cached_property
    def mode(self) -> float:
        if not self.is_complex:
            return super().mode  # never beyond π/2

        def slope(r: float) -> float:
            pull = r / self.s**2 if self.kind == "gaussian" else 1 / self.s
            return (self.d - 1) / math.tan(r) - math.tan(r) - pull

        return float(
            scipy.optimize.brentq(slope, 1e-30, _HALF * (1 - 1e-15), xtol=1e-300)
        )

    def log_rho(self, u: Array) -> Array:
        real = super().log_rho(u)
        if not self.is_complex:
            return real
        half = np.sin(
            u / 2
        )  # cos(m+u)/cos m = 1 − 2·sin(u/2)·(tan m·cos(u/2) + sin(u/2))
        with np.errstate(divide="ignore", invalid="ignore"):
            return real + np.log1p(
                np.maximum(
                    -2 * half * (math.tan(self.mode) * np.cos(u / 2) + half), -1.0
                )
            )

    @cached_property
    def width(self) -> float:
        bend = (self.d - 1) / math.sin(self.mode) ** 2 + (
            1 / self.s**2 if self.kind == "gaussian" else 0.0
        )
        return 1 / math.sqrt(
            bend + (1 / math.cos(self.mode) ** 2 if self.is_complex else 0.0)
        )

    _diameter, _small = _HALF, -math.log(2)

    # ---- the level sets of the loss ----

    def _breaks(self, t: Array) -> tuple[list[Array], NDArray[np.bool_]]:
        """([r_a, r_c, r_e], inner): below r_a all or nothing exceeds t, from r_c on both lifts count, beyond r_e nothing."""
        (a, c), inner = super()._breaks(t)
        end = (
            np.sqrt(np.maximum(_HALF**2 - 2 * self.s**2 * t, 0.0))
            if self.kind == "gaussian"
            else _HALF - self.s * t
        )
        return [a, c, np.maximum(end, c)], inner

    def _far(self, r: Array, t: Array) -> tuple[Array, Array]:
        """(x, 1−x) of the other lift, (1 − R − c)/2, not clipped: negative where it is never the nearer one."""
        D, b = self.distance, self._level(r, t)
        below = np.sin(r) * math.sin(D)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = (
                np.sin((r + D + b - math.pi) / 2)
                * np.sin((r + D + math.pi - b) / 2)
                / below
            )
            y = (
                np.sin((math.pi - b - r + D) / 2)
                * np.sin((math.pi - b + r - D) / 2)
                / below
            )
        return np.nan_to_num(x, nan=0.0), np.nan_to_num(y, nan=1.0)

    # ---- integrals over r ----

    def _log_integrand(
        self, u: Array, t: Array, part: str, rough: bool = False
    ) -> Array:
        log_rho = self.log_rho(u)
        if part == "full":
            return log_rho
        r = self.mode + u
        near, far = self._x(r, t), self._far(r, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = np.maximum(np.cos(self._level(r, t)), 0.0) / (
                np.sin(r) * math.sin(self.distance)
            )
            if rough:
                x, y = near if part == "upper" else near[::-1]
                share = np.where(x < 0.5, (self.d - 1) / 2 * np.log(4 * x * y), 0.0)
                share = (
                    share
                    if part == "lower"
                    else share + np.log(np.minimum(radius, 1.0))
                )
                return log_rho + np.maximum(
                    share, (self.d - 1) / 2 * np.log(np.maximum(far[0], 0.0))
                )
            share = (self._disc if self.is_complex else self._interval)(
                near, far, radius, part
            )
        return log_rho + share

    def _interval(
        self,
        near: tuple[Array, Array],
        far: tuple[Array, Array],
        radius: Array,
        part: str,
    ) -> Array:
        """log P(|w + c| < R), or of its complement, for a real w: (1+w)/2 ~ Beta((d−1)/2, (d−1)/2)."""
        a, (x, y) = (self.d - 1) / 2, near
        x2, y2 = np.clip(far[0], 0.0, 1.0), np.clip(far[1], 0.0, 1.0)
        beyond = log_symmetric_beta(a, x2, y2)
        if part == "lower":
            return np.logaddexp(log_symmetric_beta(a, y, x), beyond)
        first = log_symmetric_beta(a, x, y)
        if a == 1.0:
            return np.where(x2 > 0, np.log(radius), first)
        difference = first + np.log(-np.expm1(np.minimum(beyond - first, 0.0)))
        # where they nearly cancel: ∫ sin^{d−2}φ over the angles in between, whose half width is arcsin(R/sin of the middle)
        middle = np.arctan2(np.sqrt(y), np.sqrt(x)) + np.arctan2(
            np.sqrt(y2), np.sqrt(x2)
        )
        half = np.arcsin(np.minimum(radius / np.sin(middle), 1.0))
        close = (x2 > 0) & (beyond - first > -0.1)
        if not np.any(close):
            return difference
        phi = middle[close][:, None] + half[close][:, None] * _Z
        total = log_sum_exp(
            (self.d - 2) * np.log(np.abs(np.sin(phi))) + np.log(_W), axis=1
        )
        whole = (
            math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
        )  # log ∫₀^π sin^{d−2}
        difference[close] = np.log(half[close]) + total - whole
        return difference

    def _disc(
        self,
        near: tuple[Array, Array],
        far: tuple[Array, Array],
        radius: Array,
        part: str,
    ) -> Array:
        """The same for a complex w, with the density (n−1)/π·(1−|w|²)^{n−2} on the unit disc (`_lens`)."""
        (x, y), n = near, self.d // 2
        shape = np.broadcast_shapes(x.shape, far[0].shape, radius.shape)
        x, y, x2, radius = (
            np.broadcast_to(v, shape).ravel() for v in (x, y, far[0], radius)
        )
        return _lens(n, x, y, x2, radius)[part == "lower"].reshape(shape)


def _lens(n: int, x: Array, y: Array, x2: Array, radius: Array) -> tuple[Array, Array]:
    """Logarithms of (P, 1−P), each with its digits, of the disc of center −c and radius R: R − c = x − y, 1 − R − c = 2·x2.

    The density is the divergence of −(1−|w|²)^{n−1}/(2π|w|²)·w, which vanishes on the unit circle: so P, or 1 − P if the
    disc holds 0, is the flux through the arc w = −c + R·e^{iψ} within the unit disc. Where the arc comes near 0, the pole is
    taken off: (1 − (1−|w|²)^{n−1})/(2π|w|²)·w, whose flux through the unit circle is the angle there. Of a small disc inside
    the unit disc the density itself is integrated. Where the power would leave the doubles, that of the largest 1−|w|² on
    the arc, 4xy, is taken off: what is left there is far from the pole.
    """
    c = np.maximum(radius - (x - y), 0.0)
    least, product = (
        (x - y) ** 2,
        np.maximum(radius * c, 1e-300),
    )  # |w|² = least + 4Rc·sin²(ψ/2)
    central = least * (n - 1) < 0.5
    small = (x2 > 0) & (
        radius < 0.3 * (radius + 2 * np.maximum(x2, 0.0))
    )  # next to its distance from the unit circle
    small &= (
        (n - 2) * radius * c < 4 * x * y
    )  # nor does the density fall much across it; flux does not cancel if it does
    reach = np.where(
        central, 1.0, -math.expm1(-45 / (n - 1))
    )  # beyond, (1−|w|²)^{n−1} is e^-45 of its largest
    psi = 2 * np.arcsin(np.sqrt(np.minimum(x * y / product * reach, 1.0)))
    angle = psi[:, None] * (_Z + 1) / 2
    bend = np.sin(angle / 2) ** 2
    square = least[:, None] + 4 * product[:, None] * bend
    top, shift = _taken_off(4 * x * y, n - 1)
    rest = np.maximum(
        (4 * (x * y)[:, None] - 4 * product[:, None] * bend) / top[:, None], 0.0
    ) ** (n - 1)
    across = (x - y)[:, None] + 2 * c[:, None] * bend  # w·(outward normal)
    with np.errstate(divide="ignore", invalid="ignore"):
        potential = np.where(central[:, None], 1 - rest, rest) / square
        flux = (
            np.sum(np.where(square > 0, potential, n - 1.0) * across * _W, axis=1)
            * psi
            / 2
            * radius
            / math.pi
        )
        open_ = np.where(x2 < 0, -x * x2 / np.maximum(c, 1e-300), 0.0)
        circle = (
            2 / math.pi * np.arcsin(np.sqrt(np.clip(open_, 0.0, 1.0)))
        )  # the share of the unit circle in the disc
        holds, whole = x >= y, flux * np.exp(shift)
        upper = np.where(central, flux + circle, np.where(holds, 1 - whole, -flux))
        lower = np.where(central, 1 - upper, np.where(holds, flux, 1 + whole))
        logs = np.log(np.maximum(upper, 0.0)), np.log(np.maximum(lower, 0.0))
        logs = (
            logs[0] + np.where(holds, 0.0, shift),
            logs[1] + np.where(holds, shift, 0.0),
        )
        if np.any(small):
            logs[0][small] = _whole_disc(n, c[small], radius[small])
            logs[1][small] = np.log(np.maximum(1 - np.exp(logs[0][small]), 0.0))
    return logs


def _taken_off(largest: Array, power: int) -> tuple[Array, Array]:
    """(a factor, the logarithm of its power): the largest of some bases where its power is near the end of the doubles,
    and 1 where it is not."""
    with np.errstate(divide="ignore"):
        deep = power * np.log(largest) < _DEEP
    factor = np.where(deep & (largest > 0), largest, 1.0)
    return factor, power * np.log(factor)


def _whole_disc(n: int, c: Array, radius: Array) -> Array:
    """Logarithm of (n−1)/π·∫(1−|w|²)^{n−2} over a disc inside the unit disc, in polar coordinates of its own."""
    q = radius[:, None, None] * _RADII[:, None]
    square = c[:, None, None] ** 2 + q * q - 2 * c[:, None, None] * q * _COSINES
    top, shift = _taken_off(1 - np.maximum(c - radius, 0.0) ** 2, n - 2)
    density = np.mean(((1 - square) / top[:, None, None]) ** (n - 2), axis=2) @ _AREAS
    return np.asarray(np.log((n - 1) * radius**2 * density) + shift)


@dataclass(frozen=True)
class ProjectiveProfile(RadialProfile):
    """The exact profile of an isotropic law, `kind` "gaussian" or "laplace", on the projective space over `field`, "real" or
    "complex", of real dimension `dim` (from 4 on if complex: ℂP¹ is a sphere), for every pair of centers at distance at most
    `sensitivity`. `curvature` is the smallest sectional one, κ; the diameter is π/2√κ."""

    field: str
    dim: int
    curvature: float
    scale: float
    sensitivity: float

    lengths: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in ("gaussian", "laplace") or self.field not in (
            "real",
            "complex",
        ):
            raise ParameterError(
                f"kind={self.kind!r}, field={self.field!r}: gaussian or laplace, real or complex"
            )
        least = 2 if self.field == "real" else 4
        if _validate.integer("dim", self.dim, least) % 2 and self.field == "complex":
            raise ParameterError(
                "of a complex space must be even", parameter="dim", value=self.dim
            )
        root = math.sqrt(_validate.positive("curvature", self.curvature))
        if self.sensitivity > _HALF / root * (1 + 4e-16):
            raise ParameterError(
                f"must not exceed the diameter {_HALF / root:g} of the space",
                parameter="sensitivity",
                value=self.sensitivity,
            )
        _validate.within("scale·√curvature", self.scale * root, *_SCALES)
        _validate.within("sensitivity/scale", self.sensitivity / self.scale, *_RATIOS)

    @property
    def law(self) -> SpaceFormLoss:
        root = math.sqrt(self.curvature)
        distance = min(self.sensitivity * root, _HALF)
        return ProjectiveLoss(
            self.kind,
            1,
            self.dim,
            self.scale * root,
            distance,
            is_complex=self.field == "complex",
        )

    @property
    def space(self) -> str:
        return f"the {self.field} projective space of dimension {self.dim} and curvature {self.curvature:g}"
