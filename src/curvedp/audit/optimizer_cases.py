"""The optimizers on the manifolds they run on, audited from one run: a canary on each axis of the tangent space.

Canary k lies out along ± the k-th axis of the start's tangent space, so that its clipped gradient is along that axis and no
other's is; the final point, read in coordinates at the start, then votes on each coin.
"""

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from itertools import count
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp.audit.one_run import OneRunResult, audit_optimizer
from curvedp.geometry import Euclidean, Grassmann, Lorentz, PoincareBall, Rotations, SPDAffineInvariant, Sphere
from curvedp.geometry.base import Manifold
from curvedp.privacy import GDP, Guarantee

OPTIMIZERS = ("dp-rgd", "dp-rsgd", "dp-rsvrg")
FAMILIES: tuple[Manifold, ...] = (
    Euclidean(2), Sphere(2), Lorentz(2), PoincareBall(2), SPDAffineInvariant(2), Grassmann(4, 2), Rotations(3),
)  # fmt: skip


class OptimizerCase(NamedTuple):
    """An optimizer on a family of manifolds, audited from one run."""

    mechanism: str
    manifold: Manifold

    def audit(self, canaries: int, confidence: float, rng: np.random.Generator) -> OneRunResult:
        """One run with that many canaries; the manifold has as many dimensions, and δ is small enough to prove anything."""
        train = _train_pca if self.mechanism == "PrivatePCA-dp-rgd" else partial(_train, *self)
        delta = (1 - confidence) / (100 * canaries)
        return audit_optimizer(train, canaries, delta=delta, confidence=confidence, rng=rng)


def optimizer_cases() -> Iterator[OptimizerCase]:
    """The optimizers of `curvedp.optim` (extra: jax); the manifold's size is set by the number of canaries."""
    for name in OPTIMIZERS:
        for space in FAMILIES:
            yield OptimizerCase(name, space)
    yield OptimizerCase("PrivatePCA-dp-rgd", Sphere(2))


def _large_enough(family: Manifold, dim: int) -> Manifold:
    """The smallest manifold of the family (of matrices: half as wide as high) with at least so many dimensions."""
    kind: Any = type(family)
    sizes = (kind(2 * k, k) if len(fields(kind)) == 2 else kind(k) for k in count(2))
    found: Manifold = next(M for M in sizes if M.dim >= dim)
    return found


def _train(name: str, family: Manifold, coins: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Guarantee]:
    from curvedp import optim

    m = len(coins)
    manifold = _large_enough(family, m)
    start = np.asarray(manifold.origin)
    data = np.asarray(manifold.exp(start, manifold.from_coordinates(start, coins[:, None] * np.eye(m, manifold.dim))))
    problem = optim.FrechetMeanProblem(manifold)
    steps, clip, mu = 4, 0.5, 2.0
    noise = sqrt(steps) * 2 * clip / (m * mu)
    one: dict[str, Any] = {"learning_rate": 0.01, "rng": rng}
    if name == "dp-rgd":
        found = optim.dp_rgd(problem, data, start, steps=steps, clip=clip, noise=noise, **one)
    elif name == "dp-rsgd":
        found = optim.dp_rsgd(problem, data, start, steps=steps, batch_size=m // 2, clip=clip, noise=noise, **one)
    else:
        found = optim.dp_rsvrg(
            problem,
            data,
            start,
            epochs=2,
            inner_steps=2,
            batch_size=m // 2,
            clip=(clip, clip),
            noise=(noise, noise),
            **one,
        )
    z = np.asarray(manifold.chart(start, found.point))
    return z[:m], found.guarantee


def _train_pca(coins: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Guarantee]:
    """Records (w ± uₖ)/√2 about the public start w of the descent: the slope of −(w·z)² there is ∓ along uₖ.

    Nine times as many records are 0: they shrink steps and noise alike, so that the descent stays where it started.
    """
    from curvedp.entropy import GeneratorSource
    from curvedp.estimators import PrivatePCA

    sphere, guarantee = Sphere(len(coins)), GDP(2.0)
    w = np.asarray(sphere.project(np.random.default_rng(0).standard_normal(len(coins) + 1)))
    axes = np.asarray(sphere.from_coordinates(w, np.eye(len(coins))))
    model = PrivatePCA(1, radius=1.0, method="dp-rgd", guarantee=guarantee, source=GeneratorSource(rng))
    records = np.concatenate([(w + coins[:, None] * axes) / sqrt(2), np.zeros((9 * len(coins), len(w)))])
    point = model.fit(records).components_[0]
    return np.asarray(axes @ point) * np.sign(point @ w), guarantee
