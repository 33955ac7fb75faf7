"""Fréchet means: residuals on every space, the a-priori bound attacked, shapes, extremes."""

import os

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from curvedp.errors import ParameterError
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
    frechet_mean,
    mean_error_bound,
)
from curvedp.geometry.frechet_mean.backends.spd import SPDBackend
from curvedp.geometry.frechet_mean.ball_mean import project_to_safe_ball
from curvedp.geometry.frechet_mean.error_bound import contraction, mean_iterations
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.geometry.spaces.spd_common import pack
from support import spaces

RNG = np.random.default_rng(5)
SPACES = [
    Euclidean(3), Sphere(1), Sphere(2), Sphere(20), Lorentz(3), PoincareBall(2), SPDAffineInvariant(1), SPDAffineInvariant(2),
    SPDAffineInvariant(3), SPDAffineInvariant(5), SPDLogEuclidean(3), SPDLogCholesky(3), SPDBuresWasserstein(3),
    Grassmann(5, 2), Rotations(3), Rotations(4), KendallShapes(5), Product(Sphere(2), Lorentz(2), SPDAffineInvariant(2)),
]  # fmt: skip


def cloud(M, n, radius, center=None):
    c = M.origin if center is None else center
    z = RNG.normal(size=(n, M.dim))
    z *= radius * RNG.uniform(size=(n, 1)) / np.linalg.norm(z, axis=-1, keepdims=True)
    return M.exp(c, M.from_coordinates(c, z))


def residual(M, X, x):
    return float(M.norm(x, np.mean(M.log(x, X), axis=0)))


@pytest.mark.parametrize("M", SPACES, ids=repr)
@pytest.mark.parametrize(("n", "radius"), [(1, 0.3), (2, 0.4), (40, 1e-7), (40, 0.6)])
def test_residual(M, n, radius):
    center = cloud(M, 1, 0.5)[0]
    X = cloud(M, n, radius, center)
    x = frechet_mean(M, X)
    assert M.residual(x) < 1e-12
    assert residual(M, X, x) <= 1e-9


def test_residual_on_stiefel():
    M = Stiefel(4, 2)
    X = cloud(M, 6, 0.5)
    assert residual(M, X, frechet_mean(M, X)) <= 1e-9


@pytest.mark.parametrize(
    "M",
    [Lorentz(2), PoincareBall(2), SPDAffineInvariant(2), SPDAffineInvariant(4)],
    ids=repr,
)
def test_far_apart_points(M):
    # pairs opposite each other about the origin: the mean is the origin, each point at distance up to 12
    z = RNG.normal(size=(20, M.dim))
    z *= np.linspace(1, 12, 20)[:, None] / np.linalg.norm(z, axis=-1, keepdims=True)
    X = M.exp(M.origin, M.from_coordinates(M.origin, np.concatenate([z, -z])))
    x = frechet_mean(M, X)
    assert residual(M, X, x) <= 1e-9
    assert M.dist(M.origin, x) < 1e-8


@pytest.mark.parametrize("unit", [1e-300, 1e-100, 1e-12, 1.0])
def test_bures_means_do_not_depend_on_units(unit):
    """Lengths go with the square root of the unit, so that a residual of 1e-9 was met by any start."""
    M = SPDBuresWasserstein(3)
    A = np.random.default_rng(5).normal(size=(15, 3, 3)) * [1.0, 1e-1, 1e-2]
    X = A @ A.mT
    x, root = X.mean(axis=0), lambda S: np.real(scipy.linalg.sqrtm(S))
    for _ in range(
        2000
    ):  # the fixed point of optimal transport (Alvarez-Esteban et al. 2016), by another library
        R = root(x)
        half = np.linalg.solve(R, np.mean([root(R @ Y @ R) for Y in X], axis=0))
        x, last = half @ half.mT, x
        if np.abs(x - last).max() < 1e-13:
            break
    np.testing.assert_allclose(
        frechet_mean(M, unit * X) / unit, x, atol=1e-8 * np.abs(x).max()
    )


@pytest.mark.parametrize(
    "M", [Lorentz(2), Lorentz(10), Product(Lorentz(2), Euclidean(1))], ids=repr
)
@pytest.mark.parametrize("distance", [30.0, 60.0, 300.0])
def test_means_of_points_so_far_apart_that_charts_at_them_hold_nothing(M, distance):
    """From 90 apart on, the mean was a point among them, silently: residual 1e28 at 200. Warnings are errors here."""
    z = np.random.default_rng(1).normal(size=(20, M.dim))
    z *= distance / np.linalg.norm(z, axis=1, keepdims=True)
    X = M.exp(M.origin, M.from_coordinates(M.origin, z))
    assert residual(M, X, frechet_mean(M, X)) <= 1e-9


def test_known_means():
    M = SPDAffineInvariant(3)
    p, q = cloud(M, 2, 2.0)
    np.testing.assert_allclose(
        frechet_mean(M, np.stack([p, q])), M.exp(p, 0.5 * M.log(p, q)), rtol=1e-9
    )
    np.testing.assert_allclose(
        frechet_mean(M, np.stack([p, q, q, q])), M.exp(p, 0.75 * M.log(p, q)), rtol=1e-9
    )
    X = np.stack([np.diag(d) for d in RNG.uniform(0.1, 10, size=(7, 3))])
    expected = np.diag(
        np.exp(np.mean(np.log(np.diagonal(X, axis1=1, axis2=2)), axis=0))
    )
    np.testing.assert_allclose(frechet_mean(M, X), expected, atol=1e-12)
    np.testing.assert_allclose(
        frechet_mean(SPDLogEuclidean(3), X), expected, atol=1e-12
    )
    same = np.broadcast_to(p, (50, 3, 3))
    np.testing.assert_allclose(frechet_mean(M, same), p, rtol=1e-13)


@pytest.mark.parametrize(("m", "n"), [(2, 30), (2, 3000), (3, 30), (3, 3000), (6, 300)])
def test_every_way_of_summing_logs_agrees(m, n):
    M = SPDAffineInvariant(m)
    X, x = cloud(M, n, 2.0), cloud(M, 1, 0.3)[0]
    w = RNG.uniform(size=n)
    w /= w.sum()
    L = np.linalg.cholesky(x)
    sweep = SPDBackend(X, w)
    true = M.to_coordinates(x, np.tensordot(w, M.log(x, X), axes=1))
    exact = sweep.accurate_pass(L)
    np.testing.assert_allclose(pack(exact.mean_log), true, atol=1e-12)
    assert exact.mean_square == pytest.approx(w @ M.dist(x, X) ** 2, rel=1e-11)
    near = np.linalg.cholesky(M.exp(x, M.from_coordinates(x, np.full(M.dim, 0.02))))
    for error in (1e-4, 1e-9) if m > 3 else ():
        series, accurate = (
            sweep.series_pass(near, error),
            SPDBackend(X, w).accurate_pass(near),
        )
        assert (
            np.linalg.norm(series.mean_log - accurate.mean_log) <= series.error + 1e-12
        )
        assert series.error <= error + 1e-11


@pytest.mark.parametrize("n", [1, 7, 100_000])
def test_many_small_matrices_and_no_more_memory_than_promised(n):
    M = SPDAffineInvariant(3)
    X = cloud(M, n, 1.0)
    assert residual(M, X, frechet_mean(M, X)) <= 1e-9


class Recorded:
    """What a torch tensor that has a gradient is to us: no NumPy array before it is detached."""

    device = "cpu"

    def __init__(self, values, detached=False):
        self.values, self.detached = values, detached
        self.ndim, self.shape, self.dtype = values.ndim, values.shape, values.dtype

    def __array_namespace__(self, api_version=None):
        return np

    def detach(self):
        return Recorded(self.values, True)

    def __array__(self, dtype=None, copy=None):
        if not self.detached:
            raise RuntimeError("can't call numpy() on a tensor that requires grad")
        return np.asarray(self.values, dtype=dtype)


def test_tensors_with_gradients_are_detached():
    M = Sphere(2)
    X = cloud(M, 5, 0.5)
    np.testing.assert_array_equal(frechet_mean(M, Recorded(X)), frechet_mean(M, X))


@pytest.mark.parametrize(
    "M",
    [Sphere(1), Stiefel(4, 2), Rotations(3), Product(Sphere(2), Lorentz(2))],
    ids=repr,
)
def test_points_of_few_digits_are_put_on_the_manifold(M):
    """The logarithm of Stiefel's frames was lost at the 8th digit, and with it the mean of some of these clouds."""
    for seed in (10, 19, 20):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(5, M.dim))
        z *= 1.41 * rng.uniform(0, 1, (5, 1)) / np.linalg.norm(z, axis=1, keepdims=True)
        X = M.exp(M.origin, M.from_coordinates(M.origin, z)).astype(np.float32)
        x = frechet_mean(M, X)
        assert x.dtype == np.float64
        assert M.residual(x) < 1e-14
        assert residual(M, M.project(X.astype(np.float64)), x) <= 1e-9


@pytest.mark.parametrize("M", spaces.SPACES + spaces.EDGES, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_frechet_mean_of_nonfinite_points_is_nan(M, bad):
    X = np.stack([M.origin] * 3)
    X[1] = bad
    assert np.isnan(frechet_mean(M, X)).all()


def test_complex_points_are_refused():
    with pytest.raises(ParameterError, match="complex"):
        frechet_mean(Sphere(2), np.eye(3) + 0j)


def test_shapes_are_checked():
    M = Sphere(2)
    X = cloud(M, 5, 0.5)
    for data in (X[0], X[:0], X[:, :2]):
        with pytest.raises(ParameterError, match="shape"):
            frechet_mean(M, data)


def test_other_libraries_and_fewer_digits():
    M = SPDAffineInvariant(3)
    X = cloud(M, 9, 1.0)
    single = X.astype(np.float32)
    x = frechet_mean(M, single)
    assert x.dtype == np.float64
    assert residual(M, single.astype(np.float64), x) <= 1e-9
    y = frechet_mean(M, jnp.asarray(X))
    np.testing.assert_allclose(np.asarray(y), frechet_mean(M, X), rtol=1e-5)


BALLS = [(Sphere(2), 0.3), (Sphere(2), 0.78), (Sphere(2), 1.1), (Lorentz(2), 0.5), (Lorentz(2), 3.0), (Rotations(3), 0.8),
         (SPDAffineInvariant(2), 2.0), (SPDLogCholesky(2), 2.0), (KendallShapes(4), 0.35), (Grassmann(4, 2), 0.4),
         (Stiefel(4, 2), 0.3), (Stiefel(3, 2), 0.9), (Product(Sphere(2), Lorentz(2)), 0.6)]  # fmt: skip


@pytest.mark.parametrize(("M", "radius"), BALLS, ids=repr)
def test_a_priori_bound_holds_for_data_on_the_rim(M, radius):
    # worst data sit on the boundary, in two clusters or all to one side
    for n, pick in ((2, [0, 1]), (3, [0, 0, 0, 0, 0, 1, 2]), (12, range(12))):
        z = RNG.normal(size=(n, M.dim))
        z *= radius / np.linalg.norm(z, axis=-1, keepdims=True)
        X = M.exp(M.origin, M.from_coordinates(M.origin, z))[list(pick)]
        x = frechet_mean(M, X, ball=(M.origin, radius))
        assert M.dist(x, frechet_mean(M, X)) <= mean_error_bound(M, radius) + 1e-9
        assert residual(M, X, x) <= 1e-9


@pytest.mark.parametrize(
    ("M", "radius"), [b for b in BALLS if not isinstance(b[0], Product)], ids=repr
)
def test_iterates_stay_in_the_ball_and_contract_as_proved(M, radius):
    c = contraction(M, radius)
    for _ in range(5):
        z = RNG.normal(size=(4, M.dim))
        z *= radius / np.linalg.norm(z, axis=-1, keepdims=True)
        X = M.exp(M.origin, M.from_coordinates(M.origin, z))
        goal = frechet_mean(M, X)
        x = M.origin
        for k in range(12):
            assert M.dist(goal, x) <= c.factor**k * radius / np.sqrt(c.convexity) + 1e-8
            if M.curvature_bounds[1] > 0:
                assert M.dist(M.origin, x) <= radius + 1e-12
            x = M.exp(x, c.step * np.mean(M.log(x, X), axis=0))


def test_ball_takes_any_record_and_public_steps_only():
    M = Sphere(2)
    X = cloud(M, 6, 0.3)
    X[0], X[1] = np.nan, [-1.0, 0, 0]
    x = frechet_mean(M, X, ball=(M.origin, 0.4))
    assert M.dist(M.origin, x) <= 0.4
    assert mean_iterations(M, 0.4) == mean_iterations(Sphere(7), 0.4)
    assert mean_iterations(Euclidean(3), 5.0) == 2
    assert (
        mean_error_bound(M, 0.4, 3)
        > mean_error_bound(M, 0.4, 6)
        > mean_error_bound(M, 0.4)
    )


def test_no_bound_is_claimed_where_none_is_proved():
    with pytest.raises(ParameterError, match="a-priori"):
        mean_error_bound(SPDBuresWasserstein(2), 0.1)
    with pytest.raises(ParameterError, match="radius"):
        mean_error_bound(Sphere(2), 1.36)
    with pytest.raises(ParameterError, match="radius"):
        mean_error_bound(Sphere(2), 2.0)
    for radius in (0, -1, np.nan, np.inf):
        with pytest.raises(ParameterError, match="radius"):
            mean_error_bound(Sphere(2), radius)
        with pytest.raises(ParameterError, match="radius"):
            frechet_mean(Sphere(2), np.eye(3), ball=(Sphere(2).origin, radius))


@pytest.mark.parametrize("m", [2, 3, 5, 50])
@pytest.mark.parametrize("copies", [1, 3])
def test_mean_of_two_matrices_ends_where_it_starts(m, copies):
    """The start, the geometric mean of the arithmetic and the harmonic mean, IS the mean of two: what is left is round-off,
    on which no inner iteration may go on for ever."""
    manifold = SPDAffineInvariant(m)
    rng = np.random.default_rng(3)
    for spread in (1e-8, 0.3, 3.0):
        z = rng.normal(size=(2, manifold.dim))
        z *= spread / np.linalg.norm(z, axis=1, keepdims=True)
        X = np.repeat(
            manifold.exp(np.eye(m), manifold.from_coordinates(np.eye(m), z)),
            copies,
            axis=0,
        )
        mean = frechet_mean(manifold, X)
        assert np.linalg.norm(np.mean(manifold.log(mean, X), axis=0)) < 1e-9


@pytest.mark.parametrize("m", [2, 3, 11])
def test_a_factor_that_is_not_triangular_gives_the_same_in_its_own_frame(m):
    """Far matrices take the careful path, which knows the triangular factor only: a rotation lies between."""
    M = SPDAffineInvariant(m)
    X = np.concatenate([cloud(M, 20, 1.0), [np.diag(10.0 ** np.linspace(-4, 4, m))]])
    w, L = np.full(21, 1 / 21), np.linalg.cholesky(cloud(M, 1, 0.3)[0])
    Q = np.linalg.qr(RNG.normal(size=(m, m)))[0]
    plain, turned = (
        SPDBackend(X, w).accurate_pass(L).mean_log,
        SPDBackend(X, w).accurate_pass(L @ Q).mean_log,
    )
    np.testing.assert_allclose(Q @ turned @ Q.T, plain, atol=1e-10)


def test_threads_of_ours_and_of_the_blas_do_not_multiply():
    from threadpoolctl import threadpool_info

    from curvedp.numerics.threads import blocks, in_threads, one_blas_thread

    def counts():
        return [
            pool["num_threads"]
            for pool in threadpool_info()
            if pool["user_api"] == "blas"
        ]

    before = counts()
    with one_blas_thread(), one_blas_thread():
        assert set(counts()) == {1}
    assert counts() == before
    inside = in_threads(
        lambda part: (counts(), in_threads(lambda p: p.start, blocks(3, 1))),
        blocks(4, 1),
    )
    assert all(starts == [0, 1, 2] for _, starts in inside)
    if len(os.sched_getaffinity(0)) > 1:
        assert all(set(found) == {1} for found, _ in inside)
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda part: 1 / part.start, blocks(4, 1))
    assert counts() == before


WIDE = [
    (SPDAffineInvariant(2), 40.0),
    (SPDAffineInvariant(3), 15.0),
    (SPDAffineInvariant(5), 100.0),
    (SPDLogEuclidean(3), 30.0),
    (Lorentz(3), 30.0),
    (PoincareBall(2), 3.0),
    (Product(SPDAffineInvariant(3), Lorentz(2)), 20.0),
]


def _wide_records(M, radius, rng, n):
    """Records as they are after intake: at the ball's edge, of the widest spectra that floats hold, and elsewhere."""
    z = rng.normal(size=(n, M.dim))
    z *= (radius * rng.choice([0.1, 0.5, 0.999], size=n) / np.linalg.norm(z, axis=1))[
        :, None
    ]
    return np.asarray(M.from_normal_coordinates(M.origin, M.float_set.project(z)))


@pytest.mark.parametrize(("M", "radius"), WIDE, ids=str)
def test_an_unrepresentable_iterate_moves_back_and_not_away_from_any_record(M, radius):
    """Of steps as long as the contraction's, from records: the cost must fall again, or the rate is not proved."""
    rng = np.random.default_rng(3)
    domain, X = PublicBall(M, M.origin, radius), _wide_records(M, radius, rng, 40)
    moved = 0
    for start in X:
        outward = -np.asarray(M.normal_coordinates(start, M.origin))
        step = outward / np.linalg.norm(outward) + 0.2 * rng.normal(size=M.dim)
        x = np.asarray(
            M.from_normal_coordinates(start, 1.4 * step / np.linalg.norm(step))
        )
        near = project_to_safe_ball(domain, x)
        moved += near is not x
        assert np.all(
            np.asarray(M.dist(near, X)) <= np.asarray(M.dist(x, X)) * (1 + 1e-6) + 1e-6
        )
        again = project_to_safe_ball(domain, near)
        assert float(M.dist(near, again)) <= 1e-5  # it is there now
    assert moved > 5
    assert all(project_to_safe_ball(domain, x) is x for x in X)  # records stay


def test_shortening_towards_the_center_would_break_the_lipschitz_bound():
    """The control: along its geodesic to the center, a matrix can move away from a record that floats hold."""
    M, radius, rng = SPDAffineInvariant(2), 40.0, np.random.default_rng(0)
    domain, worst = PublicBall(M, np.eye(2), radius), 0.0
    for _ in range(60):
        a, b = np.sort(rng.uniform(-20, 20, 2))[::-1]
        x = np.diag(np.exp([a, b]))
        record = np.diag(np.exp([a, max(b, a - 13.8)]))
        for near, sign in ((domain.clip(x), 1), (project_to_safe_ball(domain, x), -1)):
            further = float(M.dist(near, record) - M.dist(x, record))
            if sign < 0:
                assert further <= 1e-6
            else:
                worst = max(worst, further)
    assert worst > 0.1
