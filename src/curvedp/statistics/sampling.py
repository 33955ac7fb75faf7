"""How far the statistic of a sample is from that of its population, with finite samples.
McDiarmid's inequality (1989): a function of n independent records that moves by at most
c where one record is replaced exceeds its expectation by more than c·√(n·log(1/a)/2)
with probability at most a. The proofs are in docs/theory/inference.md, "Regions of the
population".
"""

from math import log, sqrt
from typing import NamedTuple

from curvedp.errors import ParameterError
from curvedp.geometry.comparison import curvature_roots, hessian_bounds
from curvedp.geometry.manifold import Manifold


class BallConvexity(NamedTuple):
    """How convex squared distances are in a ball.

    Attributes
    ----------
    lowest_hessian : float
        λ, the least eigenvalue of Hess ½d² at distances up to the diameter.
    angle : float
        The diameter times √κ_max; 0 where curvature is not positive.
    """

    lowest_hessian: float
    angle: float


def mean_vector_length(
    n: int, failure_probability: float, stretch: float = 1.0
) -> float:
    """Bound the length of the mean of n independent vectors with expectation 0.

    The vectors have length at most 1, so that the expected length of the mean is at
    most 1/√n; a record moves the mean by at most 2·stretch/n. By McDiarmid's inequality
    the bound (1 + stretch·√(2·log(1/a)))/√n fails with probability at most a.

    Parameters
    ----------
    n : int
        The number of vectors, one for each record.
    failure_probability : float
        a, the probability that the bound may fail.
    stretch : float
        How much farther a record may move its vector than the vectors' length allows in
        flat space; 1 there.

    Returns
    -------
    float
        The bound, in units of the longest vector.
    """
    return (1 + stretch * sqrt(2 * log(1 / failure_probability))) / sqrt(n)


def ball_convexity(manifold: Manifold, radius: float) -> BallConvexity:
    """Return bounds on the convexity of squared distances in a ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float
        The radius of the public ball.

    Returns
    -------
    BallConvexity
        The least eigenvalue λ > 0 of the Hessian of ½d², and the diameter in units of
        the curvature.

    Raises
    ------
    ParameterError
        If the ball is so wide that squared distances are not convex in it.
    """
    lowest, _ = hessian_bounds(manifold, 2 * radius)
    if not lowest > 0 or not 2 * radius < manifold.injectivity_radius:
        raise ParameterError(
            f"is too wide for a population region on {manifold!r}: no theorem applies",
            parameter="radius",
            value=radius,
        )
    return BallConvexity(lowest, 2 * radius * curvature_roots(manifold).positive)
