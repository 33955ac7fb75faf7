"""Exact samplers of noise laws, for releases: a draw is rounded to a public grid with
certainty, so that the last bits of floats reveal nothing.

`draw` is the entrance. The other modules draw on one kind of space each.
"""

from curvedp.laws.exact.draw import (
    ExactDraw,
    check_drawable_scale,
    draw_slack,
    exact_draw,
    exact_gaussian,
    exact_laplace,
    grid_shape,
    has_exact_gaussian,
    has_exact_laplace,
    is_released_in_flat_coordinates,
    point_from_grid,
)

__all__ = [
    "ExactDraw",
    "check_drawable_scale",
    "draw_slack",
    "exact_draw",
    "exact_gaussian",
    "exact_laplace",
    "grid_shape",
    "has_exact_gaussian",
    "has_exact_laplace",
    "is_released_in_flat_coordinates",
    "point_from_grid",
]
