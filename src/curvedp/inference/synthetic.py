"""Error bars for numbers that are computed from synthetic records.
An analysis that treats synthetic records as real ones ignores three errors: the real
records are a sample, the release added noise, and the file is a sample of the released
law. `combine_synthetic` estimates all three from the certificate, without data and
without budget. See docs/theory/synthetic-records.md, "What a file does not know".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from curvedp import _validate
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.mechanisms.staged.population import PopulationMechanism
from curvedp.records.base import open_records
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.statistics.population import (
    PopulationData,
    ReleasedPopulation,
    SyntheticRecords,
)

# No simulated release reads more records; with more real ones, error bars are too wide.
_MAX_RECORDS = 20_000

# A function that computes a number or an array of numbers from synthetic records.
Analysis = Callable[[SyntheticRecords], Any]


class SyntheticEstimate(NamedTuple):
    """The result of an analysis of synthetic records, with error bars.

    Attributes
    ----------
    estimate : array
        The mean of the analyses of the files.
    standard_error : array
        The expected root mean square error of `estimate`, as an estimate of the result
        for the whole population.
    file_error : array
        The part of the error that is due to the size of the files. A comparison of the
        files with each other shows this part only.
    lower, upper : array
        The ends of the interval estimate ± z·standard_error.
    level : float
        The approximate probability with which the interval contains the result for the
        population.

    Examples
    --------
    >>> from curvedp import PrivateSynthesizer
    >>> from curvedp.geometry import Euclidean
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> fitted = PrivateSynthesizer(Euclidean(2), radius=5.0).fit(X)
    >>> def spread(synthetic):
    ...     return synthetic.points.std(axis=0)
    >>> result = combine_synthetic(fitted.certificate_, spread, simulations=10)
    >>> bool((result.standard_error > result.file_error).all())
    True
    """

    estimate: np.ndarray
    standard_error: np.ndarray
    file_error: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float


def combine_synthetic(
    certificate: Certificate,
    analysis: Analysis,
    *,
    files: int = 5,
    records: int | None = None,
    level: float = 0.95,
    simulations: int = 40,
    seed: int = 0,
) -> SyntheticEstimate:
    """Analyze synthetic files, and return the result with its full error.

    No budget is spent. Several files are drawn from the release and analyzed, and the
    results are averaged. Then whole releases are simulated. In each simulation n records
    are drawn from the released law in place of the population, the mechanism adds its
    noise, and files are drawn and analyzed. With simulated results t₁, …, t_R and the
    result t of the released law itself, the standard error is the root of mean
    (t_k − t)². It includes the sampling of the real records, the noise, the bias of
    clipping, and the files.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a `PrivateSynthesizer`.
    analysis : function of SyntheticRecords
        Returns a number or an array. Its argument has the fields `points`,
        `class_index` and `predictor`.
    files : int
        The number of files of synthetic records that are drawn and analyzed.
    records : int, optional
        The number of records in a file; by default the number of real records.
    level : float
        The probability with which each interval should contain its target.
    simulations : int
        The number R of simulated releases, at least 10.
    seed : int
        A public seed: the same one gives the same result.

    Returns
    -------
    SyntheticEstimate
        The mean analysis of the files, its standard error, and an interval for each of
        its numbers.

    Raises
    ------
    ParameterError
        If the certificate is of another release.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import PrivateSynthesizer
    >>> from curvedp.geometry import Euclidean
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> fitted = PrivateSynthesizer(Euclidean(2), radius=5.0).fit(X)
    >>> def first_mean(synthetic):
    ...     return synthetic.points[:, 0].mean()
    >>> result = combine_synthetic(fitted.certificate_, first_mean)
    >>> bool(result.lower < result.estimate < result.upper)  # holds 0, nineteen in twenty
    True
    >>> bool(result.standard_error > 0.03)  # of 500 records alone: 0.045
    True
    """
    files = _validate.integer("files", files, 1)
    simulations = _validate.integer("simulations", simulations, 10)
    _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    mechanism = final_mechanism_of(certificate)
    if not isinstance(mechanism, PopulationMechanism):
        raise ParameterError("the certificate is not that of a synthetic population")
    population = mechanism_of(certificate).reconstruct_value(certificate)
    assert isinstance(population, ReleasedPopulation)

    n = min(mechanism.statistic.n, _MAX_RECORDS)
    size = n if records is None else _validate.integer("records", records, 1)
    rng = np.random.default_rng(seed)
    results = [_analyze(population, analysis, size, rng) for _ in range(files)]
    simulated_results = []
    for _ in range(simulations):
        release = _simulate_release(mechanism, population, n, rng)
        file_results = [_analyze(release, analysis, size, rng) for _ in range(files)]
        simulated_results.append(np.mean(file_results, axis=0))

    estimate = np.mean(results, axis=0)
    # The result for the released law itself, from one large file.
    truth = _analyze(population, analysis, max(_MAX_RECORDS, size), rng)
    errors = np.array(simulated_results) - truth
    standard_error = np.sqrt(np.mean(errors**2, axis=0))
    file_deviation = np.zeros_like(truth)
    if files > 1:
        file_deviation = np.std(results, axis=0, ddof=1)
    half_width = ndtri((1 + level) / 2) * standard_error
    return SyntheticEstimate(
        estimate,
        standard_error,
        np.asarray(file_deviation / np.sqrt(files)),
        estimate - half_width,
        estimate + half_width,
        level,
    )


def _analyze(
    population: ReleasedPopulation,
    analysis: Analysis,
    size: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw a file of synthetic records, and return the result of an analysis of it.

    Called for the real release, and for each simulated one.

    Parameters
    ----------
    population : ReleasedPopulation
        The released law from which records are drawn.
    analysis : function of SyntheticRecords
        The user's analysis.
    size : int
        The number of records of the file.
    rng : numpy.random.Generator
        The generator of the draws.

    Returns
    -------
    array of float64
        The number or numbers that the analysis returns.
    """
    return np.asarray(analysis(population.sample(size, rng)), dtype=np.float64)


def _simulate_release(
    mechanism: PopulationMechanism,
    population: ReleasedPopulation,
    n: int,
    rng: np.random.Generator,
) -> ReleasedPopulation:
    """Return a simulated release from n records of a released law. NOT for release.

    Parameters
    ----------
    mechanism : PopulationMechanism
        The mechanism of the release, which adds its noise in floats here.
    population : ReleasedPopulation
        The law from which records are drawn in place of the real ones.
    n : int
        The number of simulated records.
    rng : numpy.random.Generator
        The generator of the records and of the noise.

    Returns
    -------
    ReleasedPopulation
        The law that a release from these records would have published.
    """
    sample = population.sample_canonical(n, rng)
    statistic = mechanism.statistic
    predictor = None
    if statistic.x_range is not None:
        low, high = statistic.x_range
        predictor = 2 * (sample.predictor - low) / (high - low) - 1
    records = open_records(sample.points, statistic.manifold.point_shape, min_records=1)
    data = PopulationData(records, sample.class_index, predictor)
    queries = mechanism.queries(data)
    released: ReleasedPopulation = mechanism.run(
        queries, mechanism.simulated_noise(rng)
    ).value
    return released
