"""Noisy Newton steps: what moves by how much, what it costs, what it gains; and shrinkage towards the center."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from curvedp import PrivateFrechetMean
from curvedp.core.certificate import seal
from curvedp.core.chart import shrink_points
from curvedp.core.wording import post_processing_sentence
from curvedp.errors import ParameterError, VerificationFailed
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.mechanisms import newton
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.privacy import GDP, ApproxDP, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.release.choose import choose_mechanism
from curvedp.release.predict import baseline_error, predicted_error
from curvedp.release.verify import verify_certificate
from curvedp.statistics.frechet_mean import FrechetMean


def in_ball(manifold, radius, size, rng):
    z = rng.standard_normal((size, manifold.dim))
    z *= (
        radius
        * rng.uniform(size=(size, 1)) ** 0.2
        / np.linalg.norm(z, axis=1, keepdims=True)
    )
    return np.asarray(
        manifold.exp(manifold.origin, manifold.from_coordinates(manifold.origin, z))
    )


@pytest.mark.parametrize(
    ("manifold", "radius"),
    [(Sphere(2), 1.2), (Sphere(5), 0.7), (PoincareBall(3), 4.0), (Lorentz(2), 2.0)],
)
def test_no_pair_of_records_moves_the_released_numbers_by_more_than_claimed(
    manifold, radius
):
    rng, size, n = np.random.default_rng(0), 20000, 10
    mechanism = NewtonMechanism(
        statistic=FrechetMean(manifold, None, radius, n), scale=1.0
    )
    x, y, w = (in_ball(manifold, radius, size, rng) for _ in range(3))
    x[:100], y[:100] = (
        manifold.exp(
            manifold.origin,
            manifold.from_coordinates(
                manifold.origin, s * radius * np.eye(manifold.dim)[0]
            ),
        )
        for s in (1, -1)
    )
    w[:50] = manifold.origin
    axis = rng.standard_normal((size, manifold.dim))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    at = np.asarray(manifold.dist(manifold.origin, w))
    zs = [
        np.asarray(manifold.to_coordinates(w, manifold.log(w, record)))
        for record in (x, y)
    ]
    gradient = (
        np.linalg.norm(zs[0] - zs[1], axis=1)
        / n
        / mechanism.gradient_sensitivity(np.minimum(at, radius))
    )
    assert 0.99 < gradient.max() <= 1
    pairs = []
    for z in zs:
        s = np.linalg.norm(z, axis=1)
        t = mechanism._hessian_excess(s)
        pairs.append(np.stack([t, t * (np.sum(z * axis, axis=1) / s) ** 2], axis=-1))
    hessian = (
        np.linalg.norm(pairs[0] - pairs[1], axis=1) / n / mechanism.hessian_sensitivity
    )
    assert 0.5 < hessian.max() <= 1


@pytest.mark.parametrize(
    "manifold", [Sphere(2), Sphere(4), PoincareBall(2), Lorentz(3)]
)
@pytest.mark.parametrize("guarantee", [GDP(0.7), ApproxDP(1.0, 1e-6), PureDP(1.0)])
def test_stages_add_up_to_the_guarantee_and_verify(manifold, guarantee):
    """In squares for Gaussian noise, as they are for Laplace noise."""
    rng = np.random.default_rng(1)
    X = in_ball(manifold, 0.6, 60, rng)
    mechanism = NewtonMechanism.calibrate(
        FrechetMean(manifold, None, 0.7, 60), guarantee
    )
    release = mechanism.release(X)
    stages = release.certificate.release["stages"]
    pure = guarantee == PureDP(1.0)
    assert mechanism.noise_kind == ("laplace" if pure else "gaussian")
    power, spent = 1 if pure else 2, 0.0
    for stage in stages:
        spent += (
            mechanism.gradient_sensitivity(stage["distance"]) / stage["gradient_scale"]
        ) ** power
        if stage["hessian_scale"] is not None:
            spent += (mechanism.hessian_sensitivity / stage["hessian_scale"]) ** power
    assert 0.999 < spent ** (1 / power) * mechanism.scale <= 1
    assert float(manifold.dist(manifold.origin, release.value)) <= 0.7 * (1 + 1e-9)
    assert all(check.holds for check in verify_certificate(release.certificate))


@pytest.mark.parametrize("field", ["gradient_scale", "hessian_scale", "distance"])
def test_a_certificate_with_less_noise_is_refuted(field):
    X = in_ball(Sphere(2), 0.6, 60, np.random.default_rng(1))
    certificate = (
        NewtonMechanism.calibrate(FrechetMean(Sphere(2), None, 0.7, 60), GDP(1.0))
        .release(X)
        .certificate
    )
    stages = [dict(stage) for stage in certificate.release["stages"]]
    stages[0][field] = 0.7 if field == "distance" else 0.9 * stages[0][field]
    forged = seal(
        replace(certificate, release={**certificate.release, "stages": stages})
    )
    try:
        assert any(check.holds is False for check in verify_certificate(forged))
    except VerificationFailed:
        assert field == "distance"  # which the released integers fix


def test_the_release_has_the_law_that_is_simulated():
    manifold, rng = PoincareBall(2), np.random.default_rng(2)
    X = in_ball(manifold, 3.0, 80, rng)
    mechanism, mean = (
        NewtonMechanism(statistic=FrechetMean(manifold, None, 3.0, 80), scale=2.0),
        frechet_mean(manifold, X),
    )
    source = GeneratorSource(np.random.default_rng(3))
    released = np.stack([mechanism.release(X, source=source).value for _ in range(150)])
    distance = [
        np.asarray(manifold.dist(mean, x))
        for x in (released, mechanism.simulate(rng, X, 3000))
    ]
    wrong = replace(mechanism, scale=4.0).simulate(rng, X, 3000)
    assert ks_2samp(*distance).pvalue > 1e-4
    assert ks_2samp(distance[0], np.asarray(manifold.dist(mean, wrong))).pvalue < 1e-6


@pytest.mark.parametrize("guarantee", [GDP(1.0), PureDP(2.0)])
@pytest.mark.parametrize("manifold", [Lorentz(3), Sphere(2)])
@pytest.mark.parametrize("n_runs_at_once", [None, 3])
def test_populations_are_simulated_at_once_as_if_one_after_another(
    manifold, guarantee, n_runs_at_once, monkeypatch
):
    """Also where a block of runs is as long as there are populations."""
    if n_runs_at_once is not None:
        limit = n_runs_at_once * 20 * manifold.dim
        monkeypatch.setattr(newton, "_MAX_COORDINATES", limit)
    rng, n = np.random.default_rng(5), 20
    mechanism = NewtonMechanism.calibrate(
        FrechetMean(manifold, None, 0.8, 300), guarantee
    )
    several = np.stack(
        [in_ball(manifold, radius, n, rng) for radius in (0.2, 0.5, 0.8)]
    )
    once = mechanism.simulate(np.random.default_rng(6), several, 7)
    rng = np.random.default_rng(6)
    assert once.shape == (3, 7, *manifold.point_shape)
    assert np.allclose(
        once, [mechanism.simulate(rng, each, 7) for each in several], rtol=0, atol=1e-13
    )


@pytest.mark.parametrize(
    ("manifold", "radii"), [(Lorentz(2), (0.1, 2.0, 6.0)), (Sphere(5), (0.2, 1.3))]
)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_is_predicted_to_be_small_where_it_is_called_small(manifold, radii, law):
    """Where alarms do not simulate the steps, since their last noise is short, the simulation would raise none."""
    called = 0
    for radius, n, steps in itertools.product(radii, (300, 2000, 10**5), (2, 3)):
        mechanism = NewtonMechanism(
            scale=1.0,
            noise_kind=law,
            statistic=FrechetMean(manifold, None, radius, n),
            steps=steps,
        )
        if mechanism.noise_length < 0.05 * radius:
            called += 1
            assert predicted_error(mechanism) < 0.7 * min(
                0.1 * radius, baseline_error(mechanism.statistic)
            )
    assert called > len(radii)


def test_noise_is_divided_by_the_records_own_curvature():
    manifold, radius, n, rng = PoincareBall(3), 6.0, 2000, np.random.default_rng(4)
    X, statistic = (
        in_ball(manifold, radius, n, rng),
        FrechetMean(manifold, None, radius, n),
    )
    chosen = choose_mechanism("auto", statistic, GDP(1.0))
    assert isinstance(chosen.mechanism, NewtonMechanism)
    mean = frechet_mean(manifold, X)
    newton = np.mean(
        np.asarray(manifold.dist(mean, chosen.mechanism.simulate(rng, X, 100)))
    )
    chart = choose_mechanism("tangent-gaussian", statistic, GDP(1.0)).mechanism
    plain = np.mean(np.asarray(manifold.dist(mean, chart.simulate(rng, mean, 2000))))
    assert newton < 0.4 * plain


def test_many_records_are_not_left_with_the_bias_of_few_steps():
    """On 10⁷ records the noise is below what four steps leave, and the choice knows it."""
    manifold, radius, n = Lorentz(2), 3.0, 10**7
    chosen = choose_mechanism("auto", FrechetMean(manifold, None, radius, n), GDP(1.0))
    assert getattr(chosen.mechanism, "steps", 99) > 4


@pytest.mark.parametrize("size", [0.0, 0.5, 2.0, 8.0])
def test_james_stein_is_never_worse(size):
    d, rng = 5, np.random.default_rng(5)
    m = np.zeros(d)
    m[0] = size
    z = m + rng.standard_normal((40000, d))
    error = np.sum((shrink_points(Euclidean(d), np.zeros(d), z, 1.0) - m) ** 2, axis=1)
    assert (
        error.mean() + 5 * error.std() / 200 < d
        if size < 5
        else error.mean() < 1.01 * d
    )
    if size == 0:
        assert error.mean() < 2


def test_shrinkage_is_named_in_the_certificate_and_only_where_it_is_proved():
    rng = np.random.default_rng(6)
    X = np.stack([a @ a.T + np.eye(2) for a in rng.normal(size=(30, 2, 2))])
    certificate = (
        PrivateFrechetMean(SPDAffineInvariant(2), radius=3.0).fit(X).certificate_
    )
    assert "shrink_to_center" in certificate.release["post_processing"]
    assert "James-Stein" in post_processing_sentence(certificate)
    assert shrink_points(Sphere(2), Sphere(2).origin, X[0, :1], 1.0) is not None
    x = in_ball(Sphere(2), 0.5, 4, rng)
    assert shrink_points(Sphere(2), Sphere(2).origin, x, 9.0) is x


@pytest.mark.parametrize(
    "arguments",
    [
        {"manifold": Euclidean(2)},
        {"manifold": SPDAffineInvariant(2)},
        {"manifold": Sphere(1)},
        {"radius": 2.0},
        {"radius": float("nan")},
        {"n": 1},
        {"scale": 0.0},
        {"steps": 0},
        {"center": [1.0, 2.0, 3.0]},
    ],
)
def test_bad_parameters(arguments):
    ball = {
        "manifold": Sphere(2),
        "center": None,
        "radius": 0.5,
        "n": 10,
        "scale": 1.0,
        "steps": 2,
        **arguments,
    }
    noise = {name: ball.pop(name) for name in ("scale", "steps")}
    with pytest.raises(ParameterError):
        NewtonMechanism(statistic=FrechetMean(**ball), **noise)


def test_bad_records_are_mapped_and_wrong_shapes_refused():
    mechanism = NewtonMechanism(
        statistic=FrechetMean(Sphere(2), None, 0.5, 4), scale=1.0
    )
    X = np.array([[1.0, 0, 0], [np.nan, 0, 1], [0, 0, 0], [-1.0, 0, 0]])
    assert mechanism.release(X).value.shape == (3,)
    with pytest.raises(ParameterError, match="shape"):
        mechanism.release(X[:3])
