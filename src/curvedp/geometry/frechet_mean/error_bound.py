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

# Largest smoothness L that is accepted. With a larger one, 1 − 1/L rounds to 1: a step
# would shorten the distance to the mean by less than doubles can show.
_LARGEST_SMOOTHNESS = 1e15

# cot(s/2) is cut here. In so small a ball the Hessian alone bounds the convexity by 1.
_LARGEST_COTANGENT = 1e10

# Fraction of the radius that ‖mean log‖ may have at an iterate taken for the mean.
_RESIDUAL_FRACTION = 1e-10

# Errors of coordinates, in units of relative error per dimension: four units of
# round-off within one step, sixteen in a residual.
_STEP_ROUNDING = 2.0**-50
_RESIDUAL_ROUNDING = 2.0**-48

KERNEL_ERROR = 1e-12
"""Relative error of exp and log: the project's contract on every space."""


@dataclass(frozen=True)
class Contraction:
    """Constants that say how fast gradient descent for the Fréchet mean converges.

    Parameters
    ----------
    convexity : float
        μ, with |∇f|² ≥ 2μ(f − f*) for the cost f = ½·mean d² and its least value f*.
    smoothness : float
        L, an upper bound of the Hessian of f.
    step : float
        t, the length of a step: the iterate x moves to exp_x(−t∇f(x)).
    """

    convexity: float
    smoothness: float
    step: float

    @property
    def factor(self) -> float:
        """The factor q by which a step shrinks the distance to the mean, at most.

        q² = 1 − 2μt(1 − Lt/2), with the convexity μ, the smoothness L and the step t.
        """
        gain = 2 * self.convexity * self.step * (1 - self.smoothness * self.step / 2)
        return math.sqrt(max(1 - gain, 0.0))


def contraction(M: Manifold, radius: float) -> Contraction:
    """Return how fast gradient descent converges to the mean of records in a ball.

    Let r be the radius and f(x) = ½·mean d²(x, xᵢ) the cost, with least value f*. The
    constants are the convexity μ with |∇f|² ≥ 2μ(f − f*), the smoothness L ≥ Hess f,
    and the length t of a step exp_x(−t∇f). With κ₋ ≤ κ ≤ κ₊ the curvature bounds,
    L = 1 + r√(−κ₋). On Hadamard manifolds μ = 1 and t = 1/L. Under positive curvature,
    with s = 2r√κ₊ < π,

        μ = max(¾ + ¼·s·cot s, min(s·cot(s/2)/20, 0.81·cot⁴(s/2))),  t = sin s/(s·L).

    docs/theory/frechet-mean.md has the proof: the first bound on μ is that of the
    Hessian of f, the second that of its gradient.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius r of the public ball.

    Returns
    -------
    Contraction
        The constants μ, L and t.

    Raises
    ------
    ParameterError
        If the mean need not be unique (r ≥ ½·min(injectivity radius, π/√κ₊)) or would
        take too many steps.
    """
    low, high = M.curvature_bounds
    radius = M.float_set.safe_radius_within(radius)
    smoothness = 1 + radius * math.sqrt(max(0.0, -low))

    # No curvature is positive: the cost is 1-convex.
    is_hadamard = high <= 0 and M.injectivity_radius == math.inf
    if is_hadamard:
        if smoothness > _LARGEST_SMOOTHNESS:
            raise ParameterError(
                f": the mean may take too many steps on {M!r}; choose a smaller ball",
                parameter="radius",
                value=radius,
            )
        return Contraction(1.0, smoothness, 1 / smoothness)

    # Otherwise the mean must be unique, and s bounds the angle between two records.
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

    convexity = _convexity_under_positive_curvature(s)
    if convexity < _LEAST_CONVEXITY:
        raise ParameterError(
            ": the mean may take too many steps; radius·√κ must be at most 1.35",
            parameter="radius",
            value=radius,
        )
    return Contraction(convexity, smoothness, math.sin(s) / (s * smoothness))


def _convexity_under_positive_curvature(s: float) -> float:
    """Return the convexity μ of ½·mean d² for records in a ball, with κ₊ > 0.

    It is the better of two bounds (docs/theory/frechet-mean.md, steps 1 and 3): that of
    the Hessian, ¾ + ¼·s·cot s, and that of the gradient,
    min(s·cot(s/2)/20, 0.81·cot⁴(s/2)).

    κ₊ is the largest sectional curvature. μ is a number with |∇f|² ≥ 2μ(f − f*), f the
    cost and f* its least value.

    Parameters
    ----------
    s : float
        2r√κ₊, between 0 and π: the largest distance of two records, measured in units
        of 1/√κ₊.

    Returns
    -------
    float
        μ, at most 1.
    """
    by_hessian = 0.75 + 0.25 * s / math.tan(s)
    cot = min(1 / math.tan(s / 2), _LARGEST_COTANGENT)
    by_gradient = min(0.05 * s * cot, 0.81 * cot**4)
    return max(by_hessian, by_gradient)


def farthest_record(M: Manifold, radius: float) -> float:
    """Return how far from the center a record can be after `project_to_ball`.

    That is the radius. If floats represent only the points up to a smaller distance
    well (`M.float_set`), records are moved to within that distance, and round-off of
    the kernels and of their coordinates is added to it.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.

    Returns
    -------
    float
        A distance of at most `radius`.
    """
    safe_radius = M.float_set.safe_radius_within(radius)
    if safe_radius == radius:
        return radius
    rounding = _STEP_ROUNDING * M.float_set.roundoff_amplification(safe_radius)
    return min(radius, safe_radius * (1 + KERNEL_ERROR) + rounding)


def mean_iterations(M: Manifold, radius: float) -> int:
    """Return how many steps `frechet_mean(..., ball=(center, radius))` takes.

    After k steps the distance to the mean is at most q^k·r/√μ, and ‖mean log‖ is at
    most L times that; r is the radius, and `contraction` gives the factor q, the
    convexity μ and the smoothness L. The number of steps is the least k ≥ 2 for which
    this bound on ‖mean log‖ is at most 1e-10·r. On flat spaces the first step is exact,
    and the second removes the round-off of a long first one.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.

    Returns
    -------
    int
        The number of steps; it depends on no record.
    """
    if isinstance(check_manifold(M), Product):
        return max(mean_iterations(factor, radius) for factor in M.factors)
    constants = contraction(M, length("radius", radius))
    if constants.factor == 0:
        return 2
    goal = _RESIDUAL_FRACTION / constants.smoothness  # for the distance, relative to r
    steps = math.log(goal * math.sqrt(constants.convexity)) / math.log(constants.factor)
    return max(2, math.ceil(steps))


def mean_error_bound(
    M: Manifold, radius: float, iterations: int | None = None
) -> float:
    """Bound the distance from the solver's mean to the true mean, before any data.

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

    Returns
    -------
    float
        η, in units of distance on M.

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

    # With q the factor by which a step shrinks the distance to the mean, the error
    # after k steps is at most q^k·r/√μ + √(L/μ)·δ/(1 − q), δ the error of one step.
    constants = contraction(M, radius)
    radius = M.float_set.safe_radius_within(radius)
    iteration_error = constants.factor**steps * radius / math.sqrt(constants.convexity)
    accumulation = math.sqrt(constants.smoothness / constants.convexity)
    accumulation = accumulation / (1 - constants.factor)
    return iteration_error + accumulation * _step_error(M, radius, constants.step)


def _step_error(M: Manifold, radius: float, step: float) -> float:
    """Bound how far one computed gradient step is from the exact one.

    Parameters
    ----------
    M : Manifold
        Where the points are; no product.
    radius : float
        The largest distance of a record from the center.
    step : float
        The factor t by which the mean logarithm is multiplied.

    Returns
    -------
    float
        The error of the kernels, a few `KERNEL_ERROR` relative to the radius, plus
        that of rounded coordinates.
    """
    # A step is at most t·r long (Jensen). It may leave the set that floats represent
    # well by that much before it is moved back.
    amplification_beyond = 1.0
    if M.curvature_bounds[0] < 0 and radius > M.float_set.safe_radius:
        amplification_beyond = M.float_set.roundoff_amplification(step * radius)
    rounding = _STEP_ROUNDING * M.dim * M.float_set.roundoff_amplification(radius)
    return 4 * radius * KERNEL_ERROR + rounding * amplification_beyond


def solver_error(M: Manifold, radius: float) -> float:
    """Bound the error of the mean of records in a public ball, however it is computed.

    The bound holds for records in memory, on a device and in chunks, after they were
    moved by the isometry that takes the center to its canonical place. It is the sum of
    bounds for the two ways in which the mean is computed: a search that ends with
    ‖mean log‖ of at most `residual_tolerance`, and a fixed number of gradient steps. A
    device's kernels may be off by twice what the contract allows
    (`backends.device.is_accurate`), and a pass rounds each mean logarithm to the fixed
    point of sums, by at most ½·√dim·resolution; both enter the bound for the steps,
    which is linear in them. The total is doubled, because a computed mean that fell
    just outside the ball is moved onto it by as much again.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.

    Returns
    -------
    float
        The largest distance from the computed mean to the true one.

    Raises
    ------
    ParameterError
        If the mean need not be unique, or would take too many steps (`contraction`).
    """
    steps_error = mean_error_bound(M, radius)  # which refuses anything but a radius
    resolution = FixedPoint(2 * float(radius)).resolution
    # The rounding of sums, in units of the error 4·r·KERNEL_ERROR of one step.
    sum_rounding = math.sqrt(M.dim) * resolution / (4 * radius * KERNEL_ERROR)
    search_error = 1.01 * residual_tolerance(M, radius) / _convexity(M, radius)
    return 2 * (steps_error * (2 + sum_rounding) + search_error)


def residual_tolerance(M: Manifold, radius: float) -> float:
    """Return the length of the mean logarithm at which a point is taken for the mean.

    It is a fraction of the radius (0 on flat spaces, where the mean is exact), plus the
    float error of kernels and coordinates.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.

    Returns
    -------
    float
        The largest ‖mean log‖, in units of distance on M.
    """
    is_flat = M.curvature_bounds == (0.0, 0.0)
    fraction = 0.0 if is_flat else _RESIDUAL_FRACTION
    rounding = _RESIDUAL_ROUNDING * M.dim * M.float_set.roundoff_amplification(radius)
    return radius * (fraction + 4 * KERNEL_ERROR) + rounding


def _convexity(M: Manifold, radius: float) -> float:
    """Return the convexity μ of the cost ½·mean d² for records in a ball.

    μ is a number with |∇f|² ≥ 2μ(f − f*), f the cost and f* its least value. So a point
    with mean logarithm ∇f is within |∇f|/μ of the mean.

    Parameters
    ----------
    M : Manifold
        The space; on a product μ is the least of the factors.
    radius : float
        The radius of the public ball.

    Returns
    -------
    float
        μ, between 0 and 1.
    """
    if isinstance(M, Product):
        return min(_convexity(factor, radius) for factor in M.factors)
    return contraction(M, radius).convexity
