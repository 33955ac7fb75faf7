"""Exact samplers beside their laws: how a release is drawn without leaking through its last bits."""

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
    is_released_in_chart,
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
    "is_released_in_chart",
    "point_from_grid",
]
