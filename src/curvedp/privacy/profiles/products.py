"""Profiles of the Riemannian Gaussian on products of space forms, such as the 2×2 SPD matrices: ℝ × H² of curvature −½.

The loss is the sum of the factors' independent losses. A change of length Δ may fall on the factors in any way with ΣΔᵢ²
= Δ², and δ(ε) grows with each Δᵢ (docs/exact-profiles.md, Theorem 1, applied to a slice), so the supremum is over that
sphere (`largest_over_splits`). Flat factors count as one; there may be two in all.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.special import ndtr, ndtri

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError
from curvedp.numerics.directed_rounding import Array, root_rounded_up, round_up
from curvedp.privacy.guarantees.gaussian import gdp_delta
from curvedp.privacy.loss.sum import MARGIN, GaussianLoss, SumOfLosses
from curvedp.privacy.loss.table import PrivacyLossLaw
from curvedp.privacy.profiles.base import RELATIVE_ERROR, PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import (
    ConstantCurvatureProfile,
    FloorProfile,
    constant_curvature_profile,
)

Value = Callable[
    [Array], Array
]  # a vector of lengths -> a row of positive numbers, increasing in each length

_GOOD = 1e-7  # a relative error that needs no finer lattice
_POOR = 1e-5
_ARCS = (5, 9, 17, 33, 65)  # directions between two factors


@dataclass(frozen=True)
class _Split(PrivacyProfile):
    """The profile at one split of the sensitivity: distances[i] on factor i, the flat factors merged into `flat`."""

    factors: tuple[tuple[float, int], ...]
    scale: float
    flat: float
    distances: tuple[float, ...]

    def _delta(self, eps: Array) -> Array:
        return np.minimum(super()._delta(eps) * (1 + self._margin), 1.0)

    @property
    def _margin(self) -> float:
        """What the table of this split is rounded up by."""
        if self._table.panels.unresolved > 1e-6:
            raise NotResolved(
                "the sum of the losses of the factors could not be resolved"
            )
        return (
            MARGIN if len(self.parts) > 1 else 0.0
        ) + 20 * self._table.panels.unresolved

    @cached_property
    def parts(self) -> tuple[ConstantCurvatureProfile, ...]:
        pairs = zip(self.factors, self.distances, strict=True)
        return tuple(
            constant_curvature_profile("gaussian", k, d, self.scale, x)
            for (k, d), x in pairs
            if x > 0
        )

    @cached_property
    def tails(self) -> PrivacyLossLaw:
        terms: list[tuple[float, Any]] = [
            (p.tails.loss_scale, p._table) for p in self.parts
        ]
        if self.flat > 0:
            terms.append((self.flat / self.scale, GaussianLoss(self.flat / self.scale)))
        (scale, narrow), (wide_scale, wide) = sorted(terms, key=lambda term: term[0])
        return SumOfLosses(wide, narrow, wide_scale, scale)

    @cached_property
    def mu(self) -> float:
        return round_up(
            PrivacyProfile.mu.func(self), 40 * self._table.panels.unresolved
        )  # type: ignore[attr-defined]  # mypy sees the value, not the cached property

    def mu_at(self, eps: Array) -> Array:
        return super().mu_at(eps) * (1 + 40 * self._table.panels.unresolved)

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        return super().mu_of_tradeoff(alpha) * (1 + 40 * self._table.panels.unresolved)

    @property
    def rao(self) -> float:
        squares = [p.rao**2 for p in self.parts] + [(self.flat / self.scale) ** 2]
        return round_up(math.sqrt(sum(squares)), 1e-15)

    @property
    def _tail_mu(self) -> float:
        unbounded = [
            x for (k, _), x in zip(self.factors, self.distances, strict=True) if k < 0
        ]
        return math.hypot(self.flat, *unbounded) / self.scale

    def _normal_tail(self) -> tuple[float, float]:
        """Of independent losses they add up; a sphere's loss is bounded."""
        tails = [
            p._normal_tail() if p.curvature < 0 else (0.0, p.pure_epsilon)
            for p in self.parts
        ]
        return sum(log_k for log_k, _ in tails), sum(a for _, a in tails)


@lru_cache(maxsize=512)
def _split(
    factors: tuple[tuple[float, int], ...],
    scale: float,
    flat: float,
    distances: tuple[float, ...],
) -> PrivacyProfile:
    """The profile at a split; where all of it falls on one factor, that factor's own."""
    moved = [(k, d, x) for (k, d), x in zip(factors, distances, strict=True) if x > 0]
    if not moved:
        return constant_curvature_profile("gaussian", 0.0, 2, scale, flat)
    if flat == 0 and len(moved) == 1:
        k, d, x = moved[0]
        return constant_curvature_profile("gaussian", k, d, scale, x)
    return _Split(factors, scale, flat, distances)


@dataclass(frozen=True)
class ProductProfile(PrivacyProfile):
    """The Gaussian of one scale on a product of space forms: at every ε, the worst split of the sensitivity. `factors`
    are (curvature, dimension). At most 1e-8 above the truth; the supremum over splits is that of a polynomial fit, raised
    by the fit's measured error (`largest_over_splits`)."""

    factors: tuple[tuple[float, int], ...]
    scale: float
    sensitivity: float

    lengths: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            pairs = tuple((k, d) for k, d in self.factors)
        except (TypeError, ValueError):
            raise ParameterError(
                "must be pairs (curvature, dimension)",
                parameter="factors",
                value=self.factors,
            ) from None
        if not pairs:
            raise ParameterError("factors=() must not be empty")
        checked = tuple(
            (
                _validate.within("curvature", k, -1e300, 1e300),
                _validate.integer("dim", d, 1),
            )
            for k, d in pairs
        )
        object.__setattr__(self, "factors", checked)
        if all(k > 0 for k, _ in checked):
            diameter = math.hypot(*(math.pi / math.sqrt(k) for k, _ in checked))
            if self.sensitivity > diameter * (1 + 4e-16):
                raise ParameterError(
                    f"must not exceed the diameter {diameter:g}",
                    parameter="sensitivity",
                    value=self.sensitivity,
                )
        if len(self._caps) > 2:
            raise ParameterError(
                f"{self.space} has more than two parts, the flat ones counted as one"
            )

    @property
    def _curved(self) -> tuple[tuple[float, int], ...]:
        return tuple((k, d) for k, d in self.factors if k > 0 or (k < 0 and d > 1))

    @property
    def _has_flat(self) -> bool:
        return len(self._curved) < len(self.factors)

    @property
    def _caps(self) -> list[float]:
        """How far each direction can be moved: the flat part, if any, then the curved factors."""
        caps = [math.pi / math.sqrt(k) if k > 0 else math.inf for k, _ in self._curved]
        return [math.inf, *caps] if self._has_flat else caps

    def _at(self, lengths: Sequence[float]) -> PrivacyProfile:
        """The profile with these lengths on the flat part, if any, and on the curved factors."""
        capped = [min(x, cap) for x, cap in zip(lengths, self._caps, strict=True)]
        flat = capped.pop(0) if self._has_flat else 0.0
        # equal factors are interchangeable: one table serves every order
        pairs = sorted(zip(self._curved, capped, strict=True))
        return _split(
            tuple(f for f, _ in pairs), self.scale, flat, tuple(x for _, x in pairs)
        )

    @property
    def corners(self) -> list[PrivacyProfile]:
        """Everything on one factor."""
        return [
            self._at((self.sensitivity * row).tolist())
            for row in np.eye(len(self._caps))
        ]

    def _worst(self, cost: Callable[[PrivacyProfile], Array]) -> Array:
        """The supremum of each entry over the splits of the sensitivity."""
        caps, D = self._caps, self.sensitivity
        if len(caps) == 1:
            return cost(self._at([D]))
        start, stop = math.acos(min(caps[0] / D, 1.0)), math.asin(min(caps[1] / D, 1.0))
        if (
            len(self._curved) == 2 and self._curved[0] == self._curved[1]
        ):  # the other half is its mirror image
            stop = min(stop, math.pi / 4)
        return largest_over_splits(
            lambda u: cost(self._at((D * u).tolist())), start, max(start, stop)
        )

    def _delta(self, eps: Array) -> Array:
        """In terms of μ_ε², the square of the μ with δ_μ(ε) = δ(ε), which is nearly linear in the squared lengths."""
        if len(self._caps) == 1:
            return self._at([self.sensitivity])._delta(eps)
        flat = np.asarray(eps, np.float64).ravel()
        inside = (flat < self.pure_epsilon) & (flat < 1e300)
        out = np.zeros_like(flat)
        if np.any(inside):
            square = self._worst(
                lambda split: np.maximum(split.mu_at(flat[inside]) ** 2, 1e-300)
            )
            out[inside] = gdp_delta(
                np.sqrt(square) * (1 + 2 * (MARGIN + RELATIVE_ERROR)), flat[inside]
            )
        return out.reshape(np.shape(eps))

    def _epsilon(self, delta: Array) -> Array:
        """By Brent's method from the worst corner's ε, since each δ is a search over the splits."""
        return np.array([self._epsilon_at(d) for d in delta.ravel().tolist()]).reshape(
            delta.shape
        )

    def _epsilon_at(self, delta: float) -> float:
        def excess(eps: float) -> float:
            found = float(self.delta(eps))
            return (found - delta) / max(found, delta)

        low, high, step = (
            0.0,
            max(1e-3, *(float(corner.epsilon(delta)) for corner in self.corners)),
            1e-6,
        )
        while excess(high) > 0:  # all but always by less than rounding
            low, high, step = high, high * (1 + step), min(30 * step, 1.0)
        return root_rounded_up(excess, low, high, relative=1e-15)

    def _tradeoff(self, alpha: Array) -> Array:
        """Likewise: β = Φ(−Φ⁻¹(α) − μ_α)."""
        if len(self._caps) == 1:
            return self._at([self.sensitivity])._tradeoff(alpha)
        flat = np.asarray(alpha, np.float64).ravel()
        inside = (flat > 0) & (flat < 1)
        z, out = ndtri(flat[inside]), np.where(flat > 0, 0.0, 1.0)
        if np.any(inside):
            square = self._worst(
                lambda split: np.maximum(
                    split.mu_of_tradeoff(flat[inside]) ** 2, 1e-300
                )
            )
            out[inside] = ndtr(
                -z - np.sqrt(square) * (1 + 2 * (MARGIN + RELATIVE_ERROR))
            )
        return out.reshape(np.shape(alpha))

    @cached_property
    def mu(self) -> float:
        if len(self._caps) == 1:
            return self._at([self.sensitivity]).mu
        return round_up(
            math.sqrt(self._worst(lambda split: np.array([split.mu**2]))[0]), 2 * MARGIN
        )

    @cached_property
    def rho(self) -> float:
        return round_up(
            float(self._worst(lambda split: np.array([split.rho]))[0]), MARGIN
        )

    @cached_property
    def hellinger_angle(self) -> float:
        square = self._worst(lambda split: np.array([split.hellinger_angle**2]))[0]
        return min(round_up(math.sqrt(square), MARGIN), math.pi)

    @cached_property
    def pure_epsilon(self) -> float:
        """ΣDᵢ(2cᵢ − Dᵢ)/2σ² over ΣDᵢ² = Δ² is largest at D ∝ c, the factors' diameters: Δ(2|c| − Δ)/2σ²."""
        if self._has_flat or any(k < 0 for k, _ in self._curved):
            return math.inf
        diameter, D = math.hypot(*self._caps), self.sensitivity
        return round_up(
            D * (2 * diameter - min(D, diameter)) / (2 * self.scale**2), 1e-15
        )

    def renyi_bound(self, order: float) -> float:
        if math.isinf(order):
            return self.pure_epsilon
        return round_up(
            float(self._worst(lambda split: np.array([split.renyi_bound(order)]))[0]),
            MARGIN,
        )

    @cached_property
    def rao(self) -> float:
        """Δ times the largest √Fisher information of a factor: the Fisher metric of a product is block diagonal."""
        per_length = [1 / self.scale] if self._has_flat else []
        for k, d in self._curved:
            reach = (
                min(self.sensitivity, math.pi / math.sqrt(k))
                if k > 0
                else self.sensitivity
            )
            per_length.append(
                constant_curvature_profile("gaussian", k, d, self.scale, reach).rao
                / reach
            )
        return round_up(self.sensitivity * max(per_length), RELATIVE_ERROR)

    @property
    def space(self) -> str:
        if sorted(self.factors) == [(-0.5, 2), (0.0, 1)]:
            return "SPDAffineInvariant(2)"
        return "the product of " + ", ".join(
            f"dimension {d} curvature {k:g}" for k, d in self.factors
        )

    @cached_property
    def floor(self) -> PrivacyProfile | None:
        """With one hyperbolic factor: its own floor, since the other factors' losses vanish as the scale grows."""
        hyperbolic = [(k, d) for k, d in self._curved if k < 0]
        return (
            FloorProfile(*hyperbolic[0], self.sensitivity)
            if len(hyperbolic) == 1
            else None
        )


def product_profile(
    factors: Sequence[tuple[float, int]], sigma: float, sensitivity: float
) -> ProductProfile:
    """The Gaussian of scale σ on a product of space forms, each given as (curvature, dimension)."""
    return ProductProfile(factors, sigma, sensitivity)  # type: ignore[arg-type]  # made a tuple of pairs there


# ---- the largest value of a smooth function over the splits, from few evaluations


def largest_over_splits(
    value: Value, start: float = 0.0, stop: float = math.pi / 2
) -> Array:
    """The supremum of each entry of `value` over the splits (cos θ, sin θ), θ from start to stop, rounded up by the error.

    What a product spends is a smooth function of the split, fitted by polynomials of growing degree in the share of one
    factor; the difference of two successive fits is added (docs/exact-profiles.md). Where that is not good at all (ε near the
    largest loss), the arc is narrowed first: what is spent grows with each distance, so on an arc from θ to θ′ it is at most
    its value at (cos θ, sin θ′), and arcs on which that is below a value already seen cannot hold the worst split.
    """
    top, error = _on_arc(value, start, stop)
    for column in np.nonzero(error > _POOR * top)[0]:
        top[column], error[column] = _narrowed(
            lambda u, c=column: value(u)[c : c + 1],  # type: ignore[misc]  # mypy infers no lambda with a default
            start,
            stop,
        )
    return (top + error) * (1 + 1e-12)  # the fit's own arithmetic


def _narrowed(value: Value, start: float, stop: float) -> tuple[float, float]:
    """(value, error) of one entry over an arc, by arcs that shrink."""
    top, error = math.nan, math.inf
    for _ in range(12):
        theta = np.linspace(start, stop, 13)
        seen = max(float(value(_direction(x))[0]) for x in theta)
        corners = [
            float(value(np.array([math.cos(a), math.sin(b)]))[0])
            for a, b in pairwise(theta)
        ]
        alive = np.nonzero(np.array(corners) >= seen)[0]
        start, stop = float(theta[alive[0]]), float(theta[alive[-1] + 1])
        top, error = (float(x[0]) for x in _on_arc(value, start, stop))
        if error <= _POOR * top:
            break
    return top, error


def _on_arc(value: Value, start: float, stop: float) -> tuple[Array, Array]:
    """(value, error) of each entry over an arc, by Chebyshev series in the share sin²θ of the second factor. A factor's
    loss does not see the sign of its length, so what is spent is smooth in the squared lengths, and nearly linear: half
    the degree that a series in the angle would need."""
    low, high = math.sin(start) ** 2, math.sin(stop) ** 2
    seen: dict[float, Array] = {}
    before: Array | None = None
    *lattices, fine = (
        -np.cos(np.pi * np.arange(size) / (size - 1)) for size in (*_ARCS, 2049)
    )
    for points in lattices:
        for z in points.tolist():
            if z not in seen:
                share = low + (high - low) * (1 + z) / 2
                seen[z] = value(np.sqrt([max(1 - share, 0.0), share]))
        values, degree = np.array([seen[z] for z in points.tolist()]), len(points) - 1
        coefficients = np.linalg.lstsq(chebvander(points, degree), values, rcond=1e-13)[
            0
        ]
        fitted = chebvander(fine, degree) @ coefficients
        top = np.maximum(fitted.max(axis=0), values.max(axis=0))
        error = np.abs(chebvander(points, degree) @ coefficients - values).max(axis=0)
        error += (
            top
            if before is None
            else (np.abs(fitted - before) * (fitted > 0.99 * top)).max(axis=0)
        )
        if np.all(error <= _GOOD * top):
            break
        before = fitted
    climbed = [
        _climb(lambda z, c=c: chebvander(z, degree) @ c, fine[i])  # type: ignore[misc]  # mypy infers no lambda with a default
        for c, i in zip(coefficients.T, fitted.argmax(axis=0), strict=True)
    ]
    return np.maximum(top, climbed), error


def _direction(theta: float) -> Array:
    """(cos θ, sin θ), with an exact 0 at the ends of the quarter circle."""
    u = np.array([math.cos(theta), math.sin(theta)])
    u[np.abs(u) < 1e-15] = 0.0
    return u


def _climb(fit: Callable[[Array], Array], z: float) -> float:
    """The largest value of a fit near a point of the fine lattice, by a pattern search with a step that shrinks."""
    best, step = float(fit(np.array([z]))[0]), 1e-3
    while step > 1e-7:
        trial = np.clip([z + step, z - step], -1.0, 1.0)
        values = fit(trial)
        i = int(values.argmax())
        if values[i] > best * (1 + 1e-15):
            best, z = float(values[i]), float(trial[i])
        else:
            step /= 4
    return best
