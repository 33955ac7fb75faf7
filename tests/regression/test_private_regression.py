"""Private geodesic regression: its sensitivities under attack, its law and pure ε by quadrature, and the errata E19-E24."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError

from curvedp import GDP, ZCDP, ApproxDP, Ledger, PrivateGeodesicRegression, PureDP
from curvedp.errors import (
    BudgetExceeded,
    ParameterError,
    ReleaseWarning,
    UnattainableGuarantee,
)
from curvedp.estimators import geodesic_regression
from curvedp.geometry import (
    Correlation,
    Euclidean,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    Sphere,
)
from curvedp.laws.knorm import LipschitzRejectionSampler
from curvedp.mechanisms import Certificate
from curvedp.mechanisms.geodesic_knorm import KNGRegressionMechanism
from curvedp.regression import fit_geodesic
from curvedp.regression.bounds import (
    PREDICTOR_UNIT,
)
from curvedp.regression.gradient import clipped_direction
from curvedp.statistics.geodesic import GeodesicLine
from support.randomness import seeded_source


def data(M, n, seed=0, sd=0.05, length=0.6):
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    v = M.from_coordinates(M.origin, np.full(M.dim, length / math.sqrt(M.dim)))
    q = M.exp(M.origin, (x - 0.5).reshape(-1, *[1] * len(M.point_shape)) * v)
    return x, M.exp(q, M.from_coordinates(q, sd * rng.standard_normal((n, M.dim))))


# ---- the K-norm law on the tangent bundle ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "M", [Sphere(1), Sphere(2), Lorentz(2), Euclidean(1), Euclidean(2)], ids=repr
)
def test_records_far_from_the_ball_are_no_endless_work(M):
    """A misplaced center was paid for, and then took minutes, or had no end: residuals that are clipped only turn."""
    line = GeodesicLine(M, None, 0.5, 0.6, 0.25, 200, [[0.0, 1.0]])
    mechanism, x = (
        KNGRegressionMechanism.calibrate(line, PureDP(1.0)),
        np.linspace(0, 1, 200),
    )
    for away in (0.0, 0.7, 1.5):
        p = M.exp(M.origin, M.from_coordinates(M.origin, away * np.eye(M.dim)[0]))
        noise = 0.05 * np.random.default_rng(1).standard_normal((200, M.dim))
        data = mechanism.prepare_data((x, M.exp(p, M.from_coordinates(p, noise))))
        bundle, scale, norm, constants, _ = mechanism.build_problem(*data[:2])
        sampler = LipschitzRejectionSampler(
            bundle, scale, norm, constants, np.random.default_rng(2)
        )
        sampler.draw(1)
        assert sampler.build_evaluations + sampler.trial_evaluations < 30_000, (
            away
        )  # before: 200,000 and more on surfaces


def line_density(x, y, plan, cells=300):
    """exp(−g/s) on the square grid of the domain of ℝ, written anew: (p, v, probabilities)."""
    d = plan.domain
    p = (np.arange(cells) + 0.5) / cells * 2 * d.radius - d.radius
    v = (np.arange(cells) + 0.5) / cells * 2 * d.speed - d.speed
    pp, vv = np.meshgrid(p, v, indexing="ij")
    clip = d.clip / np.maximum(1, math.sqrt(12) * np.abs(x - 0.5))
    residual = np.clip(y - pp[..., None] - vv[..., None] * (x - 0.5), -clip, clip)
    P, Q = residual.mean(axis=-1), math.sqrt(12) * (residual * (x - 0.5)).mean(axis=-1)
    log = -np.maximum(np.abs(P), np.abs(Q)) / plan.scale
    return p, v, log - np.log(np.sum(np.exp(log)))


def line_plan(n, eps, clip=0.4):
    M = Euclidean(1)
    line = GeodesicLine(M, None, 0.5, 1.0, clip, n, [[0.0, 1.0]])
    return KNGRegressionMechanism.calibrate(line, PureDP(eps))


def test_the_law_of_private_lines_by_quadrature():
    n, eps = 15, 4.0
    x, Y = data(Euclidean(1), n)
    plan = line_plan(n, eps)
    model = PrivateGeodesicRegression(
        Euclidean(1),
        radius=0.5,
        speed=1.0,
        clip=0.4,
        guarantee=PureDP(eps),
        method="kng",
        source=seeded_source(5),
        x_range=(0, 1),
    )
    fits = [
        model.fit(x, Y) and (model.predict([0.5])[0, 0], model.velocity_[0])
        for _ in range(250)
    ]
    middle, velocity = np.array(fits).T

    def pvalues(plan):
        p, v, log = line_density(x, Y[:, 0], plan)
        density = np.exp(log)
        return [
            stats.kstest(
                sample,
                lambda t, grid=grid, axis=axis: _cdf(t, grid, density.sum(axis=axis)),
            ).pvalue
            for sample, grid, axis in ((middle, p, 1), (velocity, v, 0))
        ]

    assert min(pvalues(plan)) > 1e-4
    assert (
        min(pvalues(SimpleNamespace(domain=plan.domain, scale=2 * plan.scale))) < 1e-6
    )


def _cdf(t, grid, mass):
    half = (grid[1] - grid[0]) / 2
    return np.interp(
        t, np.r_[grid - half, grid[-1] + half], np.r_[0.0, np.cumsum(mass)]
    )


def test_pure_epsilon_of_private_lines_by_quadrature():
    """Adjacent pairs that replace a record's predictor and response by the opposite ends."""
    n, eps = 4, 1.0
    plan = line_plan(n, eps)
    worst = wrong = 0.0
    for others in (np.full(3, 0.9), np.zeros(3), np.array([-0.9, 0.9, 0.0])):
        for x0, x1 in ((0.0, 1.0), (0.0, 0.0), (1.0, 1.0), (0.5, 0.5)):
            x = np.array([0.0, 0.5, 1.0])
            pairs = [
                (np.r_[x, x0], np.r_[others, 5.0]),
                (np.r_[x, x1], np.r_[others, -5.0]),
            ]
            logs = [line_density(*pair, plan, cells=120)[2] for pair in pairs]
            worst = max(worst, np.max(np.abs(logs[0] - logs[1])))
            logs = [
                line_density(
                    *pair,
                    SimpleNamespace(domain=plan.domain, scale=plan.scale / 2),
                    cells=120,
                )[2]
                for pair in pairs
            ]
            wrong = max(wrong, np.max(np.abs(logs[0] - logs[1])))
    assert worst <= eps
    assert wrong > eps  # σ = Δ/ε, as printed (E23)


# ---- the estimator -------------------------------------------------------------------------------------------------

KNG = [
    Sphere(1),
    Sphere(2),
    Lorentz(2),
    PoincareBall(2),
    Euclidean(2),
    KendallShapes(3),
    Rotations(2),
    SPDLogCholesky(1),
]
DESCENT = [
    Sphere(4),
    SPDAffineInvariant(2),
    Rotations(3),
    KendallShapes(4),
    Euclidean(4),
    Lorentz(2),
]


@pytest.mark.parametrize("M", KNG, ids=repr)
def test_pure_fits_come_near(M):
    x, Y = data(M, 200, length=0.4)
    size = 0.3 if isinstance(M, KendallShapes) else 0.5
    model = PrivateGeodesicRegression(
        M,
        radius=size,
        speed=0.8,
        clip=0.25,
        guarantee=PureDP(8.0),
        method="kng",
        source=seeded_source(6),
        x_range=(0, 1),
    ).fit(x, Y)
    assert model.method_ == "kng"
    assert np.mean(M.dist(model.predict(x), fit_geodesic(M, x, Y).predict(x))) < 0.08
    expected = M.exp(
        model.footpoint_, x.reshape(-1, *[1] * len(M.point_shape)) * model.velocity_
    )
    assert np.max(M.dist(model.predict(x), expected)) < 1e-7


@pytest.mark.parametrize("M", DESCENT, ids=repr)
def test_gaussian_fits_come_near(M):
    x, Y = data(M, 1000, length=0.5)
    model = PrivateGeodesicRegression(
        M,
        radius=0.4,
        speed=0.7,
        clip=0.3,
        guarantee=GDP(1.0),
        method="dp-rgd",
        source=seeded_source(7),
        x_range=(0, 1),
    ).fit(x, Y)
    assert np.mean(M.dist(model.predict(x), fit_geodesic(M, x, Y).predict(x))) < 0.05
    assert model.score(x, Y) > 0.3


def test_the_noise_of_a_descent_is_what_its_certificate_charges():
    """T steps and a last release worth as much: μ of the certificate is √(2T)·Δ/σ, at most what was asked."""
    x, Y = data(Euclidean(3), 100)
    for guarantee in (GDP(0.7), ApproxDP(1.0, 1e-6), ZCDP(0.3)):
        model = PrivateGeodesicRegression(
            Euclidean(3),
            radius=0.5,
            speed=1.0,
            clip=0.3,
            guarantee=guarantee,
            method="dp-rgd",
            source=seeded_source(8),
            x_range=(0, 1),
        ).fit(x, Y)
        c = model.certificate_
        mu = (
            math.sqrt(2 * c.parameters["steps"]) * 2 * 0.3 / 100 / c.parameters["scale"]
        )
        assert c.claims.gdp == pytest.approx(mu, rel=1e-6)
        assert c.claims.gdp >= mu
        assert c.provenance.numerics["slack"] < 2.0**-90
        if isinstance(guarantee, GDP):
            assert mu <= guarantee.mu
        elif isinstance(guarantee, ApproxDP):
            assert GDP(mu).delta(1.0) <= 1e-6
        else:
            assert mu * mu / 2 <= guarantee.rho
        assert Certificate.from_json(c.to_json()) == c


@pytest.mark.parametrize(
    "M", [Sphere(2), SPDAffineInvariant(2), Euclidean(3)], ids=repr
)
def test_several_predictors_one_record_moves_the_released_direction_by_at_most_its_sensitivity(
    M,
):
    """Whatever the records, the curvature and the number of predictors: 2τ/n, and bad records come that far."""
    rng = np.random.default_rng(13)
    n, clip, worst = 4, 0.2, 0.0
    for _ in range(40):
        V = M.from_coordinates(M.origin, 0.5 * rng.standard_normal((2, M.dim)))
        t = rng.uniform(-1.7, 1.7, (n, 2))
        Y = M.exp(
            M.origin,
            M.from_coordinates(M.origin, 0.7 * rng.standard_normal((n, M.dim))),
        )
        other_t, other_Y = t.copy(), Y.copy()
        other_t[0] = rng.choice([-1.7, 1.7], 2)
        other_Y[0] = M.exp(
            M.origin,
            M.from_coordinates(
                M.origin, 1.2 * rng.standard_normal(M.dim) / math.sqrt(M.dim)
            ),
        )
        sides = [
            clipped_direction(M, a, PREDICTOR_UNIT, b, clip, M.origin, V)
            for a, b in ((t, Y), (other_t, other_Y))
        ]
        worst = max(worst, float(np.linalg.norm(sides[0] - sides[1])))
    assert 0.7 * 2 * clip / n < worst <= 2 * clip / n * (1 + 1e-12)


@pytest.mark.parametrize(
    "M", [Sphere(2), SPDAffineInvariant(2), Euclidean(2)], ids=repr
)
def test_several_predictors_come_near(M):
    rng = np.random.default_rng(14)
    x = np.column_stack([rng.random(1500), rng.uniform(10, 20, 1500)])
    V = M.from_coordinates(
        M.origin,
        np.array([[0.4] + [0.0] * (M.dim - 1), [0.0, -0.3] + [0.0] * (M.dim - 2)]),
    )
    clean = M.exp(
        M.origin,
        np.tensordot(np.column_stack([x[:, 0] - 0.5, x[:, 1] / 10 - 1.5]), V, axes=1),
    )
    Y = M.exp(
        clean, M.from_coordinates(clean, 0.05 * rng.standard_normal((1500, M.dim)))
    )
    arguments = {
        "radius": 0.3,
        "speed": 0.6,
        "clip": 0.3,
        "guarantee": GDP(1.0),
        "x_range": [(0, 1), (10, 20)],
    }
    model = PrivateGeodesicRegression(M, source=seeded_source(15), **arguments).fit(
        x, Y
    )
    assert model.velocity_.shape == (2, *M.point_shape)
    assert np.mean(M.dist(model.predict(x), fit_geodesic(M, x, Y).predict(x))) < 0.03
    assert np.mean(M.dist(model.predict(x), clean)) < 0.03
    assert len(model.certificate_.statistic["x_range"]) == 2
    with pytest.raises(ParameterError):
        model.predict(x[:, :1])
    for bad in (
        {"guarantee": PureDP(1.0), "method": "kng"},
        {"method": "kng"},
        {"x_range": [(0, 1)] * 3},
        {"x_range": [(0, 1), (2, 2)]},
    ):
        with pytest.raises((ParameterError, UnattainableGuarantee)):
            PrivateGeodesicRegression(M, **{**arguments, **bad}).fit(x, Y)


def test_public_refusals_come_before_the_ledger_is_charged(tmp_path):
    """Domains that exact sampling cannot hold are refused by public numbers, whatever the data, and cost nothing."""
    ledger = Ledger(tmp_path / "budget", budget=PureDP(3.0))
    x, Y = data(Lorentz(2), 40)
    for bad in (
        {"clip": 1e-12},
        {"radius": 50.0},
        {"speed": 20.0},
        {"radius": 400.0},
        {"speed": 2000.0},
    ):
        arguments = {
            "radius": 0.5,
            "x_range": (0, 1),
            "speed": 1.0,
            "clip": 0.3,
            "guarantee": PureDP(2.0),
            "ledger": ledger,
            **bad,
        }
        arguments["method"] = "kng"
        with pytest.raises((ParameterError, UnattainableGuarantee)):
            PrivateGeodesicRegression(Lorentz(2), **arguments).fit(x, Y)
    assert ledger.spent is None
    with pytest.raises(ParameterError):
        PrivateGeodesicRegression(
            Lorentz(2), radius=0.5, speed=1.0, clip=0.3, x_range=(0, 1)
        ).fit(x, Y.astype(complex))


def test_auto_takes_what_the_guarantee_allows():
    x, Y = data(Sphere(2), 60)
    arguments = {
        "radius": 0.5,
        "speed": 1.0,
        "clip": 0.3,
        "x_range": (0, 1),
        "source": seeded_source(9),
    }
    assert (
        PrivateGeodesicRegression(Sphere(2), guarantee=PureDP(1.0), **arguments)
        .fit(x, Y)
        .method_
        == "kng"
    )
    assert (
        PrivateGeodesicRegression(Sphere(2), guarantee=GDP(1.0), **arguments)
        .fit(x, Y)
        .method_
        == "dp-rgd"
    )
    model = PrivateGeodesicRegression(Sphere(3), guarantee=PureDP(1.0), **arguments)
    assert (
        model.fit(*data(Sphere(3), 60)).method_ == "dp-rgd"
    )  # six dimensions are too many for a K-norm draw


@pytest.mark.parametrize("guarantee", [PureDP(5.0), GDP(1.0)], ids=repr)
def test_bad_data_never_raise(guarantee):
    M = Sphere(2)
    x, Y = data(M, 50)
    x[:3], Y[3], Y[4], Y[5] = [np.nan, np.inf, -7.0], np.nan, 1e300, -M.origin
    model = PrivateGeodesicRegression(
        M,
        radius=0.5,
        speed=1.0,
        clip=0.3,
        guarantee=guarantee,
        source=seeded_source(10),
        x_range=(0, 1),
    )
    model.fit(x, Y)
    assert np.all(np.isfinite(model.footpoint_))
    model.fit(np.full(50, np.nan), np.full((50, 3), np.nan))
    assert float(M.norm(model.footpoint_, model.velocity_)) <= 1.0 + 1e-9


def test_the_range_of_the_predictor_is_public_and_rescaled():
    M = Euclidean(1)
    x, Y = data(M, 300)
    arguments = {
        "radius": 0.5,
        "speed": 1.0,
        "clip": 0.3,
        "guarantee": PureDP(4.0),
        "method": "kng",
    }
    unit = PrivateGeodesicRegression(
        M, source=seeded_source(11), x_range=(0, 1), **arguments
    ).fit(x, Y)
    years = PrivateGeodesicRegression(
        M, source=seeded_source(11), x_range=(1900, 2000), **arguments
    ).fit(1900 + 100 * x, Y)
    np.testing.assert_allclose(
        years.predict([1900, 1950, 2000]), unit.predict([0, 0.5, 1]), atol=1e-6
    )


def test_the_ledger_is_charged_before_the_draw(tmp_path):
    x, Y = data(Sphere(2), 40)
    ledger = Ledger(tmp_path / "budget", budget=PureDP(3.0))
    model = PrivateGeodesicRegression(
        Sphere(2),
        radius=0.5,
        speed=1.0,
        clip=0.3,
        guarantee=PureDP(2.0),
        ledger=ledger,
        source=seeded_source(12),
        x_range=(0, 1),
    )
    model.fit(x, Y)
    assert ledger.spent == PureDP(2.0)
    with pytest.raises(BudgetExceeded):
        model.fit(x, Y)
    with pytest.raises(ParameterError):
        model.fit(x[:1], Y[:1])


def test_bad_parameters_are_refused():
    x, Y = data(Sphere(2), 30)
    good = {
        "radius": 0.5,
        "speed": 1.0,
        "clip": 0.3,
        "x_range": (0, 1),
        "guarantee": PureDP(1.0),
    }
    for name, values in {
        "radius": (None, 0.0, 3.0, math.nan),
        "speed": (None, 0.0, -1.0, 5.0),
        "clip": (None, 0.0, -1.0, math.inf),
        "guarantee": (1.0,),
        "method": ("mcmc",),
        "center": ([1.0, 1.0, 1.0],),
        "x_range": ((1.0, 1.0), 3.0, (0.0, math.inf)),
        "manifold": ("sphere", SPDBuresWasserstein(2)),
    }.items():
        for value in values:
            with pytest.raises(ParameterError):
                PrivateGeodesicRegression(
                    **{"manifold": Sphere(2), **good, name: value}
                ).fit(x, Y)
    model = PrivateGeodesicRegression(Sphere(2), **good)
    for bad in (
        (x, Y[:-1]),
        (x[:1], Y[:1]),
        (np.zeros((29, 2)), Y),
        (np.zeros((30, 30)), Y),
        (np.zeros((30, 0)), Y),
        (x, Y[:, :2]),
    ):
        with pytest.raises(ParameterError):
            model.fit(*bad)


def test_predicting_before_fitting_says_so():
    model = PrivateGeodesicRegression(
        Sphere(2), radius=0.5, speed=0.5, clip=0.2, x_range=(0, 1)
    )
    for call in (
        lambda: model.predict([0.5]),
        lambda: model.score([0.5], [[1.0, 0.0, 0.0]]),
    ):
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.parametrize(
    "M", [Lorentz(1), PoincareBall(1), Correlation(2), Lorentz(2)], ids=repr
)
@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")
def test_a_geodesic_of_noise_in_a_private_ball_is_one(M):
    """Of three records the stages are noise, and the ball may be as wide as doubles reach: a lower end beyond was NaN, or a
    warning, and so an error for whoever makes them errors, after paying."""
    Y = np.repeat(
        np.asarray(M.from_normal_coordinates(M.origin, 0.6 * np.eye(M.dim)[0]))[None],
        3,
        axis=0,
    )
    for seed in range(12):
        model = PrivateGeodesicRegression(
            M,
            radius="private",
            outer_radius=300.0 * (seed % 2) or None,
            source=seeded_source(seed),
            x_range=(0, 1),
        )
        model.fit([0.0, 0.5, 1.0], Y)
        assert np.all(np.isfinite(model.velocity_))
        assert M.residual(model.footpoint_) <= 1e-6


def test_a_geodesic_whose_ends_doubles_do_not_hold_is_told(monkeypatch):
    """After all that was paid for is kept."""
    M, where = (
        Lorentz(2),
        "curvedp.estimators.geodesic_regression._geodesic_from_lower_end",
    )
    far = M.exp(M.origin, np.array([0.0, 24.0, 0.0]))
    assert (
        geodesic_regression._geodesic_from_lower_end(
            M, far, M.transport(M.origin, far, np.array([0.0, 0.0, 2000.0]))
        )
        is None
    )
    assert (
        geodesic_regression._geodesic_from_lower_end(
            M, M.origin, np.array([0.0, 0.0, 1.0])
        )
        is not None
    )
    monkeypatch.setattr(where, lambda *_: None)
    model = PrivateGeodesicRegression(
        M, radius=1.0, speed=1.0, clip=1.0, x_range=(0.0, 1.0), guarantee=GDP(1.0)
    )
    with pytest.warns(ReleaseWarning, match="only its middle"):
        model.fit(np.linspace(0, 1, 200), np.tile(M.origin, (200, 1)))
    assert not np.any(model.velocity_)
    assert float(M.residual(model.footpoint_)) < 1e-9
    assert model.certificate_ is not None


@pytest.mark.parametrize("radius", [0.5, "private"])
def test_a_missing_range_is_refused_before_anything_is_paid(tmp_path, radius):
    """No range fits all predictors: ages in [0, 1] would all be moved to its end."""
    x, Y = data(Sphere(2), 50)
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0))
    limits = {} if radius == "private" else {"speed": 1.0, "clip": 0.3}
    model = PrivateGeodesicRegression(
        Sphere(2), radius=radius, guarantee=GDP(1.0), ledger=ledger, **limits
    )
    with pytest.raises(ParameterError, match="x_range is missing"):
        model.fit(20 + 70 * x, Y)
    assert ledger.spent is None
