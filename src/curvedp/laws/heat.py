"""The heat kernel on spheres and hyperbolic spaces: where Brownian motion is at time scale², as noise.

**Theorem.** Where Ric >= ρ, the heat kernels at time t of two points Δ apart are Δ·√(ρ/(e^{ρt} − 1))-GDP (Δ/√t if ρ = 0).
*Proof.* A test f has the power P_t f. By the reverse isoperimetric inequality of Bakry & Ledoux (1996, Invent. Math. 123;
Bakry, Gentil & Ledoux 2014, 8.6) Φ⁻¹(P_t f) is Lipschitz with the constant √(ρ/(e^{ρt} − 1)), for every f at once: that
is the definition of GDP (Dong, Roth & Su 2022). ∎ Wang's bound on the Rényi divergences follows from it.

It buys nothing: at equal μ it errs as the Riemannian Gaussian does (docs/laws.md), which is drawn exactly. This one is
drawn in doubles, for simulation; no mechanism releases it.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold
from curvedp.laws.base import Floats, IsotropicLaw, uniform_directions
from curvedp.laws.radial import Table, log_sphere_area
from curvedp.laws.spaceform import placed, rays_of
from curvedp.privacy import HadamardProfile, PrivacyProfile

_DEGREE = 255  # odd: its nodes leave out r = 0
_SCALES = (0.03, 3.0)  # times √|κ|: where the series below keep their digits


@dataclass(frozen=True)
class HeatKernel(IsotropicLaw):
    """The law of Brownian motion (generator ½ of the Laplacian) at time `scale`², on Sphere, Lorentz, PoincareBall, d >= 2.

    Parameters
    ----------
    manifold : Manifold
        A space of constant curvature, not 0.
    scale : float
        √time, between 0.03 and 3 radii of curvature; near to a point the law is a Gaussian of this scale.

    Raises
    ------
    ParameterError
        On other spaces, and at other scales.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> round(HeatKernel(Sphere(2), 0.5).profile(0.2).mu, 6)
    0.375277
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        rays = rays_of(self.manifold)
        if rays is None or not rays.curvature or self.manifold.dim < 2:
            raise ParameterError(
                f"HeatKernel is for Sphere, Lorentz and PoincareBall of dimension >= 2, not {self.manifold!r}"
            )
        _validate.within("scale·√|curvature|", self.scale * math.sqrt(abs(rays.curvature)), *_SCALES)

    @property
    def _engine(self) -> "_Heat":
        return _heat(self.manifold, self.scale)

    def _log_weight(self, distance: Floats) -> Floats:
        return self._engine.log_weight(distance)

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """A proved upper bound in closed form: that of a flat Gaussian."""
        t, k = self.scale**2, self._engine.curvature * (self.manifold.dim - 1)
        flat = math.sqrt(math.expm1(k * t) / k) * (1 - 2.0**-50)
        return HadamardProfile("gaussian", 0.0, self.manifold.dim, flat, _validate.length("sensitivity", sensitivity))


@dataclass(frozen=True)
class _Heat:
    """In units of the radius of curvature; the kernel up to a constant, its radius by quadrature."""

    manifold: Manifold
    scale: float

    @property
    def curvature(self) -> float:
        rays = rays_of(self.manifold)
        return (rays and rays.curvature) or 0.0

    @property
    def _unit(self) -> float:
        return math.sqrt(abs(self.curvature))

    @property
    def _end(self) -> float:
        """The diameter, or where the density of r has long vanished: its drift is at most (d−1)/2·coth r."""
        s, d = self.scale * self._unit, self.manifold.dim
        return math.pi if self.curvature > 0 else 12 * s * math.sqrt(d) + d * s * s

    @cached_property
    def _smooth(self) -> Chebyshev:
        """log kernel + r²/2t on a hyperbolic space: K_{d+2} ∝ −K_d′/sinh r, from d = 1 (flat) or d = 2 (McKean 1970)."""
        t, d, R = (self.scale * self._unit) ** 2, self.manifold.dim, self._end
        smooth = Chebyshev.interpolate(lambda r: 0 * r if d % 2 else _mckean(r, t), _DEGREE, [-R, R])
        for _ in range((d - 1) // 2):
            smooth = _raised(smooth, t)
        return smooth

    def log_weight(self, distance: Floats) -> Floats:
        """log of the kernel up to a constant; on a sphere with an error of 1e-14 of the peak."""
        r, t, d = np.asarray(distance) * self._unit, (self.scale * self._unit) ** 2, self.manifold.dim
        if self.curvature < 0:
            return np.asarray(self._smooth(np.minimum(r, self._end)) - r * r / (2 * t))
        x, a, degree = np.cos(r), (d - 1) / 2, 1
        before, now, total, top, peak = (
            np.ones_like(x),
            2 * a * x,
            np.ones_like(x),
            2 * a,
            1.0,
        )  # Gegenbauer's C₀, C₁, …
        while True:
            factor = math.exp(-degree * (degree + d - 1) * t / 2) * (1 + degree / a)
            total, peak = total + factor * now, peak + factor * top
            if degree**2 * t > 4 * d and factor * top < 1e-18 * peak:
                return np.asarray(np.log(np.maximum(total / peak, 1e-15)))
            before, now = now, (2 * (degree + a) * x * now - (degree + 2 * a - 1) * before) / (degree + 1)
            top *= (2 * a + degree) / (degree + 1)
            degree += 1

    def _log_density(self, r: Floats) -> Floats:
        sn = np.sin(r) if self.curvature > 0 else np.sinh(r)
        return np.asarray(self.log_weight(r / self._unit) + (self.manifold.dim - 1) * np.log(np.abs(sn)))

    @cached_property
    def table(self) -> Table:
        grid = np.linspace(0.0, self._end, 4097)[1:-1]
        peak = float(grid[np.argmax(self._log_density(grid))])
        return Table(self._log_density, peak, self.scale * self._unit, self._end)

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        r = np.linspace(0.0, self._end, 2**14)
        share, kept = np.unique(self.table.cdf(r), return_index=True)
        return share, r[kept]

    @property
    def log_normalizer(self) -> float:
        d = self.manifold.dim
        return self.table.log_mass + log_sphere_area(d) - d * math.log(self._unit)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        return self.table.cdf(np.asarray(r, np.float64) * self._unit)

    def moment(self, order: int) -> float:
        return self.table.moment(order) / self._unit**order

    def check_representable(self) -> None:
        if self._end / self._unit > self.manifold.float_reach:
            raise ParameterError(f"scale={self.scale!r}: doubles do not hold such distances on {self.manifold!r}")

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        r = np.interp(rng.random(count), *self._inverse) / self._unit
        return placed(self.manifold, center, uniform_directions(rng, count, self.manifold.dim), r)


@lru_cache(maxsize=64)
def _heat(manifold: Manifold, scale: float) -> _Heat:
    return _Heat(manifold, scale)


def _raised(smooth: Chebyshev, t: float) -> Chebyshev:
    """From dimension d to d + 2."""
    slope = smooth.deriv()

    def value(r: Floats) -> Floats:
        return np.asarray(smooth(r) + np.log((r - t * slope(r)) / np.sinh(r)))

    return Chebyshev.interpolate(value, _DEGREE, smooth.domain)


def _mckean(r: Floats, t: float) -> Floats:
    """log ∫ s·e^{−(s²−r²)/2t}/√(cosh s − cosh r) ds over s > |r|, by u² = (cosh s − cosh r)/2: an even function of r."""
    z, w = np.polynomial.legendre.leggauss(400)
    r = np.abs(r)[..., None]
    low, end = np.sinh(r / 2), np.sinh(r / 2 + 5 * math.sqrt(t))  # up to s − r = 10√t
    u = np.sqrt(end * end - low * low) * (z + 1) / 2
    high = np.sqrt(low * low + u * u)  # sinh(s/2)
    s = 2 * np.arcsinh(high)
    gap = 2 * np.arcsinh(u * u / (high * np.sqrt(1 + low * low) + low * np.sqrt(1 + high * high)))  # s − r
    weights = w * np.sqrt(end * end - low * low) * s / np.sinh(s)
    return np.asarray(np.log(np.sum(weights * np.exp(-gap * (s + r) / (2 * t)), axis=-1)))
