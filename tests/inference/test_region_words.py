"""What a region says of itself: what it covers, and who has a narrower one."""

import re

import numpy as np
import pytest

from curvedp import (
    GDP,
    ApproxDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PureDP,
    plan,
)
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Sphere,
)


def records(M, n, spread, away=0.0, seed=0):
    rng = np.random.default_rng(seed)
    z = spread / np.sqrt(M.dim) * rng.standard_normal((n, M.dim)) + away * np.eye(
        1, M.dim
    )
    return np.asarray(M.from_normal_coordinates(M.origin, z))


@pytest.mark.parametrize("guarantee", [GDP(1.0), PureDP(2.0), ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize(
    "M", [Sphere(2), Euclidean(3), SPDAffineInvariant(2)], ids=repr
)
def test_the_region_of_a_dispersion_in_a_private_ball_is_not_called_exact(M, guarantee):
    X = records(M, 400, 0.3)
    model = PrivateDispersion(M, radius="private", guarantee=guarantee).fit(X)
    region = model.confidence_region()
    assert "exact" not in region.theorem
    assert "not the clipping" in region.theorem
    given = PrivateDispersion(M, radius=1.0, guarantee=guarantee).fit(X)
    assert "exact" in given.confidence_region().theorem


def test_the_share_outside_is_about_what_the_region_says():
    M, shares = Euclidean(3), []
    X = records(M, 300, 1.0)
    for _ in range(20):
        model = PrivateDispersion(M, radius="private").fit(X)
        distances = M.dist(np.asarray(model.ball_.center), X)
        shares.append(np.mean(distances > model.ball_.radius))
    said = re.search(r"about (\d+)% of the records", model.confidence_region().theorem)
    assert 0.3 < np.mean(shares) / (int(said[1]) / 100) < 3


@pytest.mark.parametrize(
    ("M", "radius", "mechanism"),
    [
        (Sphere(2), 1.2, "newton"),
        (Sphere(2), 1.2, "gradient"),
        (Lorentz(3), 6.0, "gradient"),
    ],
    ids=repr,
)
def test_a_region_as_wide_as_the_ball_names_a_mechanism_with_a_narrower_one(
    M, radius, mechanism
):
    X = records(M, 700, 0.2, away=0.8 * radius)
    wide = PrivateFrechetMean(M, radius, mechanism=mechanism).fit(X).confidence_region()
    assert wide.radius > radius / 2
    named = re.search(r"mechanism '(.*)' has a region of about (\S+)", wide.theorem)
    narrow = PrivateFrechetMean(M, radius, mechanism=named[1]).fit(X)
    found = narrow.confidence_region()
    assert "has a region" not in found.theorem
    # Where the mean is far from the center negative curvature stretches the chart, by
    # up to sinh(4.8)/4.8 = 12.7 for the widest of these balls.
    assert found.radius < wide.radius / 2
    assert 0.3 < found.radius / float(named[2]) < 13


def test_a_region_of_the_population_names_the_mechanism_that_has_one():
    M = Sphere(2)
    X = records(M, 700, 0.2)
    wide = PrivateFrechetMean(M, 1.2, mechanism="newton").fit(X)
    region = wide.confidence_region(of="population")
    assert "the mechanism 'gradient' releases the variance" in region.theorem
    narrow = PrivateFrechetMean(M, 1.2, mechanism="gradient").fit(X)
    assert narrow.confidence_region(of="population").radius < region.radius / 2
    # A finite-sample region is wide too where it is narrower than half of the ball.
    flat = PrivateFrechetMean(Euclidean(3), 1.0, mechanism="tangent-gaussian")
    region = flat.fit(records(Euclidean(3), 700, 0.2)).confidence_region(
        of="population"
    )
    assert region.radius < 0.5
    assert "'gradient'" in region.theorem
    pure = PrivateFrechetMean(M, 1.2, mechanism="newton", guarantee=PureDP(1.0)).fit(X)
    theorem = pure.confidence_region(of="population").theorem
    assert "'gradient'" not in theorem


def test_a_plan_has_the_regions_of_several_mechanisms():
    radii = plan(Sphere(2), n=700, radius=1.2).regions()
    assert {"tangent-gaussian", "tangent-laplace"} < set(radii)
    assert radii["tangent-gaussian"] < 0.1
    assert list(plan(Euclidean(2), n=700, radius="private").regions()) == [
        "private-ball"
    ]


def test_a_missing_region_has_a_reason_in_words():
    """Wide orientations: the ball is beyond the convexity radius."""
    M, rng = Rotations(3), np.random.default_rng(0)
    z = rng.standard_normal((400, 3))
    z *= 3.0 * rng.uniform(size=(400, 1)) / np.linalg.norm(z, axis=1, keepdims=True)
    X = np.asarray(M.from_normal_coordinates(M.origin, z))
    with pytest.raises(
        ParameterError, match="the records are so spread out"
    ) as refusal:
        PrivateFrechetMean(M, radius="private").fit(X).confidence_region()
    assert "PrivateFrechetMedian" in str(refusal.value)
    assert "a public radius below 1.571" in str(refusal.value)
    B = SPDBuresWasserstein(2)
    model = PrivateFrechetMean(B, radius="private").fit(records(B, 400, 0.1))
    with pytest.raises(ParameterError, match="whose curvature has no public bound"):
        model.confidence_region()
