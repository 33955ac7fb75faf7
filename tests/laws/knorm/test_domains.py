"""Domains of the K-norm law: volumes and stretches by differences, series by mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.laws.knorm.domains import (
    GeodesicBall,
    TangentBundleBall,
    _log_sn_ratio,
    _mean_sn,
)
from curvedp.laws.spd.envelopes import _langevin_function, log_sinhc


@pytest.mark.parametrize("x", [1e-6, 9e-3, 0.0101, 0.029, 0.031, 0.5, 3.0, 40.0])
def test_series_meet_their_functions(x):
    with mp.workdps(40):
        t = mp.mpf(x)
        assert _langevin_function(x) == pytest.approx(
            float(mp.coth(t) - 1 / t), rel=2e-13
        )
        truth = float(mp.log(mp.sinh(t) / t))
        assert float(log_sinhc(x)) == pytest.approx(truth, rel=1e-12, abs=2e-16)
        assert float(_log_sn_ratio(-1.0, np.array(x))) == pytest.approx(
            truth, rel=1e-8, abs=2e-16
        )
        half = x / 2
        assert float(_log_sn_ratio(-0.25, np.array(x))) == pytest.approx(
            float(mp.log(mp.sinh(half) / half)), rel=1e-8
        )
        assert float(_mean_sn(-4.0, np.array(x))) == pytest.approx(
            float((mp.cosh(2 * t) - 1) / (4 * t)), rel=1e-12
        )
        assert float(_log_sn_ratio(0.0, np.array(x))) == 0.0
        if x < 3:
            assert float(_log_sn_ratio(1.0, np.array(x))) == pytest.approx(
                float(mp.log(mp.sin(t) / t)), rel=1e-8
            )
            assert float(_mean_sn(1.0, np.array(x))) == pytest.approx(
                float((1 - mp.cos(t)) / t), rel=1e-12
            )
    assert float(_mean_sn(1.0, np.array(0.0))) == 0.0


@pytest.mark.parametrize(
    ("space", "radius"),
    [
        (Sphere(2), 1.0),
        (Sphere(3), 2.0),
        (Lorentz(2), 1.5),
        (PoincareBall(3), 1.0),
        (SPDAffineInvariant(2), 1.2),
        (SPDLogEuclidean(2), 1.0),
        (KendallShapes(4), 0.7),
        (Rotations(3), 1.5),
        (Euclidean(2), 3.0),
    ],
)
def test_volume_and_stretch_of_normal_coordinates(space, radius):
    ball = GeodesicBall(space, radius=radius)
    k = ball.manifold.dim
    assert (ball.dim, ball.radii) == (space.dim, (radius,))
    c = ball.center
    for seed in range(6):
        z = np.random.default_rng(seed).standard_normal(k)
        z *= radius * 0.9 * np.random.default_rng(seed).random() / np.linalg.norm(z)
        x = ball.points(z[None, None])[0][0]
        assert space.dist(c, x) == pytest.approx(np.linalg.norm(z), abs=1e-7)
        h, columns = 1e-5, []
        for e in np.eye(k):
            ahead, behind = (
                space.exp(c, space.from_coordinates(c, z + s * h * e)) for s in (1, -1)
            )
            columns.append((space.log(x, ahead) - space.log(x, behind)) / (2 * h))
        gram = np.array(
            [[float(space.inner(x, a, b)) for b in columns] for a in columns]
        )
        volume = float(ball.log_volume(z[None, None])[0])
        assert 0.5 * np.linalg.slogdet(gram)[1] == pytest.approx(volume, abs=1e-5)
        r = np.array([[np.linalg.norm(z)]])
        stretch = math.sqrt(np.linalg.eigvalsh(gram)[-1])
        assert stretch <= float(ball.stretch(r)[0, 0]) + 1e-5
        if space.dim > 1:
            assert stretch == pytest.approx(
                float(ball.stretch(r)[0, 0]), abs=2e-2
            ) or isinstance(space, SPDAffineInvariant)
        assert ball.lipschitz((3.0,), r) == pytest.approx(3 * ball.stretch(r))
        across = ball.curved_length(z[None, None])
        for low, high in ((0.9, 1.1), (0.0, 2.0), (1.0, 1.0)):
            bound = ball.log_volume_bound(r * low, r * high, across * 1.05)
            assert bound[0] >= volume - 1e-12
        assert ball.log_volume_bound(r, r, across)[0] == pytest.approx(
            volume, abs=1e-12
        )


def test_tangent_bundles_move_velocities_by_transport():
    space = Sphere(2)
    bundle = TangentBundleBall(space, radius=0.8, speed=2.0)
    assert (bundle.dim, bundle.radii) == (4, (0.8, 2.0))
    z = np.array([[[0.3, 0.4], [1.0, -0.5]]])
    p, v = bundle.points(z)
    assert space.dist(space.origin, p[0]) == pytest.approx(0.5)
    assert space.norm(p[0], v[0]) == pytest.approx(math.hypot(1.0, 0.5))
    assert bundle.log_volume(z) == pytest.approx(math.log(math.sin(0.5) / 0.5))
    assert bundle.curved_length(z) == pytest.approx(0.5)
    high = np.array([[0.5, 2.0]])
    first = (
        3.0 * 1.0 + 7.0 * (1 - math.cos(0.5)) / 0.5 * 2.0
    )  # holonomy of the thin triangle
    assert bundle.lipschitz((3.0, 7.0), high) == pytest.approx(np.array([[first, 7.0]]))
    wide = TangentBundleBall(Lorentz(2), radius=0.8, speed=2.0)
    first = 3.0 * math.sinh(0.5) / 0.5 + 7.0 * (math.cosh(0.5) - 1) / 0.5 * 2.0
    assert wide.lipschitz((3.0, 7.0), high) == pytest.approx(np.array([[first, 7.0]]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: GeodesicBall(Sphere(2), radius=math.pi),
        lambda: GeodesicBall(Sphere(5), radius=1.0),
        lambda: GeodesicBall(Stiefel(3, 2), radius=0.1),
        lambda: GeodesicBall(SPDAffineInvariant(3), radius=0.1),
        lambda: GeodesicBall(Rotations(4), radius=0.1),
        lambda: GeodesicBall(Lorentz(2), radius=300.1),
        lambda: GeodesicBall(Sphere(2), radius=math.nan),
        lambda: GeodesicBall(Sphere(2), [1.0, 1.0, 0.0], 0.5),
        lambda: GeodesicBall(Sphere(2), np.eye(3), 0.5),
        lambda: TangentBundleBall(Sphere(3), radius=0.5, speed=1.0),
        lambda: TangentBundleBall(Sphere(2), radius=0.5, speed=0.0),
    ],
)
def test_domains_without_cells_are_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_the_largest_domains():
    assert GeodesicBall(Sphere(2), radius=math.nextafter(math.pi, 0)).dim == 2
    assert GeodesicBall(Sphere(4), radius=1.0).dim == 4
    assert GeodesicBall(Lorentz(2), radius=300.0).dim == 2
    assert (
        GeodesicBall(
            SPDAffineInvariant(2), radius=300.0 * math.sqrt(2) * (1 - 1e-12)
        ).dim
        == 3
    )
    assert GeodesicBall(Euclidean(1), radius=1e100).dim == 1
