"""Tangent moments: sensitivities by theorem and by attack, transcripts, what stands out of the noise, coverage."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, PrivateTangentPCA, PureDP
from curvedp.audit.empirical import audit_scores
from curvedp.core.certificate import seal
from curvedp.core.statistic import Ball
from curvedp.errors import ParameterError, VerificationFailed
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Sphere,
    Torus,
    frechet_mean,
)
from curvedp.inference.tangent_regions import components_above_noise
from curvedp.mechanisms.noisy_sum import SumMechanism
from curvedp.mechanisms.staged.step_to_mean import (
    StepToMeanMechanism,
    one_shot_mechanism,
    two_step_mechanism,
)
from curvedp.randomness import GeneratorSource
from curvedp.records.base import open_records
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.release.verify import verify_certificate
from curvedp.statistics.tangent_moments import (
    MOMENT_WEIGHT,
    TangentMoments,
    TangentMomentsNearMean,
    TangentMomentsSum,
    count_above_noise,
    estimate_moments,
    largest_noise_eigenvalue,
    moments_diameter,
    separate_from_noise,
    split_moments,
)
from support.transcript import cloud, drawn, leaked, pairs, spent

SPACES = [
    Euclidean(3),
    Sphere(2),
    Lorentz(3),
    PoincareBall(2),
    SPDAffineInvariant(2),
    SPDBuresWasserstein(2),
    Grassmann(4, 2),
    Rotations(3),
    KendallShapes(4),
    Torus(2),
    Simplex(3),
    Product(Sphere(2), SPDAffineInvariant(2)),
]


def seeded(seed):
    return GeneratorSource(np.random.default_rng(seed))


# ---- Theorem T1: how far a record moves the two moments ------------------------------


@pytest.mark.parametrize("weight", [0.8, 1.0, 2.0, 3.0])
def test_theorem_t1_is_a_bound_and_is_attained(weight):
    """The squared distance of (u, a·uuᵀ) is written out; the worst pair has ⟨u, v⟩ = −1/(2a²)."""

    def distance(u, v):
        outer = np.outer(u, u) - np.outer(v, v)
        return sqrt(np.sum((u - v) ** 2) + weight**2 * np.sum(outer**2))

    rng = np.random.default_rng(0)
    bound = moments_diameter(weight)
    for _ in range(3000):
        u, v = rng.standard_normal((2, 3))
        lengths = rng.choice([1.0, rng.random()], 2)
        u, v = (x / np.linalg.norm(x) * r for x, r in zip((u, v), lengths, strict=True))
        assert distance(u, v) <= bound * (1 + 1e-14)
    c = -1 / (2 * weight**2)
    worst = distance(np.array([1.0, 0.0]), np.array([c, sqrt(1 - c * c)]))
    assert worst == pytest.approx(bound, rel=1e-14)
    # A wrong version: as if the two moments were moved by different records.
    assert worst > max(2, weight * sqrt(2))
    assert worst < sqrt(4 + 2 * weight**2)


def moved(statistic, X, record):
    """Return how far the value moves if the last record is replaced."""
    Y = X.copy()
    Y[-1] = record
    shape = statistic.manifold.point_shape
    values = [statistic.compute(open_records(Z, shape)) for Z in (X, Y)]
    return float(np.linalg.norm(values[0] - values[1]))


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_no_climb_moves_the_moments_by_more_than_their_sensitivity(M):
    """Two records climb to move the value as much as they can; they come close to the bound."""
    rng = np.random.default_rng(1)
    radius = 0.3
    statistic = TangentMoments(M, None, radius, 3)
    bound = statistic.sensitivity
    best = 0.0
    for _ in range(3):
        z = rng.standard_normal((4, M.dim))
        z *= 1.5 * radius / np.linalg.norm(z, axis=1, keepdims=True)
        step = 1.0
        reached = 0.0
        for _ in range(60):
            tried = z + step * radius * rng.standard_normal(z.shape)
            points = np.asarray(M.from_normal_coordinates(M.origin, tried))
            length = moved(statistic, points[:3], points[3])
            assert length <= bound
            if length > reached:
                z, reached = tried, length
            else:
                step = max(0.02, 0.93 * step)
        best = max(best, reached)
    if M.dim > 1:
        assert best > 0.9 * bound


def test_records_that_are_none_count_as_the_center():
    M = SPDAffineInvariant(2)
    X = cloud(M, 0.2, 20, np.random.default_rng(2))
    bad, center = X.copy(), X.copy()
    center[:3] = M.origin
    bad[0], bad[1], bad[2] = np.nan, -np.eye(2), np.inf
    for kind in (TangentMoments,):
        statistic = kind(M, None, 1.0, 20)
        values = [statistic.compute(open_records(Z, (2, 2))) for Z in (bad, center)]
        np.testing.assert_array_equal(*values)


# ---- transcripts of neighbors --------------------------------------------------------


def two_step(M, mu=1.0, factor=1.0):
    def release(X):
        statistic = TangentMomentsNearMean(M, None, 0.5, len(X))
        mechanism = StepToMeanMechanism.calibrate(statistic, GDP(mu / factor))
        mechanism.draw(mechanism.prepare_data(X), None)

    return release


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_a_step_and_moments_spend_at_most_what_is_paid_for(M):
    """The log-likelihood ratio of two transcripts has the variance Σ (difference/noise)² ≤ μ² = 1."""
    trials = enumerate(pairs(M, np.random.default_rng(3), 8))
    worst = max(spent(two_step(M), X, Y, seed) for seed, (X, Y) in trials)
    assert worst <= 1.0
    edge = [-0.5, 0.5]
    z = np.zeros((2, 12, M.dim))
    z[0, -1, 0], z[1, -1, 0] = edge
    X, Y = np.asarray(M.from_normal_coordinates(M.origin, z))
    worst = max(worst, spent(two_step(M), X, Y))
    assert worst > 0.03  # the pairs do attack


def test_half_of_the_noise_is_caught_by_the_same_pairs():
    M = Euclidean(3)
    z = np.zeros((2, 12, 3))
    c = -1 / (2 * MOMENT_WEIGHT**2)
    z[0, -1, 0] = 0.5
    z[1, -1, :2] = 0.5 * c, 0.5 * sqrt(1 - c * c)
    assert spent(two_step(M), *z) <= 1.0
    assert spent(two_step(M, factor=0.5), *z) > 1.0


@pytest.mark.parametrize("M", [Euclidean(3), Sphere(2), SPDAffineInvariant(2)], ids=str)
def test_pure_epsilon_is_spent_once(M):
    release = drawn(
        StepToMeanMechanism,
        lambda *given: TangentMomentsNearMean(given[0], None, 0.5, given[-1]),
        M,
        PureDP(1.0),
    )
    trials = enumerate(pairs(M, np.random.default_rng(4), 5))
    worst = max(leaked(release, X, Y, seed)[0] for seed, (X, Y) in trials)
    assert 0.01 < worst <= 1.0


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_adding_a_record_moves_the_sum_by_its_vector_at_most(M):
    statistic = TangentMomentsSum(M, None, 0.4)
    rng = np.random.default_rng(5)
    X = cloud(M, 0.4, 9, rng)
    further = [cloud(M, 3.0, 1, rng), np.full((1, *M.point_shape), np.nan)]
    exact = statistic.compute_sum(open_records(X, M.point_shape, min_records=0))
    for record in further:
        more = open_records(np.concatenate([X, record]), M.point_shape)
        length = np.linalg.norm(statistic.compute_sum(more) - exact)
        assert 0 < length <= statistic.sensitivity
    far = cloud(M, 30.0, 1, rng)
    if not np.all(np.isfinite(far)):
        return
    assert statistic.sensitivity < 1.001 * statistic.vector_length


# ---- an audit, and cheats that it catches ---------------------------------------------


@pytest.mark.parametrize(("factor", "is_caught"), [(1.0, False), (0.5, True)])
def test_an_audit_of_the_likelihood_ratio(factor, is_caught):
    """The score is the log-likelihood ratio at the worst pair; 10⁵ draws on either side."""
    statistic = TangentMoments(Euclidean(2), None, 1.0, 4)
    mechanism = one_shot_mechanism(statistic, GDP(1.0))
    c = -1 / (2 * MOMENT_WEIGHT**2)
    X = np.zeros((4, 2))
    X[-1] = 1.0, 0.0
    Y = np.zeros((4, 2))
    Y[-1] = c, sqrt(1 - c * c)
    values = [statistic.compute(open_records(Z, (2,))) for Z in (X, Y)]
    direction = values[1] - values[0]
    rng = np.random.default_rng(6)
    scores = []
    for value in values:
        noise = factor * mechanism.scale * rng.standard_normal((100_000, len(value)))
        scores.append((value + noise) @ direction / np.linalg.norm(direction))
    result = audit_scores(
        mechanism.privacy_profile, [scores[0]], [scores[1]], delta=1e-3, confidence=0.99
    )
    assert result.holds != is_caught


# ---- what stands out of the noise (Theorem T4) ---------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 5, 20])
def test_the_largest_eigenvalue_of_noise_is_bounded(dim):
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((2000, dim, dim)) / sqrt(2)
    symmetric = (noise + noise.swapaxes(1, 2)) / sqrt(2)
    largest = np.linalg.eigvalsh(symmetric)[:, -1]
    bound = largest_noise_eigenvalue(dim, 1.0, 0.05)
    # σ = 1 on the diagonal, σ/√2 off it.
    assert np.std(symmetric[:, 0, 0]) == pytest.approx(1.0, rel=0.06)
    assert np.mean(largest > bound) <= 0.05 + 3 * sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("where", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_no_more_directions_are_counted_than_there_are(where, adjacency):
    """Records that vary along one direction only, near the center or far from it."""
    X = np.zeros((400, 4))
    X[:, 0] = where
    X[:, 1] = np.resize([-0.3, 0.3], 400)
    too_many = 0
    counts = []
    for seed in range(60):
        pca = PrivateTangentPCA(
            Euclidean(4),
            radius=1.0,
            guarantee=GDP(1.0, adjacency=adjacency),
            source=seeded(seed),
        ).fit(X)
        counts.append(pca.n_components_above_noise_)
        too_many += counts[-1] > 1
    assert too_many <= 7  # 5% of 60 is 3; 8 or more has a probability below 1%
    if where == 0.0:
        assert np.mean(np.array(counts) == 1) > 0.9


def test_without_the_noise_of_the_mean_far_records_seem_to_vary():
    """The count that forgets what the noise of the mean adds is wrong far from the center."""
    X = np.zeros((400, 5))
    X[:, 0] = 0.95
    wrong = right = 0
    for seed in range(60):
        pca = PrivateTangentPCA(Euclidean(5), radius=1.0, source=seeded(seed)).fit(X)
        drawn_values = np.linalg.eigvalsh(pca._drawn_covariance)[::-1]
        wrong += count_above_noise(drawn_values, pca.variance_noise_, 0.05) > 0
        right += pca.n_components_above_noise_ > 0
    assert wrong > 10
    assert right <= 6


def test_variances_are_nearly_unbiased():
    truth = np.diag([4.0, 2.0, 0.5, 0.5, 0.5, 0.5])
    rng = np.random.default_rng(8)
    noise = 0.2
    found = []
    for _ in range(400):
        raw = rng.standard_normal(truth.shape) * noise / sqrt(2)
        found.append(separate_from_noise(truth + (raw + raw.T) / sqrt(2), noise, 2))
    variances = np.mean([each.variances for each in found], axis=0)
    np.testing.assert_allclose(variances, np.diag(truth), atol=0.03)
    assert np.all(np.diff(variances) <= 1e-12)


# ---- releases: replay, verification, tampering ---------------------------------------


@pytest.mark.parametrize("mechanism", ["one-shot", "two-step", "private"])
@pytest.mark.parametrize(
    "M", [Sphere(2), SPDAffineInvariant(3), KendallShapes(4), Lorentz(2)], ids=str
)
def test_a_run_is_its_replay_and_a_changed_certificate_is_refused(M, mechanism):
    rng = np.random.default_rng(9)
    center = np.asarray(
        M.from_normal_coordinates(M.origin, 0.4 * np.eye(M.dim)[0] / sqrt(M.dim))
    )
    X = cloud(M, 0.2, 300, rng, center)
    options = {"radius": "private"}
    if mechanism != "private":
        options = {"radius": 0.7, "center": center, "mechanism": mechanism}
    pca = PrivateTangentPCA(M, **options).fit(X)
    certificate = pca.certificate_
    assert all(check.holds for check in verify_certificate(certificate))
    rebuilt = mechanism_of(certificate).reconstruct_value(certificate)
    final = final_mechanism_of(certificate)
    estimate = estimate_moments(
        M,
        Ball(final.statistic.center, final.statistic.radius),
        rebuilt,
        final.scale,
    )
    np.testing.assert_allclose(estimate.mean, pca.mean_, atol=1e-12)

    integers = certificate.release["integers"]
    flat = np.asarray(integers[-1], dtype=object).ravel()
    changed = [*integers[:-1], [int(k) for k in flat[:-1]]]
    release = {**certificate.release, "integers": changed}
    try:
        checks = verify_certificate(seal(replace(certificate, release=release)))
        assert any(check.holds is False for check in checks)
    except VerificationFailed:
        pass
    smaller = dict(certificate.parameters)
    name = next(key for key in ("sigma", "scale", "mu") if key in smaller)
    smaller[name] *= 0.5
    try:
        checks = verify_certificate(seal(replace(certificate, parameters=smaller)))
        assert any(check.holds is False for check in checks)
    except VerificationFailed:
        pass


def test_one_record_moves_nothing_that_is_public():
    """Scales, sensitivities and choices depend on n alone."""
    M = Sphere(2)
    X = cloud(M, 0.2, 60, np.random.default_rng(10))
    Y = X.copy()
    Y[0] = np.nan
    public = []
    for Z in (X, Y):
        certificate = (
            PrivateTangentPCA(M, radius=0.5, source=seeded(0)).fit(Z).certificate_
        )
        fields = certificate.to_dict()
        private = ("release", "sha256", "created")
        public.append({key: fields[key] for key in fields if key not in private})
        public[-1]["choice"] = fields["release"]["choice"]
    assert repr(public[0]) == repr(public[1])


# ---- regions hold their targets -------------------------------------------------------


@pytest.mark.parametrize("guarantee", [GDP(1.0), PureDP(3.0)], ids=str)
def test_regions_hold_their_targets_and_smaller_ones_do_not(guarantee):
    M = Sphere(2)
    rng = np.random.default_rng(11)
    X = np.asarray(
        M.from_normal_coordinates(
            M.origin, np.clip(rng.normal(0.1, [0.15, 0.05], (300, 2)), -0.34, 0.34)
        )
    )
    statistic = TangentMoments(M, None, 0.5, 300)
    unit = split_moments(statistic.compute(open_records(X, (3,))), 2)
    covariance = unit.moment - np.outer(unit.mean, unit.mean)
    covariance = statistic.clipping_radius**2 * covariance
    variances = np.linalg.eigvalsh(covariance)[::-1]
    mean = np.asarray(frechet_mean(M, X))
    held = {"mean": 0, "variances": 0, "small": 0}
    runs = 60
    for seed in range(runs):
        pca = PrivateTangentPCA(
            M, radius=0.5, mechanism="one-shot", guarantee=guarantee,
            n_components=2, source=seeded(seed),
        ).fit(X)  # fmt: skip
        held["mean"] += bool(pca.confidence_region(0.95).contains(mean[None])[0])
        intervals = pca.confidence_region(0.95, target="variances")
        held["variances"] += bool(
            np.all(intervals.lower <= variances)
            and np.all(variances <= intervals.upper)
        )
        middle = (intervals.lower + intervals.upper) / 2
        half = 0.1 * (intervals.upper - intervals.lower)
        held["small"] += bool(np.all(np.abs(variances - middle) <= half))
    assert held["mean"] >= 0.87 * runs
    assert held["variances"] >= 0.87 * runs
    assert held["small"] < 0.87 * runs


def test_a_step_that_leaves_too_wide_a_ball_says_what_has_a_region():
    """The advice is not a radius below the limit: the public radius is below it already."""
    M = Sphere(2)
    rng = np.random.default_rng(5)
    logs = rng.normal(0.6, [0.3, 0.1], (500, 2))
    X = np.asarray(M.from_normal_coordinates(M.origin, logs))
    wide = PrivateTangentPCA(M, radius=1.3, mechanism="two-step", source=seeded(0))
    with pytest.raises(ParameterError, match="enlarged the public ball"):
        wide.fit(X).confidence_region()
    assert wide.confidence_region(target="variances").upper[0] > 0
    searched = PrivateTangentPCA(M, radius="private", source=seeded(0)).fit(X)
    assert searched.confidence_region().radius < 0.5


def test_too_many_dimensions_are_refused_before_anything_is_paid():
    with pytest.raises(ParameterError, match="dimensions"):
        TangentMoments(Euclidean(2000), None, 1.0, 10)


def test_the_sum_mechanism_and_two_steps_take_what_the_others_refuse():
    statistic = TangentMomentsSum(Sphere(2), None, 0.5)
    assert SumMechanism.supports(statistic)
    public = TangentMoments(Sphere(2), None, 0.5, 100)
    assert two_step_mechanism(public, ApproxDP(1.0, 1e-6)).scale > 0


def test_components_above_noise_needs_a_certificate_of_moments():
    X = cloud(Sphere(2), 0.2, 200, np.random.default_rng(12))
    pca = PrivateTangentPCA(Sphere(2), radius=0.5, source=seeded(2)).fit(X)
    vector = mechanism_of(pca.certificate_).reconstruct_value(pca.certificate_)
    strict = components_above_noise(vector, pca.certificate_, 0.999999)
    assert strict <= components_above_noise(vector, pca.certificate_, 0.5)
