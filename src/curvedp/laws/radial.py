"""The distance of an isotropic law from its footpoint, by quadrature: normalizer, distribution function, moments.

On a two-point homogeneous space all geodesic rays are alike: across them are the curvatures κ with multiplicities n_κ,
and they minimize up to the same distance, `end`. A density that depends on the distance r alone, weight(r), gives r the
density weight(r)·∏ sn_κ(r)^{n_κ} on (0, end) up to a constant, sn_κ(r) = sin(√κ r)/√κ, r, or sinh(√−κ r)/√−κ (Helgason
1978, Ch. X). Nothing here is used by the samplers (`logconcave`), and nothing of theirs is used here: a goodness-of-fit
test compares two derivations.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvedp.errors import ParameterError

Kind = Literal["gaussian", "laplace"]
Floats = NDArray[np.float64]

# Where the density has fallen by e^-80 from its peak, the mass left out (below 1e-30) is invisible in doubles.
_FALL = 80.0
_PANELS = 48
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_BLOCK = 8192  # 20 nodes a point: blocks that stay in cache
_LARGEST_SHIFT = 1e8  # of (d−1)σ: beyond, the peak's place, (d−1)σ², has lost half its digits beside the width σ


def log_sphere_area(dim: int) -> float:
    """Logarithm of the area of the unit sphere in R^dim, 2π^{dim/2}/Γ(dim/2); two points when dim is 1."""
    return math.log(2.0) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)


class Table:
    """A unimodal density on (0, high), integrated panel by panel with Gauss–Legendre rules of 20 points.

    The panels end where the log-density has fallen from its peak by fixed amounts, so that the density varies by a
    bounded factor on each of them whatever its scale. `scale` is any length to begin the search for them with.
    """

    def __init__(
        self,
        log_density: Callable[[Floats], Floats],
        peak: float,
        scale: float,
        high: float,
    ) -> None:
        self._log_density, self._peak, self._scale, self._high = (
            log_density,
            peak,
            scale,
            high,
        )
        self._log_peak = float(log_density(np.array([peak]))[0])
        falls = _FALL * (np.arange(_PANELS + 1) / _PANELS) ** 2
        left = self._where_fallen(falls, 0.0)[::-1] if peak > 0.0 else np.zeros(1)
        self._edges: Floats = np.unique(
            np.concatenate([left, self._where_fallen(falls, high)])
        )
        masses = self._integrals(self._edges[:-1], self._edges[1:])
        self._mass = float(masses.sum())
        # Summed from both ends, so that each tail keeps its own relative digits.
        self._below = np.concatenate([[0.0], np.cumsum(masses)])
        self._above = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])

    @property
    def log_mass(self) -> float:
        """Logarithm of the integral of the density."""
        return self._log_peak + math.log(self._mass)

    def cdf(self, r: ArrayLike) -> Floats:
        """The fraction of the mass below r."""
        x = np.asarray(r, dtype=np.float64)
        flat = np.clip(x.ravel(), self._edges[0], self._edges[-1])
        out = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            panel = np.clip(
                np.searchsorted(self._edges, part, side="right") - 1,
                0,
                self._edges.size - 2,
            )
            below = self._below[panel] + self._integrals(self._edges[panel], part)
            above = self._above[panel + 1] + self._integrals(
                part, self._edges[panel + 1]
            )
            fraction = np.minimum(below, above) / (below + above)
            out[start : start + _BLOCK] = np.where(
                below <= above, fraction, 1.0 - fraction
            )
        return out.reshape(x.shape)

    def moment(self, order: float) -> float:
        """E[r^order]."""
        total = float(self._integrals(self._edges[:-1], self._edges[1:], order).sum())
        return float(self._edges[-1] ** order * (total / self._mass))

    def radius_where_fallen(self, fall: float) -> float:
        """The radius beyond the peak where the density is e^-fall of its peak; `high` if it never is."""
        return float(self._where_fallen(np.array([fall]), self._high)[0])

    def _where_fallen(self, falls: Floats, end: float) -> Floats:
        way, step = math.copysign(1.0, end - self._peak), self._scale
        while (
            step < abs(end - self._peak)
            and self._log_ratio(np.array([self._peak + way * step]))[0] > -falls[-1]
        ):
            step *= 2.0
        if step < abs(end - self._peak):
            end = self._peak + way * step
        near, far = np.full_like(falls, self._peak), np.full_like(falls, end)
        for _ in range(80):
            middle = near + (far - near) / 2
            inside = self._log_ratio(middle) > -falls
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        return far

    def _log_ratio(self, r: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # log 0 at the ends, where the density is 0
            return self._log_density(r) - self._log_peak

    def _integrals(self, a: Floats, b: Floats, order: float = 0.0) -> Floats:
        half = (b - a)[:, None] / 2
        r = a[:, None] + half * (1.0 + _NODES)
        values = np.exp(self._log_ratio(r))
        if order:
            values *= (
                r / self._edges[-1]
            ) ** order  # its unit is the end of the table: no overflow, no underflow
        return np.asarray((values @ _WEIGHTS) * half[:, 0])


@dataclass(frozen=True)
class Rays:
    """The geodesic rays of a two-point homogeneous space."""

    roots: tuple[
        tuple[float, float], ...
    ]  # (κ, multiplicity) across a ray, κ = 0 included: d − 1 directions in all
    end: float = math.inf  # how far a ray is shortest: the diameter, infinite on a space that is not compact

    @property
    def dim(self) -> int:
        """d."""
        return 1 + int(sum(count for _, count in self.roots))

    @property
    def curvature(self) -> float | None:
        """κ of the sphere (a circle for d = 1), Euclidean or hyperbolic space that this is; None on projective spaces."""
        if not self.roots:
            return 0.0 if math.isinf(self.end) else (math.pi / self.end) ** 2
        (curvature, _), *others = self.roots
        closes = math.pi / math.sqrt(curvature) if curvature > 0 else math.inf
        return curvature if not others and self.end == closes else None

    @property
    def growth(self) -> float:
        """h in e^{hr}, the growth of a sphere's volume."""
        return sum(count * math.sqrt(-k) for k, count in self.roots if k < 0)


class Engine:
    """How an isotropic law is drawn and integrated on one kind of manifold; its distance from the footpoint, unless it says
    otherwise, by a table."""

    @property
    def table(self) -> Table:
        """The integrated density of the distance."""
        raise NotImplementedError

    @property
    def log_normalizer(self) -> float:
        """log ∫ weight(d(x, p)) dvol(x), the same at every p."""
        raise NotImplementedError

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """P(d ≤ r)."""
        return self.table.cdf(r)

    def moment(self, order: int) -> float:
        """E[d^order]."""
        return self.table.moment(order)

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """`count` points about the center (one point, or `count` of them)."""
        raise NotImplementedError

    def check_representable(self) -> None:
        """Raises where the manifold's coordinates cannot hold the draws in doubles; the rule reads no data."""


@dataclass(frozen=True)
class RadialLaw(Engine):
    """The law of r with density ∝ exp(−r²/2σ²) or exp(−r/σ), σ = `scale`, times ∏ sn_κ(r)^n."""

    kind: Kind
    rays: Rays
    scale: float

    @cached_property
    def table(self) -> Table:
        shift = self.rays.growth * self.scale
        if self.kind == "gaussian" and not shift <= _LARGEST_SHIFT:
            raise ParameterError(
                f": on hyperbolic space of dimension {self.rays.dim} the distances "
                f"concentrate at (d−1)·scale² = {shift * self.scale:.3g}, beyond "
                "double precision; use a smaller scale",
                parameter="scale",
                value=self.scale,
            )
        return Table(self._log_density, self._peak(), self.scale, self.rays.end)

    @cached_property
    def reach(self) -> float:
        """The radius where the density has fallen by 2^-40 from its peak: one draw in about 10^12 is farther out."""
        return self.table.radius_where_fallen(40 * math.log(2.0))

    @cached_property
    def log_normalizer(self) -> float:
        return self.table.log_mass + self._log_constant + log_sphere_area(self.rays.dim)

    @property
    def _log_constant(self) -> float:
        """What `_log_density` leaves out of log(weight·∏ sn^n)."""
        shift = self.rays.growth * self.scale
        halves = sum(
            count * math.log(2.0 * math.sqrt(-k))
            for k, count in self.rays.roots
            if k < 0
        )
        return (shift * shift / 2 if self.kind == "gaussian" else 0.0) - halves

    def _log_density(self, r: Floats) -> Floats:
        """log(weight·∏ sn^n) less `_log_constant`: for κ < 0, e^{hr} is merged into the weight before it grows.

        Gaussian: −r²/2σ² + hr = −(r − hσ²)²/2σ² + h²σ²/2.
        """
        h, s = self.rays.growth, self.scale
        # The Laplace rate in exact arithmetic: next to the limit of integrability 1/σ − h has no digits in doubles.
        weight = (
            -((r / s - h * s) ** 2) / 2
            if self.kind == "gaussian"
            else -float(1 - Fraction(h) * Fraction(s)) / s * r
        )
        for k, count in self.rays.roots:
            root = math.sqrt(abs(k))
            if k < 0:
                weight = weight + count * np.log(-np.expm1(-2 * root * r))
            else:
                weight = weight + count * np.log(np.sin(root * r) / root if k else r)
        return weight

    def _peak(self) -> float:
        """Where weight'/weight + Σ n·sn'/sn changes sign; the second term falls from ∞, the first never rises."""
        s, roots = self.scale, self.rays.roots
        if not roots:
            return 0.0
        if (
            self.kind == "laplace" and len(roots) == 1 and roots[0][0] < 0
        ):  # nearly level next to the limit
            root = math.sqrt(-roots[0][0])
            return math.atanh(roots[0][1] * root * s) / root
        low, high = 0.0, s
        while high < self.rays.end and self._rises(high):
            low, high = high, 2 * high
        high = min(high, self.rays.end)
        for _ in range(200):
            middle = low + (high - low) / 2
            low, high = (middle, high) if self._rises(middle) else (low, middle)
        return high

    def _rises(self, r: float) -> bool:
        pull = 0.0
        for k, count in self.rays.roots:
            x = math.sqrt(abs(k)) * r
            pull += count / (
                r if k == 0 else r * ((math.tan(x) if k > 0 else math.tanh(x)) / x)
            )
        return (
            (r / self.scale) / self.scale < pull
            if self.kind == "gaussian"
            else 1 / self.scale < pull
        )
