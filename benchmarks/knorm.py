"""The law of the K-norm gradient mechanism for any gradient: density ∝ exp(−‖∇E(x; D)‖/s) on a public domain.

Reimherr and Awan 2019; Soto, Bharath, Reimherr, Slavković 2022 on manifolds. With s = 2Δ/ε, Δ the sensitivity of the
gradient, one draw is ε-DP (the normalizer depends on the data, hence the 2). That is a statement about the exact law:
a Markov chain stopped after any number of steps does not have it, so there is none here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp._validate import integer, positive
from curvedp.errors import ParameterError
from curvedp.laws.cells import CellSampler
from curvedp.laws.domains import GeodesicBall

_LARGEST_RATIO = (
    1e8  # beyond it the density's width is lost in the rounding of the coordinates
)


@dataclass(frozen=True)
class KNormLaw:
    """exp(−g(x)/scale) with respect to the Riemannian volume of a public domain; g is an argument of `sample`.

    *Guarantees.*
    - The draws are independent and follow the stated law, up to float64 arithmetic, for every g that obeys its
      Lipschitz constant; where g is seen not to, `EnvelopeViolation` is raised.
    - The number of evaluations of g depends on g, hence on the data: running time is a side channel that ε does not
    cover.

    >>> from curvedp.geometry import Sphere
    >>> M, data = Sphere(2), np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]])
    >>> def gradient_norm(x):
    ...     return np.linalg.norm(np.mean([M.log(x, y) for y in data], axis=0), axis=-1)
    >>> law = KNormLaw(GeodesicBall(M, data[0], 0.7), scale=0.2)
    >>> law.sample(np.random.default_rng(0), gradient_norm, lipschitz=1.0, size=5).shape
    (5, 3)
    """

    domain: GeodesicBall
    scale: float

    def __post_init__(self) -> None:
        if not isinstance(self.domain, GeodesicBall):
            raise ParameterError(
                f"domain={self.domain!r} must be a GeodesicBall or a TangentBundleBall"
            )
        object.__setattr__(self, "scale", positive("scale", self.scale))

    def sample(
        self,
        rng: np.random.Generator,
        gradient_norm: Callable[..., Any],
        lipschitz: float | tuple[float, float],
        size: int | tuple[int, ...] | None = None,
    ) -> Any:
        """Draws of shape (*size, *point_shape); on a tangent bundle a pair (p, v) of them.

        `gradient_norm` takes an array of points (N, *point_shape) and returns N numbers ≥ 0; on a tangent bundle it
        takes p and v. `lipschitz` is public: |g(x) − g(y)| ≤ lipschitz·d(x, y) on the domain; on a tangent bundle a
        pair, |g(p,v) − g(q,w)| ≤ lipschitz[0]·d(p,q) + lipschitz[1]·‖w − (v transported to q)‖, or one number for
        both.
        """
        blocks = len(self.domain.radii)
        given = lipschitz if isinstance(lipschitz, tuple) else (lipschitz,) * blocks
        if len(given) != blocks:
            raise ParameterError(
                f"lipschitz={lipschitz!r} must be {blocks} constant(s) for this domain"
            )
        constants = tuple(positive("lipschitz", c) for c in given)
        for constant, radius in zip(constants, self.domain.radii, strict=True):
            if not constant * radius / self.scale <= _LARGEST_RATIO:
                raise ParameterError(
                    f"scale={self.scale!r} is too small for lipschitz={constant!r} on a radius of {radius!r}: "
                    f"lipschitz·radius/scale must be at most {_LARGEST_RATIO:g}"
                )
        shape = (
            () if size is None else tuple(size) if isinstance(size, tuple) else (size,)
        )
        shape = tuple(integer("size", n, 0) for n in shape)
        z = CellSampler(self.domain, self.scale, gradient_norm, constants, rng).draw(
            math.prod(shape)
        )
        points = tuple(x.reshape(*shape, *x.shape[1:]) for x in self.domain.points(z))
        return points if len(points) > 1 else points[0]
