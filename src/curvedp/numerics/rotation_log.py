"""Logarithms of rotation matrices that keep their digits near the identity and near π.

The argument of `rotation_log` is D = R − I, which has the digits of a rotation R near
the identity; R itself does not.
"""

from typing import Any

import numpy as np
from array_api_compat import device

from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.elementary import safe_sqrt
from curvedp.numerics.matrix_functions import (
    divided_difference_map,
    phase,
    sinc,
    skew,
    skew_eigen,
    skew_from_vector,
    svd,
)

# Cosines of half an angle below this are 0 to round-off: the plane turns by π.
_LOST_COSINE = 1e-12


def rotation_log(D: Array) -> Array:
    """Return the skew matrix Ω of least norm with exp Ω = I + D, for a rotation I + D.

    Parameters
    ----------
    D : array, shape (..., n, n)
        Rotation matrices minus the identity. The result is accurate relative to D,
        however small D is.
    """
    n = D.shape[-1]
    if n == 1:
        return D - D
    if n == 2:
        sine = (D[..., 1, 0] - D[..., 0, 1]) / 2
        cosine = 1 + (D[..., 0, 0] + D[..., 1, 1]) / 2
        return skew_from_vector(namespace(D).atan2(sine, cosine)[..., None], 2)
    if n == 3:
        return _log_by_quaternion(D)
    return _log_by_half_angles(D)


def _log_by_quaternion(D: Array) -> Array:
    """Return the logarithm of a 3×3 rotation I + D through its unit quaternion.

    The quaternion of a rotation by the angle θ is h = (cos θ/2, axis·sin θ/2). All
    entries of 4hhᵀ are linear in the rotation. The column with the largest diagonal
    entry, which is at least 1, is a multiple of h without cancellation (Shepperd 1978).
    For θ close to π that column comes from the symmetric part of D, for small θ from
    its skew part.

    Parameters
    ----------
    D : array of shape (..., 3, 3)
        Rotations minus the identity.
    """
    xp = namespace(D)
    column = _largest_quaternion_column(D)
    column = xp.where(column[..., :1] < 0, -column, column)
    scalar = column[..., :1]
    vector = column[..., 1:]
    length = safe_sqrt(xp, xp.sum(vector * vector, axis=-1, keepdims=True))
    is_zero = length == 0
    safe = xp.where(is_zero, 1.0, length)
    angle_over_length = xp.where(
        is_zero,
        2 / xp.where(is_zero, scalar, safe),
        2 * xp.atan2(safe, scalar) / safe,
    )
    axis = angle_over_length * vector
    entries = xp.stack([axis[..., 2], -axis[..., 1], axis[..., 0]], axis=-1)
    return skew_from_vector(entries, 3)


def _largest_quaternion_column(D: Array) -> Array:
    """Return the column of 4hhᵀ with the largest diagonal entry, h the unit quaternion.

    A rotation I + D about an axis belongs to a quaternion h = (cos(angle/2),
    sin(angle/2)·axis) and to −h. The products 4hᵢhⱼ are linear in the entries of D.
    Each column of 4hhᵀ is a multiple of h, and the one with the largest diagonal entry
    has the most digits.

    Parameters
    ----------
    D : array, shape (..., 3, 3)
        Rotations minus the identity.

    Returns
    -------
    array, shape (..., 4)
        A multiple of h, the scalar part first.
    """
    xp = namespace(D)
    d00, d11, d22 = D[..., 0, 0], D[..., 1, 1], D[..., 2, 2]
    turn_x = D[..., 2, 1] - D[..., 1, 2]
    turn_y = D[..., 0, 2] - D[..., 2, 0]
    turn_z = D[..., 1, 0] - D[..., 0, 1]
    sum_xy = D[..., 0, 1] + D[..., 1, 0]
    sum_xz = D[..., 0, 2] + D[..., 2, 0]
    sum_yz = D[..., 1, 2] + D[..., 2, 1]
    rows = (
        [4 + d00 + d11 + d22, turn_x, turn_y, turn_z],
        [turn_x, d00 - d11 - d22, sum_xy, sum_xz],
        [turn_y, sum_xy, d11 - d00 - d22, sum_yz],
        [turn_z, sum_xz, sum_yz, d22 - d00 - d11],
    )
    columns = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
    diagonal = xp.linalg.diagonal(columns)
    largest = xp.argmax(diagonal, axis=-1, keepdims=True)
    is_largest = largest == xp.arange(4, device=device(diagonal))
    return xp.sum(xp.where(is_largest[..., None], columns, 0.0), axis=-2)


def _log_by_half_angles(D: Array) -> Array:
    """Return the logarithm of an n×n rotation R = I + D through its square root.

    The square root turns by angles below π/2, where both the sine and the cosine
    determine an angle. With Θ the matrix of angles of R:

    1. (I + R)/2 = R^{1/2}·cos(Θ/2), so that its singular values c are the cosines of
       half the angles.
    2. The skew part K of D is 2·sin(Θ/2)·cos(Θ/2)·J, with J a quarter turn in every
       plane. So B = K/(2c) is the skew part of R^{1/2}.
    3. The singular vectors of B span the planes of rotation, and θ/2 = atan2(sine,
       cosine) in each of them.

    If c is 0 to roundoff, the plane turns by π, and K has at most its orientation left.
    The values c come in equal pairs, so that neighboring singular vectors span such
    planes.

    Parameters
    ----------
    D : array of shape (..., n, n)
        Rotations minus the identity.
    """
    xp = namespace(D)
    base = constant(D)
    n = D.shape[-1]
    _, c, Vh = svd(like(D, np.eye(n)) + base / 2)
    V = Vh.mT
    K = Vh @ skew(base) @ V

    is_lost = c < _LOST_COSINE
    both_lost = is_lost[..., :, None] & is_lost[..., None, :]
    quarter = like(D, _quarter_turns(n))
    quarter = xp.where(K == 0, quarter, xp.abs(quarter) * xp.sign(K))
    cosine_sums = xp.where(both_lost, 1.0, c[..., :, None] + c[..., None, :])
    B = xp.where(both_lost, quarter, K / cosine_sums)

    left, sines, Wh = svd(skew(B))
    cosines = xp.sqrt(xp.sum((c[..., :, None] * Wh.mT) ** 2, axis=-2))
    angles = 2 * xp.atan2(sines, cosines)
    inner = (left * angles[..., None, :]) @ Wh
    omega = V @ skew(inner) @ Vh
    if differentiable(D):
        return omega + _log_derivative(xp, omega, D - base)
    return omega


def _quarter_turns(n: int) -> np.ndarray:
    """Return a skew matrix that turns pairs of axes by a right angle, from the last.

    For an odd n the first axis is left fixed.

    Parameters
    ----------
    n : int
        The size of the matrix.
    """
    turns = np.zeros((n, n))
    last = np.arange(n - 1, 0, -2)
    turns[last, last - 1] = 1.0
    turns[last - 1, last] = -1.0
    return turns


def _log_derivative(xp: Any, omega: Array, change: Array) -> Array:
    """Return the derivative of the logarithm at exp Ω in a direction.

    It is the inverse of the derivative of exp, entry by entry in the eigenbasis of Ω.
    At the cut locus, where two eigenvalues are +iπ and −iπ, there is no derivative, and
    0 is returned for that entry.

    Parameters
    ----------
    xp : namespace
        The array library.
    omega : array, shape (..., n, n)
        Ω, the logarithm.
    change : array, shape (..., n, n)
        The change of the rotation.
    """
    w, Z = skew_eigen(omega)
    half = w / 2
    sine = sinc(xp, half[..., :, None] - half[..., None, :])
    is_usable = xp.abs(sine) > 1e-12
    size = xp.where(is_usable, 1 / xp.where(is_usable, sine, 1.0), 0.0)
    rotation = phase(xp, -(half[..., :, None] + half[..., None, :]), Z.dtype)
    K = xp.astype(size, Z.dtype) * rotation
    return skew(divided_difference_map(K, Z, change))
