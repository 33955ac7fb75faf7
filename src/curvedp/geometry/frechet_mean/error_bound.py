"""A-priori bounds on the error of the computed Fréchet mean of records in a public
ball. The bounds are functions of the manifold and the radius alone, and so are known
before any data is seen. The cost is f = ½·mean d², half the mean squared distance of a
point to the records; its convexity is a number μ with |∇f|² ≥ 2μ(f − f*), f* its least
value.

Theorem M1 (docs/theory/frechet-mean.md). Let f(x) = ½Σwᵢd(x, xᵢ)² for records xᵢ in a
ball of radius r, f* its least value, μ with |∇f|² ≥ 2μ(f − f*), and L ≥ Hess f.
Gradient steps of length t ≤ 1/L stay in the ball, and each shrinks the error by the
factor q with q² = 1 − 2μt(1 − Lt/2): after k steps the distance to the mean is at most
q^k·r/√μ.
"""

import math
from dataclasses import dataclass

from curvedp._validate import integer, length
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.product import Product
from curvedp.numerics.fixed_point import FixedPoint

# The smallest accepted convexity μ. A smaller one would need more than about 10⁵
# gradient steps.
_LEAST_CONVEXITY = 2e-3

# The largest accepted smoothness L. With a larger one 1 − 1/L rounds to 1: a step would
# shorten the distance to the mean by less than doubles can show.
_LARGEST_SMOOTHNESS = 1e15

# The cotangent cot(s/2) is cut at this value. It is reached only in balls so small that
# the bound by the Hessian is 1 anyway.
_LARGEST_COTANGENT = 1e10

# An iterate may be taken for the mean if ‖mean log‖ is at most this fraction of the
# radius, plus round-off (`residual_tolerance`).
_RESIDUAL_FRACTION = 1e-10

# Rounding errors of coordinates, per dimension and relative to the size of coordinates:
# four units of round-off within one step, sixteen in a residual.
_STEP_ROUNDING = 2.0**-50
_RESIDUAL_ROUNDING = 2.0**-48

# Room for the rounding of the residual's length and of the bound itself, which are
# evaluated in doubles with relative errors of a few dim·2^-53: far below one percent.
# The error of the mean logarithm is not covered by this factor, but by the term for the
# gradient steps (docs/theory/frechet-mean.md, Lemma M3).
_EVALUATION_ROOM = 1.01

KERNEL_ERROR = 1e-12
"""Relative error of exp and log: the project's contract on every space."""


@dataclass(frozen=True)
class Contraction:
    """The constants of gradient descent for the Fréchet mean: convexity, smoothness, step.

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
        """The contraction factor q < 1: after k steps the error is at most q^k·r/√μ.

        q² = 1 − 2μt(1 − Lt/2), with the convexity μ, the smoothness L and the step t.
        """
        step_efficiency = 1 - self.smoothness * self.step / 2
        decrease = 2 * self.convexity * self.step * step_efficiency
        return math.sqrt(max(1 - decrease, 0.0))


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
        The manifold of the points.
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
                f"is too large: the mean may take too many steps on {M!r}; choose a "
                "smaller ball",
                parameter="radius",
                value=radius,
            )
        return Contraction(1.0, smoothness, 1 / smoothness)

    # Otherwise the mean must be unique. s is the largest distance of two records, in
    # units of 1/√κ₊.
    s = 2 * radius * math.sqrt(high)
    has_unique_mean = s < math.pi and 2 * radius < M.injectivity_radius
    if not has_unique_mean:
        raise _no_unique_mean(M, radius)
    if s == 0:  # a closed curve or a torus: flat as far as geodesics reach
        return Contraction(1.0, smoothness, 1 / smoothness)

    convexity = _convexity_under_positive_curvature(s)
    if convexity < _LEAST_CONVEXITY:
        raise ParameterError(
            "is too large: the mean may take too many steps; radius·√κ must be at "
            "most 1.35",
            parameter="radius",
            value=radius,
        )
    return Contraction(convexity, smoothness, math.sin(s) / (s * smoothness))


def _no_unique_mean(M: Manifold, radius: float) -> ParameterError:
    """Return the error to raise if records of a ball need not have a unique mean.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    radius : float
        The radius of the ball.

    Returns
    -------
    ParameterError
        The error; the caller raises it.
    """
    low, high = M.curvature_bounds
    return ParameterError(
        f"is too large: no a-priori bound on the Fréchet mean of {M!r} is known; it "
        "needs radius < ½·min(injectivity radius, π/√κ) (curvature in "
        f"[{low:g}, {high:g}], "
        f"injectivity radius {M.injectivity_radius:g})",
        parameter="radius",
        value=radius,
    )


def _convexity_under_positive_curvature(s: float) -> float:
    """Return the convexity μ of the cost ½·mean d² for records in a ball, with κ₊ > 0.

    κ₊ is the largest sectional curvature, and μ a number with |∇f|² ≥ 2μ(f − f*), where
    f is the cost and f* its least value. The result is the larger of two such numbers
    (docs/theory/frechet-mean.md, proof of Theorem M1, steps 1 and 3): ¾ + ¼·s·cot s
    from the Hessian of f, and min(s·cot(s/2)/20, 0.81·cot⁴(s/2)) from its gradient.

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

    In general this is the radius of the ball. On some spaces floats represent points
    well only up to a smaller distance from the center (`M.float_set`), and
    `project_to_ball` moves the records that are farther away to that distance. Then the
    result is that distance plus the round-off of kernels and that of coordinates. The
    latter is a multiple of `roundoff_amplification`, which says how far a point moves
    per unit of relative error in its coordinates.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
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
    """Return how many gradient steps `frechet_mean(..., ball=(center, radius))` takes.

    Let r be the radius, q the contraction factor, μ the convexity and L the smoothness
    (`contraction`). After k steps the distance to the mean is at most q^k·r/√μ, and
    ‖mean log‖ is at most L times that distance. The number of steps is the least k ≥ 2
    for which this bound on ‖mean log‖ is at most 1e-10·r. On flat spaces the first step
    is exact, and the second one removes the round-off of a long first step.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
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

    # The distance to the mean, relative to r, at which ‖mean log‖ is at most 1e-10·r.
    goal = _RESIDUAL_FRACTION / constants.smoothness
    steps = math.log(goal * math.sqrt(constants.convexity)) / math.log(constants.factor)
    return max(2, math.ceil(steps))


def mean_error_bound(
    M: Manifold, radius: float, iterations: int | None = None
) -> float:
    """Bound the distance from the solver's mean to the true mean, before any data is seen.

    `frechet_mean(M, X, ball=(center, radius))` is within this bound η of the true mean
    of the clipped records, whatever X is. A mechanism that releases this mean adds 2η to
    its sensitivity, η for each of two neighboring data sets.

    *Guarantees.* A function of (M, radius, iterations) alone. It covers the contraction
    (docs/theory/frechet-mean.md), the float64 round-off of kernels with relative error
    1e-12, and that of the points' own coordinates (`M.float_set`), for records moved to
    the canonical center (`capabilities.move_to_origin`).

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    radius : float
        Radius of the public ball.
    iterations : int, optional
        The number of gradient steps; by default that of `mean_iterations`.

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

    # Theorem M1: with δ the error of one step, the error after k steps is at most
    # q^k·r/√μ + √(L/μ)·δ/(1 − q).
    constants = contraction(M, radius)
    radius = M.float_set.safe_radius_within(radius)
    iteration_error = constants.factor**steps * radius / math.sqrt(constants.convexity)
    root_condition = math.sqrt(constants.smoothness / constants.convexity)  # √(L/μ)
    accumulation = root_condition / (1 - constants.factor)
    return iteration_error + accumulation * _step_error(M, radius, constants.step)


def _step_error(M: Manifold, radius: float, step: float) -> float:
    """Bound how far one computed gradient step is from the exact one.

    `mean_error_bound` adds up this error over all steps.

    Parameters
    ----------
    M : Manifold
        The manifold of the points, which is no product.
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
    # A step begins in the set S that floats represent well, and is at most t·r long
    # (Jensen). Its end may lie outside of S, before it is moved back. Under negative
    # curvature amplifications grow exponentially with the distance, so that the one at
    # the end is at most the product of that in S and that at the distance t·r.
    amplification_beyond = 1.0
    if M.curvature_bounds[0] < 0 and radius > M.float_set.safe_radius:
        amplification_beyond = M.float_set.roundoff_amplification(step * radius)
    rounding = _STEP_ROUNDING * M.dim * M.float_set.roundoff_amplification(radius)
    return 4 * radius * KERNEL_ERROR + rounding * amplification_beyond


def _smallest_step_error(M: Manifold, radius: float) -> float:
    """Return the bound δ on the error of one computed gradient step.

    `solver_error` compares it with the rounding of sums.

    Parameters
    ----------
    M : Manifold
        The space; on a product δ is the smallest of the factors.
    radius : float
        The radius of the public ball.

    Returns
    -------
    float
        δ (`_step_error`), in units of distance on M.
    """
    if isinstance(M, Product):
        return min(_smallest_step_error(factor, radius) for factor in M.factors)
    step = contraction(M, radius).step
    return _step_error(M, M.float_set.safe_radius_within(radius), step)


def solver_error(M: Manifold, radius: float) -> float:
    """Bound the error of the mean of records in a public ball, however it is computed.

    The bound holds for records in memory, on a device and in chunks, after they were
    moved by the isometry that takes the center to its canonical place. The computed
    mean x is within

        2·(η·(2 + ρ) + τ/μ)

    of the true one (docs/theory/frechet-mean.md, Lemma M3). Here η bounds the error of a
    fixed number of gradient steps (`mean_error_bound`), τ is the length of the mean
    logarithm at which a search ends (`residual_tolerance`), and μ is the convexity.

    - The first term is for gradient steps. The 2 is for devices, whose kernels may have
      twice the allowed error (`device_kernels_are_accurate`). ρ is for passes, which
      round each mean logarithm to the fixed point of exact sums, by at most
      ½·√dim·resolution. Let δ be the error of one step, to which η is nearly
      proportional. ρ is at least that rounding divided by δ, namely
      √dim·resolution/min(4·r·`KERNEL_ERROR`, 2δ).
    - The second term is for a search that ends at x. There the true mean logarithm is
      at most τ long, plus the error of the computed one. Divided by μ, that error is at
      most the first term.
    - The sum is doubled because a computed mean just outside the ball is moved onto it,
      by as much again.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
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
    steps_error = mean_error_bound(M, radius)  # η; raises for a radius that is not one

    # ρ ≥ ½·√dim·resolution/δ. Any divisor up to 2δ gives such a number. The first one,
    # 4·r·KERNEL_ERROR, is a part of δ, unless floats represent much less than the ball.
    resolution = FixedPoint(2 * float(radius)).resolution
    divisor = min(4 * radius * KERNEL_ERROR, 2 * _smallest_step_error(M, radius))
    sum_rounding = math.sqrt(M.dim) * resolution / divisor

    tolerance = residual_tolerance(M, radius)
    search_error = _EVALUATION_ROOM * tolerance / _convexity(M, radius)
    return 2 * (steps_error * (2 + sum_rounding) + search_error)


def residual_tolerance(M: Manifold, radius: float) -> float:
    """Return the length of the mean logarithm at which a point is taken for the mean.

    The tolerance is a fraction of the radius (0 on flat spaces, where the mean is
    exact), plus the round-off of kernels and coordinates, below which no search can go.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
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

    With f the cost and f* its least value, μ is a number with |∇f|² ≥ 2μ(f − f*). A
    point whose mean logarithm −∇f has the length |∇f| is within |∇f|/μ of the mean.

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
