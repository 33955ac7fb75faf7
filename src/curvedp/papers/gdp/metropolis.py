"""Metropolis–Hastings for the Riemannian Gaussian, as §4.1 of Jiang et al. (2023)
describes it: Markov chains whose law tends to the Gaussian. NOT PRIVATE: a chain that
is stopped after any number of steps does not follow this law exactly, and no bound on
the difference is known here.

The chains can be run on every manifold, also on those for which no exact sampler is
known, such as Stiefel manifolds.
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
    """Return the ends of Markov chains for the density ∝ exp(−dist(x, center)²/2σ²).

    NOT PRIVATE. A step from x proposes y = exp_x(s·z), where z is a standard normal
    tangent vector, s = σ/√d and d is the dimension. The proposal is symmetric on every
    Riemannian manifold: its density with respect to volume is a sum over the geodesics
    from x to y, whose terms are the same for the geodesics from y to x. So y is
    accepted with the probability min(1, exp((dist(x)² − dist(y)²)/2σ²)), where dist is
    the distance to the center. If a distance is not known (NaN), y is refused.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points. Its `dist` must be right wherever the law has mass.
    center : array
        The center of the law, where all chains start.
    sigma : float
        σ > 0, the scale of the law.
    size : int
        The number of independent chains.
    rng : numpy.random.Generator
        The source of proposals and decisions.
    steps : int
        The number of steps of each chain.

    Returns
    -------
    array of shape (size, *point_shape)
        The last point of each chain.

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
    # Steps have a length of about σ, so that the accepted share does not fall with d.
    step_length = sigma / np.sqrt(manifold.dim)
    points = np.repeat(np.asarray(center, dtype=np.float64)[None], size, axis=0)
    squares = np.zeros(size)  # squared distances from the center
    mask_shape = (size, *[1] * len(manifold.point_shape))
    for _ in range(steps):
        z = step_length * rng.standard_normal((size, manifold.dim))
        proposals = manifold.project(
            manifold.exp(points, manifold.from_coordinates(points, z))
        )
        proposed_squares = np.asarray(manifold.dist(center, proposals)) ** 2
        log_ratio = (squares - proposed_squares) / (2 * sigma**2)
        is_accepted = np.log(rng.random(size)) < log_ratio
        points = np.where(is_accepted.reshape(mask_shape), proposals, points)
        squares = np.where(is_accepted, proposed_squares, squares)
    return np.asarray(points)
