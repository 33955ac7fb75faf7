"""SPD matrices of size m >= 3 with the affine-invariant metric: a CONFIDENCE bound on δ(ε), from exact samples.

The expectation δ(ε) = E₁(1 − e^{ε−L})₊ is bounded from i.i.d. samples, for every point of a finite net of neighbors and every
ε at once (docs/exact-profiles.md). Geometry and sampling stay with the caller: this module takes distances.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import Array, round_up
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.profiles.base import PrivacyProfile

_GRID = 400


@dataclass(frozen=True, repr=False)
class ConfidenceProfile(PrivacyProfile):
    """δ(ε) that holds with probability 1 − `failure_probability` over the samples it was estimated from (`label`).

    *Guarantees*: with that probability, `delta` is an upper bound at every ε at once. It never falls below the last of
    its `bounds`, so nothing follows from it for μ, ρ, Rényi orders or the Rao distance: they are infinite. Calibration
    refuses it; a mechanism that uses it has to say so.
    """

    eps: tuple[float, ...]
    bounds: tuple[float, ...]  # δ at these ε
    failure_probability: float  # that a bound is wrong
    samples: int  # that it was estimated from

    certain = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "eps", tuple(self.eps))
        object.__setattr__(self, "bounds", tuple(self.bounds))

    def __repr__(self) -> str:
        return f"ConfidenceProfile({self.label})"

    @property
    def label(self) -> str:  # type: ignore[override]  # a class attribute there
        chance = f"{self.failure_probability:.3g}"
        return f"confidence bound from {self.samples} samples, wrong with probability at most {chance}"

    mu = rho = rao = pure_epsilon = math.inf

    @property
    def hellinger_angle(self) -> float:
        """From TV = δ(0) alone: 1 − ∫√(p₁p₂) <= TV (Le Cam)."""
        return round_up(2 * math.acos(1 - self.bounds[0]), 1e-15)

    def renyi_bound(self, order: float) -> float:
        return math.inf

    def _tradeoff(self, alpha: Array) -> Array:
        return np.asarray(Guarantee._tradeoff(self, alpha))

    def _delta(self, eps: Array) -> Array:
        grid = np.array(self.eps)
        return np.array(self.bounds)[
            np.maximum(np.searchsorted(grid, eps, side="right") - 1, 0)
        ]


def weyl_net(m: int, spacing: float) -> tuple[Array, float]:
    """Sorted vectors of length at most 1, and h, such that every such vector is within h of one of them. A grid on the
    cube [−1, 1]^m, pulled into the ball and sorted: both maps move no two points apart, so h is half the diagonal of a
    grid cell. Scaled by Δ, the exponentials of diag(v) are the net points η′."""
    m, spacing = (
        _validate.integer("m", m, 2),
        _validate.within("spacing", spacing, 0.0, 2.0, open_low=True),
    )
    steps = math.ceil(2 / spacing)
    points = np.array(list(product(np.linspace(-1.0, 1.0, steps + 1), repeat=m)))
    points = np.sort(
        points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1.0), axis=1
    )
    return np.unique(np.round(points, 12), axis=0), math.sqrt(m) / steps + 1e-11


def spd_confidence_profile(
    sigma: float,
    sensitivity: float,
    own_distances: Any,
    net_distances: Any,
    covering_radius: float,
    failure_probability: float,
) -> ConfidenceProfile:
    """A confidence bound on the profile of the Riemannian Gaussian on SPD(m), from exact samples y₁ … yₙ about η₁.
    own_distances: d(yᵢ, η₁), shape (n,). net_distances: d(yᵢ, η′ⱼ), shape (points, n), η′ⱼ being η₁ moved by
    `sensitivity` times the vectors of `weyl_net`, whose h is `covering_radius`."""
    sigma, sensitivity = (
        _validate.length("sigma", sigma),
        _validate.length("sensitivity", sensitivity),
    )
    beta = _validate.within(
        "failure_probability",
        failure_probability,
        0.0,
        1.0,
        open_low=True,
        open_high=True,
    )
    h = _validate.nonnegative("covering_radius", covering_radius)
    own, net = (
        np.asarray(own_distances, np.float64),
        np.asarray(net_distances, np.float64),
    )
    if (
        own.ndim != 1
        or net.ndim != 2
        or net.shape[1] != own.shape[0]
        or own.shape[0] < 3
    ):
        raise ParameterError(
            f"shapes {own.shape} and {net.shape} must be (n,) and (points, n), n >= 3"
        )
    if not (np.all(np.isfinite(own)) and np.all(np.isfinite(net))):
        raise ParameterError("distances must be finite")
    losses = ((net + h * sensitivity) ** 2 - own**2) / (2 * sigma**2)
    # A tenth of the samples says where the grid ends, the others bound δ on it: a grid chosen from the samples that are
    # averaged on it would not be one that a union bound is about.
    scouts = max(own.shape[0] // 10, 1)
    eps = np.linspace(0.0, max(float(losses[:, :scouts].max()), 1e-9), _GRID)
    losses = np.sort(losses[:, scouts:], axis=1)
    count, n = losses.shape
    massart = math.sqrt(math.log(2 * count / beta) / (2 * n))
    share = math.log(4 * count * len(eps) / beta)
    worst = np.zeros_like(eps)
    for row in losses:
        mean, square = positive_parts(row, eps)
        bernstein = np.sqrt(
            2 * np.maximum(square - mean**2, 0.0) * share / (n - 1)
        ) + 7 * share / (3 * (n - 1))
        worst = np.maximum(worst, mean + np.minimum(bernstein, massart))
    bounds = np.minimum.accumulate(np.minimum(worst, 1.0))
    return ConfidenceProfile(
        tuple(eps.tolist()), tuple(bounds.tolist()), beta, own.shape[0]
    )


def positive_parts(loss: Array, eps: Array) -> tuple[Array, Array]:
    """Means of (1 − e^{ε−L})₊ and of its square, from suffix sums over the sorted losses."""
    n = len(loss)
    first = np.searchsorted(loss, eps)

    def suffix(x: Array) -> Array:
        return np.append(np.cumsum(x[::-1])[::-1], 0.0)[first] / n

    base = max(
        float(loss[-1]), 0.0
    )  # e^{base − L} >= 1 never underflows where it matters
    with np.errstate(over="ignore"):
        one, two = (
            np.exp(np.minimum(base - loss, 300.0)),
            np.exp(np.minimum(2 * (base - loss), 300.0)),
        )
    count, shrink = (n - first) / n, np.exp(eps - base)
    mean = np.maximum(count - shrink * suffix(one), 0.0)
    return mean, np.maximum(
        count - 2 * shrink * suffix(one) + shrink**2 * suffix(two), 0.0
    )
