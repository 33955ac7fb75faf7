"""How far a fixed number of gradient steps on a public ball can end from the Fréchet mean: known before any data is seen.

Setting. Records x_i in the closed ball B of public center c and radius r, f(x) = ½ Σ w_i d(x, x_i)², x* its minimizer
in B, x_0 = c, x_{k+1} = exp_{x_k}(t Σ w_i log_{x_k} x_i). Note f(c) ≤ r²/2, and that f(x) ≤ f(c) means Σ w_i d_i² ≤ r².
Let S be the set of x (in B, where κ_max > 0) with f(x) ≤ f(c).

1. On S the Hessian of f lies between μ and L.
   - κ ≤ 0: that of ½d² lies between 1 and s·coth s ≤ 1 + s, s = √−κ_min d (Rauch); Σ w_i d_i ≤ r (Jensen), so μ = 1
     and L = 1 + r√−κ_min.
   - κ_max > 0: it is at least s·cot s, s = √κ_max d. In B every d_i ≤ 2r, u ↦ √u cot √u is concave and Σ w_i d_i² ≤ r²,
     so its mean is at least the chord's value μ = ¾ + ¼ s·cot s at s = 2r√κ_max. Above as before: L = 1 + r√−κ_min, and
     L = 1 for κ ≥ 0.
2. The iterates stay in S.
   - κ ≤ 0, t = 1/L: along the step f falls as long as the geodesic is in S, so it never leaves S. Nor B: with v = Σ w_i
     log_x x_i, ⟨log_x c, v⟩ ≥ ½(d(x,c)² + Σ w_i d_i² − r²) by comparison (CAT(0)), the Hessian of ½d(·,c)² is at most L in
     B and |v|² ≤ Σ w_i d_i² (Jensen), so ½d(·,c)² is at most ½(1−t)d(x,c)² + ½tr² ≤ ½r² at the end, and so on the way. Where
     floats do not hold all of B (SPD matrices of a wide spectrum), an iterate is moved to the nearest point of B that they
     do hold, no farther from any record (`streamed.kept`): f falls again. Every step begins where round-off is known.
   - κ_max > 0, t = sin(s)/(s·L): f falls as before, as long as the geodesic is in B too. For that, scale to κ_max = 1 and
     let ψ = 1 − cos d(·, c). Its Hessian is cos d along and at most sin(d)·k·coth(kd), k = √−κ_min, across the radius, so
     at most kr·coth(kr) ≤ L on B (1 for κ ≥ 0). At x with d(x, c) = ρ the spherical comparison of the triangle (x, c, x_i)
     gives ⟨−∇ψ, log_x x_i⟩ ≥ (d_i/sin d_i)(cos r − cos ρ cos d_i). With e = cos ρ − cos r ≥ 0 and d tan(d/2) ≥ d²/2, every
     part τ ≤ t of the step has (1 − cos r) − ψ ≥ e(1 − τ Σ w_i d_i/sin d_i) + ½ τ (cos ρ − τL) Σ w_i d_i² while it has not
     left B, and both terms are ≥ 0, the second > 0 unless it is at the mean, because tL = sin 2r/2r < cos r: it never leaves.
3. Rate. −∇f points into B on its boundary; its flow from x in S stays in S and ends at x*, the only critical point in B
   (Afsari 2011, Thm 2.1, r < ½ min(injectivity, π/√κ)). Along the flow |∇f| shrinks at rate μ, so
   |∇f(x)|² ≥ 2μ(f(x) − f*) and d(x, x*)² ≤ 2(f(x) − f*)/μ. With f(x_{k+1}) ≤ f(x_k) − t(1 − Lt/2)|∇f(x_k)|² this gives,
   for q² = 1 − 2μt(1 − Lt/2), d(x_k, x*) ≤ q^k · r/√μ.
   - κ_max > 0, and the chord's μ is small or negative: scale to κ_max = 1 again. At x in B, ρ from c, let g = |∇f(x)|. The
     comparison of 2 and the lemma of docs/sensitivity.md give Hess f ≥ r·cot r − g·tan r. So from where g ≤ 0.9·r·cot² r the
     flow shrinks g at rate 0.1·r·cot r, and g² ≥ 2μ(f − f*) for that μ; elsewhere g² ≥ 0.81·r²·cot⁴ r ≥ 2μ(f − f*) for
     μ = 0.81·cot⁴ r, as f ≤ r²/2. The smaller of the two serves for μ in all of 3: convexity was not used.
4. Round-off. If each computed step is within δ of the true one, √(f − f*) grows by at most √(L/2)·δ a step (its gradient
   is at most √(L/2) long), so the error is at most q^k r/√μ + √(L/μ)·δ/(1 − q).
"""

import math
from dataclasses import dataclass

from curvedp._validate import integer, length
from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold, check_manifold
from curvedp.geometry.manifolds.product import Product
from curvedp.geometry.numerics.fixed_point import FixedPoint

_SLOWEST = 2e-3  # convexity: about 10⁵ steps, where nothing faster converges
_SHARE = 1e-10  # of the radius: what an iterate may leave of ‖mean log‖ and be taken for the mean
_KERNEL_ERROR = 1e-12  # relative error of exp and log, the project's contract on every space


@dataclass(frozen=True)
class Contraction:
    """μ with |∇f|² ≥ 2μ(f − f*), Hess f ≤ L, the step t, and the factor q per step."""

    convexity: float
    smoothness: float
    step: float

    @property
    def factor(self) -> float:
        square = 1 - 2 * self.convexity * self.step * (1 - self.smoothness * self.step / 2)
        return math.sqrt(max(square, 0.0))


def contraction(M: Manifold, radius: float) -> Contraction:
    """The constants of the proof above for data in a ball of this radius."""
    low, high = M.curvature_bounds
    radius = M.held_radius(radius)
    smoothness = 1 + radius * math.sqrt(max(0.0, -low))
    if high <= 0 and M.injectivity_radius == math.inf:
        return Contraction(1.0, smoothness, 1 / smoothness)
    s = 2 * radius * math.sqrt(high)
    if not (s < math.pi and 2 * radius < M.injectivity_radius):
        raise ParameterError(
            f"radius={radius!r}: no a-priori bound on the Fréchet mean of {M!r}; it needs "
            f"radius < ½·min(injectivity radius, π/√κ) (curvature in [{low:g}, {high:g}], "
            f"injectivity radius {M.injectivity_radius:g})"
        )
    if s == 0:  # a closed curve, a torus: flat as far as geodesics from the center reach
        return Contraction(1.0, smoothness, 1 / smoothness)
    cot = min(1 / math.tan(s / 2), 1e10)  # beyond, the chord's is 1
    convexity = max(0.75 + 0.25 * s / math.tan(s), min(0.05 * s * cot, 0.81 * cot**4))
    if convexity < _SLOWEST:
        raise ParameterError(f"radius={radius!r}: the mean may take too many steps; radius·√κ must be at most 1.35")
    return Contraction(convexity, smoothness, math.sin(s) / (s * smoothness))


def mean_iterations(M: Manifold, radius: float) -> int:
    """How many steps `frechet_mean(..., ball=(center, radius))` takes: a function of public quantities alone.

    >>> from curvedp.geometry import Sphere
    >>> mean_iterations(Sphere(2), 0.3)
    14
    """
    return _iterations(check_manifold(M), length("radius", radius))


def _iterations(M: Manifold, radius: float) -> int:
    if isinstance(M, Product):
        return max(_iterations(factor, radius) for factor in M.factors)
    c = contraction(M, radius)
    if c.factor == 0:
        return 2  # flat: the first step is exact, the second removes the round-off of a long first one
    goal = _SHARE / c.smoothness  # ‖mean log‖ ≤ L·error
    return max(2, math.ceil(math.log(goal * math.sqrt(c.convexity)) / math.log(c.factor)))


def mean_error_bound(M: Manifold, radius: float, iterations: int | None = None) -> float:
    """η: `frechet_mean(M, X, ball=(center, radius))` is within this distance of the true mean, for any X in the ball.

    Mechanisms add 2η to the sensitivity. `iterations` defaults to the number the solver takes.

    *Guarantees.* A function of (M, radius, iterations) alone. It covers the contraction (proof at the head of this
    module), the float64 round-off of kernels with relative error 1e-12, and that of the points' own coordinates
    (`M.float_spread`), for records carried to `M.home(center)` (`M.to_origin`).

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
    steps = _iterations(M, radius) if iterations is None else integer("iterations", iterations, 0)
    if isinstance(M, Product):
        return math.sqrt(sum(mean_error_bound(factor, radius, steps) ** 2 for factor in M.factors))
    c, radius = contraction(M, radius), M.held_radius(radius)
    # a step is at most t·r long (Jensen), and may leave by as much what floats hold, before it is moved back
    leaves = M.curvature_bounds[0] < 0 and radius > M.held_reach
    beyond = M.float_spread(c.step * radius) if leaves else 1.0
    delta = 4 * radius * _KERNEL_ERROR + 2.0**-50 * M.dim * M.float_spread(radius) * beyond
    mixing = math.sqrt(c.smoothness / c.convexity) / (1 - c.factor)
    return c.factor**steps * radius / math.sqrt(c.convexity) + mixing * delta


def solver_error(M: Manifold, radius: float) -> float:
    """η: the Fréchet mean of records in a ball, as the library computes it, is within this distance of the true one.

    One bound for records in memory, on a device and in chunks, carried to `M.home(center)`. It grows like the radius and the
    float error of coordinates; on flat spaces only the latter is left. The two ways to the mean, a residual up to
    `tolerance` and the fixed number of steps, are summed. A device's kernels may be off by twice what the contract allows
    (`device.accurate`), and a pass rounds each mean logarithm to the fixed point of sums, by at most ½·√dim·resolution;
    both enter the bound for the steps, which is linear in them. Doubled, because a computed mean that fell just outside
    the ball is moved onto it by as much again.

    Parameters
    ----------
    M : Manifold
        The space.
    radius : float
        The public radius of the ball.

    Raises
    ------
    ParameterError
        If no a-priori bound holds in a ball of that radius.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> solver_error(Sphere(2), 0.3) < 1e-8
    True
    """
    error = mean_error_bound(M, radius)  # which refuses anything but a radius
    rounding = math.sqrt(M.dim) * FixedPoint(2 * float(radius)).resolution / (4 * radius * _KERNEL_ERROR)
    return 2 * (error * (2 + rounding) + 1.01 * tolerance(M, radius) / _convexity(M, radius))


def tolerance(M: Manifold, radius: float) -> float:
    """‖mean log‖ at which an iterate is taken for the mean: a share of the radius, or the float error of coordinates."""
    share = 0.0 if M.curvature_bounds == (0.0, 0.0) else _SHARE
    return radius * (share + 4 * _KERNEL_ERROR) + 2.0**-48 * M.dim * M.float_spread(radius)


def _convexity(M: Manifold, radius: float) -> float:
    if isinstance(M, Product):
        return min(_convexity(factor, radius) for factor in M.factors)
    return contraction(M, radius).convexity
