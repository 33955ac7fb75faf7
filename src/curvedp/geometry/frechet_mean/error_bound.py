"""How far a fixed number of gradient steps on a public ball can end from the Fréchet
mean: known before any data is seen.

The proof is in docs/frechet-mean.md. f(x) = ½ Σ w_i d(x, x_i)² falls along steps of
length t, which stay in the ball; where |∇f|² ≥ 2μ(f − f*) and Hess f ≤ L, the error
shrinks by q a step, q² = 1 − 2μt(1 − Lt/2).
"""

import math
from dataclasses import dataclass

from curvedp._validate import integer, length
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.product import Product
from curvedp.numerics.fixed_point import FixedPoint

_SLOWEST = 2e-3  # convexity: about 10⁵ steps, where nothing faster converges
_STEEPEST = (
    1e15  # smoothness: beyond, a step shortens the way by nothing that doubles hold
)
_SHARE = 1e-10  # of the radius: what an iterate may leave of ‖mean log‖ and be taken for the mean
KERNEL_ERROR = (
    1e-12  # relative error of exp and log, the project's contract on every space
)


@dataclass(frozen=True)
class Contraction:
    """μ with |∇f|² ≥ 2μ(f − f*), Hess f ≤ L, the step t, and the factor q per step."""

    convexity: float
    smoothness: float
    step: float

    @property
    def factor(self) -> float:
        return math.sqrt(
            max(
                1
                - 2
                * self.convexity
                * self.step
                * (1 - self.smoothness * self.step / 2),
                0.0,
            )
        )


def contraction(M: Manifold, radius: float) -> Contraction:
    """The constants of the proof above for data in a ball of this radius."""
    low, high = M.curvature_bounds
    radius = M.float_set.safe_radius_within(radius)
    smoothness = 1 + radius * math.sqrt(max(0.0, -low))
    if high <= 0 and M.injectivity_radius == math.inf:
        if smoothness > _STEEPEST:
            raise ParameterError(
                f": the mean may take too many steps on {M!r}; choose a smaller ball",
                parameter="radius",
                value=radius,
            )
        return Contraction(1.0, smoothness, 1 / smoothness)
    s = 2 * radius * math.sqrt(high)
    if not (s < math.pi and 2 * radius < M.injectivity_radius):
        raise ParameterError(
            f": no a-priori bound on the Fréchet mean of {M!r}; it needs radius < "
            f"½·min(injectivity radius, π/√κ) (curvature in [{low:g}, {high:g}], "
            f"injectivity radius {M.injectivity_radius:g})",
            parameter="radius",
            value=radius,
        )
    if (
        s == 0
    ):  # a closed curve, a torus: flat as far as geodesics from the center reach
        return Contraction(1.0, smoothness, 1 / smoothness)
    cot = min(1 / math.tan(s / 2), 1e10)  # beyond, the chord's is 1
    convexity = max(0.75 + 0.25 * s / math.tan(s), min(0.05 * s * cot, 0.81 * cot**4))
    if convexity < _SLOWEST:
        raise ParameterError(
            ": the mean may take too many steps; radius·√κ must be at most 1.35",
            parameter="radius",
            value=radius,
        )
    return Contraction(convexity, smoothness, math.sin(s) / (s * smoothness))


def farthest_record(M: Manifold, radius: float) -> float:
    """How far from the center `project_to_ball` leaves a record at most: less than the
    radius in a ball of which floats hold a part alone (`M.float_set`). That place is
    computed: to the kernels' error, and to the rounding of its coordinates.
    """
    held = M.float_set.safe_radius_within(radius)
    return (
        radius
        if held == radius
        else min(
            radius,
            held * (1 + KERNEL_ERROR)
            + 2.0**-50 * M.float_set.roundoff_amplification(held),
        )
    )


def mean_iterations(M: Manifold, radius: float) -> int:
    """How many steps `frechet_mean(..., ball=(center, radius))` takes: a function of
    public quantities alone.
    """
    if isinstance(check_manifold(M), Product):
        return max(mean_iterations(factor, radius) for factor in M.factors)
    c = contraction(M, length("radius", radius))
    if c.factor == 0:
        return 2  # flat: the first step is exact, the second removes the round-off of a long first one
    goal = _SHARE / c.smoothness  # ‖mean log‖ ≤ L·error
    return max(
        2, math.ceil(math.log(goal * math.sqrt(c.convexity)) / math.log(c.factor))
    )


def mean_error_bound(
    M: Manifold, radius: float, iterations: int | None = None
) -> float:
    """η: `frechet_mean(M, X, ball=(center, radius))` is within this distance of the
    true mean, for any X in the ball.

    Mechanisms add 2η to the sensitivity. `iterations` defaults to the number the solver
    takes.

    *Guarantees.* A function of (M, radius, iterations) alone. It covers the contraction
    (docs/frechet-mean.md), the float64 round-off of kernels with relative error 1e-12,
    and that of the points' own coordinates (`M.float_set`), for records carried to
    `canonical_center(M, center)` (`move_to_origin`).

    Parameters
    ----------
    M : Manifold
        Where the points live.
    radius : float
        Of the public ball.
    iterations : int, optional
        Gradient steps.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> mean_error_bound(Sphere(2), 0.3) < 1e-9
    True
    """
    check_manifold(M)
    radius = length("radius", radius)
    steps = (
        mean_iterations(M, radius)
        if iterations is None
        else integer("iterations", iterations, 0)
    )
    if isinstance(M, Product):
        return math.sqrt(
            sum(mean_error_bound(factor, radius, steps) ** 2 for factor in M.factors)
        )
    c, radius = contraction(M, radius), M.float_set.safe_radius_within(radius)
    # a step is at most t·r long (Jensen), and may leave by as much what floats hold,
    # before it is moved back
    leaves = M.curvature_bounds[0] < 0 and radius > M.float_set.safe_radius
    beyond = M.float_set.roundoff_amplification(c.step * radius) if leaves else 1.0
    delta = (
        4 * radius * KERNEL_ERROR
        + 2.0**-50 * M.dim * M.float_set.roundoff_amplification(radius) * beyond
    )
    mixing = math.sqrt(c.smoothness / c.convexity) / (1 - c.factor)
    return c.factor**steps * radius / math.sqrt(c.convexity) + mixing * delta


def solver_error(M: Manifold, radius: float) -> float:
    """η: the Fréchet mean of records in a ball, as the library computes it, is within
    this distance of the true one. One bound for records in memory, on a device and in
    chunks, carried to `canonical_center(M, center)`; a `ParameterError` where there is
    none. The two ways to the mean, a residual up to `tolerance` and the fixed number of
    steps, are summed. A device's kernels may be off by twice what the contract allows
    (`device.accurate`), and a pass rounds each mean logarithm to the fixed point of
    sums, by at most ½·√dim·resolution; both enter the bound for the steps, which is
    linear in them. Doubled, because a computed mean that fell just outside the ball is
    moved onto it by as much again.
    """
    error = mean_error_bound(M, radius)  # which refuses anything but a radius
    rounding = (
        math.sqrt(M.dim)
        * FixedPoint(2 * float(radius)).resolution
        / (4 * radius * KERNEL_ERROR)
    )
    return 2 * (
        error * (2 + rounding) + 1.01 * tolerance(M, radius) / _convexity(M, radius)
    )


def tolerance(M: Manifold, radius: float) -> float:
    """‖mean log‖ at which an iterate is taken for the mean: a share of the radius, or
    the float error of coordinates.
    """
    share = 0.0 if M.curvature_bounds == (0.0, 0.0) else _SHARE
    return radius * (
        share + 4 * KERNEL_ERROR
    ) + 2.0**-48 * M.dim * M.float_set.roundoff_amplification(radius)


def _convexity(M: Manifold, radius: float) -> float:
    if isinstance(M, Product):
        return min(_convexity(factor, radius) for factor in M.factors)
    return contraction(M, radius).convexity
