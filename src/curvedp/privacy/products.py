"""Profiles of the Riemannian Gaussian on products of space forms, such as the 2×2 SPD matrices: ℝ × H² with curvature
−½.

On a product d² = Σdᵢ², so the Gaussian is the product of the factors' Gaussians and the loss is the sum of
independent losses. A change of length Δ may fall on the factors in any way with ΣΔᵢ² = Δ². δ(ε) grows with each Δᵢ
(docs/exact-profiles.md, Theorem 1, applied to a slice), so the supremum is over that sphere; it is found by a grid of
splits and a local search. Flat factors count as one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.privacy._loss_table import LossTable, LossTails, log_sum
from curvedp.privacy.constant_curvature import ConstantCurvatureProfile, FloorProfile
from curvedp.privacy.profile import RELATIVE_ERROR, PrivacyProfile, up

__all__ = ["ProductProfile", "product_profile", "spd2_gaussian_profile"]

Array = NDArray[np.float64]

_MARGIN = 2e-8  # what δ of two or more curved factors at once is rounded up by, beyond the usual

_Z, _W = np.polynomial.legendre.leggauss(64)
_OFFSET, _LOG_WEIGHT = (_Z + 1) / 2, np.log(_W / 2)


class _Normal:
    """The loss of a flat factor, N(μ²/2, μ²), with the interface of a table."""

    def __init__(self, mu: float) -> None:
        self.mu, self.T, self.scale = mu, math.inf, mu

    def cover(self, t: float) -> None:
        """Closed form everywhere."""

    def log_upper_on_line(self, t: Array) -> Array:
        return np.asarray(log_ndtr(self.mu / 2 - t / self.mu))

    def log_lower_on_line(self, t: Array) -> Array:
        return np.asarray(log_ndtr(t / self.mu - self.mu / 2))

    def log_density_on_line(self, t: Array) -> Array:
        z = t / self.mu - self.mu / 2
        return -z * z / 2 - math.log(self.mu * math.sqrt(2 * math.pi))


class _Sum:
    """Tails of A + B, independent: P(A+B > t) = ∫f_B(b)·P(A > t−b) db, B the one that varies less."""

    def __init__(self, wide: Any, narrow: Any, wide_scale: float, narrow_scale: float) -> None:
        self.wide, self.narrow, self.step = wide, narrow, narrow_scale
        self.loss_scale = math.hypot(wide_scale, narrow_scale)
        self.max_loss = wide.T + narrow.T
        # a density that is the derivative of a table loses digits
        self.resolution = 2e-10 if isinstance(narrow, _Normal) else _MARGIN / 4

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        for part in (self.wide, self.narrow):
            part.cover(2 * float(t.max()) + 20 * self.loss_scale)
        log_s = self._mix(t, self.wide.log_upper_on_line)
        log_f = self._mix(t, self.wide.log_lower_on_line)
        right = log_s < log_f
        with np.errstate(divide="ignore"):
            return (
                np.where(right, log_s, np.log1p(-np.exp(np.minimum(log_f, -0.5)))),
                np.where(right, np.log1p(-np.exp(np.minimum(log_s, -0.5))), log_f),
            )

    def _mix(self, t: Array, log_tail: Callable[[Array], Array]) -> Array:
        t = t[:, None]
        if math.isfinite(self.narrow.T):  # its density ends in a power law, which the panel coordinate resolves
            b, mass = self.narrow.atoms
            return log_sum(log_tail(t - b) + mass, axis=1)

        def h(b: Array) -> Array:
            return np.asarray(self.narrow.log_density_on_line(b) + log_tail(t - b))

        centre = self.step**2 / 2
        rungs = self.step * np.concatenate([-(4.0 ** np.arange(8.0, -3.0, -1.0)), [0.0], 4.0 ** np.arange(-2.0, 9.0)])
        b = np.broadcast_to(np.clip(centre + rungs, -self.narrow.T, self.narrow.T), (len(t), len(rungs)))
        for _ in range(3):  # the integrand is unimodal: close in on it
            keep = (values := h(b)) >= values.max(axis=1, keepdims=True) - 42
            first = np.maximum(np.argmax(keep, axis=1) - 1, 0)
            last = np.minimum(keep.shape[1] - np.argmax(keep[:, ::-1], axis=1), keep.shape[1] - 1)
            left, right = np.take_along_axis(b, first[:, None], 1), np.take_along_axis(b, last[:, None], 1)
            b = left + (right - left) * np.linspace(0.0, 1.0, 25)
        left, right = b[:, :1], b[:, -1:]
        with np.errstate(divide="ignore"):
            return log_sum(h(left + (right - left) * _OFFSET) + _LOG_WEIGHT + np.log(right - left), axis=1)


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
        if self._table.unresolved > 1e-6:
            raise ArithmeticError("the sum of the losses of the factors could not be resolved")
        return (_MARGIN if len(self.parts) > 1 else 0.0) + 20 * self._table.unresolved

    @cached_property
    def parts(self) -> tuple[ConstantCurvatureProfile, ...]:
        pairs = zip(self.factors, self.distances, strict=True)
        return tuple(ConstantCurvatureProfile("gaussian", k, d, self.scale, x) for (k, d), x in pairs if x > 0)

    @cached_property
    def tails(self) -> LossTails:
        terms: list[tuple[float, Any]] = [(p.tails.loss_scale, p._table) for p in self.parts]
        if self.flat > 0:
            terms.append((self.flat / self.scale, _Normal(self.flat / self.scale)))
        terms.sort(key=lambda term: (math.isinf(term[1].T), term[0]))  # bounded losses are summed by their own rule
        (scale, table), rest = terms[0], terms[1:]
        while rest:
            wide_scale, wide = rest.pop(0)
            tails = _Sum(wide, table, wide_scale, scale)
            scale, table = tails.loss_scale, LossTable(tails) if rest else None
        return tails

    @cached_property
    def mu(self) -> float:
        return up(PrivacyProfile.mu.func(self), self._margin)  # type: ignore[attr-defined]

    @property
    def rao(self) -> float:
        squares = [p.rao**2 for p in self.parts] + [(self.flat / self.scale) ** 2]
        return up(math.sqrt(sum(squares)), 1e-15)

    @property
    def _tail_mu(self) -> float:
        unbounded = [x for (k, _), x in zip(self.factors, self.distances, strict=True) if k < 0]
        return math.hypot(self.flat, *unbounded) / self.scale

    def _closes(self, mu: float, eps: float) -> bool:
        """Chernoff: log E e^{λL} <= log K + λa + λ²v/2, so δ(ε) <= K·e^{−z²/2}, z = (ε−a)/√v (docs, Tail)."""
        log_k, a, limit = 0.0, self.flat**2 / (2 * self.scale**2), self._tail_mu
        for p in self.parts:
            if p.curvature < 0:
                bound = p._log_k()
                law: Any = p.tails
                log_k += max(bound, 0.0)
                a += law.mode * law.distance / law.s**2 + (law.distance / law.s) ** 2 / 2
            else:  # a sphere's loss is bounded
                a += p.pure_epsilon
        z, x, y = (eps - a) / limit, eps / mu - mu / 2, eps / mu + mu / 2
        if not (z > 0 and x > 0 and mu > limit):
            return False
        excess = (
            log_k + 0.5 * math.log(2 * math.pi) - (z - x) * (z + x) / 2 + 2 * math.log(y + math.sqrt(2)) - math.log(mu)
        )
        return excess <= 0 and z / limit >= x / mu + 2 / (mu * (y + math.sqrt(2)))

    def _order_closes(self, order: float, rho: float) -> bool:
        if math.isfinite(self.pure_epsilon):
            return super()._order_closes(order, rho)
        s, limit = order - 1, self._tail_mu**2 / 2
        log_k = sum(max(p._log_k(), 0.0) for p in self.parts if p.curvature < 0)
        drift = 0.0
        for p in self.parts:
            law: Any = p.tails
            drift += law.mode * law.distance / law.s**2 if p.curvature < 0 else p.pure_epsilon
        return limit + (log_k / s + drift) / (s + 1) <= max(rho, limit * (1 + 1e-10))


@lru_cache(maxsize=512)
def _split(
    factors: tuple[tuple[float, int], ...], scale: float, flat: float, distances: tuple[float, ...]
) -> PrivacyProfile:
    """The profile at a split; where all of it falls on one factor, that factor's own."""
    moved = [(k, d, x) for (k, d), x in zip(factors, distances, strict=True) if x > 0]
    if not moved:
        return ConstantCurvatureProfile("gaussian", 0.0, 2, scale, flat)
    if flat == 0 and len(moved) == 1:
        k, d, x = moved[0]
        return ConstantCurvatureProfile("gaussian", k, d, scale, x)
    return _Split(factors, scale, flat, distances)


@dataclass(frozen=True)
class ProductProfile(PrivacyProfile):
    """The Gaussian of one scale on a product of space forms: at every ε, the worst split of the sensitivity.

    *Guarantees*: those of `PrivacyProfile` at each split; the supremum over splits is the largest of a grid and a
    local search.
    """

    factors: tuple[tuple[float, int], ...]
    scale: float
    sensitivity: float

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            pairs = tuple((k, d) for k, d in self.factors)
        except (TypeError, ValueError):
            raise ParameterError(f"factors={self.factors!r} must be pairs (curvature, dimension)") from None
        if not pairs:
            raise ParameterError("factors=() must not be empty")
        checked = tuple(
            (_validate.within("curvature", k, -1e300, 1e300), _validate.integer("dim", d, 1)) for k, d in pairs
        )
        object.__setattr__(self, "factors", checked)
        object.__setattr__(self, "scale", _validate.positive("scale", self.scale))
        object.__setattr__(self, "sensitivity", _validate.positive("sensitivity", self.sensitivity))
        if all(k > 0 for k, _ in checked):
            diameter = math.hypot(*(math.pi / math.sqrt(k) for k, _ in checked))
            if self.sensitivity > diameter * (1 + 4e-16):
                raise ParameterError(f"sensitivity={self.sensitivity!r} must not exceed the diameter {diameter:g}")

    @property
    def _curved(self) -> tuple[tuple[float, int], ...]:
        return tuple((k, d) for k, d in self.factors if k > 0 or (k < 0 and d > 1))

    @property
    def _has_flat(self) -> bool:
        return len(self._curved) < len(self.factors)

    def _at(self, weights: Sequence[float]) -> PrivacyProfile:
        """The profile with the squared sensitivity shared out by weights: first the flat part, if any, then the rest."""
        lengths = [self.sensitivity * math.sqrt(max(w, 0.0) / sum(weights)) for w in weights]
        flat = lengths.pop(0) if self._has_flat else 0.0
        caps = [math.pi / math.sqrt(k) if k > 0 else math.inf for k, _ in self._curved]
        return _split(self._curved, self.scale, flat, tuple(map(min, lengths, caps)))

    @cached_property
    def _grid(self) -> list[tuple[float, ...]]:
        n = len(self._curved) + self._has_flat
        steps = {1: 1, 2: 8, 3: 4}.get(n, 2)
        return [w for w in product(range(steps + 1), repeat=n) if sum(w) == steps]

    def _worst(self, cost: Callable[[PrivacyProfile], float]) -> float:
        """The largest cost over splits."""
        values = {w: cost(self._at(w)) for w in self._grid}
        best = max(values, key=values.__getitem__)
        top, n = values[best], len(best)
        if n == 1 or (sum(x > 0 for x in best) == 1 and self._is_corner_peak(cost, best, top)):
            return top
        point = [float(x) for x in best]
        for i, j in combinations(range(n), 2):
            total = point[i] + point[j]
            if total == 0:
                continue

            def along(theta: float, i: int = i, j: int = j, total: float = total) -> float:
                trial = list(point)
                trial[i], trial[j] = total * math.cos(theta) ** 2, total * math.sin(theta) ** 2
                return -cost(self._at(trial))

            found = minimize_scalar(along, bounds=(0.0, math.pi / 2), method="bounded", options={"xatol": 1e-5})
            if -found.fun > top:
                top = -float(found.fun)
                point[i], point[j] = total * math.cos(found.x) ** 2, total * math.sin(found.x) ** 2
        return top

    def _is_corner_peak(self, cost: Callable[[PrivacyProfile], float], best: tuple[float, ...], top: float) -> bool:
        """Whether everything on one factor is worse than shifting 1/64 of the squared length to any other."""
        corner = best.index(max(best))
        for j in range(len(best)):
            if j != corner:
                trial = [0.0] * len(best)
                trial[corner], trial[j] = 63.0, 1.0
                if cost(self._at(trial)) > top:
                    return False
        return True

    @property
    def tails(self) -> LossTails:
        raise NotImplementedError("a product has no single worst pair; ask for delta, mu, renyi, tradeoff")

    def _delta(self, eps: Array) -> Array:
        flat = np.asarray(eps, np.float64).ravel()
        out = [self._worst(lambda split, e=e: float(split.delta(e))) for e in flat]  # type: ignore[misc]
        return np.array(out).reshape(np.shape(eps))

    def _tradeoff(self, alpha: Array) -> Array:
        flat = np.asarray(alpha, np.float64).ravel()
        out = [-self._worst(lambda split, a=a: -float(split.tradeoff(a))) for a in flat]  # type: ignore[misc]
        return np.array(out).reshape(np.shape(alpha))

    @cached_property
    def mu(self) -> float:
        return self._worst(lambda split: split.mu)

    @cached_property
    def rho(self) -> float:
        return self._worst(lambda split: split.rho)

    @cached_property
    def hellinger_angle(self) -> float:
        return self._worst(lambda split: split.hellinger_angle)

    @cached_property
    def pure_epsilon(self) -> float:
        if self._has_flat or any(k < 0 for k, _ in self._curved):
            return math.inf
        return self._worst(lambda split: split.pure_epsilon)

    def _renyi(self, order: float) -> float:
        return self._worst(lambda split: split._renyi(order))

    @cached_property
    def rao(self) -> float:
        """Δ times the largest √Fisher information of a factor: the Fisher metric of a product is block diagonal."""
        per_length = [1 / self.scale] if self._has_flat else []
        for k, d in self._curved:
            reach = min(self.sensitivity, math.pi / math.sqrt(k)) if k > 0 else self.sensitivity
            per_length.append(ConstantCurvatureProfile("gaussian", k, d, self.scale, reach).rao / reach)
        return up(self.sensitivity * max(per_length), RELATIVE_ERROR)

    @property
    def space(self) -> str:
        if sorted(self.factors) == [(-0.5, 2), (0.0, 1)]:
            return "SPDAffineInvariant(2)"
        return "the product of " + ", ".join(f"dimension {d} curvature {k:g}" for k, d in self.factors)

    @cached_property
    def floor(self) -> PrivacyProfile | None:
        """With one hyperbolic factor: its own floor, since the other factors' losses vanish as the scale grows."""
        hyperbolic = [(k, d) for k, d in self._curved if k < 0]
        return FloorProfile(*hyperbolic[0], self.sensitivity) if len(hyperbolic) == 1 else None


def product_profile(factors: Sequence[tuple[float, int]], sigma: float, sensitivity: float) -> ProductProfile:
    """The Gaussian of scale σ on a product of space forms, each given as (curvature, dimension).

    >>> round(product_profile([(0.0, 2), (0.0, 3)], 2.0, 1.0).mu, 8)
    0.5
    """
    profile = ProductProfile(tuple(factors), sigma, sensitivity)
    if sum(curvature > 0 for curvature, _ in profile.factors) > 1:
        # Two bounded losses with kinks at their ends: their convolution is not resolved in any reasonable time yet.
        raise ParameterError("no profile of a product with two or more spheres is available; use LogGaussianMechanism")
    return profile


def spd2_gaussian_profile(sigma: float, sensitivity: float) -> ProductProfile:
    """The Gaussian on 2×2 SPD matrices with the affine-invariant metric, isometric to ℝ × H² of curvature −½.

    >>> spd2_gaussian_profile(1.0, 0.5).mu > 0.5
    True
    """
    return ProductProfile(((0.0, 1), (-0.5, 2)), sigma, sensitivity)
