"""What every manifold must do: the conformance suite that ours pass, for manifolds of your own.

Nothing here knows a formula: distances, frames and curvatures are held against each other. What a guarantee rests on beyond
that, the bounds themselves, is checked as far as random planes show it.
"""

import copy
import dataclasses
import itertools
import math
import pickle
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.names import parse_manifold

__all__ = [
    "CHECKS",
    "KERNELS",
    "check_manifold",
    "default_reach",
    "sample",
    "sectional_curvatures",
]

Points = dict[str, np.ndarray]

_KERNELS = "exp:pv log:pq dist:pq inner:puv norm:pv transport:pqv project:p nearest:p to_tangent:pv residual:p "
_KERNELS += "from_coordinates:pz to_coordinates:pv chart:pq unchart:pz"
KERNELS: dict[str, str] = dict(each.split(":") for each in _KERNELS.split())
"""The kernels and what they take: points p, q, tangent vectors u, v at p, coordinates z."""


def check_manifold(
    manifold: Manifold, *, reach: float | None = None, seed: int = 0
) -> None:
    """Run every check of `CHECKS` on a manifold.

    Parameters
    ----------
    manifold : Manifold
        An instance, small enough that some thousand kernel calls are quick.
    reach : float, optional
        A length such that exp and log are inverse to each other at points two such steps from the origin. By default 1, or
        0.4 times the injectivity radius where that is less.
    seed : int
        Of the random points.

    Raises
    ------
    AssertionError
        Naming the manifold, the law that it breaks and by how much. A kernel that raises breaks the law as well.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> check_manifold(Sphere(2))
    """
    assert isinstance(manifold, Manifold), (
        f"{manifold!r} is not an instance of curvedp.geometry.Manifold"
    )
    for check in CHECKS:
        law = "Points can be made: `from_coordinates` takes as many numbers as `dim` says, and `exp` what it makes"
        try:
            points = sample(manifold, np.random.default_rng(seed), 30, reach)
            law = (check.__doc__ or "").strip().rstrip(".")
            check(manifold, points)
        except Exception as error:
            raise AssertionError(
                f"{manifold!r} breaks a law: {law}. {type(error).__name__}: {error}"
            ) from error


def default_reach(M: Manifold) -> float:
    """See `check_manifold`; a quarter where no radius of injectivity holds everywhere; three steps stay inside."""
    inside = 0.3 * M.boundary_distance
    return (
        min(1.0, 0.4 * M.injectivity_radius, inside)
        if M.injectivity_radius > 0
        else min(0.25, inside)
    )


def sample(
    M: Manifold, rng: np.random.Generator, n: int, reach: float | None = None
) -> Points:
    """n points p and q, tangent vectors u and v at p, coordinates z, all of lengths up to the reach."""
    longest = default_reach(M) if reach is None else reach

    def coordinates() -> np.ndarray:
        z = rng.normal(size=(n, M.dim))
        return np.asarray(
            z
            * (
                longest
                * rng.uniform(0.1, 1, size=(n, 1))
                / np.linalg.norm(z, axis=-1, keepdims=True)
            )
        )

    p = np.asarray(M.exp(M.origin, M.from_coordinates(M.origin, coordinates())))
    q = np.asarray(M.exp(p, M.from_coordinates(p, coordinates())))
    z = coordinates()
    u, v = (np.asarray(M.from_coordinates(p, part)) for part in (coordinates(), z))
    return {"p": p, "q": q, "u": u, "v": v, "z": z}


# ---- the laws ------------------------------------------------------------------------------------------------------------


def value(M: Manifold, s: Points) -> None:
    """A manifold is a frozen dataclass, equal to its copies, hashable, and picklable where its class can be imported."""
    assert copy.deepcopy(M) == M
    assert hash(M) == hash(copy.deepcopy(M))
    if getattr(sys.modules.get(type(M).__module__), type(M).__qualname__, None) is type(
        M
    ):
        assert pickle.loads(pickle.dumps(M)) == M
    try:
        setattr(M, dataclasses.fields(M)[0].name, 7)  # type: ignore[arg-type]  # every manifold is a dataclass
    except dataclasses.FrozenInstanceError:
        return
    raise AssertionError("its fields can be set")


def name(M: Manifold, s: Points) -> None:
    """A manifold with a name is what `parse_manifold` makes of it."""
    if type(M).__dict__.get("kind") is not None or len(M.factors) > 1:
        assert parse_manifold(M.name) == M


def constants(M: Manifold, s: Points) -> None:
    """Constants are consistent: bounds in order, convexity within injectivity and π/(2√κ), the origin a point."""
    low, high = M.curvature_bounds
    assert low <= high
    assert M.dim > 1 or (low, high) == (0.0, 0.0), "curves have no curvature"
    assert M.constant_curvature == (low if low == high else None)
    assert 0 <= M.convexity_radius <= M.injectivity_radius
    if high > 0 and M.convexity_radius > 0:
        assert M.convexity_radius <= math.pi / (2 * math.sqrt(high)) + 1e-15
    assert M.origin.shape == M.point_shape
    assert M.origin.dtype == np.float64
    assert M.residual(M.origin) <= 1e-15


def rank(M: Manifold, s: Points) -> None:
    """`dim` is the rank of the frame, and of the tangent vectors that `to_tangent` makes."""
    p = s["p"][0]
    frame = np.asarray(M.from_coordinates(p, np.eye(M.dim))).reshape(M.dim, -1)
    assert np.linalg.matrix_rank(frame) == M.dim
    ambient = np.random.default_rng(1).normal(size=(3 * frame.shape[1], *M.point_shape))
    tangent = np.asarray(M.to_tangent(p, ambient)).reshape(-1, frame.shape[1])
    assert np.linalg.matrix_rank(tangent, tol=1e-9) == M.dim


def inverse(M: Manifold, s: Points) -> None:
    """exp and log are inverse to each other, and exp stays on the manifold."""
    p, q, v = s["p"], s["q"], s["v"]
    _small(_length(M, p, M.log(p, M.exp(p, v)) - v), 1e-12)
    _small(M.dist(M.exp(p, M.log(p, q)), q), 1e-12)
    _small(M.residual(M.exp(p, v)), 1e-12)
    np.testing.assert_allclose(M.exp(p, np.zeros_like(v)), p, rtol=0, atol=1e-15)
    _small(_length(M, p, M.log(p, p)), 1e-14)


def metric(M: Manifold, s: Points) -> None:
    """dist is a metric, and the norm of log."""
    p, q, r = s["p"], s["q"], M.exp(s["p"], s["v"])
    pq = np.asarray(M.dist(p, q))
    np.testing.assert_allclose(pq, M.norm(p, M.log(p, q)), rtol=1e-12)
    np.testing.assert_allclose(pq, M.dist(q, p), rtol=1e-12)
    np.testing.assert_allclose(M.norm(p, s["v"]), M.dist(p, r), rtol=1e-12)
    assert np.all(pq > 0)
    _small(M.dist(p, p), 1e-14)
    assert np.all(pq <= (M.dist(p, r) + M.dist(r, q)) * (1 + 1e-12))


def shortest(M: Manifold, s: Points) -> None:
    """Geodesics from the origin are shortest up to the `injectivity_radius`, along the frame and along random directions."""
    z = np.concatenate(
        [np.eye(M.dim), s["z"] / np.linalg.norm(s["z"], axis=-1, keepdims=True)]
    )
    for share in (0.5, 0.7, 0.98):
        length = share * min(M.injectivity_radius, 0.9 * M.boundary_distance, 7.0)
        q = M.exp(M.origin, M.from_coordinates(M.origin, length * z))
        _small(np.abs(M.dist(M.origin, q) - length), 1e-6 * length)


def digits(M: Manifold, s: Points) -> None:
    """Small distances keep their digits, down to 1e-15: lost, a sensitivity reads 0."""
    z = s["z"] / np.linalg.norm(s["z"], axis=-1, keepdims=True)
    rounding = 4e-16 * math.sqrt(math.prod(M.point_shape))  # of the points themselves
    for scale in (1e-15, 1e-12, 1e-8, 1e-4):
        q = M.exp(M.origin, M.from_coordinates(M.origin, scale * z))
        _small(np.abs(M.dist(M.origin, q) - scale), 1e-12 * scale + rounding)
        found = np.asarray(M.to_coordinates(M.origin, M.log(M.origin, q)))
        _small(np.linalg.norm(found - scale * z, axis=-1), 1e-12 * scale + rounding)


def tangents(M: Manifold, s: Points) -> None:
    """Tangent vectors are tangent: `to_tangent` leaves them, and steps along them leave the manifold to second order only."""
    p, q, v = s["p"], s["q"], s["v"]
    made = M.to_tangent(p, np.random.default_rng(2).normal(size=p.shape))
    for at, w in [(p, v), (p, M.log(p, q)), (q, M.transport(p, q, v)), (p, made)]:
        np.testing.assert_allclose(
            M.to_tangent(at, w),
            w,
            rtol=0,
            atol=1e-13 * max(1.0, float(np.max(np.abs(w)))),
        )
    for h in (1e-4, 1e-5):
        _small(M.residual(p + h * v), 10 * h**2 + 1e-14)


def projection(M: Manifold, s: Points) -> None:
    """`project` leaves points alone and makes one of anything; `nearest` agrees near the manifold."""
    p, rng, zero = s["p"], np.random.default_rng(3), np.zeros(M.point_shape)
    _small(M.dist(M.project(p), p), 1e-14)
    _small(M.dist(M.nearest(p), p), 1e-14)
    _small(M.residual(M.project(rng.normal(size=(50, *M.point_shape)))), 1e-13)
    _small(M.residual(M.project(zero)), 1e-13)
    for near in (M.project, M.nearest):
        _small(M.dist(near(p + 1e-7 * rng.normal(size=p.shape)), p), 1e-5)


def intake(M: Manifold, s: Points) -> None:
    """Whatever a record is, `project_to_ball` takes it into the ball, silently, and by itself alone."""
    rng, radius, center = np.random.default_rng(4), 0.4 * default_reach(M), s["p"][0]
    rows = [
        np.full(M.point_shape, x)
        for x in (np.nan, np.inf, 1e308, -1e308, 0.0, 1e-320, -1.0)
    ]
    rows += [rng.normal(size=M.point_shape) * 10.0**k for k in (-300, -10, 3, 100, 300)]
    X = np.concatenate([np.stack(rows), s["q"]])
    with np.errstate(all="raise"):
        inside = np.asarray(project_to_ball(M, center, radius, X))
    assert np.all(np.isfinite(inside))
    assert np.all(np.asarray(M.dist(center, inside)) <= radius)
    np.testing.assert_array_equal(inside[:2], np.stack([center, center]))
    order = rng.permutation(len(X))
    np.testing.assert_allclose(
        project_to_ball(M, center, radius, X[order]), inside[order], rtol=0, atol=1e-13
    )


def residuals(M: Manifold, s: Points) -> None:
    """What `project` moves has a residual; NaN is not a point, its residual passes no comparison."""
    with np.errstate(all="ignore"):
        assert not M.residual(np.full(M.point_shape, np.nan)) <= 1
    x = s["p"] + 0.01 * np.random.default_rng(6).normal(size=s["p"].shape)
    moved = np.max(np.abs(M.project(x) - x), axis=tuple(range(1, x.ndim))) > 1e-4
    assert np.all(np.asarray(M.residual(x))[moved] > 1e-9), (
        "points off the manifold have none"
    )


def isometry(M: Manifold, s: Points) -> None:
    """`transport` is a linear isometry, the identity from a point to itself, and carries velocities along geodesics."""
    p, q, u, v = s["p"], s["q"], s["u"], s["v"]
    tu, tv = M.transport(p, q, u), M.transport(p, q, v)
    np.testing.assert_allclose(M.inner(q, tu, tv), M.inner(p, u, v), rtol=0, atol=1e-12)
    np.testing.assert_allclose(M.norm(q, tu), M.norm(p, u), rtol=1e-12)
    _small(_length(M, q, M.transport(p, q, 2 * u - 3 * v) - 2 * tu + 3 * tv), 1e-12)
    _small(_length(M, p, M.transport(p, p, v) - v), 1e-12)
    _small(_length(M, q, M.transport(p, q, M.log(p, q)) + M.log(q, p)), 1e-12)


def parallel(M: Manifold, s: Points) -> None:
    """On a symmetric space `transport` is parallel: one rung of the pole ladder is exact there (Pennec 2018)."""
    if not M.is_symmetric:
        return
    p, q, v = s["p"], s["q"], s["v"] / 2
    middle = M.exp(p, M.log(p, q) / 2)
    ladder = -M.log(q, M.exp(middle, -M.log(middle, M.exp(p, v))))
    _small(_length(M, q, M.transport(p, q, v) - ladder), 1e-11)


def coordinates(M: Manifold, s: Points) -> None:
    """Coordinates are a linear isometry, `chart` and `unchart` those of log and exp."""
    p, q, u, v, z = (s[k] for k in "pquvz")
    y = np.asarray(M.to_coordinates(p, u))
    assert y.shape == (len(p), M.dim)
    np.testing.assert_allclose(
        M.inner(p, u, v), np.sum(y * z, axis=-1), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(M.norm(p, v), np.linalg.norm(z, axis=-1), rtol=1e-13)
    np.testing.assert_allclose(M.to_coordinates(p, v), z, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        M.from_coordinates(p, 2 * y - 3 * z), 2 * u - 3 * v, rtol=0, atol=1e-12
    )
    frame = M.from_coordinates(np.expand_dims(p, 1), np.eye(M.dim))
    gram = M.inner(np.expand_dims(p, (1, 2)), frame[:, :, None], frame[:, None, :])
    np.testing.assert_allclose(
        gram, np.broadcast_to(np.eye(M.dim), gram.shape), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        M.chart(p, q), M.to_coordinates(p, M.log(p, q)), rtol=0, atol=1e-13
    )
    _small(M.dist(M.unchart(p, z), M.exp(p, v)), 1e-13)


def broadcasting(M: Manifold, s: Points) -> None:
    """Kernels broadcast over leading axes, empty ones included, and a record gets what it gets alone."""
    p0 = s[
        "p"
    ][
        0
    ]  # every pairing of one point, a row of them, a column; tangent vectors are vectors of p0
    s = {
        **s,
        "u": M.from_coordinates(p0, M.to_coordinates(s["p"], s["u"])),
        "v": M.from_coordinates(p0, s["z"]),
    }
    s["p"] = np.broadcast_to(p0, s["p"].shape)
    for kernel, kinds in KERNELS.items():
        assert getattr(M, kernel)(*(s[k][:0] for k in kinds)).shape[0] == 0, kernel
        alone = cache(partial(_alone, getattr(M, kernel), [s[k] for k in kinds]))
        for batches in itertools.product([(), (3,), (2, 1)], repeat=len(kinds)):
            places = [np.arange(math.prod(b)).reshape(b) for b in batches]
            inputs = [
                np.asarray(s[k][place]) for k, place in zip(kinds, places, strict=True)
            ]
            whole = np.asarray(getattr(M, kernel)(*inputs))
            full = np.broadcast_shapes(*batches)
            assert whole.shape[: len(full)] == full, (
                f"{kernel} with batches {batches} gave {whole.shape}"
            )
            each = [alone(*map(int, which)) for which in np.broadcast(*places)]
            expected = np.reshape(each, (*full, *each[0].shape))
            np.testing.assert_allclose(
                whole, expected, rtol=1e-11, atol=1e-12, err_msg=kernel
            )


def _alone(kernel: Any, inputs: list[np.ndarray], *which: int) -> np.ndarray:
    """What these records give without any others."""
    return np.asarray(
        kernel(*(np.array(x[k], order="C") for x, k in zip(inputs, which, strict=True)))
    )


def curvature(M: Manifold, s: Points) -> None:
    """Sectional curvatures of random planes and a frame's are within `curvature_bounds`, as `curvature_operator` has them."""
    if M.dim == 1:
        return
    p, (low, high) = s["p"][0], M.curvature_bounds
    axes = np.stack(
        [
            np.eye(M.dim)[list(pair)].T
            for pair in itertools.combinations(range(M.dim), 2)
        ]
    )
    pairs = np.concatenate(
        [np.linalg.qr(np.random.default_rng(5).normal(size=(40, M.dim, 2)))[0], axes]
    )
    step = 0.04 * float(np.max(np.linalg.norm(s["z"], axis=-1)))
    found = sectional_curvatures(M, p, pairs, step)
    assert low - 1e-4 <= np.min(found) <= np.max(found) <= high + 1e-4, (
        f"found {np.min(found)} to {np.max(found)}"
    )
    if (
        M.is_homogeneous
    ):  # the sum over the planes of a frame is the same at every point
        other = np.sum(sectional_curvatures(M, M.origin, axes, step))
        assert abs(np.sum(found[40:]) - other) <= 2e-4 * len(axes), (
            "not homogeneous: curved more here than there"
        )
    if M.is_symmetric:
        operator = M.curvature_operator(p, M.from_coordinates(p, pairs[..., 1]))
        np.testing.assert_allclose(
            np.einsum("ni,nij,nj->n", pairs[..., 0], operator, pairs[..., 0]),
            found,
            atol=1e-4,
        )


def sectional_curvatures(
    M: Manifold, p: Any, pairs: np.ndarray, step: float
) -> np.ndarray:
    """Sectional curvatures at p, read off distances alone: d²(exp tu, exp tv) = 2t² − K t⁴/3 + … .

    Pairs are orthonormal, in coordinates, shape (n, dim, 2). Odd terms are taken away by ±t and the next even one by halving
    t; what is left is O(t⁴).
    """
    u, v = (M.from_coordinates(p, pairs[..., i]) for i in (0, 1))

    def once(t: float) -> np.ndarray:
        square = [
            np.asarray(M.dist(M.exp(p, x * u), M.exp(p, x * v))) ** 2 for x in (t, -t)
        ]
        return np.asarray(3 * (2 * t**2 - (square[0] + square[1]) / 2) / t**4)

    return np.asarray((4 * once(step / 2) - once(step)) / 3)


_OF_POINTS = (
    value,
    name,
    constants,
    rank,
    inverse,
    metric,
    digits,
    tangents,
    projection,
    intake,
    residuals,
)
_OF_VECTORS = (isometry, parallel, coordinates, shortest, broadcasting, curvature)
CHECKS: tuple[Callable[[Manifold, Points], None], ...] = _OF_POINTS + _OF_VECTORS
"""The laws, in the order in which they are tried; a docstring states each."""


def _small(error: Any, bound: float) -> None:
    worst = float(np.max(np.asarray(error)))
    assert worst <= bound, f"off by {worst:.3g}, allowed is {bound:.3g}"  # NaN fails


def _length(M: Manifold, p: Any, v: Any) -> np.ndarray:
    """Norm through the coordinates, so that a wrong `norm` does not hide a wrong vector."""
    return np.asarray(np.linalg.norm(np.asarray(M.to_coordinates(p, v)), axis=-1))
