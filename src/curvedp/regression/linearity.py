"""How the clipped direction of a regression changes near a pair (p, V): nearly linearly, by how much less is bounded here.

Write pairs near (p, V) as z = (z_p, unit·z_v): p moves along exp, V + z_v by parallel transport. Along a ray one record's
contribution changes as −(aaᵀ + X)z, a = (1, t), t its predictors, ‖X‖ at most its remainder. Proof: docs/inference.md.
"""

from functools import cached_property
from math import inf, pi, sqrt

import numpy as np

from curvedp.geometry.manifold import Manifold
from curvedp.regression.bounds import DEVIATION, HALF, Domain
from curvedp.regression.gradient import Contributions

_SHARE = 0.5  # η: what aaᵀ and remainders count for beside a direction
_UNBOUNDED = 1e300
LENGTHENED = sqrt(
    1 + 0.75 * _SHARE**2
)  # by how much that adds to a sensitivity of 2τ/n


class Neighborhood:
    """Pairs within `reach` of one that was released, and the last release there, of noise `scale`: the mean clipped direction
    and, times ητ, the means of aaᵀ/A and of remainders/b; A = max |a|², b the largest remainder.

    Replacing one of n records moves the mean direction by at most 2τ/n, mean aaᵀ/A by √2/n, as products of such matrices are
    not negative, and the mean share of b by 1/n: together by at most τ√(4 + 3η²)/n.
    """

    def __init__(self, manifold: Manifold, domain: Domain, scale: float) -> None:
        self.manifold, self.domain, k = manifold, domain, domain.predictors
        self.size = (1 + k) * manifold.dim  # numbers in a direction
        self.released = self.size + (1 + k) * (2 + k) // 2 + 1  # numbers in a release
        self.lever = (
            1 + k * (HALF / DEVIATION) ** 2
        )  # A: 1 + |t|² at the ends of all ranges
        # ρ: a few times the noise of a direction, and at most where contributions of τ/2 are not clipped
        self.reach = min(domain.clip / (2 * self.lever), 8 * sqrt(self.size) * scale)
        self.longest = sqrt(2) * _SHARE * domain.clip  # of a row

    @cached_property
    def worst(self) -> float:
        """b: the remainder of a record that may be clipped, whatever it is; unbounded where it may cross the cut locus.

        Clipping multiplies a derivative by something between 0 and min(1, τ/|u|), |u| >= cos(w)·h for a residual h.
        """
        M, d, (below, above), t = (
            self.manifold,
            self.domain,
            _roots(self.manifold),
            sqrt(self.lever - 1),
        )
        w = d.predictors * d.speed * HALF + t * self.reach
        c, off = (float(each) for each in _bent(M, t, w))
        h = (
            d.radius
            + d.predictors * d.speed * HALF
            + d.data_radius
            + c * sqrt(self.lever) * self.reach
        )
        if not (above * w < pi / 2 and above * h < pi and h < M.injectivity_radius):
            return _UNBOUNDED
        slope, longest = (
            max(below, float(_off(above * h)) / h),
            (sqrt(self.lever) + off) ** 2,
        )
        return longest + d.clip * (
            longest * slope + float(_second(M, c, t, w))
        ) / float(np.cos(above * w))

    def remainders(self, t: np.ndarray, found: Contributions) -> np.ndarray:
        """Of each record, anywhere in the neighborhood."""
        M, a = self.manifold, np.hypot(1, t)
        w = found.moves + t * self.reach
        c, off = _bent(M, t, w)
        h = found.residuals + c * a * self.reach
        below, above = _roots(M)
        bend = np.maximum(
            _off(above * h), below * h / np.tanh(below * h) - 1 if below > 0 else 0.0
        )
        return np.asarray((a + off) ** 2 * (1 + bend) - a * a + h * _second(M, c, t, w))

    def rows(self, t: np.ndarray, found: Contributions) -> np.ndarray:
        """ητ·(aaᵀ/A, remainder/b) of each record; one that may be clipped nearby is off by up to |a|² more."""
        a, tau = np.concatenate([np.ones((len(t), 1)), t], axis=1), self.domain.clip
        with np.errstate(all="ignore"):  # of data
            rest = self.remainders(np.linalg.norm(t, axis=1), found)
            free = (
                np.linalg.norm(found.whole, axis=1)
                + (np.sum(a * a, axis=1) + rest) * self.reach
                <= tau
            )
            rest = np.fmin(
                rest + np.where(free, 0.0, np.sum(a * a, axis=1)), self.worst
            )
        return np.asarray(
            _SHARE * tau * np.column_stack([_packed(a) / self.lever, rest / self.worst])
        )

    @property
    def units(self) -> tuple[float, float]:
        """What one unit of the release stands for: in mean aaᵀ, and in the mean remainder."""
        unit = 1 / (_SHARE * self.domain.clip)
        return self.lever * unit, self.worst * unit

    def parts(self, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """(direction, mean aaᵀ, mean remainder) of a release."""
        size, (of_normal, of_rest) = 1 + self.domain.predictors, self.units
        i, j = np.triu_indices(size, 1)
        packed, normal = of_normal * drawn[self.size : -1], np.zeros((size, size))
        normal[i, j] = normal[j, i] = packed[size:] / sqrt(2)
        direction = drawn[: self.size].reshape(size, self.manifold.dim)
        return direction, normal + np.diag(packed[:size]), of_rest * float(drawn[-1])


def stretch(manifold: Manifold, move: float, t: float, reach: float) -> float:
    """How far a prediction moves, at most, for each |a| that z moves, anywhere within `reach`."""
    w = move + t * reach
    return (
        float(_bent(manifold, t, w)[0])
        * _rauch(manifold, reach)
        * (1 + max(_roots(manifold)) ** 2 * w * reach / 2)
    )


def turned(manifold: Manifold, speed: float, reach: float) -> float:
    """By how much velocities may differ more, carried along a geodesic, than they do in z: curvature times a triangle."""
    area = 2 * reach * _rauch(manifold, reach) ** 2
    return 1 + max(_roots(manifold)) ** 2 * area * (speed * DEVIATION + reach)


def _rauch(M: Manifold, length: float) -> float:
    """How much exp stretches vectors of up to this length."""
    s = _roots(M)[0] * length
    return float(np.sinh(s)) / s if s > 0 else 1.0


def _roots(M: Manifold) -> tuple[float, float]:
    """√ of how negative and how positive curvature can be."""
    low, high = (0.0, 0.0) if M.dim == 1 else M.curvature_bounds
    return sqrt(max(-low, 0.0)), sqrt(max(high, 0.0))


def _bent(
    M: Manifold, t: np.ndarray | float, w: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """(c, off): cos√R and sinc√R of moves up to w are no longer than c, and (cos√R, t·sinc√R) is within `off` of (I, tI)."""
    (below, above), w = _roots(M), np.asarray(w)
    c, y = np.cosh(below * w), np.minimum(above * w, pi)
    s = (
        np.sinh(below * w) / np.where(w > 0, below * w, 1.0)
        if below > 0
        else np.ones_like(c)
    )
    return c, np.hypot(
        np.maximum(c - 1, 1 - np.cos(y)), t * np.maximum(s - 1, 1 - np.sinc(y / pi))
    )


def _off(x: np.ndarray | float) -> np.ndarray:
    """1 − x·cot x: how far Hess ½d² is below the identity; inf from π on."""
    inside = np.where((np.asarray(x) > 0) & (np.asarray(x) < pi), x, 1.0)
    return np.where(
        np.asarray(x) < pi,
        np.where(np.asarray(x) > 0, 1 - x / np.tan(inside), 0.0),
        inf,
    )


def _second(
    M: Manifold, c: np.ndarray | float, t: np.ndarray | float, w: np.ndarray | float
) -> np.ndarray:
    """β: how fast Jacobi fields turn, which residuals multiply: a bilinear form of (z_p, z_v) and (p, v), by its entries."""
    K, t = max(_roots(M)) ** 2, np.asarray(t)
    u = K * w * w
    form = (
        np.hypot(1 + 5 * u / 6, (1 + u / 4) * t),
        np.hypot((1.5 + u / 6) * t, 5 * t * t / 6),
    )
    return np.asarray(c**3 * K * w * np.hypot(*form))


def _packed(a: np.ndarray) -> np.ndarray:
    """aaᵀ by its diagonal, then √2 times what is above it: the same lengths."""
    i, j = np.triu_indices(a.shape[1], 1)
    return np.concatenate([a * a, sqrt(2) * a[:, i] * a[:, j]], axis=1)
