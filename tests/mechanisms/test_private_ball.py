"""The private ball: no pair of neighbors moves the released numbers by more than is paid for; walks read back; accuracy."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, PrivateFrechetMean
from curvedp.errors import ParameterError, ReleaseWarning, VerificationFailed
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
    Torus,
    frechet_mean,
)
from curvedp.mechanisms.private_ball import Measured, OuterBallMean, PrivateBallMechanism, Unmeasured
from curvedp.mechanisms.verify import verify_certificate
from curvedp.records.base import open_records

SPACES = [
    Euclidean(3), Sphere(2), Lorentz(3), PoincareBall(2), SPDAffineInvariant(3), SPDLogEuclidean(2), SPDLogCholesky(2),
    SPDBuresWasserstein(2), Grassmann(4, 2), Rotations(3), KendallShapes(4), Stiefel(4, 2), Torus(2),
    Product(Sphere(2), SPDAffineInvariant(2)),
]  # fmt: skip


def cloud(M, spread, n, rng, center=None):
    c = M.origin if center is None else center
    return np.asarray(M.unchart(c, rng.normal(size=(n, M.dim)) * spread / sqrt(M.dim)))


def spent(mechanism, one, two, script):
    """Σ (difference/noise)² of all released numbers at two data sets, led along the same released values. The script is
    noise for the first; what it gives is released at both, so that every stage is asked at the same points."""
    seen, other = [], []

    def lead(values, scales):
        released = values + scales[:, None] * script.standard_normal(values.shape)
        seen.append((values.copy(), scales.copy(), released))
        return released

    mechanism._walk(Measured(mechanism.statistic, mechanism.accepted(one)), lead)
    path = iter(seen)

    def follow(values, scales):
        first, noise, released = next(path)
        assert np.allclose(noise, scales)
        other.append(float(np.sum((first - values) ** 2) / noise[0] ** 2))
        return released

    mechanism._walk(Measured(mechanism.statistic, mechanism.accepted(two)), follow)
    return sum(other)


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_no_neighbors_are_told_apart_by_more_than_is_paid_for(M):
    """The log-likelihood ratio of a transcript is that of Gaussians; its squared length is at most μ², whatever the pair."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for trial in range(60):
        n = int(rng.integers(2, 80))
        mechanism = PrivateBallMechanism.for_statistic(OuterBallMean(M, None, None, n), GDP(1.0))
        X = cloud(M, 10.0 ** rng.uniform(-4, 0.5), n, rng)
        if trial % 3 == 0:
            X[:] = X[0]  # all but one identical
        Y = X.copy()
        Y[-1] = [np.full_like(X[-1], np.nan), cloud(M, 3.0, 1, rng)[0], 1e3 * X[-1], -X[-1]][trial % 4]
        worst = max(worst, spent(mechanism, X, Y, np.random.default_rng(trial)))
    assert worst <= 1.0
    assert worst > 0.05  # the pairs do attack


def test_a_budget_that_is_stated_too_small_is_seen_by_the_same_attack():
    """Half of the noise is four times the budget: the attack of the test above finds more than is paid for."""
    M, rng, n = Euclidean(2), np.random.default_rng(1), 4
    mechanism = PrivateBallMechanism.for_statistic(OuterBallMean(M, None, 10.0, n), GDP(1.0))
    cheat = PrivateBallMechanism(statistic=mechanism.statistic, scale=mechanism.scale / 2)
    X = np.zeros((n, 2))
    found = []
    for trial in range(100):
        Y = X.copy()
        Y[-1] = rng.normal(size=2) * 100
        found.append(spent(cheat, X, Y, np.random.default_rng(trial)))
    assert max(found) > 1.0


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_a_release_verifies_and_reads_back(M):
    rng = np.random.default_rng(2)
    X = cloud(M, 0.3, 200, rng)
    model = PrivateFrechetMean(M, radius="private", guarantee=GDP(1.0)).fit(X)
    assert all(check.holds for check in verify_certificate(model.certificate_))
    np.testing.assert_allclose(model._mechanism.value_of(model.certificate_), model.location_)
    assert model.ball_.radius > 0
    changed = {**model.certificate_.release, "stages": model.certificate_.release["stages"][:-1]}
    try:
        checks = verify_certificate(replace(model.certificate_, release=changed).sealed())
        assert any(check.holds is False for check in checks)
    except VerificationFailed:
        pass


@pytest.mark.parametrize("M", [m for m in SPACES if not isinstance(m, SPDBuresWasserstein)], ids=str)
def test_it_is_near_the_mean_without_a_radius(M):
    rng = np.random.default_rng(3)
    center = np.asarray(M.unchart(M.origin, rng.normal(size=M.dim) * 0.5 / sqrt(M.dim)))
    X = cloud(M, 0.2, 500, rng, center)
    truth = np.asarray(frechet_mean(M, X))
    errors = [float(M.dist(truth, PrivateFrechetMean(M, radius="private").fit(X).location_)) for _ in range(3)]
    # A ball of twice the spread has noise 2·0.4/n in each coordinate: four times that is generous.
    assert np.mean(errors) < 4 * 0.8 / 500 * sqrt(M.dim)


@pytest.mark.parametrize("unit", [1e-30, 1e-10, 1.0, 1e30])
def test_the_unit_of_matrices_does_not_matter(unit):
    M, rng = SPDAffineInvariant(3), np.random.default_rng(4)
    X = unit * cloud(M, 0.4, 400, rng)
    truth = np.asarray(frechet_mean(M, X))
    errors = [float(M.dist(truth, PrivateFrechetMean(M, radius="private").fit(X).location_)) for _ in range(3)]
    assert np.mean(errors) < 0.04


def test_a_hyperbolic_center_far_away_is_found():
    M, rng = Lorentz(2), np.random.default_rng(5)
    errors = []
    for distance in (0.0, 2.0, 4.0):
        center = np.asarray(M.unchart(M.origin, np.array([distance, 0.0])))
        X = cloud(M, 0.5, 400, rng, center)
        truth = np.asarray(frechet_mean(M, X))
        runs = [float(M.dist(truth, PrivateFrechetMean(M, radius="private").fit(X).location_)) for _ in range(5)]
        errors.append(float(np.mean(runs)))
    assert max(errors[1:]) < 2 * errors[0] + 0.01


def test_few_records_are_warned_about_before_anything_is_spent():
    with pytest.warns(ReleaseWarning, match="few"):
        PrivateFrechetMean(Sphere(2), radius="private").fit(np.eye(3))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "wide"])
def test_bad_outer_radii_are_refused(bad):
    with pytest.raises(ParameterError):
        PrivateFrechetMean(Sphere(2), radius="private", outer_radius=bad).fit(np.ones((100, 3)))


def test_other_guarantees_and_dask():
    import dask.array

    M, rng = SPDAffineInvariant(2), np.random.default_rng(6)
    X = cloud(M, 0.3, 300, rng)
    for data in (X, dask.array.from_array(X, chunks=(77, 2, 2))):
        model = PrivateFrechetMean(M, radius="private", guarantee=ApproxDP(2.0, 1e-6)).fit(data)
        assert all(check.holds for check in verify_certificate(model.certificate_))


def test_sums_do_not_depend_on_order():
    M, rng = Lorentz(3), np.random.default_rng(7)
    statistic = OuterBallMean(M, None, None, 100)
    X = cloud(M, 0.5, 100, rng)
    one, two = (Measured(statistic, open_records(Y, M.point_shape)) for Y in (X, X[::-1].copy()))
    for name, arguments in {"clipped": (M.origin, 1.0), "beyond": (M.origin, np.array([1.0, 0.3]))}.items():
        a, b = (getattr(side, name)(*arguments) for side in (one, two))
        assert np.array_equal(a[0] if name == "clipped" else a, b[0] if name == "clipped" else b)
    assert Unmeasured(statistic).clipped(M.origin, 1.0)[1] == one.clipped(M.origin, 1.0)[1]
