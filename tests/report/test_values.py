"""Released values in the form in which people know them: outlines, ellipsoids, images."""

import numpy as np
import pytest

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import (
    Correlation,
    KendallShapes,
    Product,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    Torus,
)
from curvedp.report.figures import region_figure, regions_figure
from curvedp.report.values import form_of, values_figure
from support.shell import run

FORMS = {
    "outlines": [KendallShapes(5)],
    "ellipsoids": [SPDAffineInvariant(2), SPDAffineInvariant(3), SPDLogEuclidean(3)],
    "images": [SPDAffineInvariant(5), Correlation(3), Correlation(5)],
    "points": [Sphere(2), Torus(2), Product(Sphere(2), SPDAffineInvariant(2))],
}
DRAWN = [space for form in FORMS if form != "points" for space in FORMS[form]]


def fitted(space, seed=0):
    rng = np.random.default_rng(seed)
    coordinates = 0.1 * rng.normal(size=(400, space.dim))
    coordinates[:, 0] += 0.1 * seed
    X = np.asarray(space.from_normal_coordinates(space.origin, coordinates))
    return PrivateFrechetMean(space, radius=0.5, guarantee=GDP(4.0)).fit(X)


def regions(space):
    return {
        name: fitted(space, seed).confidence_region()
        for seed, name in enumerate(("rest", "task"))
    }


@pytest.mark.parametrize("form", FORMS)
def test_each_space_has_its_form(form):
    assert {form_of(space) for space in FORMS[form]} == {form}


@pytest.mark.parametrize("space", DRAWN, ids=str)
def test_groups_are_drawn_and_named(space):
    figure = regions_figure(regions(space))
    form = form_of(space)
    axes = figure.axes
    if form == "outlines":
        (only,) = axes
        labels = [text.get_text() for text in only.get_legend().get_texts()]
        assert [label.split(":")[0] for label in labels] == ["rest", "task"]
        assert len(only.patches) == 2 * space.point_shape[0]  # a circle each landmark
    else:
        assert [panel.get_title() for panel in axes[:2]] == ["rest", "task"]
    if form == "images":
        for panel, region in zip(axes, regions(space).values(), strict=False):
            drawn = panel.images[0].get_array()
            assert drawn.shape == region.center.shape


def test_circles_hold_every_shape_of_the_region():
    """Turned to fit the center, no landmark of a shape at its edge leaves its circle."""
    space = KendallShapes(6)
    region = fitted(space).confidence_region()
    directions = np.random.default_rng(1).normal(size=(200, space.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    edge = region.edge(directions)
    center = region.center[:, 0] + 1j * region.center[:, 1]
    for shape in edge:
        z = shape[:, 0] + 1j * shape[:, 1]
        overlap = np.sum(center * np.conj(z))
        moved = np.abs(z * overlap / np.abs(overlap) - center)
        assert moved.max() <= region.radius * (1 + 1e-9)


def test_dashed_ellipsoids_enclose_every_tensor_of_the_region():
    space = SPDAffineInvariant(3)
    region = fitted(space).confidence_region()
    directions = np.random.default_rng(1).normal(size=(200, space.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for tensor in region.edge(directions):
        ratios = np.linalg.eigvals(np.linalg.solve(region.center, tensor)).real
        assert np.exp(-region.radius) * (1 - 1e-9) <= ratios.min()
        assert ratios.max() <= np.exp(region.radius) * (1 + 1e-9)


def test_one_shape_is_an_outline_and_not_two_coordinates():
    region = fitted(KendallShapes(5)).confidence_region()
    (axes,) = region_figure(region).axes
    assert len(axes.patches) == 5
    values_figure({"only": region})


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_the_shell_writes_every_kind_of_file(tmp_path, suffix):
    names = []
    for seed in (0, 1):
        names.append(tmp_path / f"{seed}.json")
        fitted(SPDAffineInvariant(3), seed).certificate_.save(names[-1])
    picture = tmp_path / f"figure.{suffix}"
    result = run("figure", *names, "--of", "records", "--plot", picture)
    assert result.exit_code == 0, result.output
    assert picture.stat().st_size > 1000
