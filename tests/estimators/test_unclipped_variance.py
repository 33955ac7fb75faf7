"""The variance of records in a private ball, corrected for the records outside."""

import math

import numpy as np
import pytest

from curvedp import GDP, PrivateDispersion, PrivateFrechetMean, PureDP
from curvedp.core.certificate import Certificate
from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere, frechet_mean
from curvedp.release.unclip import unclipped_variance_of
from curvedp.release.verify import verify_certificate
from curvedp.statistics.unclipping import unclipped_variance


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_a_gamma_law_is_recovered_from_what_clipping_leaves(shape, share):
    """The oracle is a sample of the law; half of the share leads elsewhere."""
    squares = np.random.default_rng(0).gamma(shape, 2.0, 400_000)
    squared_radius = float(np.quantile(squares, 1 - share))
    cut_mean = float(np.mean(np.minimum(squares, squared_radius)))
    estimate = unclipped_variance(cut_mean, squared_radius, share)
    assert estimate == pytest.approx(2 * shape, rel=0.015)
    assert estimate > cut_mean
    wrong = unclipped_variance(cut_mean, squared_radius, share / 2)
    assert abs(wrong - 2 * shape) > abs(estimate - 2 * shape)


def test_the_estimate_is_finite_for_every_release():
    """Noise may leave nothing, all of the ball, or more than any law allows."""
    for share in (1e-6, 0.1, 0.3, 0.5):
        assert unclipped_variance(0.0, 1.0, share) == 0.0
        for variance in (1e-12, 0.05, 0.3, 0.7, 0.99, 1.0):
            estimate = unclipped_variance(variance, 1.0, share)
            assert variance <= estimate <= 4 * variance


@pytest.mark.parametrize(
    ("space", "std"), [(Euclidean(2), 1.0), (SPDAffineInvariant(2), 0.6)], ids=repr
)
def test_the_bias_is_smaller(space, std):
    """Of 30 releases of normal records, of which a tenth lies outside the ball."""
    rng = np.random.default_rng(1)
    z = std * rng.normal(size=(250, space.dim))
    X = np.asarray(space.from_normal_coordinates(space.origin, z))
    mean = np.asarray(frechet_mean(space, X))
    truth = float(np.mean(np.asarray(space.dist(mean, X)) ** 2))
    released, estimated = [], []
    for _ in range(30):
        model = PrivateDispersion(space, radius="private", guarantee=GDP(1.0)).fit(X)
        released.append(model.variance_ / truth)
        estimated.append(model.estimated_variance_ / truth)
        assert model.estimated_deviation_ == math.sqrt(model.estimated_variance_)
    bias, corrected_bias = np.mean(released) - 1, np.mean(estimated) - 1
    assert bias < -0.03
    assert abs(corrected_bias) < 0.75 * abs(bias)


def test_the_estimate_follows_from_the_certificate_which_holds_as_before():
    X = np.random.default_rng(2).normal(size=(300, 2))
    model = PrivateDispersion(Euclidean(2), radius="private").fit(X)
    certificate = Certificate.from_json(model.certificate_.to_json())
    assert all(check.holds for check in verify_certificate(certificate))
    assert unclipped_variance_of(certificate) == model.estimated_variance_

    region = model.confidence_region()
    assert "exact" not in region.theorem
    assert f"about {model.estimated_variance_:.4g}" in region.theorem
    assert "no theorem" in region.theorem
    # The region is that of the clipped records, about the released value.
    assert region.contains(np.array([model.variance_]))


def test_there_is_no_estimate_where_the_share_outside_is_unknown():
    X = Sphere(2).project(np.random.default_rng(3).normal([2.0, 0, 0], 0.5, (400, 3)))
    public = PrivateDispersion(Sphere(2), radius=0.7).fit(X)
    laplace = PrivateDispersion(Sphere(2), "private", guarantee=PureDP(2.0)).fit(X)
    mean = PrivateFrechetMean(Sphere(2), "private").fit(X)
    everywhere = np.random.default_rng(4).normal(size=(400, 3))
    smaller = PrivateDispersion(Sphere(2), "private").fit(Sphere(2).project(everywhere))
    for model in (public, laplace, smaller):
        assert model.estimated_variance_ is None
        assert model.estimated_deviation_ is None
    assert unclipped_variance_of(mean.certificate_) is None
    assert "unknown amount" in laplace.confidence_region().theorem
    # The share that the search leaves outside is not that of the smaller ball.
    theorem = smaller.confidence_region().theorem
    assert "clipped to a smaller one" in theorem
    assert "%" not in theorem
