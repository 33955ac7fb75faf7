"""Metropolis–Hastings for the Riemannian Gaussian, as §4.1 of Jiang et al. (2023) has it.

NOT PRIVATE: a chain that is stopped after any number of steps does not follow its law,
and no bound on the difference is known here. It draws on every manifold, also where no
exact sampler is known, such as Stiefel manifolds.
"""

import numpy as np

from curvedp import _validate
from curvedp.geometry.manifold import Manifold

__all__ = ["metropolis_gaussian"]


def metropolis_gaussian(
    manifold: Manifold,
    center: np.ndarray,
    sigma: float,
    size: int,
    rng: np.random.Generator,
    steps: int = 1000,
) -> np.ndarray:
    """Return the ends of `size` chains for the density ∝ exp(−dist(x, center)²/2σ²).

    NOT PRIVATE. A step proposes exp_x(s·z), z a standard normal tangent vector and
    s = σ/√d; the proposal is symmetric with respect to the volume on a symmetric or
    naturally reductive space, and nearly so elsewhere for small σ.

    Parameters
    ----------
    manifold : Manifold
        Where the points live.
    center : array
        The center of the law.
    sigma : float
        σ.
    size : int
        Number of chains.
    rng : numpy.random.Generator
        Draws proposals and decisions.
    steps : int
        Length of a chain, from the center.

    Returns
    -------
    array of shape (size, *point_shape)

    Examples
    --------
    >>> from curvedp.geometry import Stiefel
    >>> M = Stiefel(4, 2)
    >>> rng = np.random.default_rng(0)
    >>> metropolis_gaussian(M, M.origin, 0.1, 3, rng, steps=5).shape
    (3, 4, 2)
    """
    sigma = _validate.positive("sigma", sigma)
    size = _validate.integer("size", size, 1)
    steps = _validate.integer("steps", steps, 1)
    step_length = sigma / np.sqrt(manifold.dim)
    points = np.repeat(np.asarray(center, dtype=np.float64)[None], size, axis=0)
    squares = np.zeros(size)
    shape = (size, *[1] * len(manifold.point_shape))
    for _ in range(steps):
        z = step_length * rng.standard_normal((size, manifold.dim))
        proposals = manifold.project(
            manifold.exp(points, manifold.from_coordinates(points, z))
        )
        proposed_squares = np.asarray(manifold.dist(center, proposals)) ** 2
        log_ratio = (squares - proposed_squares) / (2 * sigma**2)
        is_accepted = np.log(rng.random(size)) < log_ratio
        points = np.where(is_accepted.reshape(shape), proposals, points)
        squares = np.where(is_accepted, proposed_squares, squares)
    return np.asarray(points)
