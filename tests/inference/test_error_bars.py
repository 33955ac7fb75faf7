"""The sentences about error bars: around which point, and whether they are of use."""

import numpy as np
import pytest

from curvedp import GDP, PrivateFrechetMean, PrivateFrechetMedian
from curvedp.geometry import Sphere
from curvedp.inference.error_bars import error_bars

S = Sphere(2)
X = np.asarray(S.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (400, 3))))


@pytest.fixture(scope="module")
def mean():
    return PrivateFrechetMean(S, radius="private").fit(X)


def moved_by(region, share):
    """Return a point at this share of the radius from the center of a region."""
    return region.edge(share * np.eye(1, S.dim))[0]


@pytest.mark.parametrize(
    ("share", "is_said"), [(0.0, False), (0.05, False), (0.3, True)]
)
def test_a_region_about_another_point_than_the_released_says_so(mean, share, is_said):
    region = mean.confidence_region(0.95, "population")
    released = moved_by(region, share)
    (population, _) = error_bars(mean.confidence_region, released=[released])
    assert ("about a point at distance" in population.sentence) is is_said
    if is_said:
        assert f"{share * region.radius:.4g}" in population.sentence


def test_several_regions_name_the_largest_shift(mean):
    region = mean.confidence_region(0.95, "population")
    released = [moved_by(region, share) for share in (0.0, 0.2, 0.4)]

    def regions_by_class(level, of):
        return {number: mean.confidence_region(level, of) for number in range(3)}

    (population, _) = error_bars(regions_by_class, released=released)
    assert f"about points up to {0.4 * region.radius:.4g}" in population.sentence


def test_values_that_are_no_points_have_no_distance(mean):
    (population, _) = error_bars(mean.confidence_region, released=[np.zeros(7)])
    assert "distance" not in population.sentence


def test_the_whole_ball_of_a_median_is_called_of_no_use():
    # A release finds a small ball by bad luck in about one case of 30.
    fits = [PrivateFrechetMedian(S, radius=1.2, guarantee=GDP(0.1)) for _ in range(6)]
    noise_bars = [error_bars(fit.fit(X[:40]).confidence_region)[1] for fit in fits]
    whole_balls = [bar for bar in noise_bars if bar.regions[0].radius == 1.2]
    assert whole_balls
    assert all("none of use" in bar.sentence for bar in whole_balls)
