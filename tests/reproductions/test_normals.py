"""Rao's distance of normals, (ξ, ρ)-zCDP, and the chains of §4.1, against other computations."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from curvedp.laws import RiemannianGaussian
from curvedp.papers.gdp import metropolis_gaussian
from curvedp.papers.rao import (
    OffsetZCDP,
    gaussian_distance,
    normal_distance,
    rao_test,
)
from curvedp.privacy import ZCDP


def covariance(rng, dim):
    factor = rng.standard_normal((dim, dim))
    return factor @ factor.T + 0.3 * np.eye(dim)


@pytest.mark.parametrize("shift", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("sd", [0.4, 1.0, 3.0])
def test_one_dimension_is_the_closed_form(shift, sd):
    found = normal_distance([1.0], [[4.0]], [1.0 + shift], [[sd**2]])
    assert found == pytest.approx(
        gaussian_distance(1.0, 2.0, 1.0 + shift, sd), rel=1e-7
    )


def test_a_shift_of_one_coordinate_adds_squares():
    """The laws fixed by reflecting the others are totally geodesic, and a product."""
    one = gaussian_distance(0.0, 1.0, 1.0, 2.0)
    two = gaussian_distance(0.0, 3.0, 0.0, 1.0)
    found = normal_distance(
        [0.0, 0.0], np.diag([1.0, 9.0]), [1.0, 0.0], np.diag([4.0, 1.0])
    )
    assert found == pytest.approx(math.hypot(one, two), rel=1e-7)


def embedded(mean, covariance):
    """Return the matrix of Calvo and Oller (1990), an isometric embedding into SPD(d + 1)."""
    corner = np.ones((1, 1))
    block = covariance + np.outer(mean, mean)
    return np.block([[block, mean[:, None]], [mean[None], corner]])


def test_between_the_embedding_and_the_product_of_coordinates():
    """The embedding's distance is below, the path within product laws above; both differ."""
    one = gaussian_distance(0.0, 1.0, 1.0, 2.0)
    two = gaussian_distance(0.0, 3.0, -1.0, 1.0)
    laws = [
        (np.zeros(2), np.diag([1.0, 9.0])),
        (np.array([1.0, -1.0]), np.diag([4.0, 1.0])),
    ]
    found = normal_distance(*laws[0], *laws[1])
    matrices = [embedded(*law) for law in laws]
    values = np.linalg.eigvals(np.linalg.solve(*matrices)).real
    below = math.sqrt(np.sum(np.log(values) ** 2) / 2)
    assert below < found < math.hypot(one, two)


def test_equal_means_symmetry_invariance_and_triangles():
    rng = np.random.default_rng(0)
    s, t = covariance(rng, 3), covariance(rng, 3)
    m = rng.standard_normal(3)
    values = np.linalg.eigvals(np.linalg.solve(s, t)).real
    known = math.sqrt(np.sum(np.log(values) ** 2) / 2)
    assert normal_distance(m, s, m, t) == pytest.approx(known, rel=1e-7)
    n = m + rng.standard_normal(3)
    there = normal_distance(m, s, n, t)
    assert normal_distance(n, t, m, s) == pytest.approx(there, rel=1e-6)
    a = rng.standard_normal((3, 3))
    moved = normal_distance(a @ m, a @ s @ a.T, a @ n, a @ t @ a.T)
    assert moved == pytest.approx(there, rel=1e-5)
    assert there <= normal_distance(m, s, n, s) + normal_distance(n, s, n, t)
    with pytest.raises(ParameterError, match="positive definite"):
        normal_distance(m, s, n, -t)


def test_the_test_has_its_level_and_some_power():
    rng = np.random.default_rng(1)
    sets = rng.standard_normal((150, 200, 2))
    pvalues = [rao_test(X, np.zeros(2), np.eye(2)).pvalue for X in sets]
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-3
    assert rao_test(sets[0] + [0.5, 0.0], np.zeros(2), np.eye(2)).pvalue < 1e-4


def test_offset_zcdp_is_zcdp_shifted():
    for delta in (1e-3, 1e-9):
        plain = ZCDP(0.05).epsilon(delta)
        assert OffsetZCDP(0.0, 0.05).epsilon(delta) == pytest.approx(plain, rel=1e-3)
        assert OffsetZCDP(0.3, 0.05).epsilon(delta) == pytest.approx(
            0.3 + plain, rel=1e-3
        )
    # Randomized response at pure ε is (ε, 0)-zCDP: its true δ is never above.
    eps = 1.0
    p, q = math.exp(eps) / (1 + math.exp(eps)), 1 / (1 + math.exp(eps))
    for below in (0.2, 0.8, 0.99):
        truth = max(0.0, p - math.exp(below) * q)
        assert truth <= OffsetZCDP(eps, 0.0).delta(below)
    with pytest.raises(ParameterError):
        OffsetZCDP(-0.1, 0.0)


def test_chains_approach_the_exact_law_and_short_ones_do_not():
    M, sigma, rng = Sphere(2), 0.4, np.random.default_rng(2)
    law = RiemannianGaussian(M, sigma)
    pvalue = {}
    for steps in (3, 300):
        points = metropolis_gaussian(M, M.origin, sigma, 800, rng, steps)
        radii = np.asarray(M.dist(M.origin, points))
        pvalue[steps] = stats.kstest(radii, law.radial_cdf).pvalue
    assert pvalue[300] > 1e-3
    assert pvalue[3] < 1e-6


@pytest.mark.parametrize(
    ("mean1", "covariance1", "mean2", "covariance2", "message"),
    [
        ([0, 0], np.eye(2), [0, 0, 0], np.eye(3), "one dimension"),
        ([0, 0], np.eye(3), [0, 0], np.eye(2), "shapes"),
        ([0, np.nan], np.eye(2), [0, 0], np.eye(2), "mean1 must be finite"),
        ([0, 0], np.eye(2), [0, 0], [[1, 2], [2, 1]], "covariance2 must be symmetric"),
        ([0, 0], np.eye(2), [0, 0], [[1, 0.5], [0, 1]], "covariance2 must be symm"),
        ([0, 0], [[np.nan, 0], [0, 1]], [0, 0], np.eye(2), "covariance1 must be symm"),
        (["a", "b"], np.eye(2), [0, 0], np.eye(2), "mean1 must be an array of numbers"),
    ],
)
def test_parameters_that_are_no_normal_law(
    mean1, covariance1, mean2, covariance2, message
):
    with pytest.raises(ParameterError, match=message):
        normal_distance(mean1, covariance1, mean2, covariance2)


@pytest.mark.parametrize("shape", [(50,), (2, 2), (5, 2, 2)])
def test_a_test_of_too_few_records_is_refused(shape):
    with pytest.raises(ParameterError, match=r"\(n, d\) with n > d"):
        rao_test(np.zeros(shape), np.zeros(2), np.eye(2))


def test_the_offset_of_concentrated_privacy_has_checked_arguments():
    offset = OffsetZCDP(0.1, 0.02)
    for wrong in (lambda: OffsetZCDP(-1.0, 0.1), lambda: OffsetZCDP(0.1, np.inf)):
        with pytest.raises(ParameterError):
            wrong()
    for delta in (0.0, 1.0, "a"):
        with pytest.raises(ParameterError, match="delta"):
            offset.epsilon(delta)
    with pytest.raises(ParameterError, match="eps"):
        offset.delta(-1.0)
    with pytest.raises(ParameterError, match="order"):
        offset.renyi(1.0)
