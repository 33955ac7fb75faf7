"""PrivUnit: ε by enumeration of its two levels, the optimum, exact draws, and unbiased means."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from curvedp.errors import ParameterError
from curvedp.local import PrivUnit
from curvedp.local.privunit import CapParameters, certified_epsilon, mean_length
from support.goodness import accepts, ks, moment, rejects
from support.randomness import seeded_source

CASES = [(2, 1.0), (3, 0.1), (16, 4.0), (64, 8.0), (512, 2.0), (1000, 40.0)]


def cap_share(dim, threshold):
    """The share of the sphere in a cap, by quadrature in 40 digits."""
    with mpmath.workdps(40):

        def density(angle):
            return mpmath.sin(angle) ** (dim - 2)

        end = mpmath.acos(threshold)
        # Break points where the density is large, for the quadrature's sake.
        inside = [end - end * mpmath.mpf(2) ** -k for k in range(8)] + [end]
        half = [mpmath.pi / 2 * (1 - mpmath.mpf(2) ** -k) for k in range(9)]
        cap = mpmath.quad(density, sorted(set(inside)))
        hemisphere = mpmath.quad(density, [*half, mpmath.pi / 2])
        return cap / (2 * hemisphere)


@pytest.mark.parametrize(("dim", "epsilon"), CASES)
def test_epsilon_is_the_ratio_of_the_two_levels(dim, epsilon):
    """The density of a report takes two values; every log-ratio is 0 or theirs."""
    mechanism = PrivUnit(dim, epsilon)
    with mpmath.workdps(40):
        share = cap_share(dim, mpmath.mpf(mechanism.threshold))
        p = mpmath.mpf(mechanism.cap.cap_weight) / 2**64
        levels = (p / share, (1 - p) / (1 - share))
        log_ratios = [
            abs(mpmath.log(first / second)) for first in levels for second in levels
        ]
        exact = max(log_ratios)
        assert exact <= epsilon
        assert exact <= mechanism.certified_epsilon <= epsilon
        assert exact >= epsilon * (1 - mpmath.mpf(10) ** -9)
        # A cap that is entered a little more often is more than ε, and is caught.
        weight = min(int(mechanism.cap.cap_weight * 1.001) + 1, 2**64 - 1)
    wrong = CapParameters(mechanism.threshold, weight)
    assert certified_epsilon(dim, wrong) > epsilon


def test_two_records_attain_the_ratio():
    mechanism = PrivUnit(8, 3.0)
    first = np.eye(8)[0]
    report = first  # in the cap of the first record and not in that of its antipode
    assert report @ first >= mechanism.threshold
    assert not report @ -first >= mechanism.threshold


def least_error(dim, epsilon):
    """The least 1/m² − 1 over thresholds and probabilities, by plain search."""
    norm = integrate.quad(lambda w: (1 - w * w) ** ((dim - 3) / 2), -1, 1)[0]

    def error(parameters):
        gamma, share_of_log_odds = parameters
        tail = stats.beta.sf((1 + gamma) / 2, (dim - 1) / 2, (dim - 1) / 2)
        log_odds = epsilon * share_of_log_odds + math.log(tail / (1 - tail))
        p = 1 / (1 + math.exp(-log_odds))
        partial = (1 - gamma * gamma) ** ((dim - 1) / 2) / ((dim - 1) * norm)
        length = partial * (p / tail - (1 - p) / (1 - tail))
        return 1 / length**2 - 1

    starts = [(gamma, 0.9) for gamma in (0.05, 0.2, 0.4, 0.6)]
    bounds = [(0.0, 0.95), (1e-3, 1.0)]
    return min(optimize.minimize(error, start, bounds=bounds).fun for start in starts)


@pytest.mark.parametrize(("dim", "epsilon"), [(4, 1.0), (16, 2.0), (64, 4.0), (100, 8)])
def test_the_error_is_the_published_optimum(dim, epsilon):
    mechanism = PrivUnit(dim, epsilon)
    optimum = least_error(dim, epsilon)
    assert mechanism.report_error == pytest.approx(optimum, rel=1e-6)
    assert mechanism.threshold == pytest.approx(mechanism.mean_length, rel=1e-6)
    # Half of the exponent for the choice of the cap, as is often done, costs more.
    naive = CapParameters(mechanism.threshold / 2, mechanism.cap.cap_weight)
    assert mean_length(dim, naive) < mechanism.mean_length


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 1.0), (3, 2.0), (10, 4.0)])
def test_exact_and_simulated_reports_have_the_law(dim, epsilon):
    mechanism = PrivUnit(dim, epsilon)
    record = np.random.default_rng(dim).standard_normal(dim)
    record /= np.linalg.norm(record)
    share = float(cap_share(dim, mpmath.mpf(mechanism.threshold)))
    p = mechanism.cap_probability

    def height_cdf(w):
        below = stats.beta.cdf((1 + w) / 2, (dim - 1) / 2, (dim - 1) / 2)
        outside = (1 - p) * np.minimum(below / (1 - share), 1)
        return outside + p * np.clip((below - (1 - share)) / share, 0, 1)

    for draw, n in (
        (lambda X: mechanism.randomize(X, source=seeded_source(4)), 1500),
        (lambda X: mechanism.simulate(X, np.random.default_rng(4)), 30_000),
    ):
        reports = draw(np.tile(record, (n, 1)))
        assert np.abs(np.linalg.norm(reports, axis=1) - 1).max() < 1e-8
        heights = np.clip(reports @ record, -1, 1)
        assert accepts(ks(heights, height_cdf))
        assert accepts(moment(heights, mechanism.mean_length))
        across = reports - heights[:, None] * record
        other = np.linalg.svd(record[None])[2][1]
        assert accepts(moment(across @ other, 0.0))
    # A law with another probability of the cap is caught.
    uniform = np.random.default_rng(0).standard_normal((30_000, dim))
    uniform /= np.linalg.norm(uniform, axis=1, keepdims=True)
    assert rejects(ks(uniform @ record, height_cdf))


def test_reports_are_in_the_cap_as_often_as_they_say():
    mechanism = PrivUnit(5, 3.0)
    record = np.eye(5)[2]
    reports = mechanism.randomize(np.tile(record, (3000, 1)), source=seeded_source(9))
    hits = int(np.sum(reports @ record >= mechanism.threshold))
    assert stats.binomtest(hits, 3000, mechanism.cap_probability).pvalue > 1e-4


@pytest.mark.parametrize("finite_sample", [False, True])
def test_means_are_unbiased_and_regions_cover(finite_sample):
    mechanism = PrivUnit(8, 3.0)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 8)) + 3.0 * np.eye(8)[0]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    mean = X.mean(axis=0)
    errors, covered = [], 0
    for _ in range(600):
        reports = mechanism.simulate(X, rng)
        estimate = mechanism.estimate_mean(reports, 0.9, finite_sample=finite_sample)
        errors.append(estimate.value - mean)
        covered += np.linalg.norm(estimate.value - mean) <= estimate.radius
    bias = np.mean(errors, axis=0)
    spread = np.std(errors, axis=0) / math.sqrt(len(errors))
    assert np.abs(bias / spread).max() < 4.5
    assert stats.binom.cdf(covered, len(errors), 0.9) > 1e-4
    # Without the factor 1/m the mean would be far too short, and so would be caught.
    short = np.linalg.norm((bias + mean) * mechanism.mean_length - mean)
    assert short > 10 * np.linalg.norm(spread)


def test_variance_is_that_of_the_law():
    mechanism = PrivUnit(6, 2.0)
    record = np.eye(6)[0]
    reports = mechanism.simulate(
        np.tile(record, (200_000, 1)), np.random.default_rng(2)
    )
    scaled = reports / mechanism.mean_length
    variances = scaled.var(axis=0)
    assert variances.sum() == pytest.approx(mechanism.report_error, rel=0.01)
    assert variances.max() == pytest.approx(mechanism.largest_variance, rel=0.02)


def test_broken_records_and_reports_are_data():
    mechanism = PrivUnit(4, 2.0)
    X = np.array([[np.nan] * 4, [0.0] * 4, [np.inf, 0, 0, 0], [1e300, 1, 1, 1]])
    reports = mechanism.randomize(X, source=seeded_source(3))
    assert np.isfinite(reports).all()
    public = np.tile(mechanism.space.public_record, (4, 1))
    public[3] = mechanism.space.read(X)[3]
    again = mechanism.randomize(public, source=seeded_source(3))
    assert np.array_equal(reports, again)
    # A stranger's report of any length moves the mean by no more than an honest one.
    hostile = np.vstack([reports, [[1e308] * 4], [[np.nan] * 4]])
    value = mechanism.estimate_mean(hostile).value
    assert np.linalg.norm(value) <= 1 / mechanism.mean_length


@pytest.mark.parametrize(
    ("dim", "epsilon"),
    [(1, 1.0), (2.5, 1.0), (3, 0.0), (3, np.nan), (3, 501.0), (3, "1")],
)
def test_bad_parameters_are_refused(dim, epsilon):
    with pytest.raises(ParameterError):
        PrivUnit(dim, epsilon)


def test_levels_of_regions_are_checked():
    mechanism = PrivUnit(3, 1.0)
    reports = mechanism.randomize(np.eye(3))
    for level in (0.0, 1.0, np.nan, "a"):
        with pytest.raises(ParameterError):
            mechanism.estimate_mean(reports, level)
    with pytest.raises(ParameterError):
        mechanism.estimate_mean(np.eye(4))
    assert mechanism.estimate_mean(reports).n == 3
