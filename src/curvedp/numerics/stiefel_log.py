"""The logarithm of the Stiefel manifold of orthonormal m×r frames: the velocity of the
shortest geodesic from a frame p to a frame q. In the coordinates of a frame [p Q] that
spans both, the geodesic starts at E, the r×r identity above k rows of zeros. Its
velocity [A; B] (A skew, B of size k×r) is found by Newton's method.

Definitions. p and q are orthonormal m×r frames, and [p Q] is a frame with r + k columns
that spans both, k <= r. The geodesic from p has a velocity pA + QB. In the frame [p Q]
it runs from E = [I; 0] to E + `endpoint`(A, B), so that the problem has the size (r +
k)×r, however large m is.

The unknown (A, B) is stored as one array X = [A; B], a tangent vector at E. Newton's
method solves endpoint(X) = target. Large linear systems are solved by GMRES: in the
frame transported along the geodesic, the derivative is the identity plus curvature
terms, so that few Krylov steps are enough unless the point is far away.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_jax_array

from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import Array, like, map_in_blocks, namespace
from curvedp.numerics.autodiff import repeat_while
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.matrix_functions import skew, skew_eigen, skew_exp, skew_exp_eigen
from curvedp.numerics.rotation_log import rotation_log
from curvedp.numerics.threads import blocks

# Newton steps from each start: up to half the injectivity radius 5 are enough, up to
# 0.97 of it 8.
_NEWTON_STEPS = 20

# Unknowns up to which linear systems are solved exactly; larger ones by GMRES with so
# many steps, which is enough up to 0.9π or so, not always beyond.
_MOST_DIRECT_UNKNOWNS = 200
_KRYLOV_STEPS = 40

# Fractions of the Newton step that are tried.
_STEP_DIVISORS = (1, 4, 16)

# Entries of Jacobians at once in a JAX program, see `map_in_blocks`.
_JAX_BLOCK = 1 << 15

# The largest number of floats in the derivatives of a block of points.
_BLOCK = 1 << 21


def endpoint(A: Array, B: Array) -> tuple[Array, Array]:
    """Return the end of a geodesic that starts at E = [I; 0], relative to E.

    E has r + k rows: the r×r identity above k rows of zeros. With the velocity [A; B],
    the end is exp(G)·E·exp(−A), where G = [2A −Bᵀ; B 0] is the `generator`. A small
    (A, B) keeps its digits.

    Parameters
    ----------
    A : array, shape (..., r, r)
        The skew part of the velocity.
    B : array, shape (..., k, r)
        The other part.

    Returns
    -------
    step : array, shape (..., r + k, r)
        The end minus E.
    mean : array, shape (..., r, r)
        The top left block of ∫₀¹ exp(tG) dt, times exp(−A). For a velocity pA + N with
        N orthogonal to p, the end of the geodesic has the part N·mean.
    """
    r = A.shape[-1]
    left_change, mean = skew_exp(generator(A, B))
    right_change, _ = skew_exp(-A)
    head = mean[..., :r, :r]
    return _end_minus_start(
        left_change[..., :, :r], right_change
    ), head + head @ right_change


def reduced_log(top: Array, bottom: Array) -> tuple[Array, Array]:
    """Return (A, B) of the shortest geodesic from E that ends at E + [top; bottom].

    E is the r×r identity above k rows of zeros, which stands for the frame p in the
    coordinates of [p Q]. The velocity of the geodesic is [A; B], with A skew. It is NaN
    where none is found. Newton's method has three starts: the chord, and two logarithms
    of rotations that complete both frames. The chord is a good start except for points
    such as a frame with a column turned by π. The shortest of the solutions is
    returned. Inside the injectivity radius it is the shortest geodesic.

    The other starts are tried only for points at which the chord does not lead to a
    geodesic shorter than π, because no other geodesic can be shorter than that one
    (`Stiefel.injectivity_radius`). In public time all starts and all steps are taken.

    Parameters
    ----------
    top : array, shape (..., r, r)
        The first r rows of q − p in the frame [p Q].
    bottom : array, shape (..., k, r)
        The other rows.

    Returns
    -------
    A : array, shape (..., r, r)
        The skew block of the velocity.
    B : array, shape (..., k, r)
        The other block.
    """
    # One problem for each point; `flat` has a single batch axis.
    xp = namespace(top, bottom)
    target = xp.concat([top, bottom], axis=-2)
    rows, r = target.shape[-2:]
    n_unknowns = _n_unknowns(rows, r)
    n_targets = math.prod(target.shape[:-2])
    flat = xp.reshape(target, (n_targets, rows, r))

    # One point at once, or many in blocks.
    if n_targets <= 1:
        X = _shortest_solution(xp, target)
    elif is_jax_array(target):
        block_size = max(1, _JAX_BLOCK // n_unknowns**2)
        X = map_in_blocks(partial(_shortest_solution, xp), flat, block_size)
        X = xp.reshape(X, target.shape)
    else:  # in blocks, so that memory stays flat
        block_size = max(1, _BLOCK // (rows * rows * n_unknowns))
        solutions = [
            _shortest_solution(xp, flat[block, ...])
            for block in blocks(n_targets, block_size)
        ]
        X = xp.reshape(xp.concat(solutions), target.shape)
    return X[..., :r, :], X[..., r:, :]


def _shortest_solution(xp: Any, target: Array) -> Array:
    """Return the shortest X with endpoint(X) = target that Newton's method finds.

    X = [A; B] is the velocity of a geodesic that starts at E, the identity above rows
    of zeros, and endpoint(X) is its end minus E. The method has the three starts of
    `reduced_log`. How they are run differs: JAX loops over all of them, public time
    runs all of them side by side, and otherwise the second and third serve only if the
    first has not found a geodesic shorter than π.

    Parameters
    ----------
    xp : namespace
        The array library.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.

    Returns
    -------
    array, shape (..., r + k, r)
        The velocities X; NaN where no start leads to a solution.
    """
    chord = _chord_start(xp, target)

    def improve(best: Array, start: Array) -> Array:
        """Return the shorter of the best and the solution from another start.

        Where the best is shorter than π it stays, whatever the start gives: a point's
        logarithm depends on it alone.

        Parameters
        ----------
        best : array, shape (..., r + k, r)
            The shortest solutions so far; NaN where there is none.
        start : array, shape (..., r + k, r)
            The velocities at which Newton's method starts.

        Returns
        -------
        array, shape (..., r + k, r)
            The shortest solutions.
        """
        is_wanted = ~(_frobenius_norm(xp, best) < math.pi)
        solution = _solve_by_newton(xp, start, target, wanted=is_wanted)
        return xp.where(is_wanted, _choose_shorter(xp, best, solution), best)

    # JAX: a compiled loop over the three starts.
    no_solution = xp.full_like(chord, xp.nan)
    if is_jax_array(target):
        import jax

        starts = xp.concat([chord[None, ...], _rotation_starts(xp, target)])
        return jax.lax.scan(
            lambda best, start: (improve(best, start), None), no_solution, starts
        )[0]

    # Public time: all three starts side by side.
    if in_public_time():
        starts = xp.concat([chord[None, ...], _rotation_starts(xp, target)])
        all_wanted = xp.ones_like(starts[..., :1, :1], dtype=xp.bool)
        solutions = _solve_by_newton(xp, starts, target, wanted=all_wanted)
        first_two = _choose_shorter(xp, solutions[0, ...], solutions[1, ...])
        return _choose_shorter(xp, first_two, solutions[2, ...])

    # Otherwise the chord, and the other two where it does not suffice.
    X = improve(no_solution, chord)
    if bool(xp.all(_frobenius_norm(xp, X) < math.pi)):
        return X
    starts = _rotation_starts(xp, target)
    return improve(improve(X, starts[0, ...]), starts[1, ...])


def _chord_start(xp: Any, target: Array) -> Array:
    """Return the start of Newton's method that follows the chord to the target.

    The chord leads from E, the identity above rows of zeros, to the end of the wanted
    geodesic. The start is its tangential part, rescaled to the length of an arc of the
    unit sphere over that chord (Zimmermann and Hüper 2022, Algorithm 2).

    Parameters
    ----------
    xp : namespace
        The array library.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.

    Returns
    -------
    array, shape (..., r + k, r)
        The velocities X at which Newton's method starts.
    """
    # Replace the chord of half length `half` by the arc over it.
    X = _tangent_part(xp, target, target.shape[-1])
    half = _frobenius_norm(xp, target) / 2
    arc = 2 * xp.asin(xp.where(half < 1, half, 1.0))
    return _divide_by_length(xp, X, _frobenius_norm(xp, X)) * xp.where(
        half < 1, arc, 2 * half
    )


def log_change(A: Array, B: Array, frame: Array, gap: Array) -> Array:
    """Return the first-order change of a logarithm if its end point moves a little.

    The movement has a part in the span of the frame [p Q], which the derivative of the
    reduced problem maps back, and a part orthogonal to it, for which the end of the
    geodesic depends on the velocity linearly (`endpoint`, N·mean).

    Parameters
    ----------
    A : array, shape (..., r, r)
        The skew block of the logarithm in the frame [p Q].
    B : array, shape (..., k, r)
        Its other block.
    frame : array, shape (..., m, r + k)
        The frame [p Q].
    gap : array, shape (..., m, r)
        How far the end moves: q minus the end of the geodesic.

    Returns
    -------
    array, shape (..., m, r)
        The change of the tangent vector.
    """
    xp = namespace(A, B, gap)
    r, k = A.shape[-1], B.shape[-2]
    # The part in the span of the frame: Newton's linear system.
    flow = _Flow.at(A, B)
    inside = frame.mT @ gap
    right_side = _to_vector(xp, flow.pull_back(inside), r)[..., None]
    change = xp.linalg.solve(flow.jacobian(xp), right_side)[..., 0]

    # The part orthogonal to it.
    outside = gap - frame @ inside
    _, mean = endpoint(A, B)
    outside_change = xp.linalg.solve(mean.mT, outside.mT).mT
    return frame @ _from_vector(xp, change, r, k) + outside_change


class _Flow(NamedTuple):
    """The geodesic with velocity X = [A; B], by the eigen-systems of its generators.

    exp(G) = Z·e^{iw}·Z* and exp(−A) = Y·e^{iu}·Y*, with G the `generator` of (A, B), Z
    and Y unitary, and w and u real. Its end, its derivative and the transport of
    vectors along it follow from these without another decomposition.
    """

    Z: Array  # complex, shape (..., r + k, r + k)
    w: Array  # shape (..., r + k)
    Y: Array  # complex, shape (..., r, r)
    u: Array  # shape (..., r)

    @classmethod
    def at(cls, A: Array, B: Array) -> "_Flow":
        """Compute the eigen-systems for the velocity (A, B).

        Parameters
        ----------
        A : array, shape (..., r, r)
            The skew block of the velocity.
        B : array, shape (..., k, r)
            The other block.

        Returns
        -------
        _Flow
            The geodesic from E with this velocity.
        """
        w, Z = skew_eigen(generator(A, B))
        u, Y = skew_eigen(-A)
        return cls(Z, w, Y, u)

    def endpoint(self) -> Array:
        """Return the end of the geodesic minus E, which is exp(G)·E·exp(−A) − E.

        Returns
        -------
        array, shape (..., r + k, r)
            The difference, with all digits of a short geodesic.
        """
        left_change = skew_exp_eigen(self.w, self.Z)[0]
        right_change = skew_exp_eigen(self.u, self.Y)[0]
        return _end_minus_start(left_change[..., :, : self.u.shape[-1]], right_change)

    def derivative(self, xp: Any, X: Array) -> Array:
        """Return the derivative of the endpoint in the direction X, moved to E.

        The result is a tangent vector at E, moved there from the end of the geodesic by
        the isometry x ↦ exp(G)ᵀ·x·exp(A).

        Parameters
        ----------
        xp : module
            The array library.
        X : array, shape (..., r + k, r)
            A change of the velocity.

        Returns
        -------
        array, shape (..., r + k, r)
            The change of the end, to first order. For a short geodesic it is about X.
        """
        # X = [a; b], as the velocity is [A; B].
        r = self.u.shape[-1]
        a, b = X[..., :r, :], X[..., r:, :]

        def exp_derivative(Z: Array, w: Array, direction: Array, side: int) -> Array:
            """Return the derivative of exp in a direction, carried back to I.

            In the eigenbasis, exp(M)⁻¹·Dexp(M) (side −1) and Dexp(M)·exp(M)⁻¹ (side 1)
            multiply the entries by e^{±i(w_r − w_s)/2}·sinc((w_r − w_s)/2).

            Parameters
            ----------
            Z : complex array
                The eigenvectors of the skew matrix M.
            w : array
                Real numbers: the eigenvalues of M are iw.
            direction : array
                A skew matrix, the change of M.
            side : {−1, 1}
                Whether exp(M)⁻¹ is multiplied from the left (−1) or the right (1).

            Returns
            -------
            array
                A skew matrix.
            """
            half = (w[..., :, None] - w[..., None, :]) / 2
            rotation = matrix.phase(xp, side * half, Z.dtype)
            K = rotation * xp.astype(matrix.sinc(xp, half), Z.dtype)
            return matrix.divided_difference_map(K, Z, direction)

        left = exp_derivative(self.Z, self.w, generator(a, b), -1)[..., :, :r]
        right = exp_derivative(self.Y, self.u, -a, 1)
        return _tangent_part(xp, left + _append_zero_rows(right, b.shape[-2]), r)

    def jacobian(self, xp: Any) -> Array:
        """Return `derivative` as a matrix, in the coordinates of `_to_vector`.

        Newton's method solves a linear system with it, if the system is small.

        Parameters
        ----------
        xp : module
            The array library.

        Returns
        -------
        array, shape (..., d, d)
            The Jacobian of the end with respect to the velocity; d is the number of
            unknowns.
        """
        # There is one coordinate vector for each unknown.
        r = self.u.shape[-1]
        k = self.w.shape[-1] - r
        basis = like(self.w, np.eye(_n_unknowns(r + k, r)))
        # One more axis, along which the derivatives in all d directions are computed.
        expanded = _Flow(
            self.Z[..., None, :, :],
            self.w[..., None, :],
            self.Y[..., None, :, :],
            self.u[..., None, :],
        )
        images = expanded.derivative(xp, _from_vector(xp, basis, r, k))
        return _to_vector(xp, images, r).mT

    def pull_back(self, gap: Array) -> Array:
        """Return a gap at the end of the geodesic as a tangent vector at E.

        E is the start of the geodesic, the identity above rows of zeros. The isometry
        that moves E to the end is reversed.

        Parameters
        ----------
        gap : array, shape (..., r + k, r)
            A difference of frames, in the coordinates of the frame [p Q].

        Returns
        -------
        array, shape (..., r + k, r)
            The tangent part of exp(G)ᵀ·gap·exp(A).
        """
        xp = namespace(gap)

        def apply(Z: Array, w: Array, x: Array) -> Array:
            """Return Re Z·e^{iw}·Z*·x: the exponential of a skew matrix, times x."""
            in_eigenbasis = xp.conj(Z).mT @ xp.astype(x, Z.dtype)
            rotated = matrix.phase(xp, w, Z.dtype)[..., :, None] * in_eigenbasis
            return xp.real(Z @ rotated)

        at_start = apply(self.Y, self.u, apply(self.Z, -self.w, gap).mT).mT
        return _tangent_part(xp, at_start, self.u.shape[-1])


class _Evaluation(NamedTuple):
    """What is known at an iterate X of Newton's method."""

    X: Array  # the velocity [A; B]
    flow: _Flow  # the geodesic with this velocity
    gap: Array  # target − endpoint(X)
    size: Array  # the size of the gap, see `_evaluate`


class _State(NamedTuple):
    """The state of Newton's method: an iterate moves on where it is active."""

    X: Array  # the velocity [A; B]
    flow: _Flow  # the geodesic with this velocity
    gap: Array  # target − endpoint(X)
    size: Array  # the size of the gap, see `_evaluate`
    active: Array  # bool: whether an iterate has not converged
    step: Any  # the number of steps so far


def _solve_by_newton(xp: Any, X: Array, target: Array, *, wanted: Array) -> Array:
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
    scale = _frobenius_norm(xp, target)
    largest_accepted_gap = math.sqrt(eps) * scale
    roundoff_gap = 4 * eps * target.shape[-2] * scale

    def advance(state: _State) -> _State:
        """Take one damped Newton step, and find out which iterates have converged.

        An iterate ends where its gap is roundoff, or is small and no longer halved.
        """
        X, flow, gap, size = _damped_step(xp, state, target)
        is_stalled = (size > state.size / 2) & (size <= largest_accepted_gap)
        active = state.active & (size > roundoff_gap) & ~is_stalled
        return _State(X, flow, gap, size, active, state.step + 1)

    def goes_on(state: _State) -> Array:
        """Return whether an iterate moves (or must seem to) and steps are left."""
        return (xp.any(state.active) | in_public_time()) & (state.step < _NEWTON_STEPS)

    # Run the steps from the start, and drop iterates that did not converge.
    first = _evaluate(xp, X, target)
    start = _State(*first, (first.size > roundoff_gap) & wanted, 0)
    end = repeat_while(goes_on, advance, start)
    return xp.where(end.size <= largest_accepted_gap, end.X, xp.nan)


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
    # The Newton step. The equation is moved back along the geodesic to its start E,
    # where a tangent vector is a skew r×r matrix above any k×r matrix.
    right_side = state.flow.pull_back(state.gap)
    rows, r = right_side.shape[-2:]
    if _n_unknowns(rows, r) > _MOST_DIRECT_UNKNOWNS:
        newton_step = _solve_by_gmres(xp, state.flow, right_side)
    else:
        right_side_vector = _to_vector(xp, right_side, r)[..., None]
        jacobian = state.flow.jacobian(xp)
        step_vector = _least_squares(xp, jacobian, right_side_vector)[..., 0]
        newton_step = _from_vector(xp, step_vector, r, rows - r)
    step_length = _frobenius_norm(xp, newton_step)
    newton_step = newton_step / xp.where(step_length > 1, step_length, 1.0)

    # The dummy step of converged iterates: the cosines of squares have no structure
    # that a decomposition could exploit.
    index = xp.arange(rows * r, dtype=right_side.dtype, device=device(right_side))
    dummy_step = _tangent_part(xp, xp.reshape(xp.cos(index**2), (rows, r)), r)
    step = xp.where(state.active, newton_step, dummy_step)

    # The full step and its fractions, of which the best is taken.
    trials = xp.stack([state.X + step / divisor for divisor in _STEP_DIVISORS])
    trial = _evaluate(xp, trials, target)
    best = _Evaluation(state.X, state.flow, state.gap, state.size)
    for trial_number in range(trials.shape[0]):
        best = _take_if_smaller(xp, best, trial, trial_number, state.active)
    return best


def _take_if_smaller(
    xp: Any, best: _Evaluation, trial: _Evaluation, index: int, active: Array
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
    trial : _Evaluation
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
    is_better = (trial.size[index, ...] < best.size) & active
    takes_flow = is_better | ~active

    def choose(mask: Array, new: Array, old: Array) -> Array:
        """Return this trial of all trials where the mask holds, and `old` elsewhere."""
        return xp.where(mask, new[index, ...], old)

    # Choose every field for each iterate by itself.
    flow = _Flow(
        Z=choose(takes_flow, trial.flow.Z, best.flow.Z),
        w=choose(takes_flow[..., 0], trial.flow.w, best.flow.w),
        Y=choose(takes_flow, trial.flow.Y, best.flow.Y),
        u=choose(takes_flow[..., 0], trial.flow.u, best.flow.u),
    )
    return _Evaluation(
        X=choose(is_better, trial.X, best.X),
        flow=flow,
        gap=choose(is_better, trial.gap, best.gap),
        size=choose(is_better, trial.size, best.size),
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
    flow = _Flow.at(X[..., :r, :], X[..., r:, :])
    end = flow.endpoint()
    frame = end + like(X, np.eye(rows, r))
    gap = target - end
    # The gap has a part frame·S that is not tangent, where S is the symmetric part of
    # frameᵀ·gap. `normal_part` is S.
    normal_part = frame.mT @ gap
    normal_part = (normal_part + normal_part.mT) / 2

    # Measure the tangent part, and what roundoff cannot explain.
    roundoff = math.sqrt(float(xp.finfo(X.dtype).eps))
    unexplained = xp.clip(_frobenius_norm(xp, normal_part) - roundoff, 0.0, None)
    size = xp.hypot(_frobenius_norm(xp, gap - frame @ normal_part), unexplained)
    return _Evaluation(X, flow, gap, size)


def _choose_shorter(xp: Any, X: Array, other: Array) -> Array:
    """Return the shorter of two velocities; NaN counts as longer than anything.

    Parameters
    ----------
    xp : namespace
        The array library.
    X, other : array, shape (..., r + k, r)
        The velocities, solutions of Newton's method or NaN.

    Returns
    -------
    array, shape (..., r + k, r)
        The shorter one for each point.
    """
    length, other_length = _frobenius_norm(xp, X), _frobenius_norm(xp, other)
    return xp.where((other_length < length) | xp.isnan(length), other, X)


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
    n_unknowns = gram.shape[-1]
    identity = like(matrix_of_system, np.eye(n_unknowns))
    trace = xp.sum(gram * identity, axis=(-2, -1), keepdims=True)
    damping = n_unknowns * float(xp.finfo(matrix_of_system.dtype).eps) * trace
    damping = xp.where(damping == 0, 1.0, damping)  # equal frames: LAPACK would raise
    return xp.linalg.solve(gram + damping * identity, matrix_of_system.mT @ right_side)


def _solve_by_gmres(xp: Any, flow: _Flow, right_side: Array) -> Array:
    """Solve flow.derivative(X) = right_side by GMRES with a fixed number of steps.

    The solution is the combination of the vectors b, Mb, M²b, … with the smallest
    residual, M the derivative and b the right side (Saad and Schultz 1986). Arnoldi's
    method builds an orthonormal basis V of them with M·Vₙ = Vₙ₊₁·H, so that the
    coefficients solve a small least-squares problem with the matrix H. Every new basis
    vector is made orthogonal to the others twice, because the first pass leaves
    roundoff along them.

    The number of steps is fixed, so that the work does not depend on the points.

    Parameters
    ----------
    xp : module
        The array library.
    flow : _Flow
        The geodesic, whose `derivative` is the matrix of the system.
    right_side : array, shape (..., r + k, r)
        The right-hand side.

    Returns
    -------
    array, shape (..., r + k, r)
        The approximate solution X.
    """
    rows, r = right_side.shape[-2:]
    batch = right_side.shape[:-2]
    steps = _KRYLOV_STEPS

    def zeros(*shape: int) -> Array:
        """Return zeros of this shape for each point of the batch."""
        return xp.zeros(
            (*batch, *shape), dtype=right_side.dtype, device=device(right_side)
        )

    right_side_length = _frobenius_norm(xp, right_side)
    # Arnoldi's method; the rows of `basis` are the orthonormal vectors.
    basis = xp.reshape(
        _divide_by_length(xp, right_side, right_side_length), (*batch, 1, rows * r)
    )
    columns = []
    for j in range(steps):
        # The image of the last basis vector, made orthogonal to the basis twice.
        last = xp.reshape(basis[..., j, :], right_side.shape)
        new_direction = xp.reshape(flow.derivative(xp, last), (*batch, 1, rows * r))
        first_pass = new_direction @ basis.mT
        new_direction = new_direction - first_pass @ basis
        second_pass = new_direction @ basis.mT
        new_direction = new_direction - second_pass @ basis

        # It becomes the next basis vector; its coefficients are a column of H.
        new_length = _frobenius_norm(xp, new_direction)
        basis = xp.concat(
            [basis, _divide_by_length(xp, new_direction, new_length)], axis=-2
        )
        column = [first_pass + second_pass, new_length, zeros(1, steps - 1 - j)]
        columns.append(xp.concat(column, axis=-1))

    # The combination of basis vectors with the smallest residual.
    hessenberg = xp.concat(columns, axis=-2).mT
    projected_right_side = xp.concat([right_side_length, zeros(steps, 1)], axis=-2)
    solution = (
        _least_squares(xp, hessenberg, projected_right_side).mT @ basis[..., :steps, :]
    )
    return xp.reshape(solution, right_side.shape)


def _rotation_starts(xp: Any, target: Array) -> Array:
    """Return two starts of Newton's method: first columns of logarithms of rotations.

    The rotations are [point C], where `point` is the end of the geodesic and C
    completes it, as close as possible to one of two proposals:

    - the columns that complete E;
    - those that complete the end of a geodesic with A = 0, which is [V·cos·Vᵀ; sin·Vᵀ]
      and is completed by [−V·sin; cos].

    Parameters
    ----------
    xp : namespace
        The array library.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.

    Returns
    -------
    array, shape (2, ..., r + k, r)
        The velocities at which Newton's method starts, one for each proposal.
    """
    rows, r = target.shape[-2:]
    identity = like(target, np.eye(rows))
    complement = identity[:, r:]
    end = target + identity[:, :r]

    # The two proposals for the columns that complete the end.
    lower_rows, upper_rows = target[..., r:, :], end[..., :r, :]
    unit_lower = _divide_by_length(
        xp, lower_rows, xp.sqrt(xp.sum(lower_rows * lower_rows, axis=-1, keepdims=True))
    )
    for_zero_A = xp.concat(
        [-lower_rows.mT, unit_lower @ (upper_rows + upper_rows.mT) @ unit_lower.mT / 2],
        axis=-2,
    )
    proposals = xp.stack([xp.broadcast_to(complement, for_zero_A.shape), for_zero_A])

    # The first r columns of the logarithms of the two rotations [end C].
    rotations = _complete_to_rotations(xp, end, proposals)
    return rotation_log(rotations - identity)[..., :, :r]


def _complete_to_rotations(xp: Any, end: Array, proposals: Array) -> Array:
    """Complete a frame to rotations whose other columns are close to proposals.

    The other columns are C = (a frame that completes `end`)·(the rotation that brings
    it closest to the proposal), with a column turned around where the determinant of
    [end C] would be −1. The closest rotation is the polar factor, from a singular value
    decomposition.

    Parameters
    ----------
    xp : namespace
        The array library.
    end : array, shape (..., r + k, r)
        The frame.
    proposals : array, shape (2, ..., r + k, k)
        Two proposals for the other columns.

    Returns
    -------
    array, shape (2, ..., r + k, r + k)
        The rotations [end C], one for each proposal.
    """
    # The closest completion of each proposal, with either determinant.
    rows, r = end.shape[-2:]
    complement = like(end, np.eye(rows))[:, r:]
    complement_of_end = matrix.reflect(end, complement)
    U, _, Vh = matrix.svd(complement_of_end.mT @ proposals)

    # Turn the last column of U around where the determinant is −1.
    two_ends = xp.broadcast_to(end, (2, *end.shape))
    parity = matrix.det(xp.concat([two_ends, complement_of_end @ U @ Vh], axis=-1))
    sign = xp.where(parity < 0, -1.0, xp.ones_like(parity))[..., None, None]
    oriented_U = xp.concat([U[..., :-1], U[..., -1:] * sign], axis=-1)
    C = complement_of_end @ oriented_U @ Vh
    return xp.concat([two_ends, C], axis=-1)


def generator(A: Array, B: Array) -> Array:
    """Return the skew matrix [2A −Bᵀ; B 0].

    Its exponential moves the frame [p Q] along the geodesic with velocity pA + QB.

    Parameters
    ----------
    A : array of shape (..., r, r)
        Skew-symmetric matrices.
    B : array of shape (..., k, r)
        The parts of the velocity orthogonal to p.

    Returns
    -------
    array of shape (..., r + k, r + k)
        The matrix G of `endpoint`.
    """
    xp = namespace(A, B)
    k = B.shape[-2]
    zero = xp.zeros((*B.shape[:-2], k, k), dtype=B.dtype, device=device(B))
    top = xp.concat([2 * A, -B.mT], axis=-1)
    bottom = xp.concat([B, zero], axis=-1)
    return xp.concat([top, bottom], axis=-2)


def _n_unknowns(rows: int, r: int) -> int:
    """Return the number of unknowns of Newton's method.

    It is the dimension of the space of matrices [A; B] with a skew r×r block A.

    Parameters
    ----------
    rows : int
        r + k, the number of rows of a frame.
    r : int
        The number of its columns.

    Returns
    -------
    int
        r(r−1)/2 entries of the skew block and kr entries of the other one.
    """
    return r * (r - 1) // 2 + (rows - r) * r


def _tangent_part(xp: Any, X: Array, r: int) -> Array:
    """Return the tangent vector at E that is nearest to a matrix [A; B].

    E is the identity above rows of zeros. The result is [skew part of A; B].

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array, shape (..., r + k, r)
        Any matrix.
    r : int
        The number of rows of A.

    Returns
    -------
    array, shape (..., r + k, r)
        The tangent vector.
    """
    return xp.concat([skew(X[..., :r, :]), X[..., r:, :]], axis=-2)


def _end_minus_start(left_change: Array, right_change: Array) -> Array:
    """Return (E + left change)(I + right change) − E, with all digits of small changes.

    E is the identity above rows of zeros; it is never added.

    Parameters
    ----------
    left_change : array, shape (..., r + k, r)
        The first r columns of exp(G) − I.
    right_change : array, shape (..., r, r)
        exp(−A) − I.

    Returns
    -------
    array, shape (..., r + k, r)
        left_change + left_change·right_change + [right_change; 0], the end of a
        geodesic minus E.
    """
    return (
        left_change
        + left_change @ right_change
        + _append_zero_rows(
            right_change, left_change.shape[-2] - right_change.shape[-2]
        )
    )


def _append_zero_rows(x: Array, k: int) -> Array:
    """Return [x; 0] with k rows of zeros.

    Parameters
    ----------
    x : array of shape (..., r, r)
        Matrices.
    k : int
        The number of rows to add.

    Returns
    -------
    array of shape (..., r + k, r)
        The taller matrices.
    """
    xp = namespace(x)
    zero = xp.zeros(
        (*x.shape[:-2], k, x.shape[-1]),
        dtype=x.dtype,
        device=device(x),
    )
    return xp.concat([x, zero], axis=-2)


def _frobenius_norm(xp: Any, X: Array) -> Array:
    """Return the Frobenius norms of matrices, as an array of shape (..., 1, 1)."""
    return xp.sqrt(xp.sum(X * X, axis=(-2, -1), keepdims=True))


def _divide_by_length(xp: Any, X: Array, size: Array) -> Array:
    """Return X divided by its size, and 0 where the size is 0.

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array
        Vectors or matrices.
    size : array
        Their lengths, in a shape that broadcasts with X.

    Returns
    -------
    array
        Vectors of length 1, or 0.
    """
    return xp.where(size > 0, X / xp.where(size > 0, size, 1.0), 0.0)


def _from_vector(xp: Any, z: Array, r: int, k: int) -> Array:
    """Return the tangent vector [A; B] at E with the orthonormal coordinates z.

    E is the r×r identity above k rows of zeros. At E, tangent vectors are the matrices
    with a skew block A (r×r) above any block B (k×r).

    Parameters
    ----------
    xp : namespace
        The array library.
    z : array, shape (..., r(r−1)/2 + kr)
        The coordinates of A, and then those of B.
    r, k : int
        The numbers of rows of A and of B.

    Returns
    -------
    array, shape (..., r + k, r)
        The tangent vector, whose Frobenius norm is the length of z.
    """
    n_skew_entries = r * (r - 1) // 2
    A = matrix.skew_from_vector(z[..., :n_skew_entries], r) * math.sqrt(0.5)
    B = xp.reshape(z[..., n_skew_entries:], (*z.shape[:-1], k, r))
    return xp.concat([A, B], axis=-2)


def _to_vector(xp: Any, X: Array, r: int) -> Array:
    """Return the orthonormal coordinates of a tangent vector [A; B] at E.

    E is the r×r identity above k rows of zeros, A is skew and B any k×r matrix. The
    coordinates are the entries of A below the diagonal, times √2, and all entries of B.
    As a vector they are as long as the Frobenius norm of [A; B].

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array, shape (..., r + k, r)
        Tangent vectors.
    r : int
        The number of rows of A.

    Returns
    -------
    array, shape (..., r(r−1)/2 + kr)
        The coordinates; `_from_vector` reverses the map.
    """
    A, B = X[..., :r, :], X[..., r:, :]
    skew_coordinates = matrix.skew_to_vector(A) * math.sqrt(2)
    flat = xp.reshape(B, (*B.shape[:-2], B.shape[-2] * r))
    return xp.concat([skew_coordinates, flat], axis=-1)
