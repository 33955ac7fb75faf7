"""The three optimizers do their work: they descend, keep to the manifold, and say no more than was asked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curvedp.geometry import (
    Euclidean,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.optim import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    Problem,
    SubspaceProblem,
    dp_rgd,
    dp_rsgd,
    dp_rsvrg,
)
from curvedp.privacy import GDP, ApproxDP
from curvedp.privacy.optimizer_accounting import rgd_guarantee, rsvrg_guarantee


def cloud(manifold, n, spread, seed=0):
    rng = np.random.default_rng(seed)
    o = manifold.origin
    center = manifold.exp(
        o, manifold.from_coordinates(o, 0.3 * rng.normal(size=manifold.dim))
    )
    return manifold.exp(
        center,
        manifold.from_coordinates(center, spread * rng.normal(size=(n, manifold.dim))),
    )


TINY = 1e-9  # noise too small to see: the result must be the minimizer's


@pytest.mark.parametrize(
    "manifold", [Sphere(3), PoincareBall(2), SPDAffineInvariant(3)], ids=repr
)
def test_without_noise_dp_rgd_finds_the_mean(manifold):
    X = cloud(manifold, 60, 0.2)
    result = dp_rgd(FrechetMeanProblem(manifold), X, manifold.origin, steps=40, clip=100.0, learning_rate=1.0, noise=TINY,
                    rng=np.random.default_rng(0))  # fmt: skip
    assert manifold.dist(result.point, frechet_mean(manifold, X)) < 1e-6
    assert manifold.residual(result.point) < 1e-12


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_dp_rsgd_and_dp_rsvrg_find_the_mean(sampling):
    M = Sphere(3)
    X = cloud(M, 200, 0.2)
    mean = frechet_mean(M, X)
    problem = FrechetMeanProblem(M)
    walked = dp_rsgd(problem, X, M.origin, steps=400, batch_size=20, clip=10.0, learning_rate=lambda t: 1 / (2 + 0.3 * t),
                     noise=TINY, rng=np.random.default_rng(1), sampling=sampling)  # fmt: skip
    assert M.dist(walked.point, mean) < 0.02
    reduced = dp_rsvrg(problem, X, M.origin, epochs=6, inner_steps=30, batch_size=20, clip=(10.0, 10.0),
                       learning_rate=0.3, noise=(TINY, TINY), rng=np.random.default_rng(1), sampling=sampling)  # fmt: skip
    assert (
        M.dist(reduced.point, mean) < 1e-5
    )  # the variance falls with the distance to the anchor: it converges


def test_components():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(300, 6)) * np.array([3.0, 2.0, 1.0, 0.5, 0.5, 0.5])
    _, vectors = np.linalg.eigh(Z.T @ Z)
    options = {
        "steps": 200,
        "clip": 1e3,
        "learning_rate": 0.02,
        "noise": TINY,
        "rng": rng,
    }
    leading = dp_rgd(
        LeadingEigenvectorProblem(6), Z, np.ones(6) / np.sqrt(6), **options
    ).point
    assert abs(leading @ vectors[:, -1]) > 1 - 1e-6
    start = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    plane = dp_rgd(SubspaceProblem(6, 2), Z, start, **options).point
    assert np.linalg.norm(plane.T @ vectors[:, -2:]) ** 2 > 2 - 1e-4


def test_a_users_loss():
    """Logistic loss of hyperbolic distances, as in embeddings: no closed form, differentiated record by record."""
    ball = PoincareBall(2)
    X = cloud(ball, 80, 0.2)
    problem = Problem(ball, lambda w, z: jnp.log1p(jnp.exp(ball.dist(w, z) - 1.0)))
    result = dp_rgd(problem, X, np.array([0.6, -0.4]), steps=150, clip=1.0, learning_rate=1.0, noise=TINY,
                    record_history=True, rng=np.random.default_rng(3))  # fmt: skip
    assert result.history[-1] < result.history[0]
    assert (
        ball.dist(result.point, frechet_mean(ball, X)) < 0.1
    )  # its minimizer is a robust center of the cloud


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_follows_the_start(dtype):
    M = SPDAffineInvariant(2)
    X = cloud(M, 50, 0.2)
    problem = FrechetMeanProblem(M)
    results = [
        dp_rgd(problem, X, np.eye(2, dtype=dtype), steps=5, clip=1.0, learning_rate=0.5, guarantee=GDP(1.0),
               rng=np.random.default_rng(4)),
        dp_rsgd(problem, X, np.eye(2, dtype=dtype), steps=5, batch_size=10, clip=1.0, learning_rate=0.5, noise=0.1,
                rng=np.random.default_rng(4)),
        dp_rsvrg(problem, X, np.eye(2, dtype=dtype), epochs=2, inner_steps=3, batch_size=10, clip=(1.0, 1.0),
                 learning_rate=0.5, noise=(0.1, 0.1), rng=np.random.default_rng(4)),
    ]  # fmt: skip
    for result in results:
        assert result.point.dtype == dtype
        assert np.isfinite(result.point).all()


def test_history_only_when_asked():
    M = Euclidean(2)
    X = cloud(M, 30, 1.0)
    problem = FrechetMeanProblem(M)
    options = {"clip": 10.0, "learning_rate": 0.3, "noise": 0.2}
    plain = dp_rgd(
        problem, X, np.zeros(2), steps=6, rng=np.random.default_rng(5), **options
    )
    asked = dp_rgd(
        problem,
        X,
        np.zeros(2),
        steps=6,
        rng=np.random.default_rng(5),
        record_history=True,
        **options,
    )
    assert plain.history is None
    assert np.array_equal(plain.point, asked.point)
    assert asked.history.shape == (6,)
    assert asked.history[-1] == pytest.approx(
        np.mean(np.sum((X - asked.point) ** 2, axis=1)) / 2
    )
    seldom = dp_rgd(
        problem,
        X,
        np.zeros(2),
        steps=6,
        rng=np.random.default_rng(5),
        record_history=4,
        **options,
    )
    assert np.array_equal(seldom.history, asked.history[[3]])
    svrg = dp_rsvrg(problem, X, np.zeros(2), epochs=2, inner_steps=3, batch_size=5, clip=(10.0, 10.0), learning_rate=0.3,
                    noise=(0.2, 0.2), restarts=2, record_history=True, rng=np.random.default_rng(5))  # fmt: skip
    assert svrg.history.shape == (12,)


def test_learning_rates():
    """A linear loss in the plane: the point is minus the sum of rate times gradient."""
    problem = Problem(Euclidean(1), lambda w, z: jnp.sum(w * z))
    ones = np.ones((10, 1))
    for rate, total in ((0.1, 0.4), (lambda step: 0.1 * (step + 1), 1.0)):
        result = dp_rgd(
            problem,
            ones,
            np.zeros(1),
            steps=4,
            clip=2.0,
            learning_rate=rate,
            noise=TINY,
        )
        assert result.point[0] == pytest.approx(-total, abs=1e-6)


def test_result_reports_what_was_asked_or_derived():
    M = Euclidean(2)
    X, problem = cloud(M, 30, 1.0), FrechetMeanProblem(M)
    options = {"clip": 1.0, "learning_rate": 0.3, "steps": 5}
    asked = dp_rgd(problem, X, np.zeros(2), guarantee=ApproxDP(1.0, 1e-6), **options)
    assert asked.guarantee == ApproxDP(1.0, 1e-6)
    derived = dp_rgd(problem, X, np.zeros(2), noise=asked.noise, **options)
    assert derived.guarantee.delta(1.0) <= 1e-6
    assert derived.guarantee.delta(1.0) > 0.99e-6
    assert derived.guarantee.mu == pytest.approx(
        rgd_guarantee(30, 5, 1.0, asked.noise).mu, rel=1e-9
    )


def test_restarts_are_charged():
    M = Euclidean(2)
    X, problem = cloud(M, 30, 1.0), FrechetMeanProblem(M)
    options = {
        "batch_size": 5,
        "clip": (1.0, 0.5),
        "learning_rate": 0.3,
        "noise": (0.3, 0.3),
    }
    thrice = dp_rsvrg(
        problem,
        X,
        np.zeros(2),
        epochs=2,
        inner_steps=4,
        restarts=3,
        output="random",
        **options,
    )
    expected = rsvrg_guarantee(30, 6, 4, 5, (1.0, 0.5), (0.3, 0.3), "poisson")
    assert thrice.guarantee.delta(1.0) == pytest.approx(expected.delta(1.0), rel=1e-6)
    once = dp_rsvrg(problem, X, np.zeros(2), epochs=2, inner_steps=4, **options)
    assert once.guarantee.delta(1.0) < expected.delta(1.0)


def test_output_two_is_a_uniformly_drawn_iterate():
    """A linear loss, one epoch of 4 steps without noise: the iterates are 0, -r, -2r, -3r and the last point is -4r."""
    problem = Problem(Euclidean(1), lambda w, z: jnp.sum(w * z))
    options = {"epochs": 2, "inner_steps": 2, "batch_size": 5, "clip": (1.0, 1.0), "learning_rate": 1.0,
               "noise": (TINY, TINY)}  # fmt: skip
    rng = np.random.default_rng(6)
    ones = np.ones((5, 1))
    last = dp_rsvrg(problem, ones, np.zeros(1), rng=rng, **options).point[0]
    assert last == pytest.approx(-4.0, abs=1e-6)
    drawn = [
        dp_rsvrg(problem, ones, np.zeros(1), rng=rng, output="random", **options).point[
            0
        ]
        for _ in range(120)
    ]
    counts = np.bincount(np.rint(-np.array(drawn)).astype(int), minlength=4)
    assert len(counts) == 4  # never the last point
    assert counts.min() > 12  # 30 expected each; below 13 has a chance of 1e-4


def test_keys_and_chunks(monkeypatch):
    """Long runs are cut into chunks of steps; the cut leaves the stream of noise, and so the result, as it was."""
    from curvedp.optim import _loop

    M = Euclidean(2)
    X, problem = cloud(M, 30, 1.0), FrechetMeanProblem(M)

    def run():
        return dp_rgd(
            problem,
            X,
            np.zeros(2),
            steps=10,
            clip=1.0,
            learning_rate=0.1,
            noise=1.0,
            rng=jax.random.key(0),
        ).point

    whole = run()
    monkeypatch.setattr(_loop, "_CHUNK_BYTES", 4 * 8 * 2)  # four steps at a time
    np.testing.assert_allclose(run(), whole, rtol=1e-14)


def test_dp_rsvrg_fills_in_the_batch_size_and_one_noise_for_both():
    problem, X = (
        FrechetMeanProblem(Euclidean(2)),
        np.random.default_rng(0).normal(size=(30, 2)),
    )
    options = {"epochs": 1, "inner_steps": 3, "clip": (1.0, 0.5), "learning_rate": 0.3}
    short = dp_rsvrg(
        problem, X, np.zeros(2), **options, noise=0.2, rng=np.random.default_rng(1)
    )
    long = dp_rsvrg(
        problem,
        X,
        np.zeros(2),
        **options,
        noise=(0.2, 0.2),
        batch_size=6,
        rng=np.random.default_rng(1),
    )
    np.testing.assert_array_equal(short.point, long.point)  # ⌈√30⌉ = 6
    assert short.guarantee.delta(1.0) == long.guarantee.delta(1.0)
