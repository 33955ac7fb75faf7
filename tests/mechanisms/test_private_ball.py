"""The private ball: no pair of neighbors moves the released numbers by more than is paid for; walks read back; accuracy."""

import itertools
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from curvedp import (
    GDP,
    ApproxDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateGeodesicRegression,
)
from curvedp.core.certificate import seal
from curvedp.core.codes import ProtectedUnit
from curvedp.errors import ParameterError, ReleaseWarning, VerificationFailed
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Sphere,
    frechet_mean,
)
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.queries import Queries
from curvedp.records.base import open_records
from curvedp.release.rebuild import mechanism_of
from curvedp.release.verify import verify_certificate
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.searched_ball import SearchedMean, SearchedVariance
from support.transcript import SPACES, STATISTICS, cloud, pairs, released, served, spent


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("M", SPACES, ids=str)
def test_privacy_loss_between_neighbors_is_within_the_charge(M, kind):
    """The log-likelihood ratio of a transcript is that of Gaussians; its squared length is at most μ², whatever the pair."""
    if not served(kind, M):
        pytest.skip("not released there")
    # Three kinds of data sets and four of neighbors: twelve trials are every pair of kinds. A line takes hundreds of steps:
    # one pair a space, of two kinds in turn.
    count = {"mean": 12, "variance": 9, "line": 1 + SPACES.index(M) % 2}[kind]
    trials = list(enumerate(pairs(M, np.random.default_rng(0), count)))[
        -1 if kind == "line" else 0 :
    ]
    worst = max(spent(released(kind, M), X, Y, seed) for seed, (X, Y) in trials)
    assert 0.05 < worst <= 1.0  # the pairs do attack


@pytest.mark.parametrize("kind", ["mean", "variance"])
def test_a_budget_that_is_stated_too_small_is_seen_by_the_same_attack(kind):
    """Half of the noise is four times the budget: the attack of the test above finds more than is paid for."""
    trials = pairs(Euclidean(2), np.random.default_rng(1), 60)
    assert (
        max(
            spent(released(kind, Euclidean(2), 0.5), X, Y, seed)
            for seed, (X, Y) in enumerate(trials)
        )
        > 1.0
    )


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_a_release_verifies_and_reads_back(M):
    rng = np.random.default_rng(2)
    X = cloud(M, 0.3, 200, rng)
    model = PrivateFrechetMean(M, radius="private", guarantee=GDP(1.0)).fit(X)
    assert all(check.holds for check in verify_certificate(model.certificate_))
    np.testing.assert_allclose(
        mechanism_of(model.certificate_).reconstruct_value(model.certificate_),
        model.location_,
    )
    assert model.ball_.radius > 0
    changed = {
        **model.certificate_.release,
        "stages": model.certificate_.release["stages"][:-1],
    }
    try:
        checks = verify_certificate(seal(replace(model.certificate_, release=changed)))
        assert any(check.holds is False for check in checks)
    except VerificationFailed:
        pass


@pytest.mark.parametrize(
    "M", [m for m in SPACES if not isinstance(m, SPDBuresWasserstein)], ids=str
)
def test_a_mean_without_a_radius_is_near_the_true_mean(M):
    rng = np.random.default_rng(3)
    center = np.asarray(
        M.from_normal_coordinates(M.origin, rng.normal(size=M.dim) * 0.5 / sqrt(M.dim))
    )
    X = cloud(M, 0.2, 500, rng, center)
    truth = np.asarray(frechet_mean(M, X))
    errors = [
        float(M.dist(truth, PrivateFrechetMean(M, radius="private").fit(X).location_))
        for _ in range(3)
    ]
    # A ball of twice the spread has noise 2·0.4/n in each coordinate: four times that is generous.
    assert np.mean(errors) < 4 * 0.8 / 500 * sqrt(M.dim)


@pytest.mark.parametrize("unit", [1e-30, 1e-10, 1.0, 1e30])
def test_the_unit_of_matrices_does_not_matter(unit):
    M, rng = SPDAffineInvariant(3), np.random.default_rng(4)
    X = unit * cloud(M, 0.4, 400, rng)
    truth = np.asarray(frechet_mean(M, X))
    errors = [
        float(M.dist(truth, PrivateFrechetMean(M, radius="private").fit(X).location_))
        for _ in range(3)
    ]
    assert np.mean(errors) < 0.04


def test_the_error_is_the_same_in_every_unit():
    """Counts of bins, whose likeliest edge is either end of the bin that holds all records, had 1.25 times the error."""
    M, rng = SPDAffineInvariant(3), np.random.default_rng(4)
    X = cloud(M, 0.4, 60, rng)
    mechanism = PrivateBallMechanism.calibrate(
        SearchedMean(M, None, None, 60), GDP(1.0)
    )
    truth = np.asarray(frechet_mean(M, X))
    errors = [
        float(
            np.mean(
                M.dist(
                    unit * truth,
                    mechanism.simulate(np.random.default_rng(0), unit * X, 60),
                )
            )
        )
        for unit in (1.0, 1e30, 1e-30)
    ]
    assert max(errors[1:]) < 1.1 * errors[0]


def test_a_hyperbolic_center_far_away_is_found():
    M, rng = Lorentz(2), np.random.default_rng(5)
    errors = []
    for distance in (0.0, 2.0, 4.0):
        center = np.asarray(
            M.from_normal_coordinates(M.origin, np.array([distance, 0.0]))
        )
        X = cloud(M, 0.5, 400, rng, center)
        truth = np.asarray(frechet_mean(M, X))
        runs = [
            float(
                M.dist(truth, PrivateFrechetMean(M, radius="private").fit(X).location_)
            )
            for _ in range(5)
        ]
        errors.append(float(np.mean(runs)))
    assert max(errors[1:]) < 2 * errors[0] + 0.01


@pytest.mark.parametrize(
    "kind", [Sphere(2), SPDAffineInvariant(2), Euclidean(1)], ids=str
)
def test_many_factors_leave_something_for_the_last_stage(kind):
    M, rng = Product(*[kind] * 20), np.random.default_rng(11)
    for mu in (0.01, 1.0):
        mechanism = PrivateBallMechanism.calibrate(
            SearchedMean(M, None, None, 30), GDP(mu)
        )
        release = mechanism.release(cloud(M, 0.3, 30, rng))
        shares = [
            stage["share"]
            for stage in release.certificate.release["stages"]
            if "share" in stage
        ]
        assert sum(shares) == pytest.approx(1.0)
        assert shares[-1] > 0.04


def test_one_search_that_noise_has_misled_is_made_again():
    """The first count is too low by three deviations and more, so that the first radius is far too small."""
    M, rng = Euclidean(3), np.random.default_rng(12)
    X = cloud(M, 0.5, 100, rng, np.full(3, 0.3))
    mechanism = PrivateBallMechanism.calibrate(
        SearchedMean(M, None, 100.0, 100), GDP(1.0)
    )
    asked = []

    def noisy(values, scales):
        asked.append(values)
        return np.zeros_like(values) if len(asked) == 1 else values

    (_, radius), _ = mechanism.run(
        Queries(mechanism.statistic, open_records(X, M.point_shape)), noisy
    )
    assert 0.3 < radius < 3.0


def test_units_stay_at_the_public_center_where_records_are_too_few_to_tell():
    M, rng = SPDAffineInvariant(3), np.random.default_rng(13)
    X = cloud(M, 0.3, 20, rng)
    mechanism = PrivateBallMechanism.calibrate(
        SearchedMean(M, None, None, 20), GDP(1.0)
    )
    errors = M.dist(frechet_mean(M, X), mechanism.simulate(rng, X, 8))
    assert np.median(errors) < 1.0  # the winner among 173 noisy bins is tens away


def test_few_records_are_warned_about_before_anything_is_spent():
    with pytest.warns(ReleaseWarning, match="small for"):
        PrivateFrechetMean(Sphere(2), radius="private").fit(np.eye(3))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "wide"])
def test_bad_outer_radii_are_refused(bad):
    with pytest.raises(ParameterError):
        PrivateFrechetMean(Sphere(2), radius="private", outer_radius=bad).fit(
            np.ones((100, 3))
        )


def test_other_guarantees_and_dask():
    import dask.array

    M, rng = SPDAffineInvariant(2), np.random.default_rng(6)
    X = cloud(M, 0.3, 300, rng)
    for data in (X, dask.array.from_array(X, chunks=(77, 2, 2))):
        model = PrivateFrechetMean(
            M, radius="private", guarantee=ApproxDP(2.0, 1e-6)
        ).fit(data)
        assert all(check.holds for check in verify_certificate(model.certificate_))


def test_sums_do_not_depend_on_order():
    M, rng = Lorentz(3), np.random.default_rng(7)
    statistic = SearchedMean(M, None, None, 100)
    X = cloud(M, 0.5, 100, rng)
    one, two = (
        Queries(statistic, open_records(Y, M.point_shape)) for Y in (X, X[::-1].copy())
    )
    radii = np.array([1.0, 0.3])
    counts = [side.count_beyond(M.origin, radii) for side in (one, two)]
    assert np.array_equal(*counts)
    a, b = (side.mean_clipped_log(M.origin, 1.0) for side in (one, two))
    assert np.array_equal(a.values, b.values)
    without_records = Queries(statistic).mean_clipped_log(M.origin, 1.0)
    assert without_records.sensitivity == a.sensitivity == b.sensitivity


@pytest.mark.parametrize(
    "M",
    [
        Euclidean(3),
        Sphere(2),
        Lorentz(2),
        SPDAffineInvariant(2),
        Rotations(3),
        KendallShapes(4),
    ],
)
def test_variance_and_geodesic_need_no_radius(M):
    rng = np.random.default_rng(8)
    X, x = cloud(M, 0.2, 400, rng), rng.uniform(size=400)
    variance = float(np.mean(np.asarray(M.dist(frechet_mean(M, X), X)) ** 2))
    model = PrivateDispersion(M, radius="private").fit(X)
    # Records are cut at a radius of about three spreads, and noise is 4r²/n.
    assert (
        abs(model.variance_ - variance)
        < 0.15 * variance + 3 * 4 * model.ball_.radius**2 / 400
    )
    assert all(check.holds for check in verify_certificate(model.certificate_))
    Y = np.asarray(
        M.from_normal_coordinates(
            M.origin,
            0.4 * (x - 0.5)[:, None] * np.eye(M.dim)[0]
            + 0.05 * rng.normal(size=(400, M.dim)),
        )
    )
    line = PrivateGeodesicRegression(
        M, radius="private", guarantee=GDP(1.0), x_range=(0, 1)
    ).fit(x, Y)
    assert all(check.holds for check in verify_certificate(line.certificate_))
    assert line.score(x, Y) > 0.3
    with pytest.raises(ParameterError, match="leave them out"):
        PrivateGeodesicRegression(
            M, radius="private", speed=1.0, guarantee=GDP(1.0), x_range=(0, 1)
        ).fit(x, Y)


@pytest.mark.filterwarnings("ignore:20 records")
def test_persons_of_a_geodesic_are_the_unit():
    """All records of one person change: the transcript moves by at most what is paid for one person."""
    M, rng = Sphere(2), np.random.default_rng(9)
    x, ids = rng.uniform(size=60), np.repeat(np.arange(20), 3)
    X = cloud(M, 0.3, 60, rng)
    Y = X.copy()
    Y[-3:] = -X[-3:]
    for options in ({"radius": "private"}, {"radius": 0.5, "speed": 0.5, "clip": 0.3}):
        model = PrivateGeodesicRegression(
            M, x_range=(0, 1), guarantee=GDP(1.0), **options
        )
        worst = max(
            spent(lambda Z, model=model: model.fit(x, Z, groups=ids), X, Y, seed)
            for seed in range(5)
        )
        assert 0.05 < worst <= 1.0
        assert (
            spent(lambda Z, model=model: model.fit(x, Z), X, Y) > worst
        )  # as three records they cost more
        certificate = model.fit(x, X, groups=ids).certificate_
        assert certificate.statistic["n"] == 20
        assert certificate.privacy_unit is ProtectedUnit.PERSON
        assert all(check.holds for check in verify_certificate(certificate))


@pytest.mark.parametrize("M", [Sphere(2), Euclidean(3), Lorentz(2)], ids=str)
def test_a_variance_wants_more_records_than_a_mean(M):
    """At nμ = 60 so many records are cut off that a quarter of the variance may be missing: that is warned of."""

    def made(kind, n, guarantee):
        return PrivateBallMechanism.calibrate(kind(M, None, None, n), guarantee)

    assert [
        made(SearchedMean, 60, GDP(1.0)).has_enough_records,
        made(SearchedVariance, 60, GDP(1.0)).has_enough_records,
    ] == [True, False]
    assert made(SearchedVariance, 100, GDP(1.0)).has_enough_records
    X = M.from_normal_coordinates(
        M.origin, 0.3 * np.random.default_rng(0).standard_normal((100, M.dim))
    )
    truth = np.mean(M.dist(frechet_mean(M, X), X) ** 2)
    found = [
        PrivateDispersion(M, radius="private", guarantee=GDP(1.0)).fit(X).variance_
        for _ in range(20)
    ]
    assert 0.7 < np.mean(found) / truth < 1.1
    assert made(SearchedVariance, 200, ApproxDP(1.0, 1e-5)).noise_kind == "laplace"


@pytest.mark.filterwarnings("ignore::curvedp.ReleaseWarning")
@pytest.mark.parametrize("kind", [PrivateFrechetMean, PrivateDispersion])
def test_a_paid_release_succeeds_in_a_ball_of_any_size(kind, tmp_path):
    """Radii found at the ends of the doubles were refused after they were paid for, and public ones by a division by 0."""
    z = np.random.default_rng(0).normal(size=(60, 2))
    for k, (outer, mu) in enumerate(
        itertools.product((1e-100, 1e-90, 1e-60, 1e90, 1e100), (1e-8, 1e8))
    ):
        ledger = Ledger(tmp_path / f"{k}.ledger", GDP(mu))
        kind(
            Euclidean(2),
            radius="private",
            outer_radius=outer,
            guarantee=GDP(mu),
            ledger=ledger,
        ).fit(0.1 * outer * z)
        assert len(ledger.entries) == 1
    with pytest.raises(ParameterError, match="too many steps"):
        _ = FrechetMean(SPDAffineInvariant(2), None, 1e100, 60).solver_error
