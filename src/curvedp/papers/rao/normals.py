"""Rao's distance of multivariate normal laws, and a test by it.

The Rao paper has the distance of one-dimensional normals in closed form. For general
normals none is known; geodesics from a point are (Calvo and Oller 1991, Eriksen 1987),
so the distance is found by shooting.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm
from scipy.optimize import root
from scipy.stats import chi2

from curvedp.errors import ParameterError

__all__ = ["RaoTest", "normal_distance", "rao_test"]

# Largest entry of the miss of an end point that counts as a hit.
_TOLERANCE = 1e-9


class RaoTest(NamedTuple):
    """A test of a normal law by Rao's distance. NOT PRIVATE.

    Attributes
    ----------
    distance : float
        Between the fitted and the hypothetical law.
    statistic : float
        n times its square.
    pvalue : float
        By the limit law, χ² with d + d(d+1)/2 degrees of freedom.
    """

    distance: float
    statistic: float
    pvalue: float


def normal_distance(
    mean1: ArrayLike, covariance1: ArrayLike, mean2: ArrayLike, covariance2: ArrayLike
) -> float:
    """Return Rao's distance of two normal laws of ℝᵈ.

    The metric is dμᵀΣ⁻¹dμ + ½tr((Σ⁻¹dΣ)²). It is invariant under affine maps, so the
    first law is brought to N(0, I). The geodesic from there with the velocity (a, B)
    has Σ(t)⁻¹ and Σ(t)⁻¹μ(t) as blocks of exp(tA), where A has the rows (−B, a, 0),
    (aᵀ, 0, −aᵀ) and (0, −a, B); its length is √(aᵀa + ½tr B²). The velocity is found by
    Newton's method while the second mean grows from 0.

    Parameters
    ----------
    mean1, mean2 : array of shape (d,)
        The means.
    covariance1, covariance2 : array of shape (d, d)
        The covariance matrices, positive definite.

    Raises
    ------
    ParameterError
        If a covariance is not positive definite, or the end was not hit.

    Examples
    --------
    >>> round(normal_distance([0.0], [[1.0]], [5.0], [[1.0]]), 6)
    3.775042
    """
    first = np.atleast_1d(np.asarray(mean1, dtype=np.float64))
    second = np.atleast_1d(np.asarray(mean2, dtype=np.float64))
    try:
        factor = np.linalg.cholesky(np.asarray(covariance1, dtype=np.float64))
        np.linalg.cholesky(np.asarray(covariance2, dtype=np.float64))
    except np.linalg.LinAlgError as error:
        raise ParameterError("a covariance is not positive definite") from error

    shift = np.linalg.solve(factor, second - first)
    half = np.linalg.solve(factor, np.asarray(covariance2, dtype=np.float64))
    covariance = np.linalg.solve(factor, half.T)
    precision = np.linalg.inv((covariance + covariance.T) / 2)

    dim = len(first)
    rows, columns = np.triu_indices(dim)

    def velocity(unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a and B."""
        b = np.zeros((dim, dim))
        b[rows, columns] = unknowns[dim:]
        b[columns, rows] = unknowns[dim:]
        return unknowns[:dim], b

    def miss(unknowns: np.ndarray, mean: np.ndarray) -> np.ndarray:
        a, b = velocity(unknowns)
        generator = np.zeros((2 * dim + 1, 2 * dim + 1))
        generator[:dim, :dim] = -b
        generator[:dim, dim] = generator[dim, :dim] = a
        generator[dim, dim + 1 :] = generator[dim + 1 :, dim] = -a
        generator[dim + 1 :, dim + 1 :] = b
        end = expm(generator)
        off_precision = (end[:dim, :dim] - precision)[rows, columns]
        off_mean = end[:dim, dim] - precision @ mean
        return np.concatenate([off_mean, off_precision])

    # With equal means the geodesic is that of covariances: B = log Σ₂.
    values, vectors = np.linalg.eigh(precision)
    start = -(vectors * np.log(values)) @ vectors.T
    unknowns = np.concatenate([np.zeros(dim), start[rows, columns]])
    n_stages = 1 + math.ceil(
        2 * float(np.sqrt(shift @ precision @ shift) + np.linalg.norm(shift))
    )
    for stage in range(1, n_stages + 1):
        mean = shift * stage / n_stages
        solution = root(miss, unknowns, args=(mean,), tol=1e-13)
        unknowns = solution.x
    scale = 1 + float(np.max(np.abs(precision)))
    if not np.max(np.abs(miss(unknowns, shift))) <= _TOLERANCE * scale:
        raise ParameterError("the geodesic did not reach the second law")
    a, b = velocity(unknowns)
    return math.sqrt(float(a @ a) + float(np.sum(b * b)) / 2)


def rao_test(data: ArrayLike, mean: ArrayLike, covariance: ArrayLike) -> RaoTest:
    """Test whether records come from a given normal law, by Rao's distance. NOT PRIVATE.

    Under the hypothesis n·d² tends to χ² with d + d(d+1)/2 degrees of freedom, because
    the distance is that of the Fisher information and the fit is the maximum likelihood
    estimate. The Rao paper (Appendix C.1) calls such a test an interesting avenue.

    Parameters
    ----------
    data : array of shape (n, d)
        The records.
    mean : array of shape (d,)
        Of the hypothetical law.
    covariance : array of shape (d, d)
        Of the hypothetical law.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> rao_test(X, np.zeros(2), np.eye(2)).pvalue > 0.01
    True
    """
    records = np.asarray(data, dtype=np.float64)
    n, dim = records.shape
    fitted_mean = records.mean(axis=0)
    centered = records - fitted_mean
    distance = normal_distance(mean, covariance, fitted_mean, centered.T @ centered / n)
    statistic = n * distance**2
    freedom = dim + dim * (dim + 1) // 2
    return RaoTest(distance, statistic, float(chi2.sf(statistic, freedom)))
