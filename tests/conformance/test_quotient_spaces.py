"""A quotient space as a stranger writes it: points are representatives of classes.

Complex projective space is the space of complex lines. A point is any unit vector of a
line, so kernels must first turn the phase of one representative to that of the other.
Random points that are made from each other are aligned already and would hide a kernel
that forgets it; `check_manifold` must not.
"""

import numpy as np
import pytest

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import frechet_mean
from curvedp.testing import CHECKS, check_manifold
from support.complex_projective import (
    ComplexProjective,
    hermitian_product,
    to_complex,
    to_real,
)


class LogForgetsPhase(ComplexProjective):
    """`log` and `dist` take representatives as they come."""

    def log(self, p, q):
        return to_real(self._horizontal_log(to_complex(p), to_complex(q)))


class TransportForgetsPhase(ComplexProjective):
    """`transport` ends at the representative aligned with p, not at q."""

    def transport(self, p, q, v):
        p, q, v = to_complex(p), to_complex(q), to_complex(v)
        return to_real(self._parallel(p, self._aligned(p, q), v))


class TransportAlongUnalignedVelocity(ComplexProjective):
    """`transport` follows a velocity that is not horizontal where phases differ."""

    def transport(self, p, q, v):
        return to_real(self._parallel(to_complex(p), to_complex(q), to_complex(v)))


class TangentVectorsKeepThePhase(ComplexProjective):
    """`to_tangent` leaves in the direction i·p, along which the class does not change."""

    def to_tangent(self, p, x):
        p, x = to_complex(p), to_complex(x)
        return to_real(x - hermitian_product(p, x).real * p)


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
    X = to_real(to_complex(X) * phases)
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
        return to_complex(super().from_coordinates(to_real(p), z))

    def exp(self, p, v):
        return to_complex(super().exp(to_real(p), to_real(v)))


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
