"""The noise law of the K-norm gradient mechanism, for any gradient. Its density is ∝
exp(−g(x)/s) on a public domain, where g is the norm of the gradient of an objective,
which is small at good points x. One draw is ε-DP with the scale s = 2Δ/ε, where Δ is
the sensitivity of the gradient.

(Reimherr and Awan 2019; on manifolds Soto, Bharath, Reimherr and Slavković 2022.) The
factor 2 covers the normalizer, which depends on the data. That is a statement about the
exact law. A Markov chain stopped after any number of steps does not follow it, so the
draw is by rejection.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp._validate import integer, positive
from curvedp.errors import ParameterError
from curvedp.laws.knorm.cells import LipschitzRejectionSampler
from curvedp.laws.knorm.domains import GeodesicBall

# Largest lipschitz·radius/scale. Beyond it the width of the density is lost in the
# rounding of the coordinates.
_LARGEST_RATIO = 1e8


@dataclass(frozen=True)
class KNormLaw:
    """Density ∝ exp(−g(x)/scale) with respect to the volume of a public domain.

    The draws are independent and follow the stated law, up to float64 arithmetic, for
    every g that obeys its Lipschitz constant. Where g is seen not to obey it,
    `EnvelopeViolation` is raised. The number of evaluations of g depends on g and hence
    on the data: running time is a side channel that ε does not cover.

    Parameters
    ----------
    domain : GeodesicBall or TangentBundleBall
        The set of the points that can be drawn.
    scale : float
        The scale s > 0 of the law.

    Examples
    --------
    >>> import numpy as np
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
        """Check that the domain is one of this package, and the scale positive."""
        if not isinstance(self.domain, GeodesicBall):
            raise ParameterError(
                "must be a GeodesicBall or a TangentBundleBall",
                parameter="domain",
                value=self.domain,
            )
        object.__setattr__(self, "scale", positive("scale", self.scale))

    def sample(
        self,
        rng: np.random.Generator,
        gradient_norm: Callable[..., Any],
        lipschitz: float | tuple[float, float],
        size: int | tuple[int, ...] | None = None,
    ) -> Any:
        """Return independent draws with density ∝ exp(−g(x)/scale) on the domain.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        gradient_norm : callable
            The function g. It takes points of shape (N, *point_shape) and returns N
            numbers ≥ 0. On a tangent bundle it takes points p and vectors v.
        lipschitz : float or pair of floats
            A public constant L with |g(x) − g(y)| ≤ L·d(x, y) on the domain. On a
            tangent bundle a pair, |g(p, v) − g(q, w)| ≤ L₁·d(p, q) + L₂·‖w − v'‖ with
            v' the transport of v to q, or one number for both.
        size : int or tuple of int, optional
            The shape of the draws; one draw by default.

        Returns
        -------
        array of shape (*size, *point_shape)
            The draws. On a tangent bundle a pair (p, v) of such arrays.

        Raises
        ------
        EnvelopeViolation
            If evaluations of g contradict its Lipschitz bound.
        """
        constants = self._check_lipschitz(lipschitz)
        shape = _check_shape(size)
        sampler = LipschitzRejectionSampler(
            self.domain, self.scale, gradient_norm, constants, rng
        )
        coordinates = sampler.draw(math.prod(shape))
        points = tuple(
            x.reshape(*shape, *x.shape[1:]) for x in self.domain.points(coordinates)
        )
        return points if len(points) > 1 else points[0]

    def _check_lipschitz(
        self, lipschitz: float | tuple[float, float]
    ) -> tuple[float, ...]:
        """Return one positive Lipschitz constant for each block of coordinates.

        A ball has one block, the coordinates of x; a tangent bundle has two.

        Called by `sample` on the argument of the user.

        Parameters
        ----------
        lipschitz : float or tuple of float
            One constant, or one for each block.

        Returns
        -------
        tuple of float
            One constant for each block.

        Raises
        ------
        ParameterError
            If their number is wrong, one is not positive, or the density is so narrow
            compared with the domain that rounding of coordinates would hide it.
        """
        n_blocks = len(self.domain.radii)
        constants: tuple[float, ...]
        if isinstance(lipschitz, tuple):
            constants = lipschitz
        else:
            constants = (lipschitz,) * n_blocks

        if len(constants) != n_blocks:
            raise ParameterError(
                f"must be {n_blocks} constant(s) for this domain",
                parameter="lipschitz",
                value=lipschitz,
            )

        constants = tuple(positive("lipschitz", constant) for constant in constants)

        # The density must not be too narrow for the rounding of coordinates.
        for constant, radius in zip(constants, self.domain.radii, strict=True):
            if not constant * radius / self.scale <= _LARGEST_RATIO:
                raise ParameterError(
                    f"is too small for lipschitz={constant!r} on a radius of "
                    f"{radius!r}: lipschitz·radius/scale must be at most "
                    f"{_LARGEST_RATIO:g}",
                    parameter="scale",
                    value=self.scale,
                )
        return constants


def _check_shape(size: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return `size` as a tuple of nonnegative integers; None means a single draw.

    Called by `sample` on the argument of the user.

    Parameters
    ----------
    size : int, tuple of int, or None
        The shape of a sample, as the caller gave it.

    Returns
    -------
    tuple of int
        The shape.
    """
    if size is None:
        return ()
    sizes = size if isinstance(size, tuple) else (size,)
    return tuple(integer("size", length, 0) for length in sizes)
