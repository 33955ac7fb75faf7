"""The heat kernel on spheres and hyperbolic spaces: where Brownian motion is at time scale², as noise.

Where Ric >= ρ, the heat kernels at time t of two points Δ apart are Δ·√(ρ/(e^{ρt} − 1))-GDP (proof: docs/laws.md). It buys
nothing: at equal μ it errs as the Riemannian Gaussian does. What is released is drawn in `laws.exact.heat`; here are doubles,
for simulation and as its independent reference.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import Chebyshev

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry.base import Manifold
from curvedp.laws.base import IsotropicLaw, uniform_directions
from curvedp.laws.radial import Engine, Floats, Table, log_sphere_area
from curvedp.laws.spaceform import placed, rays_of
from curvedp.privacy import PrivacyProfile
from curvedp.privacy.hadamard import HadamardProfile

_LEAST = 1e-9
_SMALL = 0.3  # up to which a path from behind the antipode weighs less than e^{−40} of the others on [0, 2.5]


@dataclass(frozen=True)
class HeatKernel(IsotropicLaw):
    """The law of Brownian motion (generator ½ of the Laplacian) at time `scale`², on Sphere, Lorentz, PoincareBall, d >= 2.

    Parameters
    ----------
    manifold : Manifold
        A space of constant curvature, not 0.
    scale : float
        √time, at most 2, √(20/d) on a hyperbolic space, 1/√d on a sphere of more than 40 dimensions: there the recursion
        below loses its digits, and the law is all but uniform or as private as it gets.

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
        _validate.within("scale", self.scale, _LEAST, _largest(self.manifold))

    @property
    def _engine(self) -> "_Heat":
        return _heat(self.manifold, self.scale)

    def _log_weight(self, distance: Floats) -> Floats:
        return self._engine.log_weight(distance)

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """A proved upper bound in closed form: that of a flat Gaussian."""
        flat, moved = (
            _flat(self.scale, _ricci(self.manifold)),
            _validate.length("sensitivity", sensitivity),
        )
        return HadamardProfile("gaussian", 0.0, self.manifold.dim, flat, moved)


def heat_scale(manifold: Manifold, flat: float) -> float:
    """The smallest √time whose heat kernel gives away no more than a flat Gaussian of scale `flat`, rounded up; raises
    `UnattainableGuarantee` if no time does at which it can be drawn."""
    k = _ricci(manifold)
    most = _flat(_largest(manifold), k)
    if not _validate.length("flat", flat) * (1 + 2.0**-40) <= most:
        raise UnattainableGuarantee(
            f"heat kernels that can be drawn on {manifold!r} are worth flat noise of at most {most:.4g}, and {flat:.4g} is "
            "needed; use LogGaussianMechanism"
        )
    scale = math.sqrt(math.log1p(k * flat * flat) / k)
    while _flat(scale, k) < flat:
        scale = math.nextafter(scale * (1 + 2.0**-50), math.inf)
    return scale


def _ricci(manifold: Manifold) -> float:
    rays = rays_of(manifold)
    if rays is None or rays.curvature not in (1.0, -1.0) or manifold.dim < 2:
        raise ParameterError(
            f"heat kernels need a Sphere, Lorentz or PoincareBall of dimension >= 2, not {manifold!r}"
        )
    return math.copysign(manifold.dim - 1, manifold.curvature_bounds[0])


def _largest(manifold: Manifold) -> float:
    d = manifold.dim
    return (
        min(2.0, math.sqrt(20 / d))
        if _ricci(manifold) < 0
        else 2.0
        if d <= 40
        else d**-0.5
    )


def _flat(scale: float, k: float) -> float:
    """√((e^{kt} − 1)/k), rounded down."""
    return math.sqrt(math.expm1(k * scale * scale) / k) * (1 - 2.0**-48)


@dataclass(frozen=True)
class _Heat(Engine):
    """The kernel up to a constant, its radius by quadrature."""

    manifold: Manifold
    scale: float

    @property
    def curvature(self) -> float:
        return math.copysign(1.0, self.manifold.curvature_bounds[0])

    @property
    def _series(self) -> bool:
        """Whether the kernel is summed over eigenfunctions, as on a sphere after a long time."""
        return self.curvature > 0 and self.scale > _SMALL

    @property
    def _end(self) -> float:
        """The diameter, or where the density of r has long vanished. Its drift is at most (d−1)/2·coth r; on a sphere
        E cos r = e^{−dt/2}, and r spreads less than in flat space."""
        s, d = self.scale, self.manifold.dim
        if self.curvature < 0:
            return s * (math.sqrt(d) + 10) + d * s * s / 2
        return (
            math.pi
            if self._series
            else min(math.acos(math.exp(-d * s * s / 2)) + 10 * s, 2.5)
        )

    @cached_property
    def _smooth(self) -> Chebyshev:
        """log kernel + r²/2t: K_{d+2} ∝ −K_d′/sn r, from d = 1 (flat) or d = 2 (McKean 1970)."""
        t, d, R, k = self.scale**2, self.manifold.dim, self._end, self.curvature
        degree = (
            2 * (int(6 * R) + 12) + 1
        )  # odd: r = 0 is no node; enough for log sn, singular at π or iπ
        smooth = Chebyshev.interpolate(
            lambda r: 0 * r if d % 2 else _mckean(r, t, k), degree, [-R, R]
        )
        for _ in range((d - 1) // 2):
            smooth = _raised(smooth, t, k)
        return smooth

    def log_weight(self, distance: Floats) -> Floats:
        """log of the kernel up to a constant; by the series with an error of 1e-14 of the peak."""
        r, t, d = np.asarray(distance), self.scale**2, self.manifold.dim
        if not self._series:
            return np.asarray(self._smooth(np.minimum(r, self._end)) - r * r / (2 * t))
        x, a, degree = np.cos(r), (d - 1) / 2, 1
        before, now, top = np.ones_like(x), 2 * a * x, 2 * a  # Gegenbauer's C₀, C₁, …
        total, peak = np.ones_like(x), 1.0
        while True:
            factor = math.exp(-degree * (degree + d - 1) * t / 2) * (1 + degree / a)
            total, peak = total + factor * now, peak + factor * top
            if degree**2 * t > 4 * d and factor * top < 1e-18 * peak:
                return np.asarray(np.log(np.maximum(total / peak, 1e-15)))
            before, now = (
                now,
                (2 * (degree + a) * x * now - (degree + 2 * a - 1) * before)
                / (degree + 1),
            )
            top *= (2 * a + degree) / (degree + 1)
            degree += 1

    @cached_property
    def table(self) -> Table:
        def log_density(r: Floats) -> Floats:
            sn = np.sin(r) if self.curvature > 0 else np.sinh(r)
            return np.asarray(
                self.log_weight(r) + (self.manifold.dim - 1) * np.log(np.abs(sn))
            )

        grid = np.linspace(0.0, self._end, 4097)[1:-1]
        return Table(
            log_density,
            float(grid[np.argmax(log_density(grid))]),
            self.scale,
            self._end,
        )

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        r = np.linspace(0.0, self._end, 2**14)
        share, kept = np.unique(self.table.cdf(r), return_index=True)
        return share, r[kept]

    @property
    def log_normalizer(self) -> float:
        return self.table.log_mass + log_sphere_area(self.manifold.dim)

    def check_representable(self) -> None:
        if self._end > self.manifold.float_reach:
            raise ParameterError(
                f"scale={self.scale!r}: doubles do not hold such distances on {self.manifold!r}"
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        r = np.interp(rng.random(count), *self._inverse)
        return placed(
            self.manifold, center, uniform_directions(rng, count, self.manifold.dim), r
        )


_heat = lru_cache(maxsize=64)(_Heat)


def _raised(smooth: Chebyshev, t: float, k: float) -> Chebyshev:
    """From dimension d to d + 2."""
    slope, sn = smooth.deriv(), np.sin if k > 0 else np.sinh

    def value(r: Floats) -> Floats:
        return np.asarray(smooth(r) + np.log((r - t * slope(r)) / sn(r)))

    return Chebyshev.interpolate(value, smooth.degree(), smooth.domain)


def _mckean(r: Floats, t: float, k: float) -> Floats:
    """log ∫ s·e^{−(s²−r²)/2t}/√|cs s − cs r| ds over s > |r|, by v² = s² − r²: smooth and even in r and v."""
    z, w = np.polynomial.legendre.leggauss(400)
    sn, r = np.sin if k > 0 else np.sinh, np.abs(r)[..., None]
    end = (
        np.minimum(10 * math.sqrt(t), np.sqrt(math.pi**2 - r * r))
        if k > 0
        else 10 * math.sqrt(t)
    )
    v = end * (z + 1) / 2
    s = np.sqrt(r * r + v * v)
    weights = w * end * v / np.sqrt(sn((s + r) / 2) * sn(v * v / (s + r) / 2))
    return np.asarray(np.log(np.sum(weights * np.exp(-v * v / (2 * t)), axis=-1)))
