"""How much one record moves the gradient of geodesic regression, and how fast that gradient changes.

Proofs: docs/regression.md.

Predictors are centered, |x| ≤ X; ‖v‖ ≤ V; residuals are clipped to τ. Only the LOWER curvature bound enters a sensitivity:
negative curvature spreads geodesics, so d Exp grows like cosh; where curvature is ≥ 0 it never exceeds 1 (E19, E20).
"""

from math import cos, cosh, inf, nextafter, pi, sinh, sqrt
from typing import NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

HALF = 0.5  # X: predictors lie in [0, 1] and are centered at ½
DEVIATION = (
    12**-0.5
)  # standard deviation of a predictor that is spread evenly over its range: the unit of v


class Domain(NamedTuple):
    """The public numbers of one regression: the domain, the clipping norm, n, and the ball that holds the responses."""

    radius: float  # R: the middle of the geodesic lies within R of the public center
    speed: float  # V, for each predictor
    clip: float  # τ
    n: int
    data_radius: float
    predictors: int = 1

    def checked(self) -> Self:
        """Refused where it describes no regression: a certificate's domain is what a stranger wrote."""
        for name in ("radius", "speed", "clip", "data_radius"):
            _validate.length(name, getattr(self, name))
        for name in ("n", "predictors"):
            _validate.integer(name, getattr(self, name), 1)
        return self


def spread(manifold: Manifold, length: float) -> tuple[float, float]:
    """(c, s): bounds of ‖d_p Exp(p, w)‖ and ‖d_v Exp(p, w)‖ for ‖w‖ ≤ length."""
    low = manifold.curvature_bounds[0]
    if low >= 0:
        return 1.0, 1.0
    a = sqrt(-low) * length
    return cosh(a), sinh(a) / a if a > 1e-6 else 1.0 + a * a


def gradient_sensitivities(
    manifold: Manifold, speed: float, clip: float, n: int, reach: float = HALF
) -> tuple[float, float]:
    """(Δ_p, Δ_v): how far ∇_p E and ∇_v E move, anywhere in the domain, when one record is replaced; |x| ≤ reach."""
    c, s = spread(manifold, speed * reach)
    return nextafter(2 * clip * c / n, inf), nextafter(2 * clip * s * reach / n, inf)


def joint_sensitivity(domain: Domain) -> float:
    """Of `clipped_direction`, in which one record's contribution is a vector of length at most τ: 2τ/n."""
    domain = domain.checked()
    return nextafter(2 * domain.clip / domain.n, inf)


def endpoint_norm(foot: np.ndarray, shoot: np.ndarray) -> np.ndarray:
    """½(|P + Q| + |P − Q|), P = ∇_p E, Q = ∇_v E/unit: the K-norm whose unit ball is the convex hull of {(e, ξe): |e| ≤ 1,
    |ξ| ≤ 1}, what one record with a predictor within one unit of the middle can do to (P, Q) in flat space."""
    scaled = shoot / DEVIATION
    plus, minus = (
        np.linalg.norm(foot + scaled, axis=-1),
        np.linalg.norm(foot - scaled, axis=-1),
    )
    return np.asarray((plus + minus) / 2)


def endpoint_clips(clip: float, x: np.ndarray) -> np.ndarray:
    """Each record's clip: τ within one unit of the middle, beyond it τ over the distance, so that none counts for more."""
    return np.asarray(clip / np.maximum(1.0, np.abs(x) / DEVIATION))


def endpoint_sensitivity(manifold: Manifold, domain: Domain) -> float:
    """Of `endpoint_norm` with `endpoint_clips` on a space of constant curvature: 2τ/n in flat space."""
    curvature, V = _curvature(manifold), domain.checked().speed
    ends = np.array([DEVIATION, HALF])
    if curvature <= 0:  # the supremum is at one of the two
        factor = float(
            np.max(
                _spread_of_ends(curvature, V, ends) / np.maximum(1.0, ends / DEVIATION)
            )
        )
    else:  # bounds (1 − cos a)/t by its value at the end of the range, sinc a by that at one unit
        _spread_of_ends(curvature, V, ends)  # refuses speeds beyond half a great circle
        a = sqrt(curvature) * V * ends
        factor = (
            1 + (1 - cos(a[1])) * DEVIATION / HALF + float(np.sinc(a[0] / pi))
        ) / 2
    return nextafter(2 * domain.clip * max(1.0, factor) / domain.n, inf)


class Slopes(NamedTuple):
    """How fast the `endpoint_norm` of the clipped gradient changes, in parts of a domain: linear in how fast residuals do.

    It follows the records: that steers the sampler's work, not its law (docs/knorm.md). A residual that is clipped all over
    a part only turns there, by τ·|ct(d)| at distance d, which is far less than 1 where the records are far away.
    """

    clip: np.ndarray  # of each record
    reach: np.ndarray  # no residual is longer
    ends: np.ndarray  # (2, n): how far its prediction moves with p, and with v
    weights: (
        np.ndarray
    )  # (2, n): what its residual's constant counts for along p, and along v
    rest: np.ndarray  # (2,): what curvature adds
    curvature: float
    dim: int

    def near(
        self, distance: np.ndarray, moved: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lipschitz constants along p and along v where p moves by at most moved[:, 0] and v by moved[:, 1] from a place with
        residuals of these lengths."""
        most = moved @ self.ends
        low, high = distance - most, np.minimum(distance + most, self.reach)
        whole = _residual_bound(self.curvature, self.clip, self.reach)
        far = low > self.clip
        turning = (
            np.zeros_like(low)
            if self.dim == 1
            else _turning(self.curvature, np.where(far, low, self.clip), high)
        )
        bend = np.where(far, np.minimum(self.clip * turning, whole), whole)
        along, fibre = (
            bend @ weights + rest
            for weights, rest in zip(self.weights, self.rest, strict=True)
        )
        return along, np.maximum(fibre, 1e-12 * along)


def gradient_slopes(
    manifold: Manifold, domain: Domain, x: np.ndarray, distance: np.ndarray
) -> Slopes:
    """Of the records: predictors x, responses at `distance` from the center."""
    curvature, V, clip = (
        _curvature(manifold),
        domain.speed,
        endpoint_clips(domain.clip, x),
    )
    root, x = sqrt(abs(curvature)), np.abs(x)
    a, t = root * V * x, x / DEVIATION
    if curvature > 0:
        c, s, sn = np.ones_like(a), np.ones_like(a), np.sin(a)
        sinc = np.sinc(a / pi)
        turned, slope, rest = 2 * np.sin(a / 2) ** 2, np.cos(a) - sinc, 1 - sinc
    else:
        c, sn = np.cosh(a), np.sinh(a)
        s = np.where(a > 1e-6, sn / np.where(a > 1e-6, a, 1.0), 1 + a * a)
        turned, slope, rest = 2 * np.sinh(a / 2) ** 2, c - s, s - 1
    safe = np.where(
        a > 1e-4, a, 1.0
    )  # each quotient below is O(a) near 0; a bounds it there
    turned, slope, rest = (
        np.where(a > 1e-4, np.abs(q) / safe, a) for q in (turned, slope, rest)
    )
    ends = _spread_of_ends(curvature, V, x)
    of_cos, of_sinc = (
        np.maximum(sn, sqrt(2) * turned),
        np.maximum(slope, sqrt(2) * rest),
    )
    foot = ends * clip * root * sn
    shoot = x * (ends * clip * root * turned + clip * root * (of_cos + t * of_sinc))
    moves, weights = np.stack([c, x * s]), np.stack([ends * c, x * ends * s]) / len(x)
    added = np.array([np.mean(foot), np.mean(shoot)])
    return Slopes(
        clip,
        domain.radius + V * x + distance,
        moves,
        weights,
        added,
        curvature,
        manifold.dim,
    )


def _curvature(manifold: Manifold) -> float:
    curvature = manifold.constant_curvature
    if curvature is None:
        raise ParameterError(f"{manifold!r} has no constant curvature")
    return curvature


def _spread_of_ends(curvature: float, speed: float, x: np.ndarray) -> np.ndarray:
    """sup over speeds up to V of ½(‖C + tS‖ + ‖C − tS‖), t = x/unit: what one record's e does to `endpoint_norm`.

    C and S are 1 along v and cos a, sinc a (cosh, sinhc) across; every term grows with the speed.
    """
    a, t = sqrt(abs(curvature)) * speed * x, x / DEVIATION
    if curvature > 0 and not sqrt(curvature) * speed * HALF <= pi / 2:
        raise ParameterError(
            f"must be at most {pi / sqrt(curvature):.6g} in curvature {curvature:g}: "
            "the geodesic may span half a great circle",
            parameter="speed",
            value=speed,
        )
    if curvature > 0:
        return np.asarray(
            (1 + t + np.maximum(np.abs(1 - t), t * np.sinc(a / pi) - np.cos(a))) / 2
        )
    c = np.cosh(a)
    s = np.where(a > 1e-6, np.sinh(a) / np.where(a > 1e-6, a, 1.0), 1 + a * a)
    return np.asarray(np.maximum(np.maximum(c, t * s), (c + t * s + t - 1) / 2))


def _residual_bound(
    curvature: float, clip: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Lipschitz constant in q of a clipped residual of length up to `reach`: max(1, min(d, τ)·|ct(d)|) over d ≤ reach."""
    root = sqrt(abs(curvature))
    if curvature < 0:
        s = root * clip
        return np.asarray(np.where(s > 1e-6, s / np.tanh(np.maximum(s, 1e-6)), 1 + s))
    angle = np.maximum(root * reach, pi / 2)  # up to a quarter turn it is at most 1
    return np.asarray(
        np.maximum(1.0, -root * clip / np.tan(angle))
        if curvature > 0
        else np.ones_like(reach)
    )


def _turning(curvature: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """sup |ct(d)| over low ≤ d ≤ high: how fast the direction to a point at distance d turns (Karcher 1977)."""
    root = sqrt(abs(curvature))
    if curvature < 0:
        return np.asarray(root / np.tanh(root * low))
    if curvature == 0:
        return np.asarray(1 / low)
    return np.asarray(
        root
        * np.maximum(1 / np.tan(root * low), -1 / np.tan(root * np.maximum(high, low)))
    )
