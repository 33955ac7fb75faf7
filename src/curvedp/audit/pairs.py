"""The worst neighbors of a mechanism, and the scores of an output that tell them apart.

Noise about a statistic on a homogeneous space is worst for any two statistics a sensitivity apart; noise in a chart at a
public base is worst where the chart stretches most, at the edge of the ball and across the radius. On other spaces a fixed
list of directions is searched for the pair that is farthest apart in the chart while at most a sensitivity apart on the
manifold.
"""

import numpy as np

from curvedp.geometry.base import Manifold
from curvedp.mechanisms import LogGaussianMechanism, LogLaplaceMechanism
from curvedp.mechanisms.base import Mechanism

_DIRECTIONS = 32
_EDGE = 1 - 1e-9  # of the ball: inside it after rounding


def neighbors(mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """Two statistics at most the sensitivity apart, as telling as is known."""
    manifold, step = mechanism.manifold, mechanism.sensitivity
    if not isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism):
        origin = np.asarray(manifold.origin)
        return origin, manifold.unchart(origin, step * _worst_direction(manifold))
    base, reach = mechanism.base, getattr(mechanism.statistic.values, "radius", None)
    along = min(step, _EDGE * reach) if reach is not None else step
    pairs = [(np.zeros(manifold.dim), along * _unit(manifold.dim, 0))]
    if reach is not None and manifold.dim > 1:
        frames = np.random.default_rng(0).standard_normal((_DIRECTIONS, manifold.dim, 2))
        frames[0] = np.eye(manifold.dim)[:, :2]
        q = np.linalg.qr(frames)[0]
        pairs += list(zip(*_across(manifold, base, q[..., 0], q[..., 1], step, _EDGE * reach), strict=True))
    a, b = max(pairs, key=lambda pair: float(np.linalg.norm(pair[0] - pair[1])))
    return manifold.unchart(base, a), manifold.unchart(base, b)


def scores(mechanism: Mechanism, pair: tuple[np.ndarray, np.ndarray], outputs: np.ndarray) -> list[np.ndarray]:
    """How much farther an output is from the second statistic than from the first: in distance and in its square.

    The first is the log likelihood ratio of a Laplace law up to a factor, the second that of a Gaussian, by Neyman and
    Pearson the best there is; noise in a chart is measured in the chart (where a logarithm is slow, as on Stiefel manifolds,
    in the ambient space). Scores are rounded to 2^-26: the law is under audit, not the last bits of the fast float path,
    which do tell neighbors apart and which no release shows (`benchmarks.release_attacks`).
    """
    manifold = mechanism.manifold
    if not manifold.is_symmetric:
        one, two = (np.linalg.norm((outputs - x).reshape(len(outputs), -1), axis=1) for x in pair)
    elif isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism):
        z, a, b = (np.asarray(manifold.chart(mechanism.base, x)) for x in (outputs, *pair))
        one, two = np.linalg.norm(z - a, axis=-1), np.linalg.norm(z - b, axis=-1)
    else:
        one, two = (np.asarray(manifold.dist(x, outputs)) for x in pair)
    return [rounded(two - one), rounded(two**2 - one**2)]


def data_sets(manifold: Manifold, radius: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All records at one end of the ball about the origin; one of them is replaced by the other end."""
    step = radius * _unit(manifold.dim, manifold.dim - 1)
    near, far = (manifold.unchart(np.asarray(manifold.origin), sign * step) for sign in (1, -1))
    records = np.stack([near] * n)
    return records, np.concatenate([records[:-1], far[None]])


def rounded(score: np.ndarray) -> np.ndarray:
    """To the grid 2^-26, so that an event cannot look at the last bits of floats."""
    return np.asarray(np.round(score * 2.0**26) * 2.0**-26)


def _across(
    manifold: Manifold, base: np.ndarray, radial: np.ndarray, side: np.ndarray, step: float, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """Chart points at the edge of the ball, as far apart along `side` as a distance of `step` on the manifold allows."""

    def pair(half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        height = np.sqrt(np.maximum(reach**2 - half**2, 0.0))
        return height * radial - half * side, height * radial + half * side

    low, high = np.zeros((len(radial), 1)), np.full((len(radial), 1), reach)
    for _ in range(40):
        middle = (low + high) / 2
        a, b = (manifold.unchart(base, z) for z in pair(middle))
        near = (np.asarray(manifold.dist(a, b)) <= step)[:, None]
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    return pair(low)


def _worst_direction(manifold: Manifold) -> np.ndarray:
    """Along the most negatively curved factor of a product, where the Gaussian costs most; any direction elsewhere."""
    if len(manifold.factors) == 1:  # on SPD(2) = ℝ × H² the last coordinate is off the diagonal: in H²
        return _unit(manifold.dim, manifold.dim - 1)
    place = int(np.argmin([f.curvature_bounds[0] for f in manifold.factors]))
    return _unit(manifold.dim, sum(f.dim for f in manifold.factors[:place]))


def _unit(dim: int, place: int) -> np.ndarray:
    return np.asarray(np.eye(dim)[place])
