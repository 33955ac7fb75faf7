"""Clipping bounds every record, whatever its gradient; the noise of a step is the Gaussian that was charged."""

import jax
import numpy as np
import pytest
from scipy import stats

from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere
from curvedp.optim import Problem, dp_rgd
from curvedp.optim._compilation import full_precision
from curvedp.optim._loop import clip_rows, noisy_gradient
from curvedp.optim._randomness import Randomness
from curvedp.privacy.optimizer_accounting import rounded_clip


def printed_clip(rows, clip):
    """min{‖ν‖/τ, 1}·ν, as the paper prints it (E5)."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.minimum(length / clip, 1) * rows


def test_clipping_bounds_and_keeps_direction():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 7)) * 10.0 ** rng.integers(-8, 9, size=(200, 1))
    with jax.enable_x64(True):
        clipped = np.asarray(clip_rows(rows, 0.5))
    before, after = np.linalg.norm(rows, axis=1), np.linalg.norm(clipped, axis=1)
    assert after.max() <= 0.5 * (1 + 1e-14)
    np.testing.assert_allclose(after, np.minimum(before, 0.5), rtol=1e-13)
    np.testing.assert_allclose(
        clipped / after[:, None], rows / before[:, None], rtol=1e-12
    )


def test_e5_the_printed_clip_does_not_clip():
    rows = np.array([[3.0, 4.0], [0.03, 0.04]])
    assert (
        np.linalg.norm(printed_clip(rows, 0.5), axis=1).max() == 5.0
    )  # ten times the bound it is charged for
    with jax.enable_x64(True):
        assert np.linalg.norm(clip_rows(rows, 0.5), axis=1).max() <= 0.5


def test_extreme_gradients():
    rows = np.array(
        [
            [1e150, -1e150],
            [1e-310, 0.0],
            [np.nan, 1.0],
            [np.inf, 0.0],
            [-np.inf, np.inf],
            [0, 0],
            [1e300, 1],
        ]
    )
    with jax.enable_x64(True):
        clipped = np.asarray(clip_rows(rows, 1.0))
    np.testing.assert_allclose(
        clipped[0], [np.sqrt(0.5), -np.sqrt(0.5)], rtol=1e-14
    )  # no overflow on the way
    assert np.all(clipped[2:] == 0)
    assert np.isfinite(clipped).all()


def test_a_record_whose_gradient_is_not_finite_contributes_zero_deterministically():
    problem = Problem(Euclidean(2), lambda w, z: jax.numpy.sum(w * z))
    good = np.random.default_rng(1).normal(size=(50, 2))
    runs = []
    for bad in (np.nan, np.inf, -np.inf):
        data = np.concatenate([good, [[bad, 1.0]]])
        runs.append(dp_rgd(problem, data, np.zeros(2), steps=3, clip=1.0, learning_rate=0.1, noise=0.1,
                           rng=np.random.default_rng(2)))  # fmt: skip
    zero = dp_rgd(problem, np.concatenate([good, [[0.0, 0.0]]]), np.zeros(2), steps=3, clip=1.0, learning_rate=0.1,
                  noise=0.1, rng=np.random.default_rng(2))  # fmt: skip
    for run in runs:
        assert np.array_equal(run.point, zero.point)
        assert run.guarantee == zero.guarantee


@pytest.mark.parametrize("n", [10, 4096, 10_000])
def test_sums_over_blocks(n):
    rng = np.random.default_rng(3)
    data = rng.normal(size=(n, 3))
    problem = Problem(Euclidean(3), lambda w, z: jax.numpy.sum(w * z))
    with jax.enable_x64(True):
        total = np.asarray(
            jax.jit(lambda w, d: noisy_gradient(problem, w, d, None, 1, 0.8))(
                np.zeros(3), data
            )
        )
    lengths = np.linalg.norm(data, axis=1, keepdims=True)
    np.testing.assert_allclose(
        total, (data * np.minimum(1, 0.8 / lengths)).sum(axis=0), atol=1e-10
    )


def test_single_precision_is_summed_in_double():
    """One record's part in a sum of 40 000 is kept to 1e-9; a float32 sum, which moves all its roundings, loses it."""
    problem = Problem(Euclidean(1), lambda w, z: jax.numpy.sum(w * z))
    data = np.full((40_000, 1), 1 / 3, dtype=np.float32)
    other = data.copy()
    other[0] = -data[0]
    move = 2 * float(data[0, 0])
    with jax.enable_x64(True):
        start = jax.numpy.zeros(1, "float32")
        first, second = (
            float(noisy_gradient(problem, start, d, None, 1, 1.0)[0])
            for d in (data, other)
        )
    assert abs(first - second - move) < 1e-9
    first, second = (
        float(np.cumsum(d[:, 0], dtype=np.float32)[-1]) for d in (data, other)
    )
    assert abs(first - second - move) > 1e-6  # the sum this guards against
    # The charge covers the round-off of n terms: relative to 2C it is n·k·eps, not k·eps.
    assert 10**6 * 4096 * 2e-16 < rounded_clip(1.0, 3, np.float64, 10**6) - 1 < 1e-4


SPACES = [Euclidean(400), Sphere(400), SPDAffineInvariant(24)]


def noise_of_one_step(manifold, w, sd, rng, rate=1e-3):
    """The coordinates of the step that a problem without slope takes: the noise alone, divided by the rate."""
    flat = Problem(manifold, lambda p, z: 0.0 * jax.numpy.sum(p) * jax.numpy.sum(z))
    result = dp_rgd(
        flat,
        np.zeros((10, 1)),
        w,
        steps=1,
        clip=1.0,
        learning_rate=rate,
        noise=sd,
        rng=rng,
    )
    return manifold.to_coordinates(w, manifold.log(w, result.point)) / -rate


@pytest.mark.parametrize("manifold", SPACES, ids=repr)
def test_a_steps_noise_is_gaussian_in_coordinates(manifold):
    rng = np.random.default_rng(5)
    w = manifold.exp(
        manifold.origin,
        manifold.from_coordinates(
            manifold.origin, 0.05 * rng.normal(size=manifold.dim)
        ),
    )
    z = noise_of_one_step(manifold, w, 0.7, rng) / 0.7
    assert stats.kstest(z, "norm").pvalue > 1e-4
    square = stats.chi2(manifold.dim)
    assert 1e-4 < square.cdf(np.sum(z * z)) < 1 - 1e-4
    for wrong in (
        0.7,
        1.3,
        1 / 10,
    ):  # off by 30%; the SUM of 10 records noised at the MEAN's scale
        assert (
            min(
                square.cdf(np.sum((wrong * z) ** 2)),
                square.sf(np.sum((wrong * z) ** 2)),
            )
            < 1e-6
        )


@pytest.mark.parametrize(
    "rng",
    [None, np.random.default_rng(6), jax.random.key(7), jax.random.PRNGKey(8)],
    ids=str,
)
def test_sources_of_noise(rng):
    random = Randomness(rng)
    with full_precision():  # as in the optimizers
        z = np.asarray(random.normal(200, 300)).ravel()
    assert z.dtype == np.float64
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert stats.kstest(z * 1.1, "norm").pvalue < 1e-6
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 5 / np.sqrt(z.size)
    u = random.uniform(20_000)
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    assert u.min() > 0
    assert u.max() < 1
    counts = np.bincount(random.integers(7, (14_000,)), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_seeded_sources_repeat_and_the_operating_systems_does_not():
    problem = Problem(Euclidean(2), lambda w, z: jax.numpy.sum(w * z))

    def run(rng):
        return dp_rgd(
            problem,
            np.ones((5, 2)),
            np.zeros(2),
            steps=2,
            clip=1.0,
            learning_rate=0.1,
            noise=1.0,
            rng=rng,
        ).point

    assert np.array_equal(run(jax.random.key(3)), run(jax.random.key(3)))
    assert np.array_equal(run(np.random.default_rng(3)), run(np.random.default_rng(3)))
    assert not np.array_equal(run(jax.random.key(3)), run(jax.random.key(4)))
    assert not np.array_equal(run(None), run(None))
