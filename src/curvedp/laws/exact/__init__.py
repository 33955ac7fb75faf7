"""Exact samplers beside their laws: how a release is drawn without leaking through its last bits."""

from curvedp.laws.exact.draw import (
    ExactDraw,
    drawn_point,
    drawn_shape,
    exact_draw,
    exact_gaussian,
    exact_laplace,
    has_exact_gaussian,
    has_exact_laplace,
    in_chart,
)

__all__ = [
    "ExactDraw",
    "drawn_point",
    "drawn_shape",
    "exact_draw",
    "exact_gaussian",
    "exact_laplace",
    "has_exact_gaussian",
    "has_exact_laplace",
    "in_chart",
]
