"""The public grid: in small units it is as fine beside the noise as in large ones."""

import numpy as np
import pytest
from sklearn.base import clone

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivatePCA,
    PureDP,
)
from curvedp.core.chart import GRID, grid_of
from curvedp.geometry import Euclidean, Sphere
from curvedp.mechanisms import Certificate
from curvedp.release.rebuild import mechanism_of
from curvedp.release.verify import verify_certificate

M, N = Euclidean(2), 400
MEANS = (
    "auto",
    "gaussian",
    "tangent-gaussian",
    "gradient",
    "laplace",
    "tangent-laplace",
    "kng",
)
MUCH, PURE, PURELY = GDP(10.0), PureDP(20.0), ("laplace", "tangent-laplace", "kng")


def estimators():
    for name in MEANS:
        yield (
            f"mean {name}",
            PrivateFrechetMean(
                M, mechanism=name, guarantee=PURE if name in PURELY else MUCH
            ),
        )
    yield (
        "mean of an unknown number",
        PrivateFrechetMean(M, guarantee=GDP(10.0, adjacency="add-remove")),
    )
    yield "median", PrivateFrechetMedian(M, guarantee=MUCH)
    yield "dispersion", PrivateDispersion(M, guarantee=MUCH)
    yield (
        "dispersion in a private ball",
        PrivateDispersion(M, outer_radius=1.0, guarantee=MUCH),
    )
    yield "second moment", PrivatePCA(n_components=1, guarantee=MUCH)
    yield (
        "line",
        PrivateGeodesicRegression(
            M, speed=1.0, clip=1.0, guarantee=MUCH, x_range=(0, 1)
        ),
    )
    yield (
        "line by pure ε",
        PrivateGeodesicRegression(
            Euclidean(1),
            speed=1.0,
            clip=1.0,
            guarantee=PURE,
            method="kng",
            x_range=(0, 1),
        ),
    )


def in_unit(estimator, unit):
    """The estimator in a unit of length, fitted to the same records, and its answer in units."""
    rng, model = np.random.default_rng(0), clone(estimator)
    X = unit * (0.2 * rng.normal(size=(N, 2)) * [1.0, 0.3] + [0.3, 0.1])
    given = {
        "radius": unit,
        **{name: unit for name in ("speed", "clip") if hasattr(model, name)},
    }
    if getattr(model, "outer_radius", None) is not None:
        given = {"radius": "private", "outer_radius": unit}
    model.set_params(**given)
    if isinstance(model, PrivateGeodesicRegression):
        model.fit(np.linspace(0, 1, N), X[:, : model.manifold.dim])
        return model, np.concatenate([model.footpoint_, model.velocity_.ravel()]) / unit
    model.fit(X)
    if isinstance(model, PrivateDispersion):
        return model, model.variance_ / unit**2
    return model, np.abs(model.components_[0]) if isinstance(
        model, PrivatePCA
    ) else model.location_ / unit


@pytest.mark.parametrize(
    ("name", "estimator"),
    list(estimators()),
    ids=lambda each: each if isinstance(each, str) else "",
)
@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")
def test_means_are_as_accurate_in_small_units(name, estimator):
    """Releases whose noise is far below 2^-30, which came out as whole multiples of it, a variance as 0."""
    (one, large), (other, small) = in_unit(estimator, 1.0), in_unit(estimator, 2.0**-40)
    np.testing.assert_allclose(small, large, rtol=0, atol=0.15)
    assert np.all(np.abs(small) > 0)
    certificate = Certificate.from_json(other.certificate_.to_json())
    assert not any(check.holds is False for check in verify_certificate(certificate))
    again, value = (
        mechanism_of(certificate).reconstruct_value(certificate),
        mechanism_of(other.certificate_).reconstruct_value(other.certificate_),
    )
    np.testing.assert_array_equal(
        np.concatenate([np.ravel(x) for x in again]),
        np.concatenate([np.ravel(x) for x in value]),
    )
    if name.startswith("mean") and name[5:] not in ("kng", "of an unknown number"):
        wide, narrow = (model.confidence_region().radius for model in (one, other))
        assert narrow == pytest.approx(2.0**-40 * wide, rel=1e-2)
        assert other.predicted_error_ == pytest.approx(
            2.0**-40 * one.predicted_error_, rel=0.2
        )


def test_the_grid_follows_the_noise_alone():
    assert [grid_of(scale) for scale in (1e6, 1.0, 2.0**-20, 2.0**-21, 1e-300)] == [
        GRID,
        GRID,
        GRID,
        GRID + 1,
        200,
    ]
    X = Sphere(2).origin + 1e-9 * np.random.default_rng(0).normal(size=(50, 3))
    near = PrivateFrechetMean(Sphere(2), radius=1e-8, mechanism="gaussian").fit(X)
    mechanism = mechanism_of(near.certificate_)
    assert mechanism.grid == grid_of(near.certificate_.parameters["sigma"]) > 40
    assert all(check.holds for check in verify_certificate(near.certificate_))
    assert 0 < Sphere(2).dist(Sphere(2).origin, near.location_) < 5e-9
