"""Random matrices from which noise on positive definite matrices is assembled. A draw
about the center W = LL* is X = L·Q·diag(e^ρ)·Q*·L*: the log-eigenvalues ρ depend on the
law of the noise, and Q is a uniform orthogonal or unitary matrix. β is 1 for real
symmetric and 2 for Hermitian m×m matrices.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvedp.errors import ParameterError
from curvedp.laws.backend import Floats

# Numbers in the largest temporary array.
MAX_TEMPORARY_ENTRIES = 1 << 20


def random_congruence(
    rng: np.random.Generator, center: Floats, rho: Floats, beta: int
) -> Floats:
    """Return X = L·Q·diag(e^ρ)·Q*·L* for each row ρ, with Q uniform and W = LL*.

    Congruence by L is an isometry that takes the identity to W. The product is formed
    as F·F* with F = L·Q·diag(e^{ρ/2}), which is positive semidefinite by construction.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of Q.
    center : array
        W, one matrix or one for each row of `rho`; for β = 2 with real and imaginary
        parts along a last axis.
    rho : array of shape (n, m)
        Log-eigenvalues of W^{−½}XW^{−½}.
    beta : {1, 2}
        Real symmetric or Hermitian matrices.

    Returns
    -------
    array, shape (n, *point_shape)
        The matrices X.
    """
    # Factor the center.
    n, m = rho.shape
    matrix = center if beta == 1 else center[..., 0] + 1j * center[..., 1]
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ParameterError("center must be positive definite") from None
    if m == 2:
        return _random_congruence_2x2(rng, lower, rho, beta)

    # X = F·F* in blocks of rows, so that temporary arrays stay small.
    points = np.empty((n, m, m), dtype=lower.dtype)
    block_length = max(1, MAX_TEMPORARY_ENTRIES // (m * m))
    for start in range(0, n, block_length):
        stop = min(n, start + block_length)
        block_lower = lower if lower.ndim == 2 else lower[start:stop]
        orthogonal = uniform_orthogonal(rng, stop - start, m, beta)
        factor = block_lower @ (orthogonal * np.exp(rho[start:stop, None, :] / 2))
        adjoint = np.conj(np.swapaxes(factor, -1, -2))
        np.matmul(factor, adjoint, out=points[start:stop])
    if beta == 1:
        return points
    return np.stack([points.real, points.imag], axis=-1)


def _random_congruence_2x2(
    rng: np.random.Generator, lower: NDArray[Any], rho: Floats, beta: int
) -> Floats:
    """Return X = L·Q·diag(e^ρ)·Q*·L* of 2×2 matrices, entry by entry, with Q uniform.

    Up to phases of its columns Q = [[c, −s·z*], [s·z, c]], with the numbers c, s and z
    of `_uniform_unitary_2x2`.

    Used in place of general matrix products, because it is much faster.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of Q.
    lower : array of shape (..., 2, 2)
        The Cholesky factor L: a single one, or one for each row of `rho`.
    rho : array of shape (n, 2)
        Log-eigenvalues.
    beta : {1, 2}
        Symmetric or Hermitian.

    Returns
    -------
    array of shape (n, 2, 2), or (n, 2, 2, 2) with real and imaginary parts
        The matrices X.
    """
    # The entries of L, and c, s and z of Q.
    l11 = lower[..., 0, 0].real
    l21 = lower[..., 1, 0]
    l22 = lower[..., 1, 1].real
    c, s, z = _uniform_unitary_2x2(rng, len(rho), beta)

    # The eigenvalues of X about the identity, and the second row of L·Q.
    large, small = np.exp(rho.T)
    row_large = l21 * c + l22 * s * z
    row_small = l22 * c - l21 * s * np.conj(z)

    # The entries of X = (LQ)·diag(e^ρ)·(LQ)*; the first row of L·Q is l₁₁·(c, −s·z*).
    points = np.empty((len(rho), 2, 2), dtype=lower.dtype)
    points[:, 0, 0] = l11 * l11 * (c * c * large + s * s * small)
    points[:, 1, 0] = l11 * (c * large * row_large - s * small * z * row_small)
    points[:, 0, 1] = np.conj(points[:, 1, 0])
    points[:, 1, 1] = _squared_modulus(row_large) * large
    points[:, 1, 1] += _squared_modulus(row_small) * small
    if beta == 1:
        return points
    return points.view(np.float64).reshape(len(rho), 2, 2, 2)


def _uniform_unitary_2x2(
    rng: np.random.Generator, n: int, beta: int
) -> tuple[Floats, Floats, Any]:
    """Return c, s and z of n uniform matrices [[c, −s·z*], [s·z, c]].

    For β = 1 they are rotations: c and s are cosine and sine of a uniform angle, and
    z = 1. For β = 2 they are unitary up to phases of their columns: c² is uniform
    (Archimedes: a coordinate of a uniform point of the sphere), and z is a uniform
    phase.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    n : int
        The number of matrices.
    beta : {1, 2}
        1 for real, 2 for complex matrices.

    Returns
    -------
    c, s : arrays of shape (n,)
        Real numbers with c² + s² = 1.
    z : complex array of shape (n,), or 1.0
        Numbers of modulus 1.
    """
    angle = rng.uniform(0, 2 * math.pi, n)
    cosine = np.cos(angle)
    sine = np.sin(angle)
    if beta == 1:
        return cosine, sine, np.float64(1.0)
    c_squared = rng.random(n)
    return np.sqrt(c_squared), np.sqrt(1 - c_squared), cosine + 1j * sine


def _squared_modulus(z: NDArray[Any]) -> Floats:
    """Return |z|² elementwise, for an array of real or complex numbers."""
    return np.asarray(z.real**2 + z.imag**2)


def gaussian_eigenvalues(
    rng: np.random.Generator, n: int, m: int, beta: int = 1
) -> Floats:
    """Return the eigenvalues of n random matrices S with density ∝ exp(−tr S²/2).

    For 2×2 and 3×3 matrices their law is known in closed form, and no matrix is made.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    n : int
        The number of matrices.
    m : int
        Their size.
    beta : {1, 2}
        Symmetric or Hermitian matrices.

    Returns
    -------
    array of shape (n, m)
        Each row in decreasing order.
    """
    if m == 2:
        return _gaussian_eigenvalues_2x2(rng, n, beta)
    if m == 3:
        return _gaussian_eigenvalues_3x3(rng, n, beta)
    half = _normal_matrices(rng, n, m, beta) / 2
    hermitian = half + np.conj(np.swapaxes(half, 1, 2))
    return np.asarray(np.linalg.eigvalsh(hermitian)[:, ::-1], dtype=np.float64)


def _gaussian_eigenvalues_2x2(rng: np.random.Generator, n: int, beta: int) -> Floats:
    """Return the eigenvalues of n Gaussian 2×2 matrices, as center ± half the gap.

    The density of a matrix S is ∝ exp(−tr S²/2). Its squared half gap
    ((S₁₁−S₂₂)/2)² + |S₁₂|² is half a χ² with 1 + β degrees of freedom.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    n : int
        The number of matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array, shape (n, 2)
        The eigenvalues, in decreasing order.
    """
    center = rng.standard_normal(n) / math.sqrt(2)
    half_gap = np.sqrt(rng.standard_gamma((1 + beta) / 2, n))
    return np.stack([center + half_gap, center - half_gap], axis=1)


def _gaussian_eigenvalues_3x3(rng: np.random.Generator, n: int, beta: int) -> Floats:
    """Return the eigenvalues of n Gaussian 3×3 matrices, in decreasing order.

    The density of a matrix S is ∝ exp(−tr S²/2). In the plane of the differences of the
    eigenvalues λ₁ > λ₂ > λ₃, polar coordinates (q, θ) are used: ordered triples form a
    sector 0 < θ < 60°, and ∏(λᵢ−λⱼ) = q³·sin 3θ/√2. The length q is χ with 2 + 3β
    degrees of freedom. For β = 1 cos 3θ is uniform on (−1, 1); for β = 2 it is
    distributed like a coordinate of a uniform point of the disk.

    Write cos 3θ = 1 − 2u with u in (0, 1). Then θ = arccos(1 − 2u)/3 = 2/3·arcsin √u,
    where the second form loses no digits near u = 0. The gaps are
    λ₁ − λ₂ = √2·q·sin θ and λ₂ − λ₃ = √2·q·sin(60° − θ), and 60° − θ is
    2/3·arcsin √(1 − u).

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    n : int
        The number of draws.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array, shape (n, 3)
        The eigenvalues.
    """
    # √2·q, and the two gaps between neighboring eigenvalues.
    u = rng.random(n) if beta == 1 else rng.beta(1.5, 1.5, n)
    length = 2 * np.sqrt(rng.standard_gamma(1 + 1.5 * beta, n))
    upper_gap = length * np.sin(2 / 3 * np.arcsin(np.sqrt(u)))
    lower_gap = length * np.sin(2 / 3 * np.arcsin(np.sqrt(1 - u)))

    # The mean of the three is normal and independent of the gaps.
    middle = rng.normal(0.0, math.sqrt(1 / 3), n) + (lower_gap - upper_gap) / 3
    return np.stack([middle + upper_gap, middle, middle - lower_gap], axis=1)


def _normal_matrices(rng: np.random.Generator, n: int, m: int, beta: int) -> Floats:
    """Return n matrices of independent standard normals, complex for β = 2.

    Gaussian matrices and uniform rotations are made of them.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    n : int
        The number of matrices.
    m : int
        Their size.
    beta : {1, 2}
        1 for real, 2 for complex entries.

    Returns
    -------
    array, shape (n, m, m)
        The matrices.
    """
    normals = rng.standard_normal((n, m, beta * m))
    return normals if beta == 1 else np.asarray(normals.view(np.complex128))


def uniform_orthogonal(
    rng: np.random.Generator, n: int, m: int, beta: int = 1
) -> Floats:
    """Return n uniform orthogonal or unitary matrices Q, up to signs or phases.

    The signs or phases of the columns are not random. The product Q·diag·Q*, for which
    Q is used, does not depend on them.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    n : int
        The number of draws.
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array, shape (n, m, m)
        The matrices Q, complex for β = 2.
    """
    if m == 3 and beta == 1:
        return _uniform_rotations(rng, n)
    if m == 3:
        return _uniform_unitary_3x3(rng, n)
    return np.asarray(np.linalg.qr(_normal_matrices(rng, n, m, beta))[0])


def _uniform_rotations(rng: np.random.Generator, n: int) -> Floats:
    """Return uniformly distributed 3×3 rotations.

    A unit quaternion (w, x, y, z) is uniform on the sphere if it is a normalized vector
    of normals. Here it is scaled by √2, so that the rotation matrix has entries such as
    1 − y² − z² and xy − wz.

    Parameters
    ----------
    rng : Generator
        The source of randomness.
    n : int
        The number of rotations.

    Returns
    -------
    array, shape (n, 3, 3)
        The rotations.
    """
    # Draw a random quaternion, scaled to length √2.
    quaternion = rng.standard_normal((4, n))
    quaternion *= math.sqrt(2) / np.sqrt(np.sum(quaternion * quaternion, axis=0))
    w, x, y, z = quaternion

    # Write down the rotation matrix.
    rotation = np.empty((n, 3, 3))
    rotation[:, 0, 0] = 1 - y * y - z * z
    rotation[:, 0, 1] = x * y - w * z
    rotation[:, 0, 2] = x * z + w * y
    rotation[:, 1, 0] = x * y + w * z
    rotation[:, 1, 1] = 1 - x * x - z * z
    rotation[:, 1, 2] = y * z - w * x
    rotation[:, 2, 0] = x * z - w * y
    rotation[:, 2, 1] = y * z + w * x
    rotation[:, 2, 2] = 1 - x * x - y * y
    return rotation


def _uniform_unitary_3x3(rng: np.random.Generator, n: int) -> Floats:
    """Return n uniform unitary 3×3 matrices, by Gram–Schmidt and the cross product.

    Two columns are orthonormalized complex normals. The third is orthogonal to both and
    determined up to a phase, which is fixed because Q·diag·Q* does not depend on it.

    Parameters
    ----------
    rng : Generator
        The source of randomness.
    n : int
        The number of matrices.

    Returns
    -------
    array, shape (n, 3, 3)
        The matrices, complex.
    """
    normals = _normal_matrices(rng, n, 3, 2)
    first = normals[:, 0]
    second = normals[:, 1]

    # Orthonormalize two columns, and complete them by the cross product.
    first = first / np.linalg.norm(first, axis=1, keepdims=True)
    second = second - first * np.sum(np.conj(first) * second, axis=1, keepdims=True)
    second = second / np.linalg.norm(second, axis=1, keepdims=True)
    third = np.conj(np.cross(first, second))
    return np.stack([first, second, third], axis=-1)
