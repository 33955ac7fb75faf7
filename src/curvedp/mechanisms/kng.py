"""The K-norm gradient mechanism (Reimherr & Awan 2019; on manifolds Soto et al. 2022), drawn exactly, pure ε.

One draw of the density ∝ exp(−‖∇E(x; D)‖/s) on a public domain. Between adjacent data sets the exponent moves by at most
Δ/s everywhere, and so does the logarithm of the normaliser, which depends on the data too: s = 2Δ/ε, not Δ/ε (E23).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import exp, expm1, inf, log1p, nextafter, sqrt
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from curvedp import _validate
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.names import manifold_name
from curvedp.laws import GeodesicBall
from curvedp.laws.cells import CellSampler
from curvedp.laws.domains import Domain
from curvedp.mechanisms.base import CHART_ERROR, GRID, Release, check_guarantee, check_manifold, check_point
from curvedp.mechanisms.certificate import Certificate, Claims
from curvedp.mechanisms.sensitivity import mean_gradient_sensitivity
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RaoDP, convert

__all__ = ["KNGMechanism", "check_width", "kng_draw", "kng_numerics", "pure_claims", "pure_epsilon"]

_CURVE = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
_WIDEST = 1e8
_WORK = 1 << 22  # distances held at once while the gradient is evaluated


@dataclass(frozen=True, eq=False)  # a field is an array
class KNGMechanism:
    """A private Fréchet mean of n records: one exact draw of exp(−‖∇E(x; D)‖/s), E(x) = ½·mean d²(x, xᵢ), on a public ball.

    `center` and `radius` are the ball that holds the records and the release; n is public. Exact in dimension up to 4.

    Guarantees
    - ε-DP for replace-one adjacency, for ANY records: those outside the ball are moved into it first;
    - the draw is by rejection from a verified envelope, no Markov chain; it runs in float64 and its coordinates in the
      chart at `center` are rounded to the public grid 2^-30, which the certificate says;
    - how long a release takes depends on the records, and ε does not cover that.

    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (100, 3)))
    >>> KNGMechanism(Sphere(2), [1.0, 0, 0], 0.7, 100, PureDP(1.0)).release(X).value.shape
    (3,)
    """

    manifold: Manifold
    center: Any
    radius: float
    n: int
    guarantee: Guarantee
    domain: GeodesicBall = field(init=False, repr=False)
    sensitivity: float = field(init=False)
    epsilon: float = field(init=False)

    name: ClassVar[str] = "k-norm-gradient"

    def __post_init__(self) -> None:
        check_manifold(self.manifold)
        center = check_point("center", self.manifold, self.manifold.origin if self.center is None else self.center)
        radius, n = _validate.length("radius", self.radius), _validate.integer("n", self.n, 2)
        exact = mean_gradient_sensitivity(self.manifold, radius, n)
        for name, value in {
            "center": center,
            "radius": radius,
            "n": n,
            "domain": GeodesicBall(self.manifold, center, radius),
            # each computed gradient is off by the kernels' float error, at both data sets
            "sensitivity": nextafter(exact + 4 * CHART_ERROR * radius, inf),
            "epsilon": pure_epsilon(self.guarantee),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def scale(self) -> float:
        """s = 2Δ/ε, rounded up."""
        return nextafter(2 * self.sensitivity / self.epsilon, inf)

    @property
    def profile(self) -> PureDP:
        """What one draw costs: pure ε, and nothing finer is claimed."""
        return PureDP(self.epsilon)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public fields as JSON values."""
        return {"center": self.center.tolist(), "radius": self.radius, "n": self.n, "scale": self.scale}

    def gradient_norm(self, records: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """x ↦ ‖mean log_x xᵢ‖ for points x along the first axis."""
        M = self.manifold
        rows = max(1, _WORK // records.size)

        def norm(x: np.ndarray) -> np.ndarray:
            parts = [x[i : i + rows] for i in range(0, len(x), rows)]
            return np.concatenate([_norm(M, part, np.mean(M.log(part[:, None], records), axis=1)) for part in parts])

        return norm

    def lipschitz(self, records: np.ndarray) -> float:
        """A Lipschitz constant of the gradient norm on the ball: the mean bound of the Hessians of ½d²(·, xᵢ).

        It follows the records and steers the work of the sampler only; the law does not depend on it (docs/knorm.md).
        """
        reach = self.radius + np.asarray(self.manifold.dist(self.center, records))
        return float(np.mean(_hessian_bound(self.manifold, np.minimum(reach, 2 * self.radius))))

    def release(
        self, records: Any, *, source: Source | None = None, statistic: Mapping[str, Any] | None = None
    ) -> Release:
        """One private mean of the records, shape (n, *point_shape), with its certificate."""
        records = _validate.array("records", records)
        if records.shape != (self.n, *self.manifold.point_shape):
            raise ParameterError(f"records have shape {records.shape}, not {(self.n, *self.manifold.point_shape)}")
        source = SecureSource() if source is None else source
        inside = np.asarray(project_to_ball(self.manifold, self.center, self.radius, records))
        (value,) = kng_draw(self.domain, self.scale, self.gradient_norm(inside), (self.lipschitz(inside),), source)
        certificate = Certificate(
            mechanism=self.name,
            manifold=manifold_name(self.manifold),
            parameters=self.parameters,
            sensitivity=self.sensitivity,
            claims=pure_claims(self.epsilon),
            guarantee=self.guarantee,
            numerics=kng_numerics(),
            entropy={"source": source.name, "cryptographic": source.is_cryptographic},
            statistic={"name": "Fréchet mean by K-norm gradient", "n": self.n} if statistic is None else statistic,
        )
        return Release(
            np.asarray(project_to_ball(self.manifold, self.center, self.radius, value[None])[0]), certificate
        )


def kng_draw(
    domain: Domain, scale: float, g: Callable[..., Any], lipschitz: tuple[float, ...], source: Source
) -> tuple[np.ndarray, ...]:
    """One draw of exp(−g/scale) on the domain, its coordinates rounded to the public grid (which is post-processing)."""
    check_width(domain, scale)
    z = CellSampler(domain, scale, g, lipschitz, _Bulk(source)).draw(1)
    rounded = np.round(z * 2.0**GRID) / 2.0**GRID
    return tuple(np.asarray(x[0]) for x in domain.points(rounded))


def check_width(domain: Domain, scale: float) -> None:
    """Refuse, by public quantities, where the density's width would be lost in the coordinates' rounding."""
    widest = max(domain.radii) / scale
    if not widest <= _WIDEST:
        raise ParameterError(f"the domain is {widest:.3g} noise scales wide; float64 draws allow {_WIDEST:g}")


class _Bulk(np.random.Generator):
    """The three variates that the sampler draws, in bulk from a source: NumPy's own loops would call back for every word."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.numpy_generator().bit_generator)  # what is not replaced below has the same bits
        self._source = source

    def random(self, size: Any = None) -> Any:  # type: ignore[override]  # as the sampler calls it
        return self._source.uniform(size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return low + (high - low) * self._source.uniform(size)

    def standard_exponential(self, size: Any = None) -> Any:  # type: ignore[override]  # as the sampler calls it
        return -np.log(self._source.uniform(size, full_precision=True))


def kng_numerics() -> dict[str, Any]:
    """What a certificate says of such a draw: there is no certified slack τ on the float path."""
    return {"path": "float64 exact rejection, coordinates rounded to the grid", "grid": GRID, "tau": None}


def pure_epsilon(guarantee: Guarantee) -> float:
    """The largest ε whose pure ε-DP meets the guarantee asked for; refuses what pure ε does not imply in closed form."""
    check_guarantee(guarantee)
    match guarantee:
        case PureDP():
            return guarantee.eps
        case ApproxDP():  # ε₀-DP has δ(ε) = (e^ε₀ − e^ε)/(1 + e^ε₀)
            if guarantee.eps > 700:
                return guarantee.eps
            excess = guarantee.delta0 * (2 + expm1(guarantee.eps)) / (1 - guarantee.delta0)  # of e^ε₀ over e^ε
            eps = guarantee.eps + log1p(excess / (1 + expm1(guarantee.eps)))
        case GDP():  # μ = −2Φ⁻¹(1/(1+e^ε))
            eps = float(log_ndtr(guarantee.mu / 2) - log_ndtr(-guarantee.mu / 2))
        case _:
            raise UnattainableGuarantee(f"the K-norm gradient mechanism is pure ε: ask for PureDP, not {guarantee}")
    if not 0 < eps < inf:
        raise ParameterError(f"{guarantee} is met by no pure ε > 0 that a float can hold")
    return eps * (1 - 1e-12)


def pure_claims(eps: float, tau: float = 0.0) -> Claims:
    """Pure ε in every definition, and its (ε, δ) curve for a law within total variation τ of the ideal one."""
    pure = PureDP(eps)
    rao = convert(pure, to=RaoDP)
    return Claims(
        gdp=_value(convert(pure, to=GDP).mu),
        pure=eps,
        zcdp=_value(convert(pure, to=ZCDP).rho),
        rao=_value(rao.theta),
        curve=tuple((e, min(1.0, float(pure.delta(e)) + (1 + exp(e)) * tau)) for e in _CURVE),
    )


def _value(x: float) -> float | None:
    return float(x) if x < inf else None


def _norm(M: Manifold, p: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.asarray(M.norm(p, v))


def _hessian_bound(manifold: Manifold, d: np.ndarray) -> np.ndarray:
    """Largest |eigenvalue| of the Hessian of ½d²(·, y) at distance up to d: between s·cot s and s·coth s (Karcher 1977)."""
    low, high = manifold.curvature_bounds
    bound = np.ones_like(d)
    if manifold.dim > 1 and low < 0:
        s = np.maximum(sqrt(-low) * d, 1e-8)  # s·coth s is 1 there
        bound = np.maximum(bound, s / np.tanh(s))
    if manifold.dim > 1 and high > 0:
        s = sqrt(high) * d
        bound = np.maximum(bound, np.where(s > 1, -s / np.tan(np.maximum(s, 1.0)), 1.0))
    return bound
