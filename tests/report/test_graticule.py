"""Globes have a graticule whose lines are labelled in degrees."""

import numpy as np
import pytest

from curvedp import PrivateFrechetMean
from curvedp.errors import ParameterError
from curvedp.geometry import Rotations, Sphere
from curvedp.report.figures import region_figure, regions_figure


def region_around(latitude, longitude, space=None):
    """Return the population's region of directions near a point given in degrees."""
    S = space or Sphere(2)
    lat, lon = np.radians([latitude, longitude])
    center = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    z = 0.2 * np.random.default_rng(0).normal(size=(600, S.dim))
    point = np.array(center) if space is None else S.origin
    records = np.asarray(S.from_normal_coordinates(point, z))
    model = PrivateFrechetMean(S, "private").fit(records)
    return model.confidence_region(of="population")


def texts(figure):
    """Return all texts that are drawn in a figure's axes."""
    return {text.get_text() for text in figure.axes[0].texts}


@pytest.mark.parametrize("latitude", [-60, 0, 45])
def test_parallels_and_meridians_near_a_region_are_named(latitude):
    labels = texts(region_figure(region_around(latitude, 30)))
    hemisphere = {-60: "S", 0: "N", 45: "N"}[latitude]
    assert any(label.endswith(f"°{hemisphere}") for label in labels)
    assert any(label.endswith("°E") for label in labels)
    if latitude > -60:  # near a pole the square holds many meridians
        assert not any(label.endswith("°W") for label in labels)


def test_groups_share_one_globe():
    figure = regions_figure({"a": region_around(40, 20), "b": region_around(45, 30)})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert any(label.endswith("°N") for label in texts(figure))


def test_regions_of_two_spaces_are_refused():
    other = region_around(0, 0, Rotations(3))
    assert regions_figure({"one": other}).axes
    with pytest.raises(ParameterError, match="one manifold"):
        regions_figure({"a": region_around(40, 20), "b": other})
