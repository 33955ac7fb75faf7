"""k-means in stages: no pair of neighbors moves the released numbers by more than is paid for, and cheats are found out."""

from dataclasses import replace
from functools import partial
from math import sqrt

import array_api_strict
import dask.array
import jax
import numpy as np
import pytest

from curvedp import GDP, PrivateKMeans
from curvedp.audit.cases import cases
from curvedp.core.certificate import seal
from curvedp.errors import ParameterError, UnattainableGuarantee, VerificationFailed
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    Torus,
)
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged import cluster_sums, kmeans
from curvedp.mechanisms.staged.cluster_starts import NoisyHistogram, leading_subspace
from curvedp.mechanisms.staged.cluster_sums import (
    ClusterData,
    ProjectedChart,
    weights_of_persons,
)
from curvedp.mechanisms.staged.kmeans import ADDED, REPLACED, KMeansMechanism
from curvedp.privacy import ApproxDP, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.records.base import DeviceRecords, open_records
from curvedp.release.verify import verify_certificate
from curvedp.statistics.clusters import Chart, Clusters

S2 = Sphere(2)
SPACES = [
    S2,
    Sphere(11),
    SPDAffineInvariant(2),
    Lorentz(2),
    KendallShapes(4),
    Torus(2),
]
ADD = GDP(1.0, adjacency=ADD_REMOVE)
UNITS = 2.0**32  # of what a record contributes


def calibrated(manifold, n, clusters=3, starts=None, guarantee=None, reach=2.0):
    """The mechanism for n records, or for a private number of them where n is None."""
    if guarantee is None:
        guarantee = ADD if n is None else GDP(1.0)
    statistic = Clusters(manifold, None, reach, clusters, starts, n)
    return KMeansMechanism.calibrate(statistic, guarantee)


def clustered(manifold, n, seed=0, clusters=3, distance=1.0, spread=0.15):
    """Records in clusters of equal size, at a distance from the origin."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(clusters, manifold.dim))
    centers *= distance / np.linalg.norm(centers, axis=1, keepdims=True)
    noise = spread * rng.normal(size=(n, manifold.dim)) / sqrt(manifold.dim)
    coordinates = centers[np.arange(n) % clusters] + noise
    return np.asarray(manifold.from_normal_coordinates(manifold.origin, coordinates))


# ---- each stage by itself: adversarial search for the record, or the pair, that moves it most

CHART = Chart(S2, np.array([0.2, 0.1, 0.0]), 0.9)
SPACE = ProjectedChart(CHART, np.eye(3))
CENTERS = np.array([[0.5, 0.0, 0.0], [-0.5, 0.25, 0.0], [0.0, 0.0, 0.75]])
POINTS = S2.project(CENTERS + 0.01)
EDGES = np.linspace(0, 1.5, 41)[1:]


def stages(weight):
    """What one record contributes to each stage, by name."""
    sums = {
        "center": partial(cluster_sums.sum_vectors, CHART, weight),
        "candidates": partial(cluster_sums.count_nearest, SPACE, CENTERS),
        "spread": partial(cluster_sums.residual_histogram, SPACE, CENTERS, EDGES),
        "radius": partial(cluster_sums.distance_histogram, CHART, EDGES),
        "step": partial(cluster_sums.sum_residuals, SPACE, CENTERS, 0.25, weight),
        "sizes": partial(cluster_sums.sum_sizes, S2, POINTS, 0.9),
    }
    contributions = {
        name: (lambda record, terms=terms: terms(record[None]) / UNITS)
        for name, terms in sums.items()
    }
    contributions["moment"] = lambda record: np.outer(
        CHART.vectors(record[None])[0], CHART.vectors(record[None])[0]
    ).ravel()
    return contributions


def stated(sensitivities, weight):
    return {
        "center": sensitivities.vector_and_count(weight),
        "candidates": sensitivities.histogram,
        "spread": sensitivities.histogram,
        "radius": sensitivities.histogram,
        "moment": sensitivities.second_moment,
        "step": sensitivities.steps(weight),
        "sizes": sensitivities.sizes,
    }


def climb(moved, size, rng, starts=12, steps=60):
    """The most that `moved` reaches, from random records, uphill with shrinking steps."""
    best = 0.0
    for _ in range(starts):
        record = rng.normal(size=size)
        here = moved(record)
        for step in np.geomspace(1.0, 1e-3, steps):
            other = record + step * rng.normal(size=size)
            there = moved(other)
            if there >= here:
                record, here = other, there
        best = max(best, here)
    return best


@pytest.mark.parametrize("name", stages(0.35))
def test_an_added_record_moves_a_stage_by_its_sensitivity_and_no_more(name):
    contribution = stages(0.35)[name]
    most = climb(
        lambda record: np.linalg.norm(contribution(record)), 3, np.random.default_rng(0)
    )
    assert 0.98 * stated(ADDED, 0.35)[name] < most
    assert most <= stated(ADDED, 0.35)[name] * (1 + 1e-9)


@pytest.mark.parametrize("name", stages(1.0))
def test_a_replaced_record_moves_a_stage_by_its_sensitivity_and_no_more(name):
    """The count beside the vector is free; that of an added record is not enough anywhere."""
    contribution = stages(1.0)[name]

    def moved(pair):
        return np.linalg.norm(contribution(pair[:3]) - contribution(pair[3:]))

    bound = stated(REPLACED, 1.0 if name == "step" else 0.0)[name]
    most = climb(moved, 6, np.random.default_rng(1))
    assert 0.98 * bound < most <= bound * (1 + 1e-9)
    assert most > 1.3 * stated(ADDED, 0.35)[name]


def test_a_person_moves_a_stage_by_no_more_than_a_record():
    """Persons with up to 40 records of any kind, against no person and against another one."""
    rng, worst = np.random.default_rng(2), {}
    for _ in range(60):
        persons = []
        for _ in range(2):
            records = rng.normal(size=(int(rng.integers(1, 40)), 3))
            records[rng.random(len(records)) < 0.2] = rng.choice([0.0, np.nan, 1e200])
            weights = weights_of_persons(np.zeros(len(records), dtype=int))
            persons.append((records, weights))
        for weight, sensitivities in ((0.35, ADDED), (1.0, REPLACED)):
            sums = {
                "step": partial(
                    cluster_sums.sum_residuals, SPACE, CENTERS, 0.25, weight
                ),
                "sizes": partial(cluster_sums.sum_sizes, S2, POINTS, 0.9),
                "candidates": partial(cluster_sums.count_nearest, SPACE, CENTERS),
            }
            for name, terms in sums.items():
                one, two = (terms(*person) / UNITS for person in persons)
                moved = one if sensitivities is ADDED else one - two
                share = np.linalg.norm(moved) / stated(sensitivities, weight)[name]
                worst[name, weight] = max(worst.get((name, weight), 0.0), share)
    assert max(worst.values()) <= 1 + kmeans._ROUNDING_MARGIN
    assert min(worst.values()) > 0.5


def test_only_the_first_records_of_a_person_count():
    person = np.zeros(5000, dtype=int)
    weights = weights_of_persons(np.append(person, 1))
    assert weights[:4096].sum() == pytest.approx(1.0)
    assert not weights[4096:5000].any()
    assert weights[-1] == 1.0


@pytest.mark.parametrize("manifold", SPACES, ids=str)
def test_what_a_record_contributes_does_not_depend_on_its_neighbors(manifold):
    """The same bits alone, among others and in any order: otherwise one record would change what others contribute."""
    X = clustered(manifold, 101)
    chart = Chart(manifold, calibrated(manifold, 101).statistic.first_chart.base, 1.5)
    terms = partial(cluster_sums.sum_vectors, chart, 1.0)
    sizes = partial(cluster_sums.sum_sizes, manifold, X[:3], 1.0)
    for kernel in (terms, sizes):
        together = kernel(X)
        assert np.array_equal(together, sum(kernel(record[None]) for record in X))
        assert np.array_equal(together, kernel(X[::-1]))
        assert np.array_equal(together, kernel(X[:7]) + kernel(X[7:]))


# ---- whole transcripts


def spent(mechanism, one, two, rng):
    """Σ (difference/noise)² of all released numbers at two data sets, led along the same released values."""
    leading_answers, squares = [], []

    def lead(values, scales):
        released = values + scales[:, None] * rng.standard_normal(values.shape)
        leading_answers.append((values.copy(), scales.copy(), released))
        return released

    def follow(values, scales):
        first, noise, released = next(path)
        assert np.array_equal(noise, scales)  # public, so the same on both sides
        squares.append(float(np.sum((values - first) ** 2)) / noise[0] ** 2)
        return released

    mechanism.run(mechanism.queries(mechanism.prepare_data(one)), lead)
    path = iter(leading_answers)
    mechanism.run(mechanism.queries(mechanism.prepare_data(two)), follow)
    return sum(squares)


def strange_records(manifold, rng):
    """Far away, on the other side, and no records at all."""
    far = 5.0 * rng.normal(size=(1, manifold.dim))
    shape = manifold.point_shape
    return [
        np.asarray(manifold.from_normal_coordinates(manifold.origin, far))[0],
        -np.asarray(manifold.origin),
        np.full(shape, np.nan),
        np.zeros(shape),
        1e200 * rng.normal(size=shape),
        rng.normal(size=shape),
    ]


def data_sets(manifold, rng):
    """Clusters, and records that are all alike, with a strange last record."""
    for X in (clustered(manifold, 30, int(rng.integers(9))), None):
        if X is None:
            X = np.repeat(np.asarray(manifold.origin)[None], 30, axis=0)
        strange = strange_records(manifold, rng)
        first, second = rng.permutation(len(strange))[:2]
        one, two = X.copy(), X.copy()
        one[-1], two[-1] = strange[first], strange[second]
        yield one, two


@pytest.mark.parametrize("n", [30, None], ids=["replaced", "added"])
@pytest.mark.parametrize("manifold", SPACES, ids=str)
def test_privacy_loss_of_every_pair_of_neighbors_is_within_the_charge(manifold, n):
    mechanism = calibrated(manifold, n)
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(4):
        for one, two in data_sets(manifold, rng):
            worst = max(worst, spent(mechanism, one, two if n else one[:-1], rng))
    assert 0.1 < worst <= 1.0  # the pairs do attack


@pytest.mark.parametrize("n", [1500, None], ids=["replaced", "added"])
def test_further_searches_are_within_the_charge(n):
    """A public radius of a million needs more than two searches, and the steps pay for them."""
    plane = Euclidean(2)
    mechanism = calibrated(plane, n, reach=1e6)
    X = clustered(plane, 1500)
    for seed, far in enumerate([3.0, 1e5]):
        one, two = X.copy(), X.copy()
        one[-1], two[-1] = [far, 0.0], [-far, 0.0]
        rng = np.random.default_rng(seed)
        assert 0.01 < spent(mechanism, one, two if n else one[:-1], rng) <= 1.0
    source = GeneratorSource(np.random.default_rng(0))
    release = mechanism.release(X, source=source)
    kinds = [stage["kind"] for stage in release.certificate.release["stages"]]
    assert 2 < kinds.count("radius") == kinds.count("center") <= 5
    certificate = mechanism.release(X).certificate
    assert all(check.holds for check in verify_certificate(certificate))


def telling_pair(n):
    """Two data sets on S² that differ in a record at the end of an axis, or at those of two axes."""
    X = np.repeat(S2.origin[None], 29, axis=0)
    first, second = np.eye(3)[1], -np.eye(3)[1]
    one = np.concatenate([X, first[None]])
    return (one, np.concatenate([X, second[None]])) if n else (one, X)


def starts_of(n):
    return np.stack([S2.origin, S2.project([0.3, 1.0, 0.1])])


@pytest.mark.parametrize("n", [30, None], ids=["replaced", "added"])
def test_cheats_are_found_out(n, monkeypatch):
    """0.8 of the noise; and the sensitivity of an added record for a replaced one."""
    mechanism = calibrated(S2, n, 2, starts_of(n))
    one, two = telling_pair(n)

    def worst(cheat):
        return max(
            spent(cheat, one, two, np.random.default_rng(seed)) for seed in range(12)
        )

    honest = worst(mechanism)
    assert 0.64 < honest <= 1.0
    assert worst(replace(mechanism, scale=0.8 * mechanism.scale)) > 1.0
    if n:
        monkeypatch.setattr(KMeansMechanism, "stage_sensitivities", ADDED)
        assert worst(mechanism) > 1.5


def test_an_audit_proves_no_more_than_is_claimed_and_catches_a_cheat():
    """Real runs, scored by log likelihood ratios, than which no test is stronger (Neyman & Pearson)."""
    audits = {}
    for factor in (1.0, 0.3):
        case = next(
            case
            for case in cases(factor)
            if case.mechanism == "kmeans" and case.manifold == S2
        )
        audits[factor] = case.audit(300, 0.05, 0.99, np.random.default_rng(0))
    assert audits[1.0].holds
    assert audits[1.0].tightness > 0.1
    assert not audits[0.3].holds


# ---- run, replay, certificates


@pytest.mark.parametrize("n", [600, None], ids=["replaced", "added"])
@pytest.mark.parametrize("manifold", [S2, Sphere(30), SPDAffineInvariant(2)], ids=str)
def test_a_release_verifies_and_is_read_back(manifold, n):
    mechanism = calibrated(manifold, n)
    release = mechanism.release(clustered(manifold, 600))
    again = mechanism.reconstruct_value(release.certificate)
    for name, value in release.value._asdict().items():
        assert np.array_equal(value, getattr(again, name)), name
    assert all(check.holds for check in verify_certificate(release.certificate))
    stages = release.certificate.release["stages"]
    assert sum(stage["share"] for stage in stages) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("part", ["noise", "share", "sensitivity", "kind", "missing"])
def test_a_changed_certificate_is_rejected(part):
    certificate = calibrated(S2, 600).release(clustered(S2, 600)).certificate
    stages = [dict(stage) for stage in certificate.release["stages"]]
    integers = certificate.release["integers"]
    if part == "missing":
        integers = integers[:-1]
    elif part == "kind":
        stages[-1]["kind"] = "step"
    else:
        stages[-1][part] *= 0.9
    changed = {**certificate.release, "stages": stages, "integers": integers}
    try:
        checks = verify_certificate(seal(replace(certificate, release=changed)))
        assert any(check.holds is False for check in checks)
    except VerificationFailed:
        pass


def test_a_changed_statistic_is_rejected():
    certificate = calibrated(S2, 600).release(clustered(S2, 600)).certificate
    for field, value in (("clusters", 5), ("n", 60), ("reach", 0.1)):
        statistic = {**certificate.statistic, field: value}
        try:
            forged = replace(certificate, statistic=statistic)
            assert any(check.holds is False for check in verify_certificate(forged))
        except VerificationFailed:
            pass


# ---- records on a device


def as_jax(X):
    with jax.enable_x64(True):
        return jax.numpy.asarray(X)


def as_torch(X):
    return pytest.importorskip("torch").asarray(X)


LIBRARIES = [array_api_strict.asarray, as_jax, as_torch]


def rough_embeddings(n):
    """Vectors of four clusters in single precision, with rows that are no directions."""
    X = np.asarray(clustered(Sphere(30), n, clusters=4) * 3.7, dtype=np.float32)
    X[5], X[6], X[7], X[8] = np.nan, 0.0, np.inf, 1e-30
    return X


@pytest.mark.parametrize("groups", [None, np.arange(2500) % 900], ids=["", "groups"])
@pytest.mark.parametrize("guarantee", [GDP(1.0), ADD], ids=["replaced", "added"])
@pytest.mark.parametrize("convert", LIBRARIES)
def test_a_device_releases_the_same_integers(convert, guarantee, groups, monkeypatch):
    """Records of a sphere stay on the device, and every sum is that of the host."""
    X, releases = rough_embeddings(2500), []
    monkeypatch.setattr(DeviceRecords, "array", None)  # nothing may ask for a copy
    for records in (X, convert(X)):
        source = GeneratorSource(np.random.default_rng(11))
        model = PrivateKMeans(Sphere(30), 4, guarantee, source=source)
        model.fit(records, groups=groups)
        releases.append(model.certificate_.release)
    assert releases[0]["integers"] == releases[1]["integers"]
    assert releases[0]["stages"] == releases[1]["stages"]


@pytest.mark.parametrize("groups", [None, np.arange(2500) % 900], ids=["", "groups"])
def test_chunks_release_the_same_integers(groups):
    X, releases = rough_embeddings(2500), []
    for records in (X, dask.array.from_array(X, chunks=(700, 31))):
        source = GeneratorSource(np.random.default_rng(11))
        model = PrivateKMeans(Sphere(30), 4, source=source).fit(records, groups=groups)
        releases.append(model.certificate_.release["integers"])
    assert releases[0] == releases[1]


@pytest.mark.parametrize("convert", LIBRARIES)
def test_matrices_on_a_device_are_read_on_the_host(convert):
    X, releases = clustered(SPDAffineInvariant(2), 300), []
    for records in (X, convert(X)):
        source = GeneratorSource(np.random.default_rng(11))
        model = PrivateKMeans(SPDAffineInvariant(2), 3, source=source).fit(records)
        releases.append(model.certificate_.release["integers"])
    assert releases[0] == releases[1]


@pytest.mark.parametrize("convert", LIBRARIES)
def test_a_device_without_records_releases_noise(convert):
    none = convert(np.zeros((0, 31)))
    model = PrivateKMeans(Sphere(30), 3, ADD).fit(none)
    assert np.all(np.abs(model.counts_) < 5 * model.count_error_)


# ---- parameters, and what is found


@pytest.mark.parametrize(
    "change",
    [{"clusters": 1}, {"clusters": -1}, {"clusters": 2.0}, {"clusters": 1001}, {"n": 1}, {"reach": 0.0},
     {"starts": np.eye(3)[:1]}, {"starts": np.ones((3, 3))}, {"center": [1.0, 0.0]}],
)  # fmt: skip
def test_bad_parameters_are_refused(change):
    fields = {
        "manifold": S2,
        "center": None,
        "reach": 1.0,
        "clusters": 3,
        "starts": None,
        "n": 30,
    }
    with pytest.raises(ParameterError):
        Clusters(**{**fields, **change})


def test_guarantees_of_another_kind_are_refused():
    statistic = Clusters(S2, None, 1.0, 3, None, 30)
    with pytest.raises(UnattainableGuarantee, match="Gaussian"):
        KMeansMechanism.calibrate(statistic, PureDP(1.0))
    with pytest.raises(ParameterError, match="add"):
        KMeansMechanism.calibrate(statistic, ADD)
    with pytest.raises(ParameterError, match="replac"):
        KMeansMechanism.calibrate(replace(statistic, n=None), GDP(1.0))
    with pytest.raises(ParameterError, match="more than"):
        calibrated(S2, 30, 31).release(clustered(S2, 30))
    with pytest.raises(ParameterError, match="not 30"):
        calibrated(S2, 30).prepare_data(clustered(S2, 31))


def test_without_noise_it_is_kmeans():
    """An oracle in two lines: the mean direction of each true cluster."""
    X = clustered(Sphere(20), 3000, clusters=5)
    value = calibrated(Sphere(20), 3000, 5, guarantee=GDP(1e5)).release(X).value
    means = Sphere(20).project([X[label::5].mean(axis=0) for label in range(5)])
    angles = np.arccos(np.clip(means @ value.centers.T, -1, 1))
    assert np.all(angles.min(axis=1) < 0.1)
    np.testing.assert_allclose(value.counts, 600, atol=0.1)
    truth = np.mean(np.arccos(np.clip(np.sum(X[::5] * means[0], axis=1), -1, 1)) ** 2)
    assert value.dispersions[angles[0].argmin()] == pytest.approx(truth, rel=0.01)


def test_error_bars_hold_what_they_say():
    """Counts and dispersions of 40 releases about public centers, beside those of the records at the released centers."""
    X = clustered(S2, 900)
    inside = []
    for seed in range(40):
        mechanism = calibrated(S2, None)
        rng = np.random.default_rng(seed)
        value = mechanism.run(
            mechanism.queries(mechanism.prepare_data(X)),
            mechanism.simulated_noise(rng),
        ).value
        angles = np.arccos(np.clip(X @ value.centers.T, -1, 1))
        nearest = angles.argmin(axis=1)
        for label in range(3):
            members = angles[nearest == label, label]
            inside.append(abs(len(members) - value.counts[label]) < value.count_error)
            if len(members) > 100:
                error = abs(np.mean(members**2) - value.dispersions[label])
                inside.append(error < value.dispersion_errors[label])
    assert np.mean(inside) > 0.9


def test_the_known_spectrum_of_the_noise_says_how_many_directions_there_are():
    rng, size, std = np.random.default_rng(3), 200, 5.0
    upper = np.triu(rng.normal(size=(size, size)), 1) / sqrt(2)
    noise = std * (upper + upper.T + np.diag(rng.normal(size=size)))
    signal = np.zeros((size, size))
    edge = 2 * sqrt(size) * std / sqrt(2)
    signal[:3, :3] = np.diag([10, 5, 3]) * edge
    subspace = leading_subspace(signal + noise, std, 1000.0, 48, 1.1)
    assert len(subspace.directions) == 3
    estimated = 1000.0 * subspace.deviations**2
    np.testing.assert_allclose(estimated, [10 * edge, 5 * edge, 3 * edge], rtol=0.1)


def test_candidates_that_are_noise_alone_are_left_out():
    rng = np.random.default_rng(4)
    counts = np.zeros(1000)
    counts[:30] = 100.0
    candidates = rng.normal(size=(1000, 2))
    cloud = NoisyHistogram(counts + rng.normal(size=1000), 1.0).occupied_candidates(
        candidates, 20
    )
    assert 30 <= len(cloud.points) < 150
    assert cloud.weights[:30].min() > 90


@pytest.mark.parametrize("clusters", [2, 4])
def test_the_number_of_clusters_is_found(clusters):
    X = clustered(Sphere(20), 4000, seed=5, clusters=clusters)
    mechanism = calibrated(Sphere(20), None, 0)
    assert len(mechanism.release(X).value.centers) == clusters


def test_how_many_clusters_a_budget_carries():
    small, large = calibrated(S2, 100), calibrated(S2, 100_000)
    assert small.largest_number_of_clusters(100) < 10
    assert large.largest_number_of_clusters(100_000) > 300
    assert not calibrated(S2, 40).has_enough_records
    assert large.has_enough_records
    loose = calibrated(S2, 100, guarantee=ApproxDP(8.0, 1e-6))
    assert loose.largest_number_of_clusters(100) >= small.largest_number_of_clusters(
        100
    )


@pytest.mark.parametrize("reach", [300.0, 1e6])
def test_far_public_radii_cost_little(reach):
    """The search is done a few times: a wide reach finds clusters at a distance of 3."""
    plane = Euclidean(2)
    X = clustered(plane, 3000, distance=3.0, spread=0.5)
    value = calibrated(plane, 3000, reach=reach).release(X).value
    means = np.stack([X[label::3].mean(axis=0) for label in range(3)])
    distances = np.linalg.norm(means[:, None] - value.centers, axis=2)
    assert np.all(distances.min(axis=1) < 0.3)


def test_a_release_is_not_replayed_to_be_checked(monkeypatch):
    """The stages are run once, however many centers there are: with wide vectors a replay takes as long as a release."""
    runs = []
    run = KMeansMechanism.run

    def counted(self, *arguments):
        runs.append(arguments)
        return run(self, *arguments)

    monkeypatch.setattr(KMeansMechanism, "run", counted)
    PrivateKMeans(S2, 3, GDP(2.0)).fit(clustered(S2, 600))
    assert len(runs) == 1


def test_persons_count_once():
    """A person with all records counts as one, however many they are."""
    X = clustered(S2, 900)
    persons = np.repeat(np.arange(300), 3)  # one record in each cluster
    data = ClusterData(open_records(X, (3,)), weights_of_persons(persons))
    mechanism = calibrated(S2, 300, guarantee=GDP(1e4))
    value = mechanism.release(data).value
    np.testing.assert_allclose(value.counts, 100, atol=0.1)
