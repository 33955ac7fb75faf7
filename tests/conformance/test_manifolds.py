"""What every manifold must do, checked once for all of them (`spaces.py`), and that every one of them is."""

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from curvedp import geometry
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Manifold,
    PoincareBall,
    Product,
    Rotations,
    Simplex,
    SPDBuresWasserstein,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.geometry.manifold import manifold_kinds
from curvedp.testing import CHECKS, check_manifold
from support.spaces import EDGES, SPACES, reach, sample

every = pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
main = pytest.mark.parametrize("M", SPACES, ids=repr)


@every
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(M, check):
    check(M, sample(M, np.random.default_rng(2026), 50))


@every
def test_residual_is_positive_off_the_manifold(M):
    if not isinstance(M, Euclidean | Torus):  # any numbers are their points
        assert M.residual(-3 * np.ones(M.point_shape)) > 1e-3


@every
def test_random_points_belong(M):
    points = M.random_point(np.random.default_rng(0), 5)
    assert points.shape == (5, *M.point_shape)
    assert np.all(M.belongs(points))
    assert M.random_point(np.random.default_rng(0)).shape == M.point_shape
    assert not M.belongs(np.full(M.point_shape, np.nan))


# ---- every manifold is everywhere -----------------------------------------------------------------------------------------

OURS = [
    cls
    for name in geometry.__all__
    if isinstance(cls := getattr(geometry, name), type) and issubclass(cls, Manifold)
]
OURS.remove(Manifold)


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_every_manifold_is_named_tested_and_documented(cls):
    assert cls is Product or manifold_kinds.find(cls.kind) is cls, (
        "set `kind`, the name for certificates"
    )
    assert any(type(M) is cls for M in SPACES), "add it to tests/support/spaces.py"
    page = (
        Path(__file__).parents[2] / "docs" / "reference" / "manifolds.md"
    ).read_text(encoding="utf-8")
    assert f"| `{cls.__name__}(" in page, (
        "add a row to the table of docs/reference/manifolds.md"
    )


def test_the_interface_fits_on_a_page():
    """29 members, and 3 for the name; 15 of them are abstract."""
    members = {name for name in vars(Manifold) if not name.startswith("_")}
    assert len(members) <= 29
    assert len(Manifold.__abstractmethods__) == 15


def test_no_manifold_of_ours_is_hidden():
    ours = {cls for cls in manifold_kinds if cls.__module__.startswith("curvedp.")}
    assert ours == set(OURS) - {Product}


# ---- sizes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cls", sorted({type(M) for M in SPACES[:-1]}, key=lambda cls: cls.__name__)
)
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
    ("cls", "sizes"),
    [(Stiefel, (2, 3)), (Grassmann, (3, 3)), (Rotations, (1,)), (KendallShapes, (2,))],
)
def test_impossible_sizes_raise(cls, sizes):
    with pytest.raises(ParameterError, match="must be"):
        cls(*sizes)


# ---- any input in range ------------------------------------------------------------------------------------------------

_numbers = st.floats(-1, 1, allow_subnormal=False) | st.sampled_from(
    [0.0, 1e-300, -1e-15, 1e-8, 1.0]
)


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
    """Moves by normalizing p + v, not along geodesics."""

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
        return self.to_tangent(
            p, np.concatenate([np.zeros_like(z[..., :1]), z], axis=-1)
        )


class _HalfNoise(PoincareBall):
    """Erratum E8: vectors half as long as claimed."""

    def from_coordinates(self, p, z):
        return super().from_coordinates(p, z) / 2


class _Hunched(Sphere):
    """Claims less curvature than it has: a sensitivity too small."""

    @property
    def curvature_bounds(self):
        return (0.5, 0.5)

    @property
    def is_symmetric(self):
        return False


class _Absolute(Sphere):
    """Raises on a record that it does not like."""

    def from_record(self, x):
        if np.any(np.abs(np.linalg.norm(x, axis=-1) - 1) > 1e-6):
            raise ValueError("not a unit vector")
        return x


class _Shared(Sphere):
    """What becomes of a record depends on the others."""

    def from_record(self, x):
        return (
            self.project(x - 1e-3 * np.mean(x, axis=0))
            if x.ndim > 1
            else self.project(x)
        )


class _Endless(Sphere):
    """Claims that geodesics are shortest for ever: a ball too large for a sensitivity."""

    injectivity_radius = np.inf


class _Longer(Sphere):
    """The same by a tenth."""

    injectivity_radius = 1.1 * np.pi


class _Plump(Sphere):
    """One dimension more than it has."""

    @property
    def dim(self):
        return self.d + 1


class _Lean(Sphere):
    """One dimension less: noise without one direction."""

    @property
    def dim(self):
        return self.d - 1


class _Blind(Sphere):
    """Takes anything for a point."""

    def residual(self, p):
        return 0 * super().residual(p)


class _Alike(SPDBuresWasserstein):
    """Claims that all of its points are alike: a normalizer that does not depend on the center."""

    is_homogeneous = True


WRONG = [
    (_Endless, "Geodesics from the origin are shortest"),
    (_Longer, "Geodesics from the origin are shortest"),
    (_Plump, "as many numbers as `dim` says"),
    (_Lean, "as many numbers as `dim` says"),
    (_Blind, "off the manifold"),
    (_Alike, "not homogeneous"),
    (
        _ArccosDistance,
        "exp and log are inverse|dist is a metric|accurate down to lengths of 1e-15",
    ),
    (_Retraction, "exp and log are inverse"),
    (_ProjectedTransport, "linear isometry"),
    (_TwistedTransport, "maps log"),
    (
        _PrintedFrame,
        "norm of log|exp and log are inverse|Coordinates are a linear isometry|rank",
    ),
    (
        _HalfNoise,
        "norm of log|exp and log are inverse|Coordinates are a linear isometry|1e-15",
    ),
    (_Hunched, "Sectional curvatures"),
    (_Absolute, "without a warning|leaves points where they are"),
    (_Shared, "leaves points where they are|depend on the other records"),
]


@pytest.mark.parametrize(
    ("cls", "law"), WRONG, ids=lambda x: x.__name__ if isinstance(x, type) else ""
)
def test_wrong_spaces_are_caught_by_name(cls, law):
    with pytest.raises(AssertionError, match=law):
        check_manifold(cls(3))


@pytest.mark.parametrize("k", [1, 2, 9, 30])
def test_simplices_of_every_size_conform(k):
    check_manifold(Simplex(k))
    check_manifold(Product(Sphere(2), Simplex(k)))


def test_a_correct_manifold_passes_and_a_class_is_refused():
    check_manifold(Sphere(2))
    with pytest.raises(AssertionError, match="not an instance"):
        check_manifold(Sphere)
