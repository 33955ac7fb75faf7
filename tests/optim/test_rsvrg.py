"""DP-RSVRG: what is wrong in print (E11, E12, Figure 2), and the steps that make ours converge."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curvedp.geometry import Euclidean, Sphere, frechet_mean
from curvedp.optim import FrechetMeanProblem, dp_rsvrg
from curvedp.papers.opt.accounting import (
    moments_epsilon,
    moments_rho,
    moments_sigma,
)
from curvedp.papers.opt.rsvrg import paper_rsvrg
from curvedp.privacy import GDP, ApproxDP
from curvedp.privacy.optimizer_accounting import (
    error_weights,
    rgd_guarantee,
    rsvrg_guarantee,
    rsvrg_noise,
)

FIGURE_2 = {"n": 100_000, "epochs": 50, "inner_steps": 10_000}


def test_e11_the_printed_step_does_not_descend():
    M = Sphere(2)
    X = M.project(np.random.default_rng(0).normal([4.0, 1.0, 0.0], 1.0, size=(100, 3)))
    problem, mean = FrechetMeanProblem(M), frechet_mean(M, X)
    start = M.exp(mean, M.from_coordinates(mean, np.array([0.3, 0.0])))
    distance = {}
    for sign in (1, -1):
        point = paper_rsvrg(problem, X, start, epochs=3, inner_steps=40, clip=(2.0, 2.0), learning_rate=0.1, sigma=1e-9,
                            rng=np.random.default_rng(1), sign=sign)  # fmt: skip
        distance[sign] = float(M.dist(point, mean))
    assert distance[1] < 0.02
    assert distance[-1] > 0.3  # farther away than it began
    ours = dp_rsvrg(problem, X, start, epochs=3, inner_steps=40, batch_size=1, clip=(2.0, 2.0), learning_rate=0.1,
                    noise=(1e-9, 1e-9), rng=np.random.default_rng(1))  # fmt: skip
    assert M.dist(ours.point, mean) < 0.02


def test_e12_one_release_an_epoch_costs_root_m_less():
    once, again = (
        rgd_guarantee(1000, 5, 0.1, 0.01),
        rgd_guarantee(1000, 5 * 400, 0.1, 0.01),
    )
    assert again.mu / once.mu == pytest.approx(math.sqrt(400))
    # At the same noise on every step ours is a small part of the paper's number.
    clip, sigma = (0.1, 0.01), 0.05
    paper = moments_epsilon(**FIGURE_2, clip=clip, sigma=sigma, delta=1e-6)
    share = math.sqrt(2) * 0.1 / (math.sqrt(2) * 0.1 + math.sqrt(28) * 0.01)
    noise = (math.sqrt(share) * sigma, math.sqrt(1 - share) * sigma)
    ours = rsvrg_guarantee(100_000, 50, 10_000, 1, clip, noise, "poisson").epsilon(1e-6)
    assert ours < paper / 5


def test_figure_2_as_printed():
    """Equation (3) with the norms exchanged gives 0.4696 and, at an even split, 0.6606; printed are 0.47 and 0.64 (E25)."""
    clip, sigma = (0.01, 0.1), 0.05
    assert moments_epsilon(
        **FIGURE_2, clip=clip, sigma=sigma, delta=1e-6
    ) == pytest.approx(0.4696, abs=1e-4)
    assert moments_epsilon(
        **FIGURE_2, clip=clip, sigma=sigma, delta=1e-6, split=0.5
    ) == pytest.approx(0.6606, abs=1e-4)
    # α has the closed form that is used
    grid = [
        moments_rho(**FIGURE_2, clip=clip, sigma=sigma, split=a)
        for a in np.linspace(0.001, 0.999, 999)
    ]
    assert (
        moments_rho(**FIGURE_2, clip=clip, sigma=sigma, split=None)
        <= min(grid)
        <= 1.001 * moments_rho(**FIGURE_2, clip=clip, sigma=sigma, split=None)
    )
    assert moments_epsilon(
        **FIGURE_2,
        clip=clip,
        sigma=moments_sigma(**FIGURE_2, clip=clip, eps=0.3, delta=1e-6),
        delta=1e-6,
    ) == pytest.approx(0.3, rel=1e-6)


def test_the_anchor_gradient_is_shortened_to_what_differences_can_balance():
    """C1 far below the anchor's gradient: unshortened, every step moves on by the excess and the iterate runs away."""
    M = Euclidean(2)
    X = np.random.default_rng(3).normal([5.0, 0.0], 0.1, size=(100, 2))
    options = {"epochs": 1, "inner_steps": 200, "batch_size": 100, "clip": (10.0, 0.5), "learning_rate": 0.1,
               "noise": (1e-9, 1e-9)}  # fmt: skip
    point = dp_rsvrg(FrechetMeanProblem(M), X, np.zeros(2), **options).point
    # Differences are w - anchor for every record: the epoch ends where they balance, 0.5 from the anchor towards the mean.
    np.testing.assert_allclose(
        point, 0.5 * X.mean(axis=0) / np.linalg.norm(X.mean(axis=0)), atol=1e-3
    )
    w, g = np.zeros(2), -X.mean(axis=0)
    for _ in range(200):  # the same epoch without the shortening
        difference = w * min(1, 0.5 / max(np.linalg.norm(w), 1e-300))
        w = w - 0.1 * (difference + g)
    assert np.linalg.norm(w) > 50  # it passed the mean at distance 5 and did not stop


def test_error_weights_are_those_of_the_recursion():
    """e <- e - rate·(e + x + y_t), t = 1..m, from 0: the variance of e as the squared norm of its coefficients."""
    for steps, rate in ((1, 0.3), (7, 0.05), (40, 0.5), (200, 1.0)):
        from_anchor, from_steps = 0.0, np.zeros(steps)
        for t in range(steps):
            from_anchor -= rate * (from_anchor + 1)
            from_steps = (1 - rate) * from_steps - rate * (np.arange(steps) == t)
        a, b = error_weights(steps, rate)
        assert a == pytest.approx(from_anchor**2, rel=1e-9)
        assert b == pytest.approx(np.sum(from_steps**2), rel=1e-9)


@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_split_is_near_the_best(rate):
    """No other split at the same guarantee leaves much less error aσ₁² + bσ₂²."""
    n, epochs, inner, size, clip, target = (
        2000,
        4,
        50,
        50,
        (1.0, 0.3),
        ApproxDP(1.0, 1e-6),
    )
    first, second = rsvrg_noise(n, epochs, inner, size, clip, target, "poisson", rate)
    assert (
        rsvrg_guarantee(n, epochs, inner, size, clip, (first, second), "poisson").delta(
            1.0
        )
        <= 1e-6
    )
    a, b = error_weights(inner, rate)
    chosen = a * first**2 + b * second**2
    for factor in (
        0.7,
        1.4,
    ):  # σ₁ moved, σ₂ scaled until the same error: δ must not be below the target by much
        other = math.sqrt(max(0.97 * chosen - a * (factor * first) ** 2, 1e-12) / b)
        found = rsvrg_guarantee(
            n, epochs, inner, size, clip, (factor * first, other), "poisson"
        )
        assert found.delta(1.0) > 1e-6


def test_transport_and_differences_on_a_curved_space():
    """With every record in every batch and no noise, the step is the exact gradient step: differences plus anchor cancel."""
    M = Sphere(3)
    rng = np.random.default_rng(4)
    X = M.project(rng.normal([3.0, 0, 0, 0], 1.0, size=(12, 4)))
    problem = FrechetMeanProblem(M)
    point = dp_rsvrg(problem, X, M.origin, epochs=1, inner_steps=5, batch_size=12, clip=(50.0, 50.0), learning_rate=0.3,
                     noise=(1e-12, 1e-12)).point  # fmt: skip
    w = M.origin
    for _ in range(5):
        w = M.exp(w, 0.3 * M.log(w, X).mean(axis=0))
    np.testing.assert_allclose(point, w, atol=1e-9)
    with jax.enable_x64(True):
        assert jnp.isfinite(problem.objective(w, X))


@pytest.mark.parametrize("rate", [1e-300, 1e-17, 1e-9, 1.0, 3.0])
def test_noise_is_split_for_every_step_size(rate):
    """1 − (1 − rate)^m is 0 in doubles for a rate below 1e-17; it was divided by."""
    for guarantee in (GDP(1.0), ApproxDP(1.0, 1e-6)):
        first, second = rsvrg_noise(
            100, 2, 5, 10, (1.0, 0.5), guarantee, "poisson", rate
        )
        assert 0 < first < math.inf
        assert 0 < second < math.inf
    a, b = error_weights(5, rate)
    kept = (1 - min(rate, 1.0)) ** 5
    assert (a, b) == pytest.approx(
        ((1 - kept) ** 2, min(rate, 1) * (1 - kept**2) / (2 - min(rate, 1))),
        rel=1e-6,
        abs=1e-17,
    )
