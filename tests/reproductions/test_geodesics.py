"""Pictures of geodesic regression: every kind of space is drawn, what is drawn is where it should be."""

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
    Sphere,
)
from curvedp.papers.reg.pictures import plot_geodesic
from curvedp.regression import fit_geodesic


def data(M, n=30):
    rng = np.random.default_rng(0)
    x = rng.uniform(5, 9, n)
    times = ((x - 7) / 4).reshape(-1, *[1] * len(M.point_shape))
    clean = M.exp(
        M.origin,
        times * M.from_coordinates(M.origin, np.full(M.dim, 0.6 / np.sqrt(M.dim))),
    )
    return x, M.exp(
        clean, M.from_coordinates(clean, 0.05 * rng.standard_normal((n, M.dim)))
    )


@pytest.mark.parametrize(
    ("M", "panels"),
    [
        (Sphere(2), 2),  # with the bar of colors
        (Lorentz(2), 2),
        (PoincareBall(2), 2),
        (KendallShapes(5), 18),
        (SPDAffineInvariant(2), 18),
        (SPDAffineInvariant(3), 18),
        (Euclidean(3), 3),
        (Rotations(3), 3),
        (Sphere(1), 1),
    ],
    ids=repr,
)
def test_every_space_is_drawn(M, panels, tmp_path):
    x, Y = data(M)
    fit = fit_geodesic(M, x, Y)
    picture = plot_geodesic(M, x, Y, fitted=fit, private=fit)
    picture.savefig(tmp_path / "picture.png", dpi=30)
    assert len(picture.axes) == panels
    assert (
        len(plot_geodesic(M, [5, 9], None, private=fit).axes) < panels or panels <= 3
    )  # no data: no row, no colors


def test_the_disc_shows_the_same_whatever_the_model():
    """The hyperboloid is drawn by stereographic projection onto the Poincaré disc, where our PoincareBall lives."""
    H, P = Lorentz(2), PoincareBall(2)
    (x, Y), (_, Z) = data(H), data(P)
    curves = []
    for M, points in ((H, Y), (P, Z)):
        axes = plot_geodesic(M, x, points, fitted=fit_geodesic(M, x, points)).axes[0]
        curves.append(
            next(
                line for line in axes.lines if line.get_label() == "fitted"
            ).get_xydata()
        )
    np.testing.assert_allclose(curves[0], curves[1], atol=1e-9)


def test_bad_arguments():
    x, Y = data(Sphere(2))
    for a, b in ((x[:-1], Y), (x, Y[:, :2]), (x[:1], None)):
        with pytest.raises(ParameterError):
            plot_geodesic(Sphere(2), a, b)
