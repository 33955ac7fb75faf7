"""The a-priori error of the mean's solver: negligible against the sensitivity, and above what 60 digits show."""

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Correlation,
    Euclidean,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    frechet_mean,
    project_to_ball,
)
from curvedp.geometry.frechet_mean.backends.generic import GenericBackend
from curvedp.geometry.frechet_mean.ball_mean import mean_in_ball
from curvedp.geometry.frechet_mean.error_bound import (
    contraction,
    mean_error_bound,
    residual_tolerance,
    solver_error,
)
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.geometry.frechet_mean.solver import run_search
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.privacy import GDP
from curvedp.records.base import open_records
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.sensitivity import (
    dispersion_sensitivity,
    frechet_mean_sensitivity,
    mean_coordinates_sensitivity,
)
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at
from support.spaces import EDGES, SPACES


@pytest.mark.parametrize(
    ("manifold", "radius", "n"),
    [
        (PoincareBall(10), 12.5, 1025),
        (PoincareBall(2), 10.0, 1182),
        (PoincareBall(50), 8.0, 516),
        (Sphere(2), 1.0, 50),
        (Sphere(2), 1.32, 1000),
        (SPDAffineInvariant(3), 2.5, 972),
        (SPDAffineInvariant(32), 8.0, 80),
        *(
            (SPDAffineInvariant(3), radius, 1000)
            for radius in (15.0, 20.0, 30.0, 100.0)
        ),
        *((Lorentz(3), radius, 1000) for radius in (15.0, 30.0, 100.0)),
        (SPDLogEuclidean(3), 30.0, 10_000),
        (Euclidean(3), 1e-4, 10**8),  # exact up to rounding
        *(
            (manifold, 1e-4, 100_000)
            for manifold in (Sphere(2), Lorentz(2), SPDAffineInvariant(2))
        ),
    ],
)
def test_solver_error_is_below_a_percent_of_the_sensitivity(manifold, radius, n):
    assert 2 * solver_error(manifold, radius) < 0.01 * frechet_mean_sensitivity(
        manifold, radius, n
    )


def test_the_bound_covers_a_search_that_ends_at_its_tolerance():
    """Equal records, and a search that starts, and so ends, just within the tolerance from them.

    Its error is the tolerance: the bound for the gradient steps alone would be too small.
    """
    M = Lorentz(2)
    ball = PublicBall(M, np.asarray(M.origin), 2.0)
    record = M.from_normal_coordinates(M.origin, np.array([0.3, 0.4]))
    tolerance = residual_tolerance(M, ball.radius)
    backend = GenericBackend(
        M, np.stack([record] * 5), np.full(5, 0.2), tolerance, lambda *_: record
    )
    backend.first_iterate = M.from_normal_coordinates(
        record, np.array([0.999 * tolerance, 0])
    )
    mean, _ = run_search(mean_in_ball(ball, backend, 10), backend.make_pass)
    error = float(M.dist(mean, record))
    assert error >= 0.99 * tolerance  # no step was taken
    assert mean_error_bound(M, ball.radius) < error
    assert error <= solver_error(M, ball.radius) / 2


@pytest.mark.parametrize(
    ("manifold", "radius"),
    [
        (Euclidean(3), 1.0),
        (Euclidean(400), 1e6),
        (Sphere(2), 1.3),
        (Sphere(5), 0.01),
        (KendallShapes(4), 0.4),
        (Lorentz(3), 0.5),
        (Lorentz(2), 1e12),
        (SPDAffineInvariant(3), 30.0),
        (SPDLogEuclidean(2), 1e10),
        (Product(Sphere(2), Euclidean(2)), 0.8),
        (Product(Lorentz(2), Euclidean(2)), 1e9),
    ],
    ids=repr,
)
def test_the_bound_covers_the_error_of_a_measured_residual(manifold, radius):
    """Lemma M3: beside the tolerance there is room for the error of the mean logarithm, divided by μ.

    The error is computed here from its three sources; on R^400 the room is less than four times as large.
    """
    factors = [(M, M.float_set.safe_radius_within(radius)) for M in manifold.factors]
    convexity = min(contraction(M, radius).convexity for M, _ in factors)
    resolution = PublicBall(
        manifold, np.asarray(manifold.origin), radius
    ).grid.resolution
    squares = [
        (
            2 * (2 * safe * 1e-12 + 2.0**-50 * M.dim * M.float_set.roundoff_amplification(safe))
            + np.sqrt(M.dim) * resolution / 2
        )
        ** 2
        / contraction(M, radius).convexity ** 2
        for M, safe in factors
    ]  # fmt: skip
    tolerance = residual_tolerance(manifold, radius)
    room = solver_error(manifold, radius) / 2 - 1.01 * tolerance / convexity
    needed = np.sqrt(sum(squares))
    assert needed <= room * (1 + 1e-9)
    if manifold == Euclidean(400):
        assert room < 4 * needed


@pytest.mark.parametrize("manifold", [Sphere(2), KendallShapes(4)], ids=repr)
@pytest.mark.parametrize("s", [1.2, 1.32, 1.35])
def test_the_gradient_is_long_where_the_cost_is_large(manifold, s):
    """|∇f|² ≥ 2μ(f − f*) at random places, for few records on the boundary, where f need not be convex; not for μ = 1."""
    rng, root = np.random.default_rng(5), np.sqrt(manifold.curvature_bounds[1])
    mu, least = contraction(manifold, s / root).convexity, np.inf
    for _ in range(15):
        z = rng.normal(size=(3, manifold.dim))
        X = np.asarray(
            manifold.from_normal_coordinates(
                manifold.origin, z * s / root / np.linalg.norm(z, axis=1, keepdims=True)
            )
        )
        counts = rng.multinomial(40, rng.dirichlet(np.ones(3)))
        w = counts / 40
        z = rng.normal(size=(40, manifold.dim))
        z *= s / root * rng.uniform(size=(40, 1)) / np.linalg.norm(z, axis=1)[:, None]
        places = np.asarray(manifold.from_normal_coordinates(manifold.origin, z))
        x = np.asarray(frechet_mean(manifold, np.repeat(X, counts, axis=0)))
        f = np.asarray(manifold.dist(places[:, None], X)) ** 2 @ w / 2
        g = np.tensordot(
            np.asarray(manifold.log(places[:, None], X)), w, axes=([1], [0])
        )
        above = f - float(np.asarray(manifold.dist(x, X)) ** 2 @ w / 2)
        inside = (above > 1e-6) & (f <= (s / root) ** 2 / 2)
        least = min(
            least,
            *(np.asarray(manifold.norm(places, g))[inside] ** 2 / (2 * above[inside])),
            np.inf,
        )
    assert mu <= least < 1.0
    with pytest.raises(ParameterError, match="too many steps"):
        solver_error(manifold, 1.4 / root)


@pytest.mark.parametrize(
    "manifold", [Sphere(2), Lorentz(2), SPDAffineInvariant(3)], ids=repr
)
def test_statistics_charge_the_error_at_both_ends(manifold):
    """A computed mean is off by η at each of two neighbors, a computed variance of a ball of radius r by 4rη."""
    r, n = 0.7, 10**12  # so many that the error is seen beside the sensitivity
    error = solver_error(manifold, r)
    mean, variance = (
        FrechetMean(manifold, None, r, n),
        FrechetVariance(manifold, None, r, n),
    )
    assert (
        mean.sensitivity - frechet_mean_sensitivity(manifold, r, n) >= 1.999 * error > 0
    )
    assert (
        mean.chart_sensitivity - mean_coordinates_sensitivity(manifold, r, n)
        >= 1.999 * error
    )
    assert (
        variance.sensitivity - dispersion_sensitivity(manifold, r, n)
        >= 1.999 * 4 * r * error
    )


def lifted(manifold, p):
    """The hyperboloid's point over the floats of p, in 60 digits."""
    if isinstance(manifold, PoincareBall):
        p = [mp.mpf(float(t)) for t in p]
        gap = 1 - mp.fsum(t * t for t in p)
        return [(2 - gap) / gap, *(2 * t / gap for t in p)]
    p = [mp.mpf(float(t)) for t in p[1:]]
    return [mp.sqrt(1 + mp.fsum(t * t for t in p)), *p]


def form(x, y):
    return mp.fsum(a * b for a, b in zip(x[1:], y[1:], strict=True)) - x[0] * y[0]


def exact_step(x, records, share):
    total = [mp.mpf(0)] * len(x)
    for y in records:
        c = -form(x, y)
        factor = mp.acosh(c) / mp.sqrt(c * c - 1)
        total = [t + factor * (b - c * a) for t, a, b in zip(total, x, y, strict=True)]
    v = [share * t / len(records) for t in total]
    length = mp.sqrt(form(v, v))
    return [
        mp.cosh(length) * a + mp.sinh(length) / length * b
        for a, b in zip(x, v, strict=True)
    ]


@pytest.mark.parametrize("manifold", [PoincareBall(10), Lorentz(10), Lorentz(2)])
@pytest.mark.parametrize("radius", [5.0, 12.5])
def test_one_step_far_out_in_hyperbolic_space_against_60_digits(manifold, radius):
    rng, worst = np.random.default_rng(0), 0.0
    share = 1 / (1 + radius)  # the solver's step

    def point(distance):
        u = rng.normal(size=manifold.dim)
        return manifold.exp(
            manifold.origin,
            manifold.from_coordinates(
                manifold.origin, distance * u / np.linalg.norm(u)
            ),
        )

    with mp.workdps(60):
        for trial in range(8):
            x = point(radius * (1 if trial % 2 else rng.uniform()))
            X = np.stack([point(radius * rng.uniform() ** 0.2) for _ in range(4)])
            if trial > 3:  # a cluster about x
                X = manifold.exp(
                    x,
                    manifold.from_coordinates(
                        x, rng.normal(size=(4, manifold.dim)) * 0.1
                    ),
                )
            y = manifold.exp(x, share * np.mean(manifold.log(x, X), axis=0))
            exact = exact_step(
                lifted(manifold, x), [lifted(manifold, p) for p in X], share
            )
            worst = max(
                worst,
                float(mp.acosh(max(-form(lifted(manifold, y), exact), mp.mpf(1)))),
            )
    unit = 2.0**-50 * manifold.dim * manifold.float_set.roundoff_amplification(radius)
    assert 0 < worst < unit / 4


@pytest.mark.parametrize(
    "manifold",
    [M for M in (*SPACES, *EDGES) if M.curvature_bounds[1] < np.inf],
    ids=str,
)
@pytest.mark.parametrize("radius", [1e-6, 1e-2, 0.3])
def test_the_error_is_proportional_to_the_radius_down_to_round_off(manifold, radius):
    assert (
        solver_error(manifold, radius) <= 1e-9 * radius / 0.3 + 1e-11 * manifold.dim**2
    )


@pytest.mark.parametrize("cls", [SPDAffineInvariant, SPDLogEuclidean, SPDLogCholesky])
@pytest.mark.parametrize("m", [2, 3, 5])
@pytest.mark.parametrize("radius", [0.5, 2.0, 4.0])
def test_coordinates_off_by_one_part_move_a_matrix_by_no_more_than_its_spread(
    cls, m, radius
):
    M, rng, part = cls(m), np.random.default_rng(m), 1e-9
    z = rng.normal(size=(2000, M.dim))
    z[np.arange(2000), rng.integers(M.dim, size=2000)] *= rng.choice(
        [1, 3, 10], size=2000
    )
    z *= radius / np.linalg.norm(z, axis=1, keepdims=True)
    p = M.exp(np.eye(m), M.from_coordinates(np.eye(m), z))
    signs = np.triu(rng.choice([-1, 1], size=p.shape))
    q = p * (1 + part * (signs + np.triu(signs, 1).mT))
    assert np.max(M.dist(p, q)) <= part * M.dim * M.float_set.roundoff_amplification(
        radius
    )


def exact_distance(p, q):
    """Affine-invariant distance of two float matrices, from their entries, in 60 digits."""
    p, q = (mp.matrix(((a + a.T) / 2).tolist()) for a in (p, q))
    inverse = mp.cholesky(p) ** -1
    values = mp.eigsy(inverse * q * inverse.T, eigvals_only=True)
    return mp.sqrt(mp.fsum(mp.log(value) ** 2 for value in values))


def exact_residual(x, X):
    """‖mean log_x X‖ in 60 digits."""
    inverse = mp.cholesky(mp.matrix(((x + x.T) / 2).tolist())) ** -1
    total = mp.zeros(len(x))
    for a in X:
        w, U = mp.eigsy(inverse * mp.matrix(((a + a.T) / 2).tolist()) * inverse.T)
        total += U * mp.diag([mp.log(value) for value in w]) * U.T
    return mp.norm(total / len(X), 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("radius", [8.0, 15.0, 20.0, 30.0, 100.0])
@pytest.mark.parametrize("kind", ["turned", "diagonal", "scaled", "junk"])
def test_means_of_far_spd_records_against_60_digits(radius, kind):
    """Convexity is 1: what is left of the gradient is the error. Bad scales, conditions and junk; no warning leaks."""
    M, rng = SPDAffineInvariant(2), np.random.default_rng(1)
    z = rng.normal(size=(7, 3))
    z *= (
        radius
        * rng.uniform(0.3, 1.1, size=(7, 1))
        / np.linalg.norm(z, axis=1, keepdims=True)
    )
    if kind == "diagonal":
        z[:, 1] = 0
    if kind == "scaled":
        z = 0.3 * rng.normal(size=(7, 3)) + radius * np.array([0.6, 0.0, 0.6])
    with np.errstate(all="ignore"):
        X = np.asarray(M.exp(np.eye(2), M.from_coordinates(np.eye(2), z)))
    if kind == "junk":
        X[:3] = (
            np.array([[np.nan] * 2] * 2),
            np.diag([1e300, 1e-300]),
            [[1e200, 1e200 * (1 - 1e-15)]] * 2,
        )
    domain = PublicBall(M, np.eye(2), radius)
    x, _ = open_records(X, (2, 2)).moments(domain)
    inside = project_to_ball(*domain, X)
    with mp.workdps(60):
        assert exact_residual(x, inside) <= solver_error(M, radius)
        assert exact_distance(np.eye(2), x) <= radius * (1 + 1e-9)
        assert all(exact_distance(np.eye(2), a) <= radius * (1 + 1e-9) for a in inside)


@pytest.mark.parametrize("n", [20, 50])
def test_the_search_ends_where_round_off_dominates(n):
    """One data set at cond 1e12 took half a second, its neighbor minutes: every loop has a cap."""
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    center = (Q * [1e6, 1e-6]) @ Q.T
    M = SPDAffineInvariant(2)
    center = (center + center.T) / 2
    for _ in range(4):
        X = M.exp(center, M.from_coordinates(center, 1e-3 * rng.normal(size=(n, 3))))
        assert np.all(np.isfinite(frechet_mean(M, X)))


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("radius", [0.3, 1.0, 2.0, 3.0])
def test_no_rounding_of_entries_moves_a_log_cholesky_point_farther_than_claimed(
    m, radius
):
    """Random points of the sphere, and chains of equal entries below a small diagonal, in 60 digits; random signs."""
    M, rng, worst = SPDLogCholesky(m), np.random.default_rng(m), 0.0
    for trial in range(60):
        z = np.tril(rng.normal(size=(m, m)))
        if trial % 2:
            z = np.diag(-np.abs(rng.normal(size=m))) + np.diag(
                -np.ones(m - 1) * rng.uniform(0.2, 3), -1
            )
            z[0, 0] *= -rng.uniform(0, 2)
        z *= radius / np.linalg.norm(z)
        with mp.workdps(60):
            L = mp.matrix(z.tolist())
            for i in range(m):
                L[i, i] = mp.exp(L[i, i])
            A = L * L.T
            signs = np.tril(rng.choice([-1, 1], size=(m, m)))
            part = mp.mpf(10) ** -30
            moved = mp.matrix(m, m)
            for i in range(m):
                for j in range(m):
                    moved[i, j] = A[i, j] * (
                        1 + part * int(signs[max(i, j), min(i, j)])
                    )
            K = mp.cholesky(moved)
            square = mp.fsum(
                (K[i, j] - L[i, j]) ** 2 for i in range(m) for j in range(i)
            )
            square += mp.fsum(mp.log(K[i, i] / L[i, i]) ** 2 for i in range(m))
            worst = max(worst, float(mp.sqrt(square) / part))
    assert worst <= M.float_set.roundoff_amplification(radius)
    assert (
        worst > M.float_set.roundoff_amplification(radius) / 1e5
    )  # an honest bound is not far away


PULLED = [
    M
    for M in (*SPACES, *EDGES, Product(Lorentz(2), PoincareBall(2)))
    if M.float_set.safe_radius_within(40.0) < 40.0
]


def true_distance(M, x):
    """From the origin, in 60 digits, where the space is one of hyperbolic parts."""
    with mp.workdps(60):
        match M:
            case Lorentz():
                return mp.asinh(mp.norm([mp.mpf(float(part)) for part in x[1:]]))
            case PoincareBall():
                return 2 * mp.atanh(mp.norm([mp.mpf(float(part)) for part in x]))
            case Product():
                return mp.norm(
                    [
                        true_distance(*each)
                        for each in zip(M.factors, M.split(x), strict=True)
                    ]
                )
            case Correlation():  # the last entry of a row of the Cholesky factor is 1/cosh of the row's distance
                L = mp.cholesky(mp.matrix(x.tolist()))
                return mp.norm([mp.acosh(1 / L[i, i]) for i in range(1, M.m)])
        return mp.mpf(float(M.dist(M.origin, x)))


@pytest.mark.parametrize("manifold", PULLED, ids=repr)
def test_no_more_is_charged_where_the_float_set_is_smaller_than_the_ball(manifold):
    """Records from anywhere in a ball of radius 40 end within `reach`, some at its edge. Two records at either end, of which
    one goes to the other end, move the computed mean and gradient as far as is charged, the variance no farther."""
    rng, n = np.random.default_rng(3), 4
    mean, variance = (
        FrechetMean(manifold, None, 40.0, n),
        FrechetVariance(manifold, None, 40.0, n),
    )
    gradient = GradientMechanism.calibrate(mean, GDP(1.0))
    assert mean.clipping_radius < 0.6 * mean.radius
    z = rng.normal(size=(60, manifold.dim))
    z *= (
        np.minimum(manifold.float_set.max_distance, rng.uniform(0, 40, size=60))[
            :, None
        ]
        / np.linalg.norm(z, axis=1)[:, None]
    )
    far = min(manifold.float_set.max_distance, 20.0) * np.eye(manifold.dim)[-1]
    if isinstance(manifold, Product):  # both factors as far out as they can be
        far = far + far[::-1]
    ends = np.asarray(
        manifold.from_normal_coordinates(manifold.origin, np.stack([far, -far]))
    )
    inside = project_to_ball(
        manifold,
        manifold.origin,
        40.0,
        np.concatenate([manifold.from_normal_coordinates(manifold.origin, z), ends]),
    )
    away = [true_distance(manifold, x) for x in inside]
    assert 0.99999 * mean.clipping_radius <= max(away) <= mean.clipping_radius
    pair = [
        open_records(ends[list(order)], manifold.point_shape)
        for order in ([0, 0, 1, 1], [0, 1, 1, 1])
    ]
    (one, spread), (other, narrower) = map(mean.mean_and_variance, pair)
    assert (
        0.99 * frechet_mean_sensitivity(manifold, mean.clipping_radius, n)
        <= manifold.dist(one, other)
        <= mean.sensitivity
    )
    assert 0.1 * variance.sensitivity < spread - narrower <= variance.sensitivity
    steps = [
        clip_rows_to(
            logs_at(manifold, manifold.origin, mean.clip_records(each.array())),
            mean.clipping_radius,
        ).mean(axis=0)
        for each in pair
    ]
    assert (
        0.99999 * gradient.sensitivity
        <= np.linalg.norm(steps[0] - steps[1])
        <= gradient.sensitivity
    )
