"""Rao's distance of multivariate normal laws, and a test that uses it. The distance is
the length of the shortest path of normal laws in the Fisher metric. It has no known
closed form in more than one dimension, so it is found by a search for the geodesic from
one law to the other.

The Rao paper has the distance of one-dimensional normals in closed form. In higher
dimensions the geodesics from a given law have a closed form (Calvo and Oller 1991,
Eriksen 1987). So the distance is found by shooting: the search is for the initial
velocity with which the geodesic ends at the second law.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm
from scipy.optimize import root
from scipy.stats import chi2

from curvedp import _validate
from curvedp.errors import ParameterError

__all__ = ["RaoTest", "normal_distance", "rao_test"]

# Largest error of the end of a geodesic, relative to the largest entry of the inverse
# covariance that it should reach. Beyond it the search has failed.
_TOLERANCE = 1e-9


class RaoTest(NamedTuple):
    """The result of a test of a normal law by Rao's distance. NOT PRIVATE.

    Attributes
    ----------
    distance : float
        Rao's distance between the fitted law and the hypothetical one.
    statistic : float
        n times the square of that distance, n the number of records.
    pvalue : float
        The probability that χ² with d + d(d+1)/2 degrees of freedom, the limit law of
        the statistic under the hypothesis, exceeds the statistic.
    """

    distance: float
    statistic: float
    pvalue: float


def normal_distance(
    mean1: ArrayLike, covariance1: ArrayLike, mean2: ArrayLike, covariance2: ArrayLike
) -> float:
    """Return Rao's distance of two normal laws of ℝᵈ.

    It is the length of the shortest path of normal laws N(μ, Σ) between the two, in the
    Fisher metric dμᵀΣ⁻¹dμ + ½tr((Σ⁻¹dΣ)²). Affine maps do not change it, so the first
    law is moved to N(0, I). Consider the geodesic from N(0, I) whose velocity is a vector
    a and a symmetric matrix B. Its Σ(t)⁻¹ and Σ(t)⁻¹μ(t) are blocks of exp(tA), where A
    has the block rows (−B, a, 0), (aᵀ, 0, −aᵀ) and (0, −a, B) (Eriksen 1987, Calvo and
    Oller 1991), and its length for 0 ≤ t ≤ 1 is √(aᵀa + ½tr B²). The velocity that
    leads to the second law is found by Newton's method, in stages: the mean of the
    second law is moved from 0, where the velocity is known, to its place.

    Parameters
    ----------
    mean1, mean2 : array of shape (d,)
        The means.
    covariance1, covariance2 : array of shape (d, d)
        The covariance matrices, symmetric and positive definite.

    Returns
    -------
    float
        Rao's distance; 0 only for equal laws.

    Raises
    ------
    ParameterError
        If shapes do not match, a number is not finite, a covariance is not symmetric
        and positive definite, or no geodesic to the second law was found.

    Examples
    --------
    >>> round(normal_distance([0.0], [[1.0]], [5.0], [[1.0]]), 6)
    3.775042
    """
    first, factor = _check_law("1", mean1, covariance1)
    second, _ = _check_law("2", mean2, covariance2)
    if first.shape != second.shape:
        raise ParameterError(
            f"mean1 has {len(first)} entries and mean2 {len(second)}: the laws must have "
            "one dimension"
        )

    # The second law in coordinates in which the first one is N(0, I). `factor` is the
    # Cholesky factor of the first covariance.
    shift = np.linalg.solve(factor, second - first)
    half_way = np.linalg.solve(factor, np.asarray(covariance2, dtype=np.float64))
    covariance = np.linalg.solve(factor, half_way.T)
    precision = np.linalg.inv((covariance + covariance.T) / 2)

    velocity = _shoot(shift, precision)
    scale = 1 + float(np.max(np.abs(precision)))
    if not np.max(np.abs(_end_error(velocity, shift, precision))) <= _TOLERANCE * scale:
        raise ParameterError("no geodesic to the second law was found")
    a, b = _unpack_velocity(velocity, len(shift))
    return math.sqrt(float(a @ a) + float(np.sum(b * b)) / 2)


def _shoot(shift: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Return the velocity at N(0, I) of the geodesic to N(shift, precision⁻¹).

    Newton's method is run in stages: the mean of the second law is moved from 0, where
    the velocity is known, to its place.

    Parameters
    ----------
    shift : array of shape (d,)
        The mean of the second law.
    precision : array of shape (d, d)
        The inverse of its covariance.

    Returns
    -------
    array of shape (d + d(d + 1)/2,)
        The vector a and the upper triangle of B; where the search has failed, a velocity
        with another end.
    """
    # With equal means the geodesic is that of covariances: a = 0 and B = log Σ₂.
    dim = len(shift)
    values, vectors = np.linalg.eigh(precision)
    log_covariance = -(vectors * np.log(values)) @ vectors.T
    velocity = np.concatenate([np.zeros(dim), log_covariance[np.triu_indices(dim)]])

    # About two stages for each unit of either Mahalanobis distance of the means, so
    # that Newton's method starts near its solution in every stage.
    mahalanobis = float(np.sqrt(shift @ precision @ shift) + np.linalg.norm(shift))
    n_stages = 1 + math.ceil(2 * mahalanobis)
    for stage in range(1, n_stages + 1):
        mean = shift * stage / n_stages
        velocity = root(_end_error, velocity, args=(mean, precision), tol=1e-13).x
    return velocity


def _unpack_velocity(velocity: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a and B from the vector of a and the upper triangle of B."""
    rows, columns = np.triu_indices(dim)
    b = np.zeros((dim, dim))
    b[rows, columns] = velocity[dim:]
    b[columns, rows] = velocity[dim:]
    return velocity[:dim], b


def _end_error(
    velocity: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> np.ndarray:
    """Return how far the geodesic from N(0, I) ends from N(mean, precision⁻¹).

    Parameters
    ----------
    velocity : array of shape (d + d(d + 1)/2,)
        The vector a and the upper triangle of B.
    mean : array of shape (d,)
        μ, the mean at which the geodesic should end.
    precision : array of shape (d, d)
        Σ⁻¹, the inverse covariance at which it should end.

    Returns
    -------
    array, of the shape of `velocity`
        The errors of Σ(1)⁻¹μ(1) and of the upper triangle of Σ(1)⁻¹.
    """
    # The matrix A of `normal_distance`, whose exponential has the end in its blocks.
    dim = len(mean)
    a, b = _unpack_velocity(velocity, dim)
    generator = np.zeros((2 * dim + 1, 2 * dim + 1))
    generator[:dim, :dim] = -b
    generator[:dim, dim] = generator[dim, :dim] = a
    generator[dim, dim + 1 :] = generator[dim + 1 :, dim] = -a
    generator[dim + 1 :, dim + 1 :] = b
    end = expm(generator)

    precision_error = (end[:dim, :dim] - precision)[np.triu_indices(dim)]
    mean_error = end[:dim, dim] - precision @ mean
    return np.concatenate([mean_error, precision_error])


def _check_law(
    number: str, mean: ArrayLike, covariance: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Check the parameters of a normal law, and factor its covariance.

    Parameters
    ----------
    number : str
        "1" or "2", for the names in error messages.
    mean : array of shape (d,)
        The mean; a number counts as an array of one.
    covariance : array of shape (d, d)
        The covariance matrix.

    Returns
    -------
    mean, factor : array of shape (d,), array of shape (d, d)
        The mean, and the lower triangular Cholesky factor of the covariance.

    Raises
    ------
    ParameterError
        If a shape is wrong, or the covariance is not symmetric positive definite.
    """
    point = np.atleast_1d(_validate.array(f"mean{number}", mean))
    matrix = _validate.array(f"covariance{number}", covariance)
    if point.ndim != 1 or matrix.shape != (len(point), len(point)):
        raise ParameterError(
            f"mean{number} of shape {point.shape} and covariance{number} of shape "
            f"{matrix.shape} must have the shapes (d,) and (d, d)"
        )
    if not np.all(np.isfinite(point)):
        raise ParameterError(f"mean{number} must be finite")
    is_symmetric = np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0)
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        factor = np.full_like(matrix, np.nan)
    if not (is_symmetric and np.all(np.isfinite(factor))):
        raise ParameterError(
            f"covariance{number} must be symmetric and positive definite"
        )
    return point, factor


def rao_test(data: ArrayLike, mean: ArrayLike, covariance: ArrayLike) -> RaoTest:
    """Test whether records come from a given normal law, by Rao's distance. NOT PRIVATE.

    The normal law with the mean and covariance of the records is the maximum likelihood
    estimate. Its Rao distance D from the hypothetical law is a length in the Fisher
    metric, so n·D² tends to χ² with d + d(d+1)/2 degrees of freedom, the number of
    parameters, if the hypothesis holds. The Rao paper (Appendix C.1) calls such a test
    an interesting avenue.

    Parameters
    ----------
    data : array of shape (n, d)
        The records, more of them than coordinates.
    mean : array of shape (d,)
        The mean of the hypothetical law.
    covariance : array of shape (d, d)
        The covariance matrix of the hypothetical law.

    Returns
    -------
    RaoTest
        The distance, n times its square, and the p-value.

    Raises
    ------
    ParameterError
        If the records have too few rows, or the law is refused by `normal_distance`.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> rao_test(X, np.zeros(2), np.eye(2)).pvalue > 0.01
    True
    """
    records = _validate.array("data", data)
    if records.ndim != 2 or len(records) <= records.shape[1]:
        raise ParameterError(
            f"data of shape {records.shape} must have the shape (n, d) with n > d"
        )
    n, dim = records.shape
    fitted_mean = records.mean(axis=0)
    centered = records - fitted_mean
    distance = normal_distance(mean, covariance, fitted_mean, centered.T @ centered / n)
    statistic = n * distance**2
    freedom = dim + dim * (dim + 1) // 2
    return RaoTest(distance, statistic, float(chi2.sf(statistic, freedom)))
