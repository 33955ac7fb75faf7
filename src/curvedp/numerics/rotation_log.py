"""Logarithms of rotation matrices: the skew-symmetric matrix Ω with exp Ω = R. They
keep their digits for rotations R near the identity and near half a turn. The argument
is D = R − I, because R itself has lost the digits of a small rotation.
"""

from typing import Any

import numpy as np
from array_api_compat import device

from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.elementary import column_and_row, safe_sqrt
from curvedp.numerics.matrix_functions import (
    divided_difference_map,
    phase,
    scale_columns,
    sinc,
    skew,
    skew_eigen,
    skew_from_vector,
    svd,
)

# Cosines of half an angle below this are 0 to round-off: the plane turns by π.
_ZERO_COSINE = 1e-12

# Divided differences below this are 0 to round-off, and the derivative is not defined.
_ZERO_DIFFERENCE = 1e-12


def rotation_log(D: Array) -> Array:
    """Return the skew matrix Ω of least norm with exp Ω = I + D, for a rotation I + D.

    This is the velocity of the shortest geodesic from I to the rotation.

    Parameters
    ----------
    D : array, shape (..., n, n)
        Rotation matrices minus the identity. The result is accurate relative to D,
        however small D is.

    Returns
    -------
    array, shape (..., n, n)
        Ω. If a plane turns by π, it is one of two choices, always the same.
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

    Returns
    -------
    array of shape (..., 3, 3)
        The logarithms, skew-symmetric matrices.
    """
    xp = namespace(D)
    quaternion = _largest_quaternion_column(D)  # a multiple of h
    quaternion = xp.where(quaternion[..., :1] < 0, -quaternion, quaternion)

    # The angle divided by the length of the vector part; 2/scalar in the limit 0.
    scalar = quaternion[..., :1]
    vector = quaternion[..., 1:]
    length = safe_sqrt(xp, xp.sum(vector * vector, axis=-1, keepdims=True))
    is_zero = length == 0
    nonzero_length = xp.where(is_zero, 1.0, length)
    quotient = 2 * xp.atan2(nonzero_length, scalar) / nonzero_length
    limit = 2 / xp.where(is_zero, scalar, nonzero_length)
    angle_over_length = xp.where(is_zero, limit, quotient)

    # The angle times the unit axis, as a skew matrix: the entries (1, 0), (2, 0) and
    # (2, 1) of the matrix of the cross product.
    rotation_vector = angle_over_length * vector
    x = rotation_vector[..., 0]
    y = rotation_vector[..., 1]
    z = rotation_vector[..., 2]
    return skew_from_vector(xp.stack([z, -y, x], axis=-1), 3)


def _largest_quaternion_column(D: Array) -> Array:
    """Return a multiple of the unit quaternion h of a 3×3 rotation I + D.

    A rotation about an axis belongs to the quaternion h = (cos(angle/2),
    sin(angle/2)·axis), and to −h. The products 4hᵢhⱼ are linear in the entries of D.
    Each column of the matrix 4hhᵀ is a multiple of h. The column with the largest
    diagonal entry is returned, because it has the most digits.

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
    products = _quaternion_products(xp, D)  # 4hhᵀ
    diagonal = xp.linalg.diagonal(products)
    largest = xp.argmax(diagonal, axis=-1, keepdims=True)
    is_largest = largest == xp.arange(4, device=device(diagonal))
    # A sum over rows of which all but one are 0; the matrix is symmetric.
    return xp.sum(xp.where(is_largest[..., None], products, 0.0), axis=-2)


def _quaternion_products(xp: Any, D: Array) -> Array:
    """Return the matrix 4hhᵀ for the unit quaternion h of a 3×3 rotation I + D.

    Its entries are linear in those of D: 4h₀hⱼ are differences of opposite entries, and
    4hᵢhⱼ with i, j > 0 are sums of opposite entries.

    Parameters
    ----------
    xp : namespace
        The array library.
    D : array, shape (..., 3, 3)
        Rotations minus the identity.

    Returns
    -------
    array, shape (..., 4, 4)
        The products, the scalar part of h first.
    """
    d00 = D[..., 0, 0]
    d11 = D[..., 1, 1]
    d22 = D[..., 2, 2]
    scalar_x = D[..., 2, 1] - D[..., 1, 2]
    scalar_y = D[..., 0, 2] - D[..., 2, 0]
    scalar_z = D[..., 1, 0] - D[..., 0, 1]
    xy = D[..., 0, 1] + D[..., 1, 0]
    xz = D[..., 0, 2] + D[..., 2, 0]
    yz = D[..., 1, 2] + D[..., 2, 1]
    rows = (
        [4 + d00 + d11 + d22, scalar_x, scalar_y, scalar_z],
        [scalar_x, d00 - d11 - d22, xy, xz],
        [scalar_y, xy, d11 - d00 - d22, yz],
        [scalar_z, xz, yz, d22 - d00 - d11],
    )
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def _log_by_half_angles(D: Array) -> Array:
    """Return the logarithm of an n×n rotation R = I + D through its square root.

    A rotation turns each of some orthogonal planes by an angle θ. Its square root turns
    them by θ/2, which is at most π/2, and such an angle is determined by its sine and
    its cosine. With Θ the matrix that multiplies every plane by its angle:

    1. (I + R)/2 = R^{1/2}·cos(Θ/2), so that its singular values c are the cosines of
       half the angles. They come in equal pairs, one for each plane. V are the right
       singular vectors.
    2. The skew part K of D is 2·sin(Θ/2)·cos(Θ/2)·J, with J a quarter turn in every
       plane. So B = K/(2c), in the basis V, is the skew part of R^{1/2}.
    3. The singular vectors of B span the planes of rotation, and θ/2 = atan2(sine,
       cosine) in each of them.

    tests/geometry/test_rotations.py checks exp(log R) = R, near the identity and near
    half turns.

    Parameters
    ----------
    D : array of shape (..., n, n)
        Rotations minus the identity.

    Returns
    -------
    array of shape (..., n, n)
        The logarithms, skew-symmetric matrices.
    """
    xp = namespace(D)
    constant_D = constant(D)
    n = D.shape[-1]
    # Step 1.
    _, c, Vh = svd(like(D, np.eye(n)) + constant_D / 2)
    V = Vh.mT
    K = Vh @ skew(constant_D) @ V

    # Steps 2 and 3.
    B = _skew_part_of_root(xp, K, c)
    # The cosines of the planes that B spans are the lengths of diag(c)·W.
    left_vectors, sines, Wh = svd(skew(B))
    cosines = xp.sqrt(xp.sum((c[..., :, None] * Wh.mT) ** 2, axis=-2))
    angles = 2 * xp.atan2(sines, cosines)
    omega_in_basis = scale_columns(left_vectors, angles) @ Wh
    omega = V @ skew(omega_in_basis) @ Vh
    if differentiable(D):
        return omega + _log_derivative(xp, omega, D - constant_D)
    return omega


def _skew_part_of_root(xp: Any, K: Array, c: Array) -> Array:
    """Return the skew part B = K/(2c) of the square root of a rotation.

    Where the cosine of half an angle is 0, the plane turns by π. There K is 0 as well,
    except perhaps for signs that tell the sense of the rotation, and B is a quarter
    turn.

    Parameters
    ----------
    xp : namespace
        The array library.
    K : array of shape (..., n, n)
        The skew part of the rotation, in a basis of its planes.
    c : array of shape (..., n)
        The cosines of half the angles, in equal pairs.

    Returns
    -------
    array of shape (..., n, n)
        B, in the same basis.
    """
    column, row = column_and_row(c, c)
    both_zero = (column < _ZERO_COSINE) & (row < _ZERO_COSINE)
    quarter_turns = like(K, _quarter_turns(c.shape[-1]))
    with_sense_of_K = xp.abs(quarter_turns) * xp.sign(K)
    quarter_turns = xp.where(K == 0, quarter_turns, with_sense_of_K)

    # 2c is the sum of the two cosines of an entry, which are equal up to round-off.
    cosine_sums = xp.where(both_zero, 1.0, column + row)
    return xp.where(both_zero, quarter_turns, K / cosine_sums)


def _quarter_turns(n: int) -> np.ndarray:
    """Return a skew matrix that turns the planes of neighboring axes by a right angle.

    Axes are paired from the last one on; for an odd n the first axis is left fixed.

    Parameters
    ----------
    n : int
        The number of rows.

    Returns
    -------
    array of shape (n, n)
        For n = 2 it is [[0, −1], [1, 0]].
    """
    turns = np.zeros((n, n))
    last = np.arange(n - 1, 0, -2)
    turns[last, last - 1] = 1.0
    turns[last - 1, last] = -1.0
    return turns


def _log_derivative(xp: Any, omega: Array, change: Array) -> Array:
    """Return the derivative of the logarithm of rotations at exp Ω in a direction.

    In the basis of the eigenvectors of Ω, with eigenvalues iw, the derivative of exp
    multiplies entry (r, s) by e^{i(w_r + w_s)/2}·sinc((w_r − w_s)/2). That of the
    logarithm divides by it. If w_r = π and w_s = −π, the factor is 0 and there is no
    derivative; 0 is returned for that entry.

    Parameters
    ----------
    xp : namespace
        The array library.
    omega : array, shape (..., n, n)
        Ω, the logarithm.
    change : array, shape (..., n, n)
        The change of the rotation.

    Returns
    -------
    array, shape (..., n, n)
        The change of Ω, skew-symmetric.
    """
    w, Z = skew_eigen(omega)
    half = w / 2
    column, row = column_and_row(half, half)
    modulus = sinc(xp, column - row)
    is_nonzero = xp.abs(modulus) > _ZERO_DIFFERENCE
    reciprocal = xp.where(is_nonzero, 1 / xp.where(is_nonzero, modulus, 1.0), 0.0)
    inverse_phase = phase(xp, -(column + row), Z.dtype)

    # Divide the entries by e^{i(w_r + w_s)/2}·sinc((w_r − w_s)/2).
    factors = xp.astype(reciprocal, Z.dtype) * inverse_phase
    return skew(divided_difference_map(factors, Z, change))
