"""A quotient space as a stranger writes it: points are representatives of classes.

Complex projective space is the space of complex lines. A point is any unit vector of a
line, so kernels must first turn the phase of one representative to that of the other.
Random points that are made from each other are aligned already and would hide a kernel
that forgets it; `check_manifold` must not.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import Manifold, frechet_mean
from curvedp.testing import CHECKS, check_manifold


def _complex(x):
    return x[..., 0] + 1j * x[..., 1]


def _real(z):
    return np.stack([z.real, z.imag], axis=-1)


def _hermitian(a, b):
    """⟨a, b⟩ = Σ conj(aᵢ)·bᵢ, with a last axis of length one."""
    return np.sum(np.conj(a) * b, axis=-1, keepdims=True)


def _length(a):
    return np.sqrt(np.sum(np.abs(a) ** 2, axis=-1, keepdims=True))


def _phase(a):
    """a/|a|, 1 at 0."""
    modulus = np.abs(a)
    return _quotient(
        np.where(modulus == 0, 1.0, a), np.where(modulus == 0, 1.0, modulus)
    )


def _quotient(a, b):
    """Complex division warns of NaN, which a record may be; the others' do not."""
    with np.errstate(invalid="ignore"):
        return a / b


@dataclass(frozen=True)
class ComplexProjective(Manifold):
    """Lines of ℂ^{n+1} with the Fubini–Study metric: curvature between 1 and 4."""

    kind: ClassVar[str | None] = "test-complex-projective"
    n: int

    @property
    def dim(self):
        return 2 * self.n

    @property
    def point_shape(self):
        return (self.n + 1, 2)

    @property
    def origin(self):
        return _real(np.eye(1, self.n + 1)[0].astype(complex))

    @property
    def curvature_bounds(self):
        return (4.0, 4.0) if self.n == 1 else (1.0, 4.0)

    @property
    def injectivity_radius(self):
        return math.pi / 2

    @property
    def is_homogeneous(self):
        return True

    @property
    def jacobi_spectrum(self):
        return ((4.0, 1), (1.0, 2 * self.n - 2)) if self.n > 1 else ((4.0, 1),)

    def exp(self, p, v):
        p, v = _complex(p), _complex(v)
        length = _length(v)
        return _real(np.cos(length) * p + np.sinc(length / math.pi) * v)

    def _aligned(self, p, q):
        """q times the phase that makes ⟨p, q⟩ positive."""
        return q * np.conj(_phase(_hermitian(p, q)))

    def log(self, p, q):
        p, q = _complex(p), _complex(q)
        return _real(self._horizontal_log(p, self._aligned(p, q)))

    def _horizontal_log(self, p, q):
        difference = q - p
        normal = difference - _hermitian(p, difference) * p
        normal = normal - _hermitian(p, normal) * p
        sine = _length(normal)
        angle = np.arctan2(sine, _hermitian(p, q).real)
        stretch = angle / np.where(sine == 0, 1.0, sine)
        return np.where(sine == 0, 1.0, stretch) * normal

    def inner(self, p, u, v):
        return np.sum(u * v + 0 * p, axis=(-2, -1))

    def transport(self, p, q, v):
        p, q, v = _complex(p), _complex(q), _complex(v)
        moved = self._aligned(p, q)
        phase = _phase(_hermitian(p, q))
        return _real(phase * self._parallel(p, moved, v))

    def _parallel(self, p, q, v):
        """Parallel transport along the geodesic between aligned representatives."""
        velocity = self._horizontal_log(p, q)
        length = _length(velocity)
        unit = _quotient(velocity, np.where(length == 0, 1.0, length))
        along = _hermitian(unit, v)
        turned = np.cos(length) * unit - np.sin(length) * p
        return np.where(length == 0, v, v + along * (turned - unit))

    def project(self, x):
        z = _complex(x)
        length = _length(z)
        return np.where(
            length[..., None] == 0,
            self.origin,
            _real(_quotient(z, np.where(length == 0, 1.0, length))),
        )

    def to_tangent(self, p, x):
        p, x = _complex(p), _complex(x)
        x = x - _hermitian(p, x) * p
        return _real(x - _hermitian(p, x) * p)

    def residual(self, p):
        return np.abs(_length(_complex(p))[..., 0] - 1)

    def _reflect(self, p, w):
        """The unitary reflection that swaps the line of p with that of the origin."""
        axis = np.array(p + 0 * w)
        axis[..., :1] = axis[..., :1] + _phase(axis[..., :1])
        share = _quotient(_hermitian(axis, w), _hermitian(axis, axis))
        return w - 2 * axis * share

    def from_coordinates(self, p, z):
        w = z[..., 0::2] + 1j * z[..., 1::2]
        w = np.concatenate([np.zeros_like(w[..., :1]), w], axis=-1)
        return _real(self._reflect(_complex(p), w))

    def to_coordinates(self, p, v):
        w = self._reflect(_complex(p), _complex(v))[..., 1:]
        return _real(w).reshape(*w.shape[:-1], self.dim)


class LogForgetsPhase(ComplexProjective):
    """`log` and `dist` take representatives as they come."""

    def log(self, p, q):
        return _real(self._horizontal_log(_complex(p), _complex(q)))


class TransportForgetsPhase(ComplexProjective):
    """`transport` ends at the representative aligned with p, not at q."""

    def transport(self, p, q, v):
        p, q, v = _complex(p), _complex(q), _complex(v)
        return _real(self._parallel(p, self._aligned(p, q), v))


class TransportAlongUnalignedVelocity(ComplexProjective):
    """`transport` follows a velocity that is not horizontal where phases differ."""

    def transport(self, p, q, v):
        return _real(self._parallel(_complex(p), _complex(q), _complex(v)))


class TangentVectorsKeepThePhase(ComplexProjective):
    """`to_tangent` leaves in the direction i·p, along which the class does not change."""

    def to_tangent(self, p, x):
        p, x = _complex(p), _complex(x)
        return _real(x - _hermitian(p, x).real * p)


class SpectrumOfTheSphere(ComplexProjective):
    """Curvature 1 in every direction, within the bounds that are stated."""

    @property
    def jacobi_spectrum(self):
        return ((1.0, 2 * self.n - 1),)


class SpectrumWithoutMultiplicity(ComplexProjective):
    """Both curvatures once."""

    @property
    def jacobi_spectrum(self):
        return ((4.0, 1), (1.0, 1))


@pytest.mark.parametrize("n", [1, 2, 4])
def test_complex_projective_space_conforms(n):
    check_manifold(ComplexProjective(n))


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (LogForgetsPhase, "exp and log are inverse|dist is a metric"),
        (TransportForgetsPhase, "linear isometry|vectors tangent to the manifold"),
        (TransportAlongUnalignedVelocity, "isometry|vectors tangent to the manifold"),
        (TangentVectorsKeepThePhase, "`dim` is the rank"),
        (SpectrumOfTheSphere, "operator of every unit velocity"),
        (SpectrumWithoutMultiplicity, "operator of every unit velocity"),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_wrong_kernels_and_constants_are_refused(cls, law, n):
    with pytest.raises(AssertionError, match=law):
        check_manifold(cls(n))


def test_points_made_from_each_other_would_hide_a_forgotten_phase():
    """The control: with q = exp(p, ·) most laws hold for the wrong `log`."""
    from curvedp.testing import check_exp_and_log, sample

    wrong = LogForgetsPhase(2)
    points = sample(wrong, np.random.default_rng(0), 30)
    aligned = {**points, "q": np.asarray(wrong.exp(points["p"], points["u"]))}
    check_exp_and_log(wrong, aligned)
    with pytest.raises(AssertionError, match=r"exp\(p, log\(p, q\)\)"):
        check_exp_and_log(wrong, points)


def test_private_mean_on_representatives_with_random_phases():
    M = ComplexProjective(2)
    rng = np.random.default_rng(0)
    X = M.exp(M.origin, M.from_coordinates(M.origin, 0.1 * rng.normal(size=(400, 4))))
    phases = np.exp(2j * np.pi * rng.random(400))[:, None]
    X = _real(_complex(X) * phases)
    mean = PrivateFrechetMean(M, radius=0.35, guarantee=GDP(1.0)).fit(X)
    assert M.dist(mean.location_, frechet_mean(M, X)) < 20 * mean.predicted_error_


# ---- what a refusal says --------------------------------------------------------------


class ComplexPoints(ComplexProjective):
    """Complex numbers in place of pairs of real ones."""

    @property
    def point_shape(self):
        return (self.n + 1,)

    @property
    def origin(self):
        return np.eye(1, self.n + 1)[0].astype(complex)

    def from_coordinates(self, p, z):
        return _complex(super().from_coordinates(_real(p), z))

    def exp(self, p, v):
        return _complex(super().exp(_real(p), _real(v)))


class FrameTwiceAsLong(ComplexProjective):
    """A frame in the wrong units; small distances are off by it as well."""

    def from_coordinates(self, p, z):
        return 2 * super().from_coordinates(p, z)

    def to_coordinates(self, p, v):
        return super().to_coordinates(p, v) / 2


class WarnsOfMissingValues(ComplexProjective):
    """`residual` warns where a record is missing."""

    def residual(self, p):
        if np.isnan(p).any():
            np.float64(1.0) / np.float64(0.0)
        return super().residual(p)


class HelperRaises(ComplexProjective):
    """A helper of `transport` has a mistake that Python finds."""

    def _parallel(self, p, q, v):
        return p @ "q"


class MissingIsNear(ComplexProjective):
    """The distance of a missing record is 0."""

    def dist(self, p, q):
        return np.nan_to_num(super().dist(p, q))


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (ComplexPoints, "dtype complex128, but points are arrays of float64"),
        (FrameTwiceAsLong, "Coordinates are a linear isometry|dist is a metric"),
        (WarnsOfMissingValues, "`residual` raised RuntimeWarning: divide by zero"),
        (HelperRaises, "`_parallel` raised"),
        (MissingIsNear, "`dist` of NaN is finite"),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
def test_refusals_name_the_mistake(cls, message):
    with pytest.raises(AssertionError, match=message):
        check_manifold(cls(2))


def test_coordinates_are_checked_before_small_distances():
    names = [check.__name__ for check in CHECKS]
    assert names.index("check_coordinates") < names.index("check_small_distances")


def _bare_assertions(source: str) -> list[str]:
    """Assert statements and raised AssertionErrors that say nothing."""
    import ast

    silent = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and node.msg is None:
            silent.append(ast.unparse(node))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            silent.append(ast.unparse(node))
    return silent


def test_every_assertion_of_the_suite_says_what_failed():
    import inspect

    from curvedp import testing

    assert _bare_assertions("assert x") == ["assert x"]
    assert _bare_assertions(inspect.getsource(testing)) == []
