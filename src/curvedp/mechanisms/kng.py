"""The K-norm gradient mechanism (Reimherr & Awan 2019; on manifolds Soto et al. 2022), drawn exactly, pure ε.

One draw of the density ∝ exp(−‖∇E(x; D)‖/s) on a public domain. Between adjacent data sets the exponent moves by at most
Δ/s everywhere, and so does the logarithm of the normalizer, which depends on the data too: s = 2Δ/ε, not Δ/ε (E23).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import atanh, erf, expm1, inf, log1p, nextafter, sqrt
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_ndtr

from curvedp.entropy import Source
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry.manifold import Manifold
from curvedp.laws.cells import CellSampler
from curvedp.laws.domains import GeodesicBall
from curvedp.mechanisms.base import FLOAT, Draw, Mechanism, check_guarantee, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import CHART_ERROR, grid_of
from curvedp.mechanisms.noise import MeanMechanism
from curvedp.mechanisms.sensitivity import mean_gradient_sensitivity
from curvedp.mechanisms.statistic import FrechetMean, Statistic, assign
from curvedp.privacy import GDP, ApproxDP, Guarantee, PureDP

_WIDEST = 1e8
_WORK = 1 << 22  # distances held at once while the gradient is evaluated


@dataclass(frozen=True, eq=False, init=False)
class KNormMechanism(Mechanism):
    """One draw of a density whose exponent and normalizer each move by at most ε/2."""

    asked: Guarantee

    path: ClassVar[str] = FLOAT

    def __init__(self, *, statistic: Statistic, guarantee: Guarantee) -> None:
        assign(self, statistic=statistic, asked=check_guarantee(guarantee))
        self.__post_init__()

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        return cls(guarantee=guarantee, statistic=statistic)

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From its ε; the scale follows from it."""
        found = cls(guarantee=PureDP(parameters["epsilon"]), statistic=statistic)
        if not parameters["scale"] >= found.scale * (1 - 1e-12):
            raise ParameterError("the scale of the certificate is below 2Δ/ε")
        return found

    epsilon = cached_property(lambda self: pure_epsilon(self.asked))  # the pure ε
    guarantee = property(lambda self: self.asked)
    scale = property(
        lambda self: nextafter(2 * self.sensitivity / self.epsilon, inf)
    )  # s = 2Δ/ε, rounded up
    grid = property(lambda self: grid_of(self.scale))
    profile = property(
        lambda self: PureDP(self.epsilon)
    )  # what one draw costs: pure ε, and nothing finer is claimed
    parameters = property(lambda self: {"epsilon": self.epsilon, "scale": self.scale})


@dataclass(frozen=True, eq=False, init=False)
class KNGMechanism(KNormMechanism, MeanMechanism):
    """A private Fréchet mean of n records: one exact draw of exp(−‖∇E(x; D)‖/s), E(x) = ½·mean d²(x, xᵢ), on a public ball.

    Parameters
    ----------
    manifold, n : Manifold and int
        Of dimension up to 4, and how many records there are.
    center, radius : point and float
        The public ball that holds the records and the release; `center` is the origin by default.
    guarantee : Guarantee
        What is asked for: pure ε, or what pure ε implies.
    statistic : FrechetMean
        Instead of the first four.

    Notes
    -----
    Guarantees
    - ε-DP for replace-one adjacency, for ANY records: those outside the ball are moved into it first;
    - the draw is by rejection from a verified envelope, no Markov chain; it runs in float64 and its coordinates in the
      chart at `center` are rounded to the public grid 2^-30 (finer for small noise), which the certificate says;
    - how long a release takes depends on the records, and ε does not cover that.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (100, 3)))
    >>> KNGMechanism(Sphere(2), [1.0, 0, 0], 0.7, 100, PureDP(1.0)).release(X).value.shape
    (3,)
    """

    name: ClassVar[str] = "k-norm-gradient"
    option: ClassVar[str | None] = "kng"

    def __init__(
        self,
        manifold: Any = None,
        center: Any = None,
        radius: Any = None,
        n: Any = None,
        guarantee: Any = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        mean = (
            FrechetMean(manifold, center, radius, n) if statistic is None else statistic
        )
        super().__init__(statistic=mean, guarantee=guarantee)
        _ = self.domain, self.epsilon, self.sensitivity  # each may refuse

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """Its draws are in floats, and take as long as the records make them."""
        return (
            "by name only: it draws in floats, for a time that depends on the records"
        )

    domain = cached_property(
        lambda self: GeodesicBall(self.manifold, self.center, self.radius)
    )  # where the draw lies

    @cached_property
    def sensitivity(self) -> float:
        """Of the gradient, anywhere in the ball; each computed one is off by the kernels' float error, at both ends."""
        exact = mean_gradient_sensitivity(self.manifold, self.reach, self.statistic.n)
        return nextafter(exact + 4 * CHART_ERROR * self.radius, inf)

    def gradient_norm(self, records: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """x ↦ ‖mean log_x xᵢ‖ for points x along the first axis."""
        M, rows = self.manifold, max(1, _WORK // records.size)

        def norm(x: np.ndarray) -> np.ndarray:
            parts = (x[i : i + rows] for i in range(0, len(x), rows))
            found = (
                M.norm(part, np.mean(M.log(part[:, None], records), axis=1))
                for part in parts
            )
            return np.concatenate([np.asarray(each) for each in found])

        return norm

    def lipschitz(self, records: np.ndarray) -> float:
        """A Lipschitz constant of the gradient norm on the ball: the mean bound of the Hessians of ½d²(·, xᵢ).

        It follows the records and steers the work of the sampler only; the law does not depend on it (docs/knorm.md).
        """
        reach = self.radius + np.asarray(self.manifold.dist(self.center, records))
        return float(
            np.mean(_hessian_bound(self.manifold, np.minimum(reach, 2 * self.radius)))
        )

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        norm, constants = self.gradient_norm(data), (self.lipschitz(data),)
        (value,), integers = kng_draw(self.domain, self.scale, norm, constants, source)
        return Draw(value, [integers], None)

    def simulate(
        self, rng: np.random.Generator, records: np.ndarray, size: int
    ) -> np.ndarray:
        """Draws for records that stand for n of their kind: for predicted error, NOT for release."""
        check_width(self.domain, self.scale)
        sampler = CellSampler(
            self.domain,
            self.scale,
            self.gradient_norm(records),
            (self.lipschitz(records),),
            rng,
        )
        return np.asarray(self.domain.points(sampler.draw(size))[0])

    def value_of(self, certificate: Certificate) -> np.ndarray:
        drawn = replay(certificate.release["integers"])(
            np.empty((1, 1, self.manifold.dim)), [self.scale]
        )
        return np.asarray(self.finish(np.asarray(self.domain.points(drawn)[0][0])))


def kng_draw(
    domain: GeodesicBall,
    scale: float,
    g: Callable[..., Any],
    lipschitz: Any,
    source: Source,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """One draw of exp(−g/scale) on the domain, its coordinates rounded to the public grid (which is post-processing), and
    those coordinates as integers."""
    check_width(domain, scale)
    rng = SimpleNamespace(  # the three variates that the sampler draws, under the names of a NumPy generator's
        random=source.uniform,
        uniform=lambda low, high, size: low + (high - low) * source.uniform(size),
        standard_exponential=lambda size: (
            -np.log(source.uniform(size, full_precision=True))
        ),
    )
    z, cell = (
        CellSampler(domain, scale, g, lipschitz, rng).draw(1),
        2.0 ** -grid_of(scale),
    )
    rounded = np.round(z / cell)
    point = tuple(np.asarray(x[0]) for x in domain.points(rounded * cell))
    integers = np.array([int(k) for k in rounded.ravel()], dtype=object)
    return point, integers.reshape(rounded.shape)


def check_width(domain: GeodesicBall, scale: float) -> None:
    """Refuse, by public quantities, where the density's width would be lost in the coordinates' rounding."""
    widest = max(domain.radii) / scale
    if not widest <= _WIDEST:
        raise ParameterError(
            f"the domain is {widest:.3g} noise scales wide; float64 draws allow {_WIDEST:g}"
        )


def pure_epsilon(guarantee: Guarantee) -> float:
    """The largest ε whose pure ε-DP meets the guarantee asked for; refuses what pure ε does not imply in closed form."""
    check_guarantee(guarantee)
    match guarantee:
        case PureDP():
            return guarantee.eps
        case ApproxDP():  # ε₀-DP has δ(ε) = (e^ε₀ − e^ε)/(1 + e^ε₀)
            if guarantee.eps > 700:
                return guarantee.eps
            excess = (
                guarantee.delta0 * (2 + expm1(guarantee.eps)) / (1 - guarantee.delta0)
            )  # of e^ε₀ over e^ε
            eps = guarantee.eps + log1p(excess / (1 + expm1(guarantee.eps)))
        case GDP(
            mu=mu
        ):  # μ = −2Φ⁻¹(1/(1+e^ε)): tanh(ε/2) = erf(μ/√8), which keeps the digits of a small μ
            eps = (
                2 * atanh(erf(mu / sqrt(8)))
                if mu < 1
                else float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
            )
        case _:
            raise UnattainableGuarantee(
                f"the K-norm gradient mechanism is pure ε: ask for PureDP, not {guarantee}"
            )
    if not 0 < eps < inf:
        raise ParameterError(
            f"{guarantee} is met by no pure ε > 0 that a float can hold"
        )
    return eps * (1 - 1e-12)


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
