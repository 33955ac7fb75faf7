"""Manifolds as strangers write them, from docs/project/extending.md alone.

A globe, lines, a half plane, the hours of a day.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivateTangentSpace,
    PureDP,
    check,
    plan,
)
from curvedp.geometry import Grassmann, Lorentz, Manifold, Sphere, frechet_mean
from curvedp.inference import two_sample_test
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.optim import FrechetMeanProblem, dp_rgd
from curvedp.release.verify import verify_certificate
from curvedp.testing import check_manifold


@dataclass(frozen=True)
class Globe(Manifold):
    """The sphere of radius R in space."""

    kind: ClassVar[str] = "test-globe"
    is_symmetric = True
    is_homogeneous = True
    dim = 2
    point_shape = (3,)
    R: float

    @property
    def origin(self):
        return np.array([0.0, 0.0, self.R])

    @property
    def curvature_bounds(self):
        return (self.R**-2, self.R**-2)

    @property
    def injectivity_radius(self):
        return math.pi * self.R

    def exp(self, p, v):
        t = np.linalg.norm(v, axis=-1, keepdims=True) / self.R
        return self.project(np.cos(t) * p + np.sinc(t / math.pi) * v)

    def log(self, p, q):
        w = self.to_tangent(p, q - p)
        length = np.linalg.norm(w, axis=-1, keepdims=True)
        away = (
            2
            * self.R
            * np.arctan2(
                np.linalg.norm(p - q, axis=-1), np.linalg.norm(p + q, axis=-1)
            )[..., None]
        )
        return np.where(length > 0, w * away / np.where(length > 0, length, 1.0), 0 * w)

    def inner(self, p, u, v):
        return np.sum(u * v + 0 * p, axis=-1)

    def transport(self, p, q, v):
        pq = np.sum(p * q, axis=-1, keepdims=True)
        return v - np.sum(q * v, axis=-1, keepdims=True) / (self.R**2 + pq) * (p + q)

    def project(self, x):
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        scaled = x * (self.R / np.where(length == 0, 1.0, length))
        return np.where(length == 0, self.origin, scaled)

    def to_tangent(self, p, x):
        return x - p * np.sum(p * x, axis=-1, keepdims=True) / self.R**2

    def residual(self, p):
        return np.abs(np.linalg.norm(p, axis=-1) / self.R - 1)

    def _frame(self, p):
        w, up = np.asarray(p) / self.R, np.array([0.0, 0.0, 1.0])
        columns = [
            np.eye(3)[i] - w[..., i : i + 1] / (1 + w[..., 2:]) * (up + w)
            for i in (0, 1)
        ]
        return np.stack(columns, axis=-1)

    def from_coordinates(self, p, z):
        return np.einsum("...ij,...j->...i", self._frame(p), z)

    def to_coordinates(self, p, v):
        return np.einsum("...ij,...i->...j", self._frame(p), v)


@dataclass(frozen=True)
class Lines(Globe):
    """Lines through the middle of the unit globe."""

    kind: ClassVar[str] = "test-lines"
    R: float = 1.0

    @property
    def injectivity_radius(self):
        return math.pi * self.R / 2

    def log(self, p, q):
        return super().log(
            p, np.where(np.sum(p * q, axis=-1, keepdims=True) >= 0, q, -q)
        )

    def transport(self, p, q, v):
        return super().transport(
            p, np.where(np.sum(p * q, axis=-1, keepdims=True) >= 0, q, -q), v
        )


@dataclass(frozen=True)
class HalfPlane(Manifold):
    """(x, y), y > 0, at the lengths |du|/y."""

    kind: ClassVar[str] = "test-half-plane"
    is_symmetric = True
    is_homogeneous = True
    dim = 2
    point_shape = (2,)
    curvature_bounds = (-1.0, -1.0)
    injectivity_radius = math.inf
    d: int = 2

    @property
    def origin(self):
        return np.array([0.0, 1.0])

    def exp(self, p, v):
        w = v / p[..., 1:]
        t = np.linalg.norm(w, axis=-1, keepdims=True)
        side = np.where(t > 0, np.sinh(t) / np.where(t > 0, t, 1.0), 1.0) * w
        y = 1 / (np.cosh(t[..., 0]) - side[..., 1])
        return np.stack(
            [p[..., 0] + p[..., 1] * side[..., 0] * y, p[..., 1] * y], axis=-1
        )

    def log(self, p, q):
        x, y = (q[..., 0] - p[..., 0]) / p[..., 1], q[..., 1] / p[..., 1]
        up = (x * x + (y - 1) * (y + 1)) / (2 * y)
        s = np.hypot(x / y, up)
        share = np.where(s > 0, np.arcsinh(s) / np.where(s > 0, s, 1.0), 1.0)
        return np.stack([share * x / y, share * up], axis=-1) * p[..., 1:]

    def inner(self, p, u, v):
        return np.sum(u / p[..., 1:] * (v / p[..., 1:]), axis=-1)

    def transport(self, p, q, v):
        z, w, c = (a[..., 0] + 1j * a[..., 1] for a in (p, q, v))
        with np.errstate(invalid="ignore"):  # complex division warns of NaN
            c = c * (w.imag / z.imag) * (w - np.conj(z)) / (z - np.conj(w))
        return np.stack([c.real, c.imag], axis=-1)

    def project(self, x):
        return np.stack([x[..., 0], np.maximum(x[..., 1], 1e-300)], axis=-1)

    def from_record(self, x):
        return np.where(x[..., 1:] > 0, x, np.nan)

    def to_tangent(self, p, x):
        return x + 0 * p

    def residual(self, p):
        return np.where(p[..., 1] > 0, 0.0, 1.0) + 0 * np.sum(p, axis=-1)

    def from_coordinates(self, p, z):
        return z * p[..., 1:]

    def to_coordinates(self, p, v):
        return v / p[..., 1:]


@dataclass(frozen=True)
class Hours(Manifold):
    """A time of day: a point is one number, of shape ()."""

    kind: ClassVar[str] = "test-hours"
    is_symmetric = True
    is_homogeneous = True
    dim = 1
    point_shape = ()
    curvature_bounds = (0.0, 0.0)
    day: float = 24.0

    @property
    def origin(self):
        return np.array(0.0)

    @property
    def injectivity_radius(self):
        return self.day / 2

    def project(self, x):
        return x - self.day * np.round(x / self.day)

    def exp(self, p, v):
        return self.project(p + v)

    def log(self, p, q):
        return self.project(q - p)

    def inner(self, p, u, v):
        return u * v + 0 * p

    def transport(self, p, q, v):
        return v + 0 * p + 0 * q

    def to_tangent(self, p, x):
        return x + 0 * p

    def residual(self, p):
        return 0 * p

    def from_coordinates(self, p, z):
        return z[..., 0] + 0 * p

    def to_coordinates(self, p, v):
        return (v + 0 * p)[..., None]


STRANGERS = [Globe(2.0), Globe(0.01), Lines(), HalfPlane(), Hours()]
every = pytest.mark.parametrize("M", STRANGERS, ids=repr)


@every
def test_manifolds_of_strangers_conform(M):
    check_manifold(M)


def cloud(M):
    length = min(1.0, 0.6 * M.convexity_radius)
    return length, M.from_normal_coordinates(
        M.origin, 0.2 * length * np.random.default_rng(0).standard_normal((300, M.dim))
    )


def verified(certificate):
    return all(one.holds is not False for one in verify_certificate(certificate))


@every
@pytest.mark.parametrize(
    "option", ["auto", "tangent-gaussian", "tangent-laplace", "gradient", "kng"]
)
def test_means_by_every_mechanism_that_needs_no_sampler_of_their_own(M, option):
    radius, X = cloud(M)
    guarantee = GDP(1.0) if option == "tangent-gaussian" else PureDP(1.0)
    mean = PrivateFrechetMean(
        M, radius=radius, mechanism=option, guarantee=guarantee
    ).fit(X)
    assert verified(mean.certificate_)
    assert M.dist(mean.location_, frechet_mean(M, X)) < 20 * mean.predicted_error_
    assert 0 < mean.predicted_error_ < radius


@every
def test_every_estimator(M):
    radius, X = cloud(M)
    half, times = np.arange(300) % 2, np.linspace(0, 1, 300)
    for kind in (PrivateFrechetMedian, PrivateDispersion, PrivateTangentSpace):
        assert verified(kind(M, radius=radius).fit(X).certificate_)
    assert verified(
        PrivateFrechetMean(M, radius=radius)
        .fit(X, groups=np.arange(300) // 3)
        .certificate_
    )
    classes = PrivateMDM(M, radius=radius).fit(X, half)
    assert classes.predict_proba(X).shape == (300, 2)
    for guarantee in (PureDP(1.0), GDP(1.0)):
        line = PrivateGeodesicRegression(
            M,
            radius=radius,
            speed=radius,
            clip=radius / 2,
            guarantee=guarantee,
            x_range=(0, 1),
        )
        assert verified(line.fit(times, X).certificate_)
        assert line.predict([0.0, 0.5, 1.0]).shape == (3, *M.point_shape)
    assert verified(
        two_sample_test(
            M, X[:150], X[150:], radius=radius, guarantee=GDP(1.0)
        ).certificate
    )
    assert plan(M, n=300, radius=radius).error > 0
    assert "300" in str(check(M, X, radius=radius))


@every
def test_arrays_of_other_libraries(M):
    """JAX traces kernels, which these cannot stand: their records are taken to the host."""
    jnp, dask = pytest.importorskip("jax.numpy"), pytest.importorskip("dask.array")
    radius, X = cloud(M)
    for other in (jnp.asarray(X), dask.from_array(X, chunks=(100, *M.point_shape))):
        mean = PrivateFrechetMean(M, radius=radius).fit(other)
        assert M.dist(mean.location_, frechet_mean(M, X)) < 20 * mean.predicted_error_


TWINS = [
    (Globe(2.0), Sphere(2), 2.0),
    (Lines(), Grassmann(3, 1), 1.0),
    (HalfPlane(), Lorentz(2), 1.0),
    (Hours(), Sphere(1), 24 / math.tau),
]


@pytest.mark.parametrize(("M", "ours", "unit"), TWINS, ids=repr)
def test_laws_are_those_of_the_same_space_in_other_units(M, ours, unit):
    for law in (RiemannianGaussian, RiemannianLaplace):
        theirs, known = (
            law(M, 0.3 * unit).profile(0.2 * unit),
            law(ours, 0.3).profile(0.2),
        )
        np.testing.assert_allclose(
            [theirs.delta(e) for e in (0.0, 0.4)],
            [known.delta(e) for e in (0.0, 0.4)],
            rtol=1e-9,
        )
        np.testing.assert_allclose(
            law(M, 0.3 * unit).radial_cdf(0.4 * unit),
            law(ours, 0.3).radial_cdf(0.4),
            rtol=1e-9,
        )


def test_kernels_for_numpy_alone_are_refused_by_private_descent_in_one_line():
    _, X = cloud(HalfPlane())
    with pytest.raises(Exception, match=r"array_namespace\Z"):
        dp_rgd(
            FrechetMeanProblem(HalfPlane()),
            X,
            HalfPlane().origin,
            steps=2,
            clip=1.0,
            learning_rate=0.5,
            noise=0.1,
        )


def test_a_refusal_states_the_law_and_no_parameters():
    class Misplaced(Sphere):
        @property
        def origin(self):
            return 2.0 * super().origin

    with pytest.raises(
        AssertionError, match="violates a property: The constants"
    ) as refusal:
        check_manifold(Misplaced(2))
    assert "Parameters" not in str(refusal.value)
