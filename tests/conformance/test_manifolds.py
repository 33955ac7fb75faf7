"""What every manifold must do, checked once for all of them. A new space is one more line in SPACES."""

import copy
import dataclasses
import itertools
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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
)

SPACES = [
    Euclidean(3),
    Sphere(3),
    Lorentz(3),
    PoincareBall(3),
    SPDAffineInvariant(3),
    SPDLogEuclidean(3),
    SPDLogCholesky(3),
    SPDBuresWasserstein(3),
    Stiefel(5, 2),
    Grassmann(5, 2),
    Rotations(4),
    KendallShapes(5),
    Product(Sphere(2), SPDAffineInvariant(2), Lorentz(2)),
]
# Sizes where shapes, formulas or curvature degenerate.
EDGES = [
    Euclidean(1),
    Sphere(1),
    Lorentz(1),
    PoincareBall(1),
    SPDAffineInvariant(1),
    SPDAffineInvariant(2),
    SPDAffineInvariant(4),
    SPDLogEuclidean(2),
    SPDLogCholesky(1),
    SPDBuresWasserstein(2),
    Stiefel(4, 1),
    Stiefel(3, 3),
    Grassmann(2, 1),
    Grassmann(4, 3),
    Rotations(2),
    Rotations(3),
    KendallShapes(3),
    Product(Rotations(3)),
    Product(Product(Sphere(1), Euclidean(2)), KendallShapes(4)),
]
NOT_PARALLEL = (Stiefel, SPDBuresWasserstein)  # their docstrings say: an isometry of tangent spaces, not parallel
METHODS = {
    "exp": "pv",
    "log": "pq",
    "dist": "pq",
    "inner": "puv",
    "norm": "pv",
    "transport": "pqv",
    "project": "p",
    "to_tangent": "pv",
    "residual": "p",
    "from_coordinates": "pz",
    "to_coordinates": "pv",
}

every = pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
main = pytest.mark.parametrize("M", SPACES, ids=repr)
# Compiling is what takes time: a product of spaces that are compiled already tells no more than a small one.
compiled = pytest.mark.parametrize("M", [*SPACES[:-1], Product(Sphere(2), Euclidean(1))], ids=repr)


def reach(M):
    """A length within which exp and log are inverse to each other at the points used here, two steps apart."""
    if isinstance(M, SPDBuresWasserstein):
        return 0.25  # no radius holds everywhere (it is not complete): a quarter of the one at the origin
    return min(1.0, 0.4 * M.injectivity_radius)


def ball(M, rng, n):
    """n coordinate vectors of length up to `reach`."""
    z = rng.normal(size=(n, M.dim))
    return z * (reach(M) * rng.uniform(0.1, 1, size=(n, 1)) / np.linalg.norm(z, axis=-1, keepdims=True))


def sample(M, rng, n):
    """Points p, q, tangent vectors u, v at p, coordinates z."""
    p = M.exp(M.origin, M.from_coordinates(M.origin, ball(M, rng, n)))
    q = M.exp(p, M.from_coordinates(p, ball(M, rng, n)))
    z = ball(M, rng, n)
    u, v = M.from_coordinates(p, ball(M, rng, n)), M.from_coordinates(p, z)
    return {"p": p, "q": q, "u": u, "v": v, "z": z}


def length(M, p, v):
    """Norm through the coordinates, so that a wrong `norm` does not hide a wrong vector."""
    return np.linalg.norm(M.to_coordinates(p, v), axis=-1)


@pytest.fixture
def rng():
    return np.random.default_rng(2026)


# ---- the value -------------------------------------------------------------------------------------------------------


@every
def test_is_a_frozen_hashable_value(M):
    assert M == copy.deepcopy(M) == pickle.loads(pickle.dumps(M))
    assert hash(M) == hash(copy.deepcopy(M))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(M, dataclasses.fields(M)[0].name, 7)


@every
def test_constants_are_consistent(M):
    low, high = M.curvature_bounds
    assert low <= high
    assert 0 <= M.convexity_radius <= M.injectivity_radius
    if high > 0 and M.convexity_radius > 0:
        assert M.convexity_radius <= math.pi / (2 * math.sqrt(high)) + 1e-15
    assert M.origin.shape == M.point_shape
    assert M.origin.dtype == np.float64
    assert M.residual(M.origin) <= 1e-15


@every
def test_dim_is_the_rank_of_the_frame(M, rng):
    p = sample(M, rng, 1)["p"][0]
    frame = M.from_coordinates(p, np.eye(M.dim)).reshape(M.dim, -1)
    assert np.linalg.matrix_rank(frame) == M.dim
    # and no tangent vector is missed: ambient vectors made tangent stay in the span
    tangent = M.to_tangent(p, rng.normal(size=(3 * frame.shape[1], *M.point_shape))).reshape(-1, frame.shape[1])
    assert np.linalg.matrix_rank(tangent, tol=1e-9) == M.dim


@pytest.mark.parametrize("cls", sorted({type(M) for M in SPACES[:-1]}, key=lambda cls: cls.__name__))
@pytest.mark.parametrize("bad", [0, -1, 2.0, math.nan, math.inf, True, "3", None])
def test_sizes_are_checked(cls, bad):
    for position in range(len(dataclasses.fields(cls))):
        sizes = [5] * len(dataclasses.fields(cls))
        sizes[position] = bad
        with pytest.raises(ParameterError, match=rf"={re.escape(repr(bad))} must be"):
            cls(*sizes)


@pytest.mark.parametrize(
    ("cls", "sizes"), [(Stiefel, (2, 3)), (Grassmann, (3, 3)), (Rotations, (1,)), (KendallShapes, (2,))]
)
def test_impossible_sizes_raise(cls, sizes):
    with pytest.raises(ParameterError, match="must be"):
        cls(*sizes)


# ---- exp, log, dist --------------------------------------------------------------------------------------------------


@every
def test_exp_and_log_are_inverse(M, rng):
    s = sample(M, rng, 50)
    p, q, v = s["p"], s["q"], s["v"]
    assert np.max(length(M, p, M.log(p, M.exp(p, v)) - v)) < 1e-12
    assert np.max(M.dist(M.exp(p, M.log(p, q)), q)) < 1e-12
    assert np.max(M.residual(M.exp(p, v))) < 1e-12
    zero = np.zeros_like(v)
    np.testing.assert_allclose(M.exp(p, zero), p, rtol=0, atol=1e-15)
    assert np.max(length(M, p, M.log(p, p))) < 1e-14


@every
def test_dist_is_a_metric_and_the_norm_of_log(M, rng):
    s = sample(M, rng, 50)
    p, q = s["p"], s["q"]
    r = M.exp(p, s["v"])
    pq = M.dist(p, q)
    np.testing.assert_allclose(pq, M.norm(p, M.log(p, q)), rtol=1e-12)
    np.testing.assert_allclose(pq, M.dist(q, p), rtol=1e-12)
    np.testing.assert_allclose(M.norm(p, s["v"]), M.dist(p, r), rtol=1e-12)
    assert np.all(pq > 0)
    assert np.all(M.dist(p, p) <= 1e-14)
    assert np.all(pq <= (M.dist(p, r) + M.dist(r, q)) * (1 + 1e-12))


@every
@pytest.mark.parametrize("scale", [1e-15, 1e-12, 1e-8, 1e-4])
def test_small_distances_keep_their_digits(M, rng, scale):
    """log inverts exp on the scale of the displacement, at the origin, where the floats are fine enough to carry it."""
    z = rng.normal(size=(20, M.dim))
    z *= scale / np.linalg.norm(z, axis=-1, keepdims=True)
    q = M.exp(M.origin, M.from_coordinates(M.origin, z))
    rounding = 4e-16 * math.sqrt(math.prod(M.point_shape))
    error = np.abs(M.dist(M.origin, q) - scale)
    assert np.max(error) <= 1e-12 * scale + rounding
    assert (
        np.max(np.linalg.norm(M.to_coordinates(M.origin, M.log(M.origin, q)) - z, axis=-1)) <= 1e-12 * scale + rounding
    )


@every
def test_tangent_vectors_are_tangent(M, rng):
    s = sample(M, rng, 20)
    p, q = s["p"], s["q"]
    tangents = [(p, s["v"]), (p, M.log(p, q)), (q, M.transport(p, q, s["v"]))]
    tangents.append((p, M.to_tangent(p, rng.normal(size=p.shape))))
    for at, v in tangents:
        np.testing.assert_allclose(M.to_tangent(at, v), v, rtol=0, atol=1e-13 * max(1.0, np.max(np.abs(v))))
    # a curve through p with this velocity stays on the manifold to first order
    for h in (1e-4, 1e-5):
        assert np.max(M.residual(p + h * s["v"])) < 10 * h**2 + 1e-14


@every
def test_project(M, rng):
    p = sample(M, rng, 20)["p"]
    assert np.max(M.dist(M.project(p), p)) < 1e-14
    anywhere = M.project(rng.normal(size=(50, *M.point_shape)))
    assert np.max(M.residual(anywhere)) < 1e-13
    assert M.project(np.zeros(M.point_shape)).shape == M.point_shape
    assert np.all(np.isfinite(M.project(np.zeros(M.point_shape))))
    assert M.residual(M.project(np.zeros(M.point_shape))) < 1e-13
    nearby = M.project(p + 1e-7 * rng.normal(size=p.shape))
    assert np.max(M.dist(nearby, p)) < 1e-5


@every
def test_residual_sees_what_is_off_and_nan(M, rng):
    with np.errstate(all="ignore"):
        assert not M.residual(np.full(M.point_shape, np.nan)) <= 1
    if not isinstance(M, Euclidean):
        assert M.residual(-3 * np.ones(M.point_shape)) > 1e-3


# ---- transport and coordinates -----------------------------------------------------------------------------------------


@every
def test_transport_is_a_linear_isometry(M, rng):
    s = sample(M, rng, 50)
    p, q, u, v = s["p"], s["q"], s["u"], s["v"]
    tu, tv = M.transport(p, q, u), M.transport(p, q, v)
    np.testing.assert_allclose(M.inner(q, tu, tv), M.inner(p, u, v), rtol=0, atol=1e-12)
    np.testing.assert_allclose(M.norm(q, tu), M.norm(p, u), rtol=1e-12)
    both = M.transport(p, q, 2 * u - 3 * v)
    assert np.max(length(M, q, both - 2 * tu + 3 * tv)) < 1e-12
    assert np.max(length(M, p, M.transport(p, p, v) - v)) < 1e-12


@every
def test_transport_is_parallel(M, rng):
    s = sample(M, rng, 50)
    p, q, v = s["p"], s["q"], s["v"] / 2
    if not isinstance(M, SPDBuresWasserstein):
        assert np.max(length(M, q, M.transport(p, q, M.log(p, q)) + M.log(q, p))) < 1e-12
    if isinstance(M, NOT_PARALLEL):
        return
    # Pole ladder: one step is exact on symmetric spaces (Pennec 2018), and all the others here are symmetric.
    middle = M.exp(p, M.log(p, q) / 2)
    ladder = -M.log(q, M.exp(middle, -M.log(middle, M.exp(p, v))))
    assert np.max(length(M, q, M.transport(p, q, v) - ladder)) < 1e-11


@every
def test_coordinates_are_a_linear_isometry(M, rng):
    s = sample(M, rng, 50)
    p, u, v, z = s["p"], s["u"], s["v"], s["z"]
    y = M.to_coordinates(p, u)
    assert y.shape == (50, M.dim)
    np.testing.assert_allclose(M.inner(p, u, v), np.sum(y * z, axis=-1), rtol=0, atol=1e-13)
    np.testing.assert_allclose(M.norm(p, v), np.linalg.norm(z, axis=-1), rtol=1e-13)
    np.testing.assert_allclose(M.to_coordinates(p, v), z, rtol=0, atol=1e-13)
    both = M.from_coordinates(p, 2 * y - 3 * z)
    np.testing.assert_allclose(both, 2 * u - 3 * v, rtol=0, atol=1e-12)
    frame = M.from_coordinates(p[:, None], np.eye(M.dim))
    gram = M.inner(p[:, None, None], frame[:, :, None], frame[:, None, :])
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(M.dim), gram.shape), rtol=0, atol=1e-13)


@every
@pytest.mark.parametrize("name", METHODS)
def test_broadcasts_over_leading_axes(M, rng, name):
    s = sample(M, rng, 6)
    kinds = METHODS[name]
    trailing = {k: 1 if k == "z" else len(M.point_shape) for k in kinds}

    def shaped(k, batch):
        x = s[k]
        return x[: math.prod(batch)].reshape(*batch, *x.shape[1:])

    kernel = getattr(M, name)
    # every pairing of: one point, a row of them, a column against a row; tangent vectors are vectors of p[0]
    p0 = s["p"][0]
    s["u"], s["v"] = M.from_coordinates(p0, M.to_coordinates(s["p"], s["u"])), M.from_coordinates(p0, s["z"])
    s["p"] = np.broadcast_to(p0, s["p"].shape)
    for batches in itertools.product([(), (3,), (2, 1)], repeat=len(kinds)):
        full = np.broadcast_shapes(*batches)
        inputs = [shaped(k, batch) for k, batch in zip(kinds, batches, strict=True)]
        whole = kernel(*inputs)
        rank = whole.ndim - len(full)
        assert whole.shape[: len(full)] == full, f"{name} with batches {batches} gave {whole.shape}"
        for index in np.ndindex(full):
            parts = []
            for k, x in zip(kinds, inputs, strict=True):
                x = np.broadcast_to(x, (*full, *x.shape[x.ndim - trailing[k] :]))
                parts.append(np.ascontiguousarray(x[index]))
            alone = kernel(*parts)
            assert alone.ndim == rank
            np.testing.assert_allclose(whole[index], alone, rtol=1e-11, atol=1e-12)


@every
def test_empty_batches(M, rng):
    s = {k: x[:0] for k, x in sample(M, rng, 1).items()}
    for name, kinds in METHODS.items():
        assert getattr(M, name)(*(s[k] for k in kinds)).shape[0] == 0


# ---- Taylor slopes and curvature ---------------------------------------------------------------------------------------


def slope(t, error):
    """Order of decay, by least squares in log-log."""
    return np.polyfit(np.log(t), np.log(error), 1)[0]


@every
def test_slopes_of_the_squared_distance(M, rng):
    """½d² has gradient -log (slope 2) and a Hessian made of Jacobi fields (slope 3)."""
    s = sample(M, rng, 1)
    p, q, v = s["p"][0], s["q"][0], s["v"][0]
    v = v * (reach(M) / 2 / M.norm(p, v))

    def f(t):
        return M.dist(M.exp(p, np.reshape(t, np.shape(t) + (1,) * p.ndim) * v), q) ** 2 / 2

    t = np.geomspace(0.02, 0.2, 8)
    first = f(t) - f(0.0) + t * M.inner(p, v, M.log(p, q))
    assert slope(t, np.abs(first)) > 1.9

    def hessian(h):  # <∇_v(-log q), v>, along the geodesic itself, whose velocity is parallel
        ends = [(M.exp(p, x * v), x) for x in (h, -h)]
        values = []
        for end, x in ends:
            velocity = M.log(end, M.exp(p, 2 * x * v)) / x
            values.append(-M.inner(end, velocity, M.log(end, q)))
        return (values[0] - values[1]) / (2 * h)

    second = (4 * hessian(1e-3) - hessian(2e-3)) / 3
    error = np.abs(first - t**2 / 2 * second)
    assert np.all(error < 1e-11) or slope(t, error) > 2.8


def curvature(M, p, u, v, t):
    """Sectional curvature of orthonormal u, v at p, from d²(exp tu, exp tv) = 2t² - K t⁴/3 + ... .

    Odd terms are taken away by ±t and the next even one by halving t; what is left is O(t⁴).
    """

    def once(t):
        square = [M.dist(M.exp(p, x * u), M.exp(p, x * v)) ** 2 for x in (t, -t)]
        return 3 * (2 * t**2 - (square[0] + square[1]) / 2) / t**4

    return (4 * once(t / 2) - once(t)) / 3


def curvature_of(M, p, pair):
    """Sectional curvature of planes given by orthonormal pairs of coordinate vectors, shape (n, dim, 2)."""
    u, v = (M.from_coordinates(p, pair[..., i]) for i in (0, 1))
    return curvature(M, p, u, v, 0.04 * reach(M))


def axis_planes(M):
    i, j = np.triu_indices(M.dim, 1)
    return np.stack([np.eye(M.dim)[i], np.eye(M.dim)[j]], axis=-1)


CURVED = [M for M in SPACES + EDGES if M.dim > 1]


@pytest.mark.parametrize("M", CURVED, ids=repr)
def test_curvatures_lie_within_the_bounds(M, rng):
    low, high = M.curvature_bounds
    p = sample(M, rng, 1)["p"][0]
    random = np.linalg.qr(rng.normal(size=(40, M.dim, 2)))[0]
    values = curvature_of(M, p, np.concatenate([axis_planes(M), random]))
    assert np.min(values) >= low - 1e-4
    assert np.max(values) <= high + 1e-4


# Climbing over planes costs minutes on Stiefel, whose log is iterative; Bures-Wasserstein's bounds hold over all points.
CLIMBED = [SPDAffineInvariant(3), Grassmann(5, 2), Rotations(4), KendallShapes(5), SPACES[-1]]


@pytest.mark.parametrize("M", CLIMBED, ids=repr)
@pytest.mark.parametrize("sign", [1, -1])
def test_curvature_bounds_are_sharp_and_not_passed_by_climbing(M, rng, sign):
    p = sample(M, rng, 1)["p"][0]
    pair = axis_planes(M)
    value = sign * curvature_of(M, p, pair)
    top = np.argsort(value)[-12:]
    pair, value = pair[top], value[top]
    for step in np.geomspace(0.7, 0.005, 60):
        trial = np.linalg.qr(pair + step * rng.normal(size=pair.shape))[0]
        new = sign * curvature_of(M, p, trial)
        better = new > value
        pair, value = np.where(better[:, None, None], trial, pair), np.where(better, new, value)
    extreme, bound = sign * np.max(value), M.curvature_bounds[sign == 1]
    assert sign * (extreme - bound) <= 2e-4
    assert abs(extreme - bound) < 0.02


def scalar_curvature(M, p):
    return 2 * np.sum(curvature_of(M, p, axis_planes(M)))


@pytest.mark.parametrize("M", CURVED, ids=repr)
def test_homogeneous_spaces_look_the_same_everywhere(M, rng):
    """Isometries carry the scalar curvature along, so it is constant on a homogeneous space."""
    values = np.array([scalar_curvature(M, p) for p in sample(M, rng, 3)["q"]])
    spread = np.ptp(values)
    if M.is_homogeneous:
        assert spread < 1e-3
    else:
        assert spread > 1e-2, "claimed inhomogeneous but looks the same everywhere"


@every
def test_injectivity_radius(M, rng):
    radius = M.injectivity_radius
    if radius == 0:
        return  # no radius is claimed
    p = sample(M, rng, 1)["p"][0]
    z = rng.normal(size=(30, M.dim))
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    z = np.concatenate([z, np.eye(M.dim)])
    inside = 0.999 * radius if math.isfinite(radius) else 5.0
    q = M.exp(p, M.from_coordinates(p, inside * z))
    np.testing.assert_allclose(M.dist(p, q), inside, rtol=1e-9)
    np.testing.assert_allclose(M.to_coordinates(p, M.log(p, q)), inside * z, rtol=0, atol=1e-7)
    if math.isfinite(radius):  # sharp: beyond it, some direction has a shorter way
        beyond = M.dist(p, M.exp(p, M.from_coordinates(p, 1.01 * radius * z)))
        assert np.min(beyond) < 1.005 * radius


# ---- any input in range ------------------------------------------------------------------------------------------------

_numbers = st.floats(-1, 1, allow_subnormal=False) | st.sampled_from([0.0, 1e-300, -1e-15, 1e-8, 1.0])


@main
@settings(derandomize=True, max_examples=25, deadline=None, database=None)
@given(data=st.data())
def test_properties_for_any_coordinates(M, data):
    draw = [data.draw(arrays(np.float64, M.dim, elements=_numbers)) for _ in range(3)]
    a, b, c = (z * (reach(M) / math.sqrt(M.dim)) for z in draw)
    p = M.exp(M.origin, M.from_coordinates(M.origin, a))
    q, r = M.exp(p, M.from_coordinates(p, b)), M.exp(p, M.from_coordinates(p, c))
    assert abs(M.dist(p, q) - np.linalg.norm(b)) < 1e-13
    assert np.linalg.norm(M.to_coordinates(p, M.log(p, q)) - b) < 1e-12
    assert M.dist(q, r) <= M.dist(q, p) + M.dist(p, r) + 1e-14
    moved = M.transport(p, q, M.from_coordinates(p, c))
    assert abs(M.norm(q, moved) - np.linalg.norm(c)) < 1e-12


# ---- array libraries -----------------------------------------------------------------------------------------------------


def _calls(M, s):
    return {name: [s[k] for k in kinds] for name, kinds in METHODS.items()}


def _same(actual, expected, name):
    scale = max(1.0, np.max(np.abs(expected)))
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=0, atol=1e-11 * scale, err_msg=name)


@every
def test_array_api_strict(M, rng):
    strict = pytest.importorskip("array_api_strict")
    s = sample(M, rng, 4)
    for name, args in _calls(M, s).items():
        actual = getattr(M, name)(*(strict.asarray(x) for x in args))
        assert isinstance(actual, type(strict.asarray(0.0))), name
        _same(actual, getattr(M, name)(*args), name)


def _jit(jax, f):
    """Compiled without the optimiser: it takes most of the time and rewrites arithmetic little."""
    return jax.jit(f, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True})


@compiled
def test_jax_jit_and_vmap(M, rng):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        calls = _calls(M, sample(M, rng, 4))
        mapped = jax.vmap(lambda calls: {name: getattr(M, name)(*args) for name, args in calls.items()})
        for name, actual in _jit(jax, mapped)(calls).items():
            _same(actual, getattr(M, name)(*calls[name]), name)


@compiled
def test_jax_gradients(M, rng):
    """Finite and right everywhere, at p = q too: grad ½d²(exp_p(z), q) at z = 0 is -log(p, q)."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):

        def energy(z, p, q):
            return M.dist(M.exp(p, M.from_coordinates(p, z)), q) ** 2 / 2

        s = sample(M, rng, 3)
        same = np.concatenate([s["p"], M.origin[None]])
        p, q = np.concatenate([same, same]), np.concatenate([same, s["q"], s["q"][:1]])
        zero = np.zeros((8, M.dim))
        gradient = _jit(jax, jax.vmap(jax.grad(energy, argnums=(0, 2))))
        by_z, by_q = gradient(zero, p, q)
        np.testing.assert_allclose(by_z[:4], 0, atol=1e-13)
        np.testing.assert_allclose(by_q[:4], 0, atol=1e-13)
        np.testing.assert_allclose(by_z[4:], -M.to_coordinates(p, M.log(p, q))[4:], rtol=0, atol=1e-10)
        assert np.all(np.isfinite(by_q))


@every
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_other_libraries(M, rng, library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    s = sample(M, rng, 4)
    for name, args in _calls(M, s).items():
        actual = getattr(M, name)(*(xp.asarray(x) for x in args))
        _same(actual.get() if library == "cupy" else actual, getattr(M, name)(*args), name)


# ---- the suite can fail ----------------------------------------------------------------------------------------------------


class _ArccosDistance(Sphere):
    """Loses all digits below 1e-8."""

    def dist(self, p, q):
        return np.arccos(np.clip(np.sum(p * q, axis=-1), -1, 1))


class _Retraction(Sphere):
    """Moves by normalising p + v, not along geodesics."""

    def exp(self, p, v):
        return self.project(p + v)


class _ProjectedTransport(Sphere):
    """Orthogonal projection shortens vectors."""

    def transport(self, p, q, v):
        return self.to_tangent(q, v)


class _TwistedTransport(Sphere):
    """An isometry, but by way of the frames: not parallel."""

    def transport(self, p, q, v):
        return self.from_coordinates(q, self.to_coordinates(p, v))


class _PrintedFrame(Sphere):
    """Erratum E10: not orthonormal."""

    def from_coordinates(self, p, z):
        return self.to_tangent(p, np.concatenate([np.zeros_like(z[..., :1]), z], axis=-1))


class _HalfNoise(PoincareBall):
    """Erratum E8: vectors half as long as claimed."""

    def from_coordinates(self, p, z):
        return super().from_coordinates(p, z) / 2


class _WrongCurvature(Sphere):
    @property
    def curvature_bounds(self):
        return (0.0, 0.9)


class _WrongInjectivity(Sphere):
    @property
    def injectivity_radius(self):
        return 1.2 * math.pi


@pytest.mark.parametrize(
    ("M", "check"),
    [
        (_ArccosDistance(3), lambda M, rng: test_small_distances_keep_their_digits(M, rng, 1e-12)),
        (_Retraction(3), test_exp_and_log_are_inverse),
        (_ProjectedTransport(3), test_transport_is_a_linear_isometry),
        (_TwistedTransport(3), test_transport_is_parallel),
        (_PrintedFrame(3), test_coordinates_are_a_linear_isometry),
        (_HalfNoise(3), test_coordinates_are_a_linear_isometry),
        (_WrongCurvature(3), test_curvatures_lie_within_the_bounds),
        (_WrongInjectivity(3), test_injectivity_radius),
    ],
    ids=lambda x: type(x).__name__ if hasattr(x, "dim") else "",
)
def test_wrong_spaces_are_caught(M, check, rng):
    with pytest.raises(AssertionError):
        check(M, rng)
