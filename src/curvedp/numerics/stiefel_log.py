"""The logarithm of the Stiefel manifold of orthonormal m×r frames: the velocity of the
shortest geodesic from a frame p to a frame q. `reduced_log` computes it in the
coordinates of a frame [p Q] that spans both, in which the geodesic starts at E, the r×r
identity above k rows of zeros. Its velocity is [A; B], with A skew and B of size k×r.

p and q are orthonormal m×r frames, and [p Q] is a frame with r + k columns, k <= r. The
geodesic from p has the velocity pA + QB. `stiefel_geodesic` has its end and derivative,
and `stiefel_newton` solves for the velocity.
"""

import math
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import is_jax_array

from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import Array, like, map_in_blocks, namespace
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.rotation_log import rotation_log
from curvedp.numerics.stiefel_geodesic import (
    GeodesicFlow,
    divide_by_length,
    endpoint,
    frobenius_norm,
    from_vector,
    n_unknowns,
    tangent_part,
    to_vector,
)
from curvedp.numerics.stiefel_newton import solve_by_newton
from curvedp.numerics.threads import blocks

# Entries of Jacobians at once in a JAX program, see `map_in_blocks`.
_JAX_BLOCK = 1 << 15

# The largest number of floats in the derivatives of a block of points.
_BLOCK = 1 << 21


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
    unknowns = n_unknowns(rows, r)
    n_targets = math.prod(target.shape[:-2])
    flat = xp.reshape(target, (n_targets, rows, r))

    # One point at once, or many in blocks.
    if n_targets <= 1:
        X = _shortest_solution(xp, target)
    elif is_jax_array(target):
        block_size = max(1, _JAX_BLOCK // unknowns**2)
        X = map_in_blocks(partial(_shortest_solution, xp), flat, block_size)
        X = xp.reshape(X, target.shape)
    else:  # in blocks, so that memory stays flat
        block_size = max(1, _BLOCK // (rows * rows * unknowns))
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
    if is_jax_array(target):
        return _shortest_in_compiled_loop(xp, chord, target)
    if in_public_time():
        return _shortest_in_public_time(xp, chord, target)

    # The chord, and the other two starts where it does not suffice.
    no_solution = xp.full_like(chord, xp.nan)
    X = _improve(xp, no_solution, chord, target)
    if bool(xp.all(frobenius_norm(xp, X) < math.pi)):
        return X
    starts = _rotation_starts(xp, target)
    X = _improve(xp, X, starts[0, ...], target)
    return _improve(xp, X, starts[1, ...], target)


def _shortest_in_compiled_loop(xp: Any, chord: Array, target: Array) -> Array:
    """Return the shortest solution of `_shortest_solution`, for JAX.

    JAX cannot skip a start whose result is not needed, so it tries all three.

    Parameters
    ----------
    xp : namespace
        The functions of JAX.
    chord : array, shape (..., r + k, r)
        The first start.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.

    Returns
    -------
    array, shape (..., r + k, r)
        The velocities X, after a compiled loop over the three starts.
    """
    import jax

    def improve(best: Array, start: Array) -> tuple[Array, None]:
        """Return the shorter of the best and a new solution; the loop stores nothing."""
        return _improve(xp, best, start, target), None

    starts = xp.concat([chord[None, ...], _rotation_starts(xp, target)])
    no_solution = xp.full_like(chord, xp.nan)
    return jax.lax.scan(improve, no_solution, starts)[0]


def _shortest_in_public_time(xp: Any, chord: Array, target: Array) -> Array:
    """Return the shortest solution of `_shortest_solution`, in public time.

    No start may be skipped, because the time would tell which records need it.

    Parameters
    ----------
    xp : namespace
        The array library.
    chord : array, shape (..., r + k, r)
        The first start.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.

    Returns
    -------
    array, shape (..., r + k, r)
        The velocities X; all three starts are used, side by side.
    """
    starts = xp.concat([chord[None, ...], _rotation_starts(xp, target)])
    all_wanted = xp.ones_like(starts[..., :1, :1], dtype=xp.bool)
    solutions = solve_by_newton(xp, starts, target, wanted=all_wanted)
    first_two = _choose_shorter(xp, solutions[0, ...], solutions[1, ...])
    return _choose_shorter(xp, first_two, solutions[2, ...])


def _improve(xp: Any, best: Array, start: Array, target: Array) -> Array:
    """Return the shorter of the best solution and the one from another start.

    A best solution shorter than π stays, whatever the start leads to: the logarithm of
    a point must not depend on the other points.

    Parameters
    ----------
    xp : namespace
        The array library.
    best : array, shape (..., r + k, r)
        The shortest solutions so far; NaN where there is none.
    start : array, shape (..., r + k, r)
        The velocities at which Newton's method starts.
    target : array, shape (..., r + k, r)
        The end of the geodesic minus E.

    Returns
    -------
    array, shape (..., r + k, r)
        The shortest solutions.
    """
    is_wanted = ~(frobenius_norm(xp, best) < math.pi)
    solution = solve_by_newton(xp, start, target, wanted=is_wanted)
    return xp.where(is_wanted, _choose_shorter(xp, best, solution), best)


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
    length, other_length = frobenius_norm(xp, X), frobenius_norm(xp, other)
    return xp.where((other_length < length) | xp.isnan(length), other, X)


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
    # Replace the chord by the arc over it; a chord longer than 2 has none.
    X = tangent_part(xp, target, target.shape[-1])
    half_chord = frobenius_norm(xp, target) / 2
    has_arc = half_chord < 1
    arc = 2 * xp.asin(xp.where(has_arc, half_chord, 1.0))
    length = xp.where(has_arc, arc, 2 * half_chord)
    return divide_by_length(xp, X, frobenius_norm(xp, X)) * length


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
    lower_rows = target[..., r:, :]
    upper_rows = end[..., :r, :]
    row_lengths = xp.sqrt(xp.sum(lower_rows * lower_rows, axis=-1, keepdims=True))
    unit_lower = divide_by_length(xp, lower_rows, row_lengths)
    cosines = unit_lower @ (upper_rows + upper_rows.mT) @ unit_lower.mT / 2
    for_zero_A = xp.concat([-lower_rows.mT, cosines], axis=-2)
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
    r = A.shape[-1]
    k = B.shape[-2]
    # The part in the span of the frame: Newton's linear system.
    flow = GeodesicFlow.at(A, B)
    inside = frame.mT @ gap
    right_side = to_vector(xp, flow.pull_back(inside), r)[..., None]
    change = xp.linalg.solve(flow.jacobian(xp), right_side)[..., 0]

    # The part orthogonal to it.
    outside = gap - frame @ inside
    _, mean = endpoint(A, B)
    outside_change = xp.linalg.solve(mean.mT, outside.mT).mT
    return frame @ from_vector(xp, change, r, k) + outside_change
