"""Newton's method for the geodesic between two frames of the Stiefel manifold. The
unknown is the velocity X = [A; B] of a geodesic that starts at E = [I; 0], the identity
above rows of zeros. `solve_by_newton` finds the X with endpoint(X) = target, where
endpoint(X) is the end of that geodesic minus E (`stiefel_geodesic`).

Large linear systems are solved by GMRES: in the frame transported along the geodesic, the
derivative is the identity plus curvature terms, so that few Krylov steps are enough
unless the point is far away.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from curvedp.numerics.arrays import Array, like
from curvedp.numerics.autodiff import repeat_while
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.stiefel_geodesic import (
    GeodesicFlow,
    divide_by_length,
    frobenius_norm,
    from_vector,
    n_unknowns,
    tangent_part,
    to_vector,
)

# Newton steps from each start: up to half the injectivity radius 5 are enough, up to
# 0.97 of it 8.
_NEWTON_STEPS = 20

# Unknowns up to which linear systems are solved exactly; larger ones by GMRES with so
# many steps, which is enough up to 0.9π or so, not always beyond.
_MOST_DIRECT_UNKNOWNS = 200
_KRYLOV_STEPS = 40

# Fractions of the Newton step that are tried.
_STEP_DIVISORS = (1, 4, 16)


class _Evaluation(NamedTuple):
    """What is known at an iterate X of Newton's method.

    Attributes
    ----------
    X : array, shape (..., r + k, r)
        The velocity [A; B].
    flow : GeodesicFlow
        The geodesic with this velocity.
    gap : array, shape (..., r + k, r)
        target − endpoint(X).
    gap_size : array, shape (..., 1, 1)
        The size of the gap (`_evaluate`).
    """

    X: Array
    flow: GeodesicFlow
    gap: Array
    gap_size: Array


class _State(NamedTuple):
    """The state of Newton's method: an iterate moves on where it is active.

    Attributes
    ----------
    X, flow, gap, gap_size
        The fields of `_Evaluation`. They are repeated here, because the first field of
        the state of a compiled loop must be an array.
    active : array of bool
        Whether an iterate has not converged.
    n_steps : int
        The number of steps so far.
    """

    X: Array
    flow: GeodesicFlow
    gap: Array
    gap_size: Array
    active: Array
    n_steps: Any

    @property
    def evaluation(self) -> _Evaluation:
        """What is known at the iterates."""
        return _Evaluation(self.X, self.flow, self.gap, self.gap_size)


def solve_by_newton(xp: Any, X: Array, target: Array, *, wanted: Array) -> Array:
    """Solve endpoint(X) = target by Newton's method; NaN where it does not converge.

    X = [A; B] is the velocity of a geodesic that starts at E, the identity above rows
    of zeros, and endpoint(X) is its end minus E. The method ends when no iterate moves
    any more, or after 20 steps.

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array, shape (..., r + k, r)
        The start.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.
    wanted : array of bool
        Whether the solution is wanted, for each point. Other iterates do not move, and
        neither does an iterate that has converged.

    Returns
    -------
    array, shape (..., r + k, r)
        The velocity X = [A; B], or NaN.
    """
    # Choose the gaps at which an iterate is accepted, and at which it is exact.
    eps = float(xp.finfo(target.dtype).eps)
    scale = frobenius_norm(xp, target)
    largest_accepted_gap = math.sqrt(eps) * scale
    roundoff_gap = 4 * eps * target.shape[-2] * scale

    def advance(state: _State) -> _State:
        """Take one damped Newton step, and find out which iterates have converged.

        An iterate ends where its gap is roundoff, or is small and no longer halved.
        """
        evaluation = _damped_step(xp, state, target)
        gap_size = evaluation.gap_size
        is_accepted = gap_size <= largest_accepted_gap
        is_stalled = is_accepted & (gap_size > state.gap_size / 2)
        active = state.active & (gap_size > roundoff_gap) & ~is_stalled
        return _State(*evaluation, active, state.n_steps + 1)

    def goes_on(state: _State) -> Array:
        """Return whether an iterate moves (or must seem to) and steps are left."""
        must_move = xp.any(state.active) | in_public_time()
        return must_move & (state.n_steps < _NEWTON_STEPS)

    # Run the steps from the start, and drop iterates that did not converge.
    first = _evaluate(xp, X, target)
    active = (first.gap_size > roundoff_gap) & wanted
    start = _State(*first, active, 0)
    end = repeat_while(goes_on, advance, start)
    return xp.where(end.gap_size <= largest_accepted_gap, end.X, xp.nan)


def _damped_step(xp: Any, state: _State, target: Array) -> _Evaluation:
    """Take one Newton step, shortened if the full one does not bring the end closer.

    The method looks for the geodesic from E (the identity above rows of zeros) to a
    target. An iterate is the velocity X of a geodesic. Its flow is that geodesic, in a
    form that gives its end and derivative, and its gap is the target less that end.

    1. The Newton step solves derivative(step) = gap, a linear system: directly if it is
       small, and by GMRES if it is large. It is cut to length 1.
    2. The step, a quarter, and a sixteenth of it are tried, and the iterate with the
       smallest gap is returned. If no trial is better, that is the old iterate.

    An iterate that has converged tries a dummy step and discards the result. Its Newton
    step would be zero, and a zero matrix is decomposed faster than others. The running
    time would then tell which records converge early, and must not depend on records.

    An iterate must not depend on the other iterates of the batch, which
    tests/geometry/test_stiefel.py checks.

    Parameters
    ----------
    xp : namespace
        The array library.
    state : _State
        The iterates.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.

    Returns
    -------
    _Evaluation
        The next iterates, with their flows and gaps.
    """
    newton_step = _newton_step(xp, state)
    step = xp.where(state.active, newton_step, _dummy_step(xp, newton_step))

    # The full step and its fractions, of which the best is taken.
    trials = xp.stack([state.X + step / divisor for divisor in _STEP_DIVISORS])
    evaluated_trials = _evaluate(xp, trials, target)
    best = state.evaluation
    for trial_number in range(trials.shape[0]):
        best = _take_if_smaller(xp, best, evaluated_trials, trial_number, state.active)
    return best


def _newton_step(xp: Any, state: _State) -> Array:
    """Return the Newton step, which solves derivative(step) = gap, cut to length 1.

    A small system is solved directly, and a large one by GMRES.

    Parameters
    ----------
    xp : namespace
        The array library.
    state : _State
        The iterates.

    Returns
    -------
    array, shape (..., r + k, r)
        A change of each velocity.
    """
    # The equation is moved back along the geodesic to its start E, where a tangent
    # vector is a skew r×r matrix above any k×r matrix.
    right_side = state.flow.pull_back(state.gap)
    rows, r = right_side.shape[-2:]
    if n_unknowns(rows, r) > _MOST_DIRECT_UNKNOWNS:
        step = _solve_by_gmres(xp, state.flow, right_side)
    else:
        right_side_vector = to_vector(xp, right_side, r)[..., None]
        jacobian = state.flow.jacobian(xp)
        step_vector = _least_squares(xp, jacobian, right_side_vector)[..., 0]
        step = from_vector(xp, step_vector, r, rows - r)

    length = frobenius_norm(xp, step)
    return step / xp.where(length > 1, length, 1.0)


def _dummy_step(xp: Any, newton_step: Array) -> Array:
    """Return the step that converged iterates try, to do the same work as the others.

    Its entries are cosines of squares, which have no structure that a decomposition
    could exploit.

    Parameters
    ----------
    xp : namespace
        The array library.
    newton_step : array, shape (..., r + k, r)
        It gives the shape, the type and the device.

    Returns
    -------
    array, shape (r + k, r)
        A tangent vector at E.
    """
    rows, r = newton_step.shape[-2:]
    index = xp.arange(rows * r, dtype=newton_step.dtype, device=device(newton_step))
    return tangent_part(xp, xp.reshape(xp.cos(index**2), (rows, r)), r)


def _take_if_smaller(
    xp: Any, best: _Evaluation, trials: _Evaluation, index: int, active: Array
) -> _Evaluation:
    """Return one trial step where it is active and its gap is the smallest so far.

    Iterates that are not active take the flow of the trial, which is not used, so that
    their next step does the same work as that of the others.

    Parameters
    ----------
    xp : namespace
        The array library.
    best : _Evaluation
        The best step so far.
    trials : _Evaluation
        All trial steps, along the first axis.
    index : int
        The index of the trial step.
    active : array of bool
        Whether an iterate still moves, for each point.

    Returns
    -------
    _Evaluation
        The best step so far, this trial included.
    """
    is_better = (trials.gap_size[index, ...] < best.gap_size) & active
    takes_flow = is_better | ~active

    def choose(mask: Array, new: Array, old: Array) -> Array:
        """Return this trial of all trials where the mask holds, and `old` elsewhere."""
        return xp.where(mask, new[index, ...], old)

    # Choose every field for each iterate by itself.
    flow = GeodesicFlow(
        Z=choose(takes_flow, trials.flow.Z, best.flow.Z),
        w=choose(takes_flow[..., 0], trials.flow.w, best.flow.w),
        Y=choose(takes_flow, trials.flow.Y, best.flow.Y),
        u=choose(takes_flow[..., 0], trials.flow.u, best.flow.u),
    )
    return _Evaluation(
        X=choose(is_better, trials.X, best.X),
        flow=flow,
        gap=choose(is_better, trials.gap, best.gap),
        gap_size=choose(is_better, trials.gap_size, best.gap_size),
    )


def _evaluate(xp: Any, X: Array, target: Array) -> _Evaluation:
    """Return the flow at X, the gap target − endpoint(X), and the size of the gap.

    X is an iterate of Newton's method, the velocity of a geodesic; its flow is that
    geodesic in a form that gives its end and its derivative. The size counts the part
    of the gap that is tangent at the end of the geodesic, and the part that roundoff in
    the frames cannot explain: two frames are orthonormal to about 1e-15 only, and no
    geodesic closes a gap of that kind.

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array, shape (..., r + k, r)
        The iterate: a velocity [A; B].
    target : array, shape (..., r + k, r)
        The end that the geodesic should have, minus E.

    Returns
    -------
    _Evaluation
        The flow, the gap and its size, of shape (..., 1, 1).
    """
    rows, r = X.shape[-2:]

    # Compute the end of the geodesic, and its gap to the target.
    flow = GeodesicFlow.at(X[..., :r, :], X[..., r:, :])
    end = flow.endpoint()
    frame = end + like(X, np.eye(rows, r))
    gap = target - end
    # The gap has a part frame·S that is not tangent, where S is the symmetric part of
    # frameᵀ·gap. `normal_part` is S.
    normal_part = frame.mT @ gap
    normal_part = (normal_part + normal_part.mT) / 2

    # Measure the tangent part, and what roundoff cannot explain.
    roundoff = math.sqrt(float(xp.finfo(X.dtype).eps))
    unexplained = xp.clip(frobenius_norm(xp, normal_part) - roundoff, 0.0, None)
    tangent_size = frobenius_norm(xp, gap - frame @ normal_part)
    return _Evaluation(X, flow, gap, xp.hypot(tangent_size, unexplained))


def _least_squares(xp: Any, matrix_of_system: Array, right_side: Array) -> Array:
    """Return a least-squares solution x of H·x = b, damped at the level of roundoff.

    It is x = (HᵀH + λI)⁻¹Hᵀb with the damping λ at the roundoff of HᵀH. The damping
    leaves out directions that H maps to zero, as at conjugate points or in a Krylov
    space that ended early. The digits that it costs are recovered by the next Newton
    step.

    Parameters
    ----------
    xp : module
        The array library.
    matrix_of_system : array, shape (..., m, n)
        The matrix H.
    right_side : array, shape (..., m, 1)
        The right-hand side b.

    Returns
    -------
    array, shape (..., n, 1)
        The solution x.
    """
    # Choose the damping from the trace of HᵀH.
    gram = matrix_of_system.mT @ matrix_of_system
    size = gram.shape[-1]
    identity = like(matrix_of_system, np.eye(size))
    trace = xp.sum(gram * identity, axis=(-2, -1), keepdims=True)
    damping = size * float(xp.finfo(matrix_of_system.dtype).eps) * trace
    damping = xp.where(damping == 0, 1.0, damping)  # equal frames: LAPACK would raise
    return xp.linalg.solve(gram + damping * identity, matrix_of_system.mT @ right_side)


def _solve_by_gmres(xp: Any, flow: GeodesicFlow, right_side: Array) -> Array:
    """Solve flow.derivative(X) = right_side by GMRES with a fixed number of steps.

    The solution is the combination of the vectors b, Mb, M²b, … with the smallest
    residual, M the derivative and b the right side (Saad and Schultz 1986). With the
    orthonormal basis V of `_krylov_basis`, M·Vₙ = Vₙ₊₁·H, so that the coefficients solve
    a small least-squares problem with the matrix H. The number of steps is fixed, so
    that the work does not depend on the points.

    Parameters
    ----------
    xp : module
        The array library.
    flow : GeodesicFlow
        The geodesic, whose `derivative` is the matrix of the system.
    right_side : array, shape (..., r + k, r)
        The right-hand side.

    Returns
    -------
    array, shape (..., r + k, r)
        The approximate solution X.
    """
    length = frobenius_norm(xp, right_side)
    first = divide_by_length(xp, right_side, length)
    krylov = _krylov_basis(xp, flow, first, _KRYLOV_STEPS)

    # In the basis the right side is its length times the first vector.
    zeros = _zeros_like(xp, right_side, _KRYLOV_STEPS, 1)
    projected_right_side = xp.concat([length, zeros], axis=-2)
    coefficients = _least_squares(xp, krylov.hessenberg, projected_right_side)
    solution = coefficients.mT @ krylov.basis[..., :_KRYLOV_STEPS, :]
    return xp.reshape(solution, right_side.shape)


class _KrylovBasis(NamedTuple):
    """An orthonormal basis V of the vectors b, Mb, …, Mⁿb, and the matrix M in it.

    Attributes
    ----------
    basis : array, shape (..., n + 1, (r + k)·r)
        The vectors of the basis, as rows.
    hessenberg : array, shape (..., n + 1, n)
        The matrix H with M·Vₙ = Vₙ₊₁·H.
    """

    basis: Array
    hessenberg: Array


def _krylov_basis(
    xp: Any, flow: GeodesicFlow, first: Array, n_steps: int
) -> _KrylovBasis:
    """Build an orthonormal Krylov basis of a geodesic's derivative by Arnoldi's method.

    Every new basis vector is made orthogonal to the others twice, because the first
    pass leaves roundoff along them.

    Parameters
    ----------
    xp : module
        The array library.
    flow : GeodesicFlow
        The geodesic, whose `derivative` is the matrix M.
    first : array, shape (..., r + k, r)
        The first vector b, of length 1.
    n_steps : int
        How often M is applied.

    Returns
    -------
    _KrylovBasis
        The basis and the matrix H.
    """
    rows, r = first.shape[-2:]
    vector_shape = (*first.shape[:-2], 1, rows * r)
    basis = xp.reshape(first, vector_shape)
    columns = []
    for j in range(n_steps):
        # The image of the last basis vector, made orthogonal to the basis twice.
        last = xp.reshape(basis[..., j, :], first.shape)
        new_direction = xp.reshape(flow.derivative(xp, last), vector_shape)
        first_pass = new_direction @ basis.mT
        new_direction = new_direction - first_pass @ basis
        second_pass = new_direction @ basis.mT
        new_direction = new_direction - second_pass @ basis

        # It becomes the next basis vector; its coefficients are a column of H.
        new_length = frobenius_norm(xp, new_direction)
        new_vector = divide_by_length(xp, new_direction, new_length)
        basis = xp.concat([basis, new_vector], axis=-2)
        zeros = _zeros_like(xp, first, 1, n_steps - 1 - j)
        column = [first_pass + second_pass, new_length, zeros]
        columns.append(xp.concat(column, axis=-1))
    return _KrylovBasis(basis, xp.concat(columns, axis=-2).mT)


def _zeros_like(xp: Any, X: Array, rows: int, columns: int) -> Array:
    """Return matrices of zeros, one for each matrix of X, of its type and device."""
    shape = (*X.shape[:-2], rows, columns)
    return xp.zeros(shape, dtype=X.dtype, device=device(X))
