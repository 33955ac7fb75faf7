"""The normal chart at a public point: how much it stretches, and the float error of its coordinates."""

from math import isfinite, sin, sqrt

from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold

GRID = 30  # releases are whole multiples of 2^-30, a public constant

# log_o and to_coordinates are accurate to 1e-12 relative on every space (tests/geometry); tenfold is allowed for.
CHART_ERROR = 1e-11
# Where no ball is given, a statistic is moved to within this distance of the base, so that the float error is bounded.
REACH = 100.0


def chart_stretch(manifold: Manifold, radius: float | None) -> float:
    """Lipschitz constant of log_o on the ball of `radius` about o; 1 on Hadamard manifolds, where no ball is needed."""
    upper = 0.0 if manifold.dim == 1 else manifold.curvature_bounds[1]
    if not isfinite(upper):
        raise ParameterError(f"the logarithm on {manifold!r} has no public Lipschitz constant; use another metric")
    if radius is None:
        if isfinite(manifold.injectivity_radius) or upper > 0:
            raise ParameterError(
                f"noise in the chart of {manifold!r} needs radius=, the public ball about the base that holds the "
                f"statistic, below {manifold.convexity_radius:.6g}"
            )
        return 1.0
    if not radius < manifold.convexity_radius:
        raise ParameterError(f"radius={radius!r} must be < {manifold.convexity_radius:.6g} on {manifold!r}")
    s = radius * sqrt(max(upper, 0.0))
    return s / sin(s) if s > 0 else 1.0
