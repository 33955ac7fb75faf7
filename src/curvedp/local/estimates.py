"""Means of reports with confidence regions: what the server computes.
Everything here is post-processing of reports, so that it costs no privacy. The noise is
public, so that its bias is known and taken out.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv

from curvedp import _validate
from curvedp._silence import numerical_silence
from curvedp.errors import ParameterError


class MeanEstimate(NamedTuple):
    """A mean of records that was estimated from their reports.

    Attributes
    ----------
    value : array
        The estimate.
    radius : float
        The radius of a ball about `value` that covers the mean of the records.
    level : float
        With this probability.
    n : int
        The number of reports.
    unit : str
        The unit of the radius; empty for vectors.

    Examples
    --------
    >>> from curvedp.local import PrivUnit
    >>> privunit = PrivUnit(dim=3, epsilon=4.0)
    >>> mean = privunit.estimate_mean(privunit.randomize(np.eye(3)))
    >>> mean.value.shape, mean.n, mean.level
    ((3,), 3, 0.95)
    """

    value: np.ndarray
    radius: float
    level: float
    n: int
    unit: str = ""


def read_reports(reports: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return reports as an array of doubles; a report that is not finite becomes 0.

    Reports come from strangers. A broken one must neither stop the estimate nor
    dominate it, and counts as the report of nothing.

    Parameters
    ----------
    reports : array, shape (n, *shape)
        The reports.
    shape : tuple of int
        The shape of one report.
    """
    array = np.array(_validate.array("reports", reports), dtype=np.float64)
    if array.shape[1:] != shape or array.ndim != len(shape) + 1 or not len(array):
        raise ParameterError(
            f"reports has shape {array.shape}; it must be one report a row, at least one"
        )
    with numerical_silence():
        is_finite = np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    array[~is_finite] = 0.0
    return array


def mean_of_vectors(
    reports: Any,
    *,
    shape: tuple[int, ...],
    length: float,
    largest_variance: float,
    total_variance: float,
    level: float,
    finite_sample: bool,
    factor: float = 1.0,
) -> MeanEstimate:
    """Estimate the mean of the records from reports, with a confidence ball.

    The estimate is the mean of the scaled reports, which are the reports times `factor`.
    It is unbiased if the expectation of a scaled report is its record. Let e be the
    error of the estimate. Let S be the total variance of one scaled report, s² its
    largest variance in any direction, and L a bound on its length.

    - By the central limit theorem n·|e|²/s² is at most, in the limit, a χ² variable
      with one degree of freedom for each coordinate.
    - For every n, E|e| ≤ √(S/n), and one report changes |e| by at most 2L/n. So
      McDiarmid's inequality gives |e| ≤ √(S/n) + L·√(2·log(1/(1 − level))/n) with the
      probability `level`.

    Parameters
    ----------
    reports : array, shape (n, *shape)
        The reports.
    shape : tuple of int
        The shape of one report.
    length : float
        L, or infinity if the mechanism does not bound its reports. A longer report,
        which somebody may have invented, is shortened to L.
    largest_variance, total_variance : float
        s² and S, public numbers of the mechanism.
    level : float
        The probability with which the ball contains the mean of the records.
    finite_sample : bool
        Whether the radius of the ball follows from the second bound, which needs a
        finite `length`. By default it follows from the first.
    factor : float
        The factor that makes a report unbiased.

    Returns
    -------
    MeanEstimate
        The estimate, and the radius of the ball about it.
    """
    probability = _validate.within(
        "level", level, 0.0, 1.0, open_low=True, open_high=True
    )
    vectors = read_reports(reports, shape)
    if math.isfinite(length):
        vectors = _shorten(vectors, length / factor)
    n = len(vectors)
    value = factor * vectors.mean(axis=0)
    if finite_sample and math.isinf(length):
        raise ParameterError(
            "finite_sample needs bounded reports; Gaussian and Laplace noise has none"
        )
    if finite_sample:
        spread = math.sqrt(total_variance / n)
        radius = spread + length * math.sqrt(-2 * math.log(1 - probability) / n)
    else:
        # Of the chi-squared law; importing `scipy.stats` for it takes a quarter of the
        # time in which `curvedp verify` starts.
        quantile = 2 * float(gammaincinv(math.prod(shape) / 2, probability))
        radius = math.sqrt(largest_variance * quantile / n)
    return MeanEstimate(value, radius, probability, n)


def _shorten(vectors: np.ndarray, length: float) -> np.ndarray:
    """Return vectors shortened to a largest length, with their directions kept.

    A report of a known mechanism is never longer. A stranger may send a longer one, and
    could otherwise move the mean as far as wanted.

    Parameters
    ----------
    vectors : array, shape (n, d)
        Finite numbers.
    length : float
        The largest length, positive.

    Returns
    -------
    array, shape (n, d)
        Each vector v times min(1, length/|v|).
    """
    # Entries near the largest double would overflow when they are squared.
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), length)
    scaled_vectors = vectors / largest
    scaled_lengths = np.linalg.norm(scaled_vectors, axis=1, keepdims=True)
    # The length of a vector is scaled_length·largest. The tiny bound avoids 0/0.
    factors = np.minimum(1.0, (length / largest) / np.maximum(scaled_lengths, 1e-300))
    return np.asarray(vectors * factors)
