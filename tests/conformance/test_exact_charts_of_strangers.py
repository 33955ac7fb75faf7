"""An exact sampler that a stranger registers, and what `check_mechanism` finds in one.

The space is complex projective space, whose points are lines: the sampler draws the
phase of the released representative at random, because the phase of the value depends
on the records.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import Grassmann, KendallShapes, SPDLogEuclidean, Sphere
from curvedp.geometry.manifold import manifold_kinds
from curvedp.laws.exact.charts import ExactChart, RadialFactors, exact_chart
from curvedp.mechanisms import GaussianMechanism, LaplaceMechanism
from curvedp.release.verify import verify_certificate
from curvedp.testing import check_manifold, check_mechanism
from support.complex_projective import ComplexProjective


@dataclass(frozen=True)
class ComplexLines(ComplexProjective):
    """Complex projective space with what exact laws need."""

    kind: ClassVar[str | None] = "test-complex-lines"

    @property
    def is_symmetric(self):
        return True

    def jacobi_operator(self, p, v):
        z = np.asarray(self.to_coordinates(p, v))
        iz = np.stack([-z[..., 1::2], z[..., 0::2]], axis=-1).reshape(z.shape)
        square = np.sum(z * z, axis=-1)[..., None, None] * np.eye(self.dim)
        return square - _outer(z) + 3 * _outer(iz)


def _outer(z):
    return z[..., :, None] * z[..., None, :]


class ExactComplexLines(ExactChart):
    """cos r·p + sin r·u with a random phase; real and imaginary parts are vectors."""

    @property
    def n_normals(self):
        return 2 * (self.manifold.n + 1) + 2

    def radial_factors(self, r):
        sin, cos = r.sin_cos()
        return RadialFactors(cos, sin)

    def footpoint(self, center):
        return [center[:, 0], center[:, 1]]

    def direction(self, normals):
        size = self.manifold.n + 1
        return [normals[:size], normals[size : 2 * size], normals[2 * size :]]

    def point(self, footpoint, direction, cs, sn):
        a, b = footpoint
        length = (a.dot(a) + b.dot(b)).sqrt()
        a, b = a / length, b / length
        x, y, phase = direction
        real, imaginary = a.dot(x) + b.dot(y), a.dot(y) - b.dot(x)
        x, y = x - a * real + b * imaginary, y - b * real - a * imaginary
        stretch = sn / (x.dot(x) + y.dot(y)).sqrt()
        x, y = a * cs + x * stretch, b * cs + y * stretch
        return self.turn(x, y, phase / phase.dot(phase).sqrt())

    def turn(self, x, y, phase):
        return [x * phase[0] - y * phase[1], x * phase[1] + y * phase[0]]


class HalfTheRadius(ExactComplexLines):
    """Draws are half as far away as the law says."""

    def point(self, footpoint, direction, cs, sn):
        return super().point(footpoint, direction, cs, sn / 2)


class PrefersRealDirections(ExactComplexLines):
    """Distances are right, but directions are not uniform."""

    def point(self, footpoint, direction, cs, sn):
        x, y, phase = direction
        return super().point(footpoint, [x * 2.0, y, phase], cs, sn)


class ShiftsDirections(ExactComplexLines):
    """Directions are not symmetric about the value."""

    def point(self, footpoint, direction, cs, sn):
        x, y, phase = direction
        return super().point(footpoint, [x + 0.7, y, phase], cs, sn)


class ForgetsThePhase(ExactComplexLines):
    """The released representative has the phase of the value."""

    def turn(self, x, y, phase):
        return [x, y]


def lines_with(chart):
    """Return a class of complex lines of its own whose exact sampler is `chart`."""
    kind = f"test-{chart.__name__.lower()}"
    if kind not in manifold_kinds.defined():
        space = dataclass(frozen=True)(
            type(chart.__name__, (ComplexLines,), {"kind": kind, "__annotations__": {}})
        )
        exact_chart.register(space, chart)
    return manifold_kinds.defined()[kind]


def check_noise_on(M, kind=GaussianMechanism):
    value = M.random_point(np.random.default_rng(3))
    check_mechanism(kind.calibrated(M, 0.05, GDP(1.0)), value)


@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_right_sampler_passes(n, kind):
    M = lines_with(ExactComplexLines)(n)
    check_manifold(M)
    check_noise_on(M, kind)


def test_noise_on_the_manifold_is_released_and_verified():
    M = lines_with(ExactComplexLines)(2)
    X = M.random_point(np.random.default_rng(0), 300)
    mean = PrivateFrechetMean(M, radius=0.35, mechanism="gaussian").fit(X)
    checks = verify_certificate(mean.certificate_)
    assert all(check.holds is not False for check in checks)


@pytest.mark.parametrize(
    ("chart", "message"),
    [
        (HalfTheRadius, "noise law"),
        (PrefersRealDirections, "prefer a direction"),
        (ShiftsDirections, "prefer a direction"),
        (ForgetsThePhase, "which array stands for the value"),
    ],
)
def test_wrong_samplers_are_refused(chart, message):
    with pytest.raises(AssertionError, match=message):
        check_noise_on(lines_with(chart)(2))


@pytest.mark.parametrize(
    "M",
    [Sphere(1), Sphere(3), Grassmann(3, 1), Grassmann(5, 2), KendallShapes(4)],
    ids=str,
)
def test_samplers_of_the_library_pass(M):
    check_noise_on(M)


def test_noise_that_is_drawn_in_coordinates_passes():
    """SPDLogEuclidean is flat: draws are coordinates, which become a point."""
    check_noise_on(SPDLogEuclidean(2))
