"""Spaces of geomstats and geoopt have our distances where they are translated, and others are refused."""

import numpy as np
import pytest

from curvedp.adapters.geoopt import from_geoopt, to_geoopt
from curvedp.adapters.spaces import from_geomstats, to_geomstats
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
)

pytestmark = pytest.mark.filterwarnings("default")
OURS = [
    Euclidean(3),
    Sphere(2),
    Lorentz(3),
    PoincareBall(2),
    SPDAffineInvariant(3),
    SPDLogEuclidean(3),
]


def pair(manifold):
    z = 0.4 * np.random.default_rng(0).normal(size=(2, manifold.dim))
    return np.asarray(
        manifold.exp(manifold.origin, manifold.from_coordinates(manifold.origin, z))
    )


@pytest.mark.parametrize("ours", OURS, ids=str)
def test_geoopt(ours):
    pytest.importorskip(
        "geoopt", reason="geoopt is not installed; the lane `adapters` has it"
    )
    import torch

    theirs = (
        to_geoopt(ours).double()
        if hasattr(to_geoopt(ours), "double")
        else to_geoopt(ours)
    )
    p, q = pair(ours)
    far = float(theirs.dist(torch.as_tensor(p), torch.as_tensor(q)))
    assert far == pytest.approx(float(ours.dist(p, q)), rel=1e-6)
    assert from_geoopt(theirs, p.shape) == ours


def test_geoopt_of_another_curvature_or_shape():
    geoopt = pytest.importorskip(
        "geoopt", reason="geoopt is not installed; the lane `adapters` has it"
    )
    with pytest.raises(ParameterError, match="curvature"):
        from_geoopt(geoopt.PoincareBall(c=2.0), (3,))
    with pytest.raises(ParameterError, match="not a space that curvedp has"):
        from_geoopt(geoopt.Stiefel(), (3, 2))
    with pytest.raises(ParameterError, match="one point"):
        from_geoopt(geoopt.Sphere(), (5, 3))
    with pytest.raises(ParameterError, match="no counterpart"):
        to_geoopt(SPDBuresWasserstein(3))


@pytest.mark.parametrize("ours", OURS, ids=str)
def test_geomstats(ours):
    pytest.importorskip(
        "geomstats",
        reason="geomstats does not import beside the newest NumPy",
        exc_type=ImportError,
    )
    theirs = to_geomstats(ours)
    p, q = pair(ours)
    assert float(theirs.metric.dist(p, q)) == pytest.approx(
        float(ours.dist(p, q)), rel=1e-6
    )
    assert from_geomstats(theirs) == ours


def test_a_geomstats_space_with_another_metric():
    pytest.importorskip(
        "geomstats",
        reason="geomstats does not import beside the newest NumPy",
        exc_type=ImportError,
    )
    from geomstats.geometry.spd_matrices import SPDBuresWassersteinMetric, SPDMatrices

    space = SPDMatrices(3, equip=False)
    space.equip_with_metric(SPDBuresWassersteinMetric)
    with pytest.raises(ParameterError, match="not a space that curvedp has"):
        from_geomstats(space)
