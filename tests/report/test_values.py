"""Released values in the form in which people know them: outlines, ellipsoids, images."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import (
    Correlation,
    KendallShapes,
    Product,
    Rotations,
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
    "axes": [Rotations(3)],
    "images": [SPDAffineInvariant(5), Correlation(3), Correlation(5)],
    "points": [
        Rotations(2),
        Sphere(2),
        Torus(2),
        Product(Sphere(2), SPDAffineInvariant(2)),
    ],
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
    if form in ("outlines", "axes"):
        (only,) = axes
        labels = [text.get_text() for text in only.get_legend().get_texts()]
        assert [label.split(":")[0] for label in labels] == ["rest", "task"]
    if form == "outlines":
        assert len(only.patches) == 2 * space.point_shape[0]  # a circle each landmark
    elif form == "axes":
        assert len([text.get_text() for text in only.texts]) == 3
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


def drawn_outline(figure):
    """Return the landmarks of the first outline of a figure as complex numbers."""
    x, y = figure.axes[0].lines[0].get_data()
    return np.asarray(x)[:-1] + 1j * np.asarray(y)[:-1]


def test_a_shape_is_drawn_the_same_way_up_however_it_was_turned():
    """Its first landmark is on the right, as it is in files."""
    region = fitted(KendallShapes(6)).confidence_region()
    center = region.center[:, 0] + 1j * region.center[:, 1]
    expected = drawn_outline(region_figure(region))
    assert expected[0].real > 0
    for angle in (1.0, np.pi / 2, np.pi, 4.0):
        z = center * np.exp(1j * angle)
        turned = replace(region, center=np.stack([z.real, z.imag], axis=-1))
        assert drawn_outline(region_figure(turned)) == pytest.approx(expected)


def test_circles_hold_every_rotation_of_the_region():
    """No rotation at its edge turns an axis out of its circle, and one reaches it."""
    space = Rotations(3)
    region = fitted(space).confidence_region()
    directions = np.random.default_rng(1).normal(size=(500, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    cosines = np.einsum("nij,ij->nj", region.edge(directions), region.center)
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    assert angles.max() <= region.radius * (1 + 1e-9)
    assert angles.max(axis=0) == pytest.approx(np.full(3, region.radius), rel=0.01)


@pytest.mark.parametrize("space", [Correlation(5), SPDAffineInvariant(5)], ids=str)
def test_one_larger_matrix_is_an_image_and_not_two_coordinates(space):
    region = fitted(space).confidence_region()
    drawn = region_figure(region).axes[0].images[0]
    assert drawn.get_array().shape == space.point_shape
    off_diagonal = np.abs(region.center[~np.eye(5, dtype=bool)]).max()
    is_correlation = isinstance(space, Correlation)
    expected = off_diagonal if is_correlation else np.abs(region.center).max()
    assert drawn.get_clim() == pytest.approx((-expected, expected))


def texts_of(figure):
    """Return the title of a figure, and of its panels the titles, labels and legends."""
    texts = [] if figure._suptitle is None else [figure._suptitle]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        legend = axes.get_legend()
        texts += [*axes.texts, *([] if legend is None else legend.get_texts())]
    return [text for text in texts if text.get_text()]


@pytest.mark.parametrize("space", DRAWN, ids=str)
def test_no_text_of_a_figure_is_cut_off(space):
    for figure in (
        values_figure({"only": fitted(space).confidence_region()}),
        values_figure(regions(space)),
        region_figure(fitted(space).confidence_region()),
    ):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        page = figure.bbox.padded(1.0)
        for text in texts_of(figure):
            box = text.get_window_extent(canvas.get_renderer())
            assert page.count_contains(box.corners()) == 4, text.get_text()


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


@pytest.mark.parametrize("space", [SPDAffineInvariant(3), Correlation(5)], ids=str)
def test_many_groups_fit_on_a_page(space):
    """Seven panels in two rows, and no text of one on a text of another."""
    drawn = {
        f"group {i} of the study": fitted(space).confidence_region() for i in range(7)
    }
    figure = values_figure(drawn)
    FigureCanvasAgg(figure).draw()
    assert figure.get_figwidth() < 14
    titles = [axes.title for axes in figure.axes if axes.get_title()]
    assert len(titles) == 7
    assert len({round(axes.get_position().y0, 2) for axes in figure.axes[:7]}) == 2
    assert figure._suptitle is not None
    boxes = [text.get_window_extent() for text in (*titles, figure._suptitle)]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:number])


@pytest.mark.parametrize("space", [Sphere(2), Torus(2)], ids=str)
def test_a_legend_covers_nothing(space):
    figure = regions_figure(
        {f"a long name of group {i}": r for i, r in enumerate(regions(space).values())}
    )
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    assert not legend.get_window_extent().overlaps(figure.axes[0].get_window_extent())


def test_fonts_of_a_pdf_are_those_that_journals_take(tmp_path):
    """Type 3 fonts are refused by many; TrueType fonts are embedded instead."""
    fitted(Sphere(2)).certificate_.save(tmp_path / "c.json")
    result = run("figure", tmp_path / "c.json", "--plot", tmp_path / "f.pdf")
    assert result.exit_code == 0, result.output
    content = (tmp_path / "f.pdf").read_bytes()
    assert b"/CIDFontType2" in content
    assert b"/Subtype /Type3" not in content
