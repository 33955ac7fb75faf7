"""A-priori bounds on the error of the Fréchet mean of records in a public ball.

They are functions of the manifold and the radius alone, known before any data is seen.

Theorem (docs/theory/frechet-mean.md). Let f(x) = ½Σwᵢd(x, xᵢ)² for records xᵢ in a ball
of radius r, f* its least value, μ with |∇f|² ≥ 2μ(f − f*), and L ≥ Hess f. Gradient
steps of length t ≤ 1/L stay in the ball, and each shrinks the error by the factor q
with q² = 1 − 2μt(1 − Lt/2): after k steps the distance to the mean is at most q^k·r/√μ.
"""

import math
from dataclasses import dataclass

from curvedp._validate import integer, length
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.product import Product
from curvedp.numerics.fixed_point import FixedPoint

# Least convexity μ that is accepted: about 10⁵ steps, where nothing faster converges.
_LEAST_CONVEXITY = 2e-3

# Largest smoothness L: beyond, a step shortens the way by nothing that doubles show.
_LARGEST_SMOOTHNESS = 1e15

# Fraction of the radius that ‖mean log‖ may have at an iterate taken for the mean.
_RESIDUAL_FRACTION = 1e-10

KERNEL_ERROR = 1e-12
"""Relative error of exp and log: the project's contract on every space."""


@dataclass(frozen=True)
class Contraction:
    """The constants of the theorem: μ, L and the step length t."""

    convexity: float
    smoothness: float
    step: float

    @property
    def factor(self) -> float:
        """The factor q by which a step shrinks the error."""
        gain = 2 * self.convexity * self.step * (1 - self.smoothness * self.step / 2)
        return math.sqrt(max(1 - gain, 0.0))


def contraction(M: Manifold, radius: float) -> Contraction:
    """Return the constants μ, L and t for records in a ball of this radius.

    With κ₋ ≤ κ ≤ κ₊ the curvature bounds, L = 1 + r√(−κ₋). On Hadamard manifolds μ = 1
    and t = 1/L. Under positive curvature, with s = 2r√κ₊ < π,

        μ = max(¾ + ¼·s·cot s, min(s·cot(s/2)/20, 0.81·cot⁴(s/2))),  t = sin s/(s·L).

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.

    Raises
    ------
    ParameterError
        Where the mean need not be unique (r ≥ ½·min(injectivity radius, π/√κ₊)) or
        would take too many steps.
    """
    low, high = M.curvature_bounds
    radius = M.float_set.safe_radius_within(radius)
    smoothness = 1 + radius * math.sqrt(max(0.0, -low))
    is_hadamard = high <= 0 and M.injectivity_radius == math.inf
    if is_hadamard:
        if smoothness > _LARGEST_SMOOTHNESS:
            raise ParameterError(
                f": the mean may take too many steps on {M!r}; choose a smaller ball",
                parameter="radius",
                value=radius,
            )
        return Contraction(1.0, smoothness, 1 / smoothness)

    s = 2 * radius * math.sqrt(high)
    has_unique_mean = s < math.pi and 2 * radius < M.injectivity_radius
    if not has_unique_mean:
        raise ParameterError(
            f": no a-priori bound on the Fréchet mean of {M!r}; it needs radius < "
            f"½·min(injectivity radius, π/√κ) (curvature in [{low:g}, {high:g}], "
            f"injectivity radius {M.injectivity_radius:g})",
            parameter="radius",
            value=radius,
        )
    if s == 0:  # a closed curve or a torus: flat as far as geodesics reach
        return Contraction(1.0, smoothness, 1 / smoothness)

    cot = min(1 / math.tan(s / 2), 1e10)  # beyond, the first bound is 1
    by_hessian = 0.75 + 0.25 * s / math.tan(s)
    by_gradient = min(0.05 * s * cot, 0.81 * cot**4)
    convexity = max(by_hessian, by_gradient)
    if convexity < _LEAST_CONVEXITY:
        raise ParameterError(
            ": the mean may take too many steps; radius·√κ must be at most 1.35",
            parameter="radius",
            value=radius,
        )
    return Contraction(convexity, smoothness, math.sin(s) / (s * smoothness))


def farthest_record(M: Manifold, radius: float) -> float:
    """Return how far from the center `project_to_ball` leaves a record, at most.

    That is the radius, or less in a ball of which floats represent a part alone
    (`M.float_set`). The place of a record there is computed: to the kernels' error, and
    to the rounding of its coordinates.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.
    """
    safe_radius = M.float_set.safe_radius_within(radius)
    if safe_radius == radius:
        return radius
    rounding = 2.0**-50 * M.float_set.roundoff_amplification(safe_radius)
    return min(radius, safe_radius * (1 + KERNEL_ERROR) + rounding)


def mean_iterations(M: Manifold, radius: float) -> int:
    """Return how many steps `frechet_mean(..., ball=(center, radius))` takes.

    It is a function of public quantities alone: the least k ≥ 2 at which the theorem
    bounds ‖mean log‖ ≤ L·error by 1e-10 of the radius. On flat spaces the first step is
    exact, and the second removes the round-off of a long first one.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.
    """
    if isinstance(check_manifold(M), Product):
        return max(mean_iterations(factor, radius) for factor in M.factors)
    constants = contraction(M, length("radius", radius))
    if constants.factor == 0:
        return 2
    goal = _RESIDUAL_FRACTION / constants.smoothness
    steps = math.log(goal * math.sqrt(constants.convexity)) / math.log(constants.factor)
    return max(2, math.ceil(steps))


def mean_error_bound(
    M: Manifold, radius: float, iterations: int | None = None
) -> float:
    """Return a distance η from the true mean that the solver's mean never exceeds.

    `frechet_mean(M, X, ball=(center, radius))` is within η of the true mean for any X
    in the ball; mechanisms add 2η to the sensitivity.

    *Guarantees.* A function of (M, radius, iterations) alone. It covers the contraction
    (docs/theory/frechet-mean.md), the float64 round-off of kernels with relative error
    1e-12, and that of the points' own coordinates (`M.float_set`), for records moved to
    the canonical center (`capabilities.move_to_origin`).

    Parameters
    ----------
    M : Manifold
        Where the points live.
    radius : float
        Radius of the public ball.
    iterations : int, optional
        Gradient steps; by default the number that the solver takes.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> mean_error_bound(Sphere(2), 0.3) < 1e-9
    True
    """
    check_manifold(M)
    radius = length("radius", radius)
    if iterations is None:
        steps = mean_iterations(M, radius)
    else:
        steps = integer("iterations", iterations, 0)
    if isinstance(M, Product):
        squares = [mean_error_bound(factor, radius, steps) ** 2 for factor in M.factors]
        return math.sqrt(sum(squares))

    constants = contraction(M, radius)
    radius = M.float_set.safe_radius_within(radius)

    # A step is at most t·r long (Jensen), and may leave the set that floats represent
    # well by as much before it is moved back.
    amplification_beyond = 1.0
    if M.curvature_bounds[0] < 0 and radius > M.float_set.safe_radius:
        amplification_beyond = M.float_set.roundoff_amplification(
            constants.step * radius
        )
    rounding = 2.0**-50 * M.dim * M.float_set.roundoff_amplification(radius)
    step_error = 4 * radius * KERNEL_ERROR + rounding * amplification_beyond
    accumulation = math.sqrt(constants.smoothness / constants.convexity)
    accumulation = accumulation / (1 - constants.factor)
    iteration_error = constants.factor**steps * radius / math.sqrt(constants.convexity)
    return iteration_error + accumulation * step_error


def solver_error(M: Manifold, radius: float) -> float:
    """Return a bound η on the error of the mean as the library computes it anywhere.

    One bound for records in memory, on a device and in chunks, moved to the canonical
    center. The two ways to the mean, a residual up to `residual_tolerance` and the
    fixed number of steps, are summed. A device's kernels may be off by twice what the
    contract allows (`backends.device.is_accurate`), and a pass rounds each mean
    logarithm to the fixed point of sums, by at most ½·√dim·resolution; both enter the
    bound for the steps, which is linear in them. The total is doubled, because a
    computed mean that fell just outside the ball is moved onto it by as much again.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.

    Raises
    ------
    ParameterError
        Where there is no bound, see `contraction`.
    """
    error = mean_error_bound(M, radius)  # which refuses anything but a radius
    resolution = FixedPoint(2 * float(radius)).resolution
    rounding = math.sqrt(M.dim) * resolution / (4 * radius * KERNEL_ERROR)
    by_residual = 1.01 * residual_tolerance(M, radius) / _convexity(M, radius)
    return 2 * (error * (2 + rounding) + by_residual)


def residual_tolerance(M: Manifold, radius: float) -> float:
    """Return ‖mean log‖ at which an iterate is taken for the mean.

    A fraction of the radius (0 on flat spaces, where the mean is exact), plus the float
    error of kernels and coordinates.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.
    """
    is_flat = M.curvature_bounds == (0.0, 0.0)
    fraction = 0.0 if is_flat else _RESIDUAL_FRACTION
    rounding = 2.0**-48 * M.dim * M.float_set.roundoff_amplification(radius)
    return radius * (fraction + 4 * KERNEL_ERROR) + rounding


def _convexity(M: Manifold, radius: float) -> float:
    """Return the convexity μ of the cost; the least of the factors of a product."""
    if isinstance(M, Product):
        return min(_convexity(factor, radius) for factor in M.factors)
    return contraction(M, radius).convexity
