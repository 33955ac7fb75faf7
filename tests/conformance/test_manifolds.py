"""What every manifold must do, checked once for all of them (`spaces.py`)."""

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
    PoincareBall,
    Rotations,
    SPDBuresWasserstein,
    Sphere,
    Stiefel,
    Torus,
)
from spaces import EDGES, METHODS, SPACES, length, reach, sample

NOT_PARALLEL = (Stiefel, SPDBuresWasserstein)  # their docstrings say: an isometry of tangent spaces, not parallel
every = pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
main = pytest.mark.parametrize("M", SPACES, ids=repr)


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
    for position, field in enumerate(dataclasses.fields(cls)):
        if field.type is float and bad == 2.0:
            continue  # a good length
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
    if not isinstance(M, Euclidean | Torus):
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


@pytest.mark.parametrize(
    ("M", "check"),
    [
        (_ArccosDistance(3), lambda M, rng: test_small_distances_keep_their_digits(M, rng, 1e-12)),
        (_Retraction(3), test_exp_and_log_are_inverse),
        (_ProjectedTransport(3), test_transport_is_a_linear_isometry),
        (_TwistedTransport(3), test_transport_is_parallel),
        (_PrintedFrame(3), test_coordinates_are_a_linear_isometry),
        (_HalfNoise(3), test_coordinates_are_a_linear_isometry),
    ],
    ids=lambda x: type(x).__name__ if hasattr(x, "dim") else "",
)
def test_wrong_spaces_are_caught(M, check, rng):
    with pytest.raises(AssertionError):
        check(M, rng)
