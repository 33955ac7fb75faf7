"""Random tangent vectors, and conversions between doubles and many digits."""

import mpmath as mp
import numpy as np


def unit_tangents(rng, M, p, count):
    """Draw tangent vectors at p with uniform directions and length 1."""
    z = rng.standard_normal((count, M.dim))
    return M.from_coordinates(p, z / np.linalg.norm(z, axis=-1, keepdims=True))


def mpf_vector(x):
    """Return the doubles of a vector as numbers of mpmath, exactly."""
    return [mp.mpf(float(t)) for t in x]


def to_doubles(A):
    """Return a matrix of mpmath rounded to doubles."""
    return np.array([[float(A[i, j]) for j in range(A.cols)] for i in range(A.rows)])


def frobenius_norm(A):
    """Return the Frobenius norm of a matrix of mpmath."""
    return mp.sqrt(sum(x * x for x in A))
