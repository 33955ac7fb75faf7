"""Pure ε in stages: no transcript tells more than ε, whichever the path; forgeries; accuracy; regions."""

import copy
import json
from functools import cache, partial
from math import sqrt

import numpy as np
import pytest

from curvedp import (
    GDP,
    ApproxDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateMDM,
    PrivatePCA,
    PureDP,
    plan,
)
from curvedp.errors import BudgetExceeded, CurvedpError, ReleaseWarning
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.inference.shapes import joint_noise_bounds
from curvedp.laws import RiemannianLaplace
from curvedp.mechanisms import Certificate
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.budget import StageBudget
from curvedp.mechanisms.staged.quantile_search import ShellHistogram, best_radius_share
from curvedp.mechanisms.vector import (
    simulate_noise,
    smallest_gaussian_scale,
    std_per_scale,
)
from curvedp.release.predict import predicted_error
from curvedp.release.verify import verify_certificate
from curvedp.signing import digest
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.searched_ball import SearchedMean
from support.randomness import seeded_source
from support.transcript import (
    SPACES,
    STATISTICS,
    cloud,
    leaked,
    median,
    opposite,
    pairs,
    released,
    served,
)

FEW = [Euclidean(3), Sphere(2), Lorentz(2), SPDAffineInvariant(2)]


def attacked(release, M, trials, seed=0):
    """The largest of all that is told, and of what the paths taken have told."""
    found = [opposite(M, 60, out) for out in (0.6, 0.9, 1.2)] + list(
        pairs(M, np.random.default_rng(seed), trials)
    )
    return np.max(
        [leaked(release, *pair, number) for number, pair in enumerate(found)], axis=0
    )


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("M", SPACES, ids=str)
def test_privacy_loss_of_transcripts_is_within_the_charge(M, kind):
    if not served(kind, M):
        pytest.skip("not released there")
    most, here = attacked(
        released(kind, M, guarantee=PureDP),
        M,
        {"mean": 12, "variance": 6, "line": 1}[kind],
    )
    assert here <= most + 1e-9
    assert 0.3 < most <= 1.0


@pytest.mark.parametrize(("M", "guarantee", "law"), [
    (Sphere(2), ApproxDP(1.0, 1e-6), "laplace"), (Euclidean(3), ApproxDP(0.4, 1e-8), "laplace"),
    (SPDAffineInvariant(3), ApproxDP(1.0, 1e-6), "gaussian"), (Sphere(2), ApproxDP(1.0, 0.01), "gaussian"),
    (Sphere(2), GDP(0.2), "gaussian"),
], ids=str)  # fmt: skip
def test_epsilon_and_delta_take_the_law_that_errs_less(M, guarantee, law):
    """Both walks meet it; the one that is taken errs less, in simulated releases of public records."""
    statistic = SearchedMean(M, None, None, 1000)
    taken = PrivateBallMechanism.calibrate(statistic, guarantee)
    assert taken.noise_kind == law
    eps = guarantee.eps if isinstance(guarantee, ApproxDP) else 1.0
    assert taken.privacy_profile.delta(eps) <= guarantee.delta(eps)
    if law == "laplace":
        other = PrivateBallMechanism(
            statistic=statistic, scale=smallest_gaussian_scale(guarantee)
        )
        assert predicted_error(taken) < 0.9 * predicted_error(other)
    released = PrivateFrechetMean(M, radius="private", guarantee=guarantee).fit(
        cloud(M, 0.3, 900, np.random.default_rng(0))
    )
    assert all(check.holds for check in verify_certificate(released.certificate_))


@pytest.mark.parametrize("M", FEW, ids=str)
def test_privacy_loss_of_medians_is_within_the_charge(M):
    assert 0.6 < attacked(median(M, PureDP(1.0)), M, 12)[0] <= 1.0


@pytest.mark.parametrize("M", FEW, ids=str)
def test_four_fifths_of_the_noise_are_seen(M):
    """The attack nearly exhausts the budget, so that less noise than is paid for exceeds it."""
    assert attacked(released("mean", M, 0.8, PureDP), M, 0)[0] > 1.0


def test_four_fifths_of_the_noise_of_a_median_are_seen():
    """On a line, where a record that leaves the others for the far end turns round in every step that begins between them."""
    X = np.zeros((60, 1))
    Y = np.concatenate([X[:-1], [[1e5]]])
    assert (
        max(
            leaked(median(Euclidean(1), PureDP(1.25)), X, Y, seed)[0]
            for seed in range(20)
        )
        > 1.0
    )
    assert (
        max(
            leaked(median(Euclidean(1), PureDP(1.0)), X, Y, seed)[0]
            for seed in range(20)
        )
        <= 1.0
    )


def test_a_histogram_that_is_charged_for_one_count_is_seen(monkeypatch):
    """A replaced record moves two counts: noise for a sensitivity of 1 is half of what is paid for."""
    release = StageBudget.release

    def cheap(self, kind, share, sensitivity, values, l1_sensitivity=None):
        charged = None if l1_sensitivity is None else 1.0
        return release(self, kind, share, sensitivity, values, charged)

    monkeypatch.setattr(StageBudget, "release", cheap)
    assert (
        attacked(released("mean", Euclidean(3), guarantee=PureDP), Euclidean(3), 0)[0]
        > 1.0
    )


def test_privacy_loss_of_components_and_steps_is_within_the_charge():
    rng = np.random.default_rng(0)
    worst = 0.0
    for trial in range(20):
        X = rng.normal(size=(30, 3)) * 10.0 ** rng.uniform(-2, 2)
        Y = X.copy()
        X[-1], Y[-1] = [1e9, 0, 0], [[0, 1e9, 0], [np.nan] * 3, [-1e9, 0, 0]][trial % 3]
        worst = max(
            worst,
            leaked(PrivatePCA(1, radius=2.0, guarantee=PureDP(1.0)).fit, X, Y, trial)[
                0
            ],
        )
    assert 0.99 < worst <= 1.0
    for M in FEW:
        model = PrivateFrechetMean(
            M, radius=0.5, mechanism="gradient", guarantee=PureDP(1.0)
        )
        assert 0.99 < leaked(model.fit, *opposite(M, 20, 0.6))[0] <= 1.0


@pytest.mark.parametrize("M", [Sphere(2), Lorentz(2), Lorentz(5)], ids=str)
def test_privacy_loss_of_newton_steps_is_within_the_charge(M):
    """Of a record that goes from one end to the other, and one that leaves the center; 0.8 of the noise is seen."""
    one = np.zeros((2, 30, M.dim))
    one[:, -1, 0] = 0.5, -0.5
    ends = [np.asarray(M.from_normal_coordinates(M.origin, each)) for each in one]
    found = []
    for eps in (1.0, 1.25):
        model = PrivateFrechetMean(
            M, radius=0.5, mechanism="newton", guarantee=PureDP(eps)
        )
        found.append(
            max(
                leaked(model.fit, *pair, k)[0]
                for k in range(8)
                for pair in (ends, opposite(M, 30, 0.5))
            )
        )
    assert 0.85 < found[0] <= 1.0 < found[1]


def test_newton_steps_by_pure_epsilon_use_the_curvature_of_the_records():
    """Records that are spread out in hyperbolic space: the noise arrives divided by the Hessian, which noise about the mean
    cannot use."""
    M, rng, errors = Lorentz(10), np.random.default_rng(8), {}
    z = rng.normal(size=(1000, M.dim))
    X = np.asarray(
        M.from_normal_coordinates(
            M.origin, z * (6 / np.linalg.norm(z, axis=1, keepdims=True))
        )
    )
    truth = np.asarray(frechet_mean(M, X))
    for name in ("newton", "tangent-laplace"):
        model = PrivateFrechetMean(M, radius=8.0, mechanism=name, guarantee=PureDP(1.0))
        errors[name] = np.mean(
            [
                M.dist(
                    truth, model.set_params(source=seeded_source(k)).fit(X).location_
                )
                for k in range(5)
            ]
        )
    assert errors["newton"] < 0.6 * errors["tangent-laplace"]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_noise_has_the_deviation_that_is_stated(size):
    drawn = simulate_noise(np.random.default_rng(0), "laplace", (200_000, size))
    assert np.std(drawn) == pytest.approx(std_per_scale("laplace", size), rel=0.02)


def accepted(record):
    try:
        checks = verify_certificate(Certificate.from_json(json.dumps(record)))
    except CurvedpError:
        return False
    return all(check.holds is not False for check in checks)


def resealed(record):
    """What a forger writes, who takes the SHA-256 anew."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    return {**body, "sha256": digest(body).hex()}


@cache
def certificates():
    rng = np.random.default_rng(0)
    X, vectors = cloud(Sphere(2), 0.3, 200, rng), rng.normal(size=(200, 3))
    pure = {"guarantee": PureDP(1.0)}
    ball = PrivateFrechetMean(SPDAffineInvariant(2), radius="private", **pure)
    return {
        "mean": ball.fit(cloud(SPDAffineInvariant(2), 0.3, 400, rng)).certificate_,
        "variance": PrivateDispersion(Sphere(2), radius="private", **pure)
        .fit(X)
        .certificate_,
        "median": PrivateFrechetMedian(Sphere(2), radius=1.5, **pure)
        .fit(X)
        .certificate_,
        "gradient": PrivateFrechetMean(
            Sphere(2), radius=0.7, mechanism="gradient", **pure
        )
        .fit(X)
        .certificate_,
        "class": PrivateMDM(Sphere(2), radius="private", **pure)
        .fit(X, np.arange(200) % 2)
        .certificates_[0],
        "components": PrivatePCA(1, radius=2.0, **pure).fit(vectors).certificate_,
        "newton": PrivateFrechetMean(Sphere(2), radius=0.7, mechanism="newton", **pure)
        .fit(X)
        .certificate_,
    }


@pytest.mark.parametrize(
    "name", ["mean", "variance", "median", "gradient", "class", "components", "newton"]
)
def test_they_verify_and_no_better_claim_does(name):
    certificate = certificates()[name]
    assert all(check.holds for check in verify_certificate(certificate))
    assert certificate.guarantee == PureDP(1.0)
    record = json.loads(certificate.to_json())
    assert accepted(record)
    for path, factor in {
        ("parameters", "scale"): 0.99,
        ("guarantee", "eps"): 0.99,
        ("claims", "pure"): 0.99,
    }.items():
        forged = copy.deepcopy(record)
        forged[path[0]][path[1]] *= factor
        assert not accepted(resealed(forged))
    for law in ("gaussian", "cauchy", None):
        forged = copy.deepcopy(record)
        forged["parameters"].pop("noise_kind", None)
        if law is not None:
            forged["parameters"]["noise_kind"] = law
        assert name == "components" or not accepted(resealed(forged))
    for place in range(len(record["release"]["stages"])):
        for field in ("share", "noise", "sensitivity", "scale", "gradient_scale"):
            forged = copy.deepcopy(record)
            if field in forged["release"]["stages"][place]:
                forged["release"]["stages"][place][field] *= 0.9
                assert not accepted(resealed(forged))


@pytest.mark.parametrize("M", FEW, ids=str)
def test_a_mean_without_a_radius_is_near_the_true_mean(M):
    rng = np.random.default_rng(3)
    X = cloud(
        M,
        0.2,
        1000,
        rng,
        np.asarray(
            M.from_normal_coordinates(
                M.origin, rng.normal(size=M.dim) * 0.5 / sqrt(M.dim)
            )
        ),
    )
    truth = np.asarray(frechet_mean(M, X))
    for model in (
        PrivateFrechetMean(M, radius="private"),
        PrivateFrechetMedian(M, radius=2.0),
    ):
        model.set_params(guarantee=PureDP(1.0))
        errors = [
            float(
                M.dist(
                    truth, model.set_params(source=seeded_source(k)).fit(X).location_
                )
            )
            for k in range(5)
        ]
        # A ball of twice the spread has noise of length 2·0.4·d/n: five times that is generous.
        assert np.median(errors) < 5 * 0.8 / 1000 * M.dim
    variance = float(np.mean(np.asarray(M.dist(truth, X)) ** 2))
    found = (
        PrivateDispersion(
            M, radius="private", guarantee=PureDP(1.0), source=seeded_source(1)
        )
        .fit(X)
        .variance_
    )
    assert found == pytest.approx(variance, rel=0.3)


def test_few_records_are_warned_about_before_anything_is_spent(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0))
    with pytest.warns(ReleaseWarning, match="small for"), pytest.raises(BudgetExceeded):
        PrivateFrechetMean(
            Sphere(2), radius="private", guarantee=PureDP(2.0), ledger=ledger
        ).fit(np.eye(3))
    PrivateFrechetMean(
        Sphere(2), radius="private", guarantee=PureDP(1.0), ledger=ledger
    ).fit(cloud(Sphere(2), 0.3, 300, np.random.default_rng(0)))
    assert ledger.spent == PureDP(1.0)


@pytest.mark.parametrize("M", FEW, ids=str)
def test_plan_predicts_the_error(M):
    rng, n = np.random.default_rng(4), 1000
    foreseen = plan(M, n, "private", PureDP(1.0))
    X = cloud(M, foreseen.spread / 2, n, rng)
    truth = frechet_mean(M, X)
    model = PrivateFrechetMean(M, radius="private", guarantee=PureDP(1.0))
    errors = [
        float(M.dist(truth, model.set_params(source=seeded_source(k)).fit(X).location_))
        for k in range(5)
    ]
    assert 0.2 < foreseen.error / np.median(errors) < 5
    assert plan(
        M, 20, "private", PureDP(0.5)
    ).advice()  # also where records are too few


def test_regions_of_medians_and_components_hold():
    """The true count of a sum of Laplace noises, and the leading direction of the records' own moment."""
    rng, k, level = np.random.default_rng(5), 12, 0.9
    sums = np.cumsum(rng.laplace(size=(20_000, k)), axis=1)
    assert (
        np.mean(
            np.all(
                sums
                <= joint_noise_bounds(RiemannianLaplace(Euclidean(1), 1.0), k, level),
                axis=1,
            )
        )
        >= level
    )
    X = rng.normal(size=(20_000, 3)) * [3.0, 1, 1]
    truth = np.linalg.eigh(X.T @ X)[1][:, -1:]
    held = [
        PrivatePCA(1, radius=15.0, guarantee=PureDP(2.0), source=seeded_source(seed))
        .fit(X)
        .confidence_region(0.8)
        for seed in range(40)
    ]
    assert np.mean([bool(region.contains(truth)) for region in held]) >= 0.8
    assert np.median([region.radius for region in held]) < 0.5
    M = Euclidean(2)
    Y = cloud(M, 0.3, 4000, rng)
    region = (
        PrivateFrechetMedian(
            M, radius=10.0, guarantee=PureDP(1.0), source=seeded_source(1)
        )
        .fit(Y)
        .confidence_region()
    )
    assert region.contains(np.median(Y, axis=0))
    assert region.radius < 5.0


def _beyond(lengths, radii):
    return np.sum(lengths > radii[:, None], axis=1).astype(float)


def test_shells_estimate_lengths_on_every_scale():
    rng = np.random.default_rng(6)
    for size in (1e-5, 1.0, 1e3):
        lengths = size * np.abs(rng.normal(size=400))
        stages = StageBudget(
            1.0,
            lambda values, b: (
                values + b[:, None] * simulate_noise(rng, "laplace", values.shape)
            ),
            "laplace",
        )
        beyond = partial(_beyond, lengths)
        typical, radius = ShellHistogram(63, 1.6).estimate(
            stages, beyond, 400, 1e6, 20.0, 0.2, np.zeros(1)
        )
        assert 0.5 * size < typical < 5 * size
        assert np.mean(lengths > radius) < 0.3
        assert radius < 8 * size


def test_the_radius_is_that_of_least_loss():
    """Exact counts of a law that is weighed: the radius at which the loss, integrated by simulation, is least."""
    rng, shells, worth, n = (
        np.random.default_rng(7),
        ShellHistogram(12, 1.4),
        20.0,
        10**6,
    )
    for power, order in ((2.0, 2.0), (4.0, 1.0), (4.0, 16.0)):
        drawn = rng.gamma(power / order, size=n) ** (1 / order)
        lengths = drawn / np.median(drawn)
        edges = 6.0 * shells.ratio ** -np.arange(shells.n_shells, dtype=float)
        counts = np.diff(_beyond(lengths, edges)[1:], prepend=0.0, append=n) / 1000
        radii = 6.0 * 1.4 ** -np.arange(0, 12, 1 / 6)
        loss = [
            worth * r + 0.7 * 1000 * np.mean(np.maximum(lengths - r, 0)) for r in radii
        ]
        found = 6.0 * best_radius_share(counts, 0.01, 1000, worth, shells)
        assert found == pytest.approx(
            radii[np.argmin(loss)], rel=0.13
        )  # a third of a shell


def test_a_far_count_is_taken_for_noise():
    """One record out of 500 that is far away, or a count that noise makes up, does not widen the ball."""
    shells, counts = ShellHistogram(63, 1.6), np.zeros(63)
    counts[30:34] = 60, 180, 180, 80
    near = best_radius_share(counts, 30.0, 500, 12.0, shells)
    counts[5] += 100
    assert best_radius_share(counts, 30.0, 500, 12.0, shells) < 2 * near


def test_noise_kind_is_recorded_only_where_it_is_not_gaussian():
    """The law is told only where it is not Gaussian, so that older certificates read the same."""
    mean = FrechetMean(Sphere(2), None, 0.5, 50)
    assert "noise_kind" not in GradientMechanism.calibrate(mean, GDP(1.0)).parameters
    assert (
        GradientMechanism.calibrate(mean, PureDP(1.0)).parameters["noise_kind"]
        == "laplace"
    )
