"""The ways to draw a standard Gaussian tangent vector that §6.1 of Utpala et al. (2023)
compares. Each is a linear map from `dim` standard normal numbers z to a tangent vector
at a point p. All have the same law, because each maps z isometrically into the tangent
space.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from curvedp.geometry import (
    Grassmann,
    Lorentz,
    Manifold,
    PoincareBall,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Stiefel,
)

__all__ = [
    "TangentSampler",
    "base_point",
    "gram_error",
    "metropolis_draw",
    "metropolis_timing",
    "samplers",
    "seconds_per_draw",
]

# A function of a point p and of `dim` normal numbers z that returns a tangent vector.
TangentSampler = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Steps of a Metropolis–Hastings chain for each dimension of the tangent space. The paper
# does not print the length of its chains; ours is long enough for the mean square.
METROPOLIS_STEPS_PER_DIMENSION = 20

# The manifolds for which the paper orthonormalizes a basis by Gram–Schmidt.
GRAM_SCHMIDT_SPACES = (
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Lorentz,
)


def samplers(manifold: Manifold) -> dict[str, TangentSampler]:
    """Return the samplers of §6.1 that the paper has for a manifold, by their names.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the tangent vectors.

    Returns
    -------
    dict
        "transport" is the library's isometry, which builds no basis. "explicit" builds
        an orthonormal basis, "sparse" a sparse one, and "gram_schmidt" orthonormalizes
        one vector after the other.
    """

    def explicit(point: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Combine the vectors of an orthonormal basis that is built in full."""
        basis = np.asarray(manifold.from_coordinates(point, np.eye(manifold.dim)))
        return np.tensordot(normals, basis, axes=1)

    def gram_schmidt(point: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Combine the vectors of a basis made orthonormal by Gram–Schmidt."""
        return np.tensordot(normals, gram_schmidt_basis(manifold, point), axes=1)

    def sparse_basis(point: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Combine the vectors of an orthonormal basis that is stored sparsely."""
        stacked_columns = SPARSE_BASES[type(manifold)](point) @ normals
        return np.asarray(stacked_columns.reshape(manifold.point_shape, order="F"))

    methods: dict[str, TangentSampler] = {"transport": manifold.from_coordinates}
    methods["explicit"] = explicit
    if type(manifold) in SPARSE_BASES:
        methods["sparse"] = sparse_basis
    if isinstance(manifold, GRAM_SCHMIDT_SPACES):
        methods["gram_schmidt"] = gram_schmidt
    return methods


def gram_schmidt_basis(manifold: Manifold, point: np.ndarray) -> np.ndarray:
    """Return a basis that Gram–Schmidt has made orthonormal in the metric at a point.

    Parameters
    ----------
    manifold : Manifold
        A space of SPD matrices, or the hyperboloid.
    point : array of shape point_shape
        The point of the tangent space.

    Returns
    -------
    array of shape (dim, *point_shape)
        The basis.
    """
    if isinstance(manifold, Lorentz):
        basis = _hyperboloid_basis(point)
    else:
        basis = _symmetric_basis(point.shape[0])
    coefficient_shape = (-1,) + (1,) * point.ndim
    # After a vector is normalized, its component is removed from all later ones at once.
    for i in range(manifold.dim):
        basis[i] /= manifold.norm(point, basis[i])
        later_vectors = basis[i + 1 :]
        if len(later_vectors):
            products = manifold.inner(point, basis[i], later_vectors)
            later_vectors -= np.reshape(products, coefficient_shape) * basis[i]
    return basis


def _hyperboloid_basis(point: np.ndarray) -> np.ndarray:
    """Return the tangent vectors of the hyperboloid whose spatial parts are the eᵢ.

    The time part follows from ⟨p, v⟩ = 0 in the Lorentzian product: vᵢ/p₀ times pᵢ.

    Parameters
    ----------
    point : array of shape (dim + 1,)
        p, its time coordinate first.
    """
    time_parts = point[1:] / point[0]
    return np.hstack([time_parts[:, None], np.eye(len(time_parts))])


def _symmetric_basis(size: int) -> np.ndarray:
    """Return the orthonormal basis of symmetric matrices in the Frobenius metric.

    Parameters
    ----------
    size : int
        The number m of rows.

    Returns
    -------
    array of shape (m(m + 1)/2, m, m)
        One entry of 1 on the diagonal, or two of √½ off it, in each matrix.
    """
    rows, columns = np.triu_indices(size)
    numbers = np.arange(len(rows))
    entries = np.where(rows == columns, 1.0, math.sqrt(0.5))
    basis = np.zeros((len(rows), size, size))
    basis[numbers, rows, columns] = entries
    basis[numbers, columns, rows] = entries
    return basis


def poincare_basis(point: np.ndarray) -> Any:
    """Return the basis eᵢ·(1 − ‖p‖²)/2 of the Poincaré ball.

    The paper prints a factor that halves the noise (erratum E8).

    Parameters
    ----------
    point : array of shape (d,)
        p, of norm below 1.

    Returns
    -------
    sparse matrix of shape (d, d)
        The basis vectors are its columns.
    """
    return sparse.identity(len(point), format="csr") * ((1 - point @ point) / 2)


def grassmann_basis(point: np.ndarray) -> Any:
    """Return the horizontal basis at a subspace, for matrices stacked by columns.

    Each of the r columns of a tangent vector is a combination of the columns of P⊥, an
    orthonormal basis of the complement: the basis is kron(I_r, P⊥).

    Parameters
    ----------
    point : array of shape (m, r)
        An orthonormal basis of the subspace.

    Returns
    -------
    sparse matrix of shape (m·r, (m − r)·r)
        The basis vectors are its columns.
    """
    r = point.shape[1]
    complement = np.linalg.qr(point, mode="complete")[0][:, r:]
    return sparse.kron(sparse.identity(r), sparse.csr_matrix(complement), format="csr")


def stiefel_basis(point: np.ndarray) -> Any:
    """Return the basis at an orthonormal frame P, for matrices stacked by columns.

    The basis of the Grassmann manifold is completed by P·S for the skew-symmetric
    S = (eᵢeⱼᵀ − eⱼeᵢᵀ)/√2, which rotate the frame in its subspace.

    Parameters
    ----------
    point : array of shape (m, r)
        The frame P.

    Returns
    -------
    sparse matrix of shape (m·r, dim)
        The basis vectors are its columns.
    """
    r = point.shape[1]
    lower, upper = np.triu_indices(r, 1)
    pairs = np.arange(len(lower))
    entries = np.full(len(lower), math.sqrt(0.5))
    # Entry (i, j) of an r×r matrix, stacked by columns, is number j·r + i.
    positions = np.concatenate([upper * r + lower, lower * r + upper])
    skew_matrices = sparse.coo_matrix(
        (np.concatenate([entries, -entries]), (positions, np.tile(pairs, 2))),
        shape=(r * r, len(lower)),
    )
    rotations = (
        sparse.kron(sparse.identity(r), sparse.csr_matrix(point)) @ skew_matrices
    )
    return sparse.hstack([rotations, grassmann_basis(point)], format="csr")


# The manifolds for which the paper has a sparse basis.
SPARSE_BASES = {
    PoincareBall: poincare_basis,
    Grassmann: grassmann_basis,
    Stiefel: stiefel_basis,
}


def base_point(manifold: Manifold, seed: int) -> np.ndarray:
    """Return a random point at distance ½ from the manifold's origin.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the point.
    seed : int
        The seed of its direction from the origin.
    """
    normals = np.random.default_rng(seed).standard_normal(manifold.dim)
    coordinates = 0.5 * normals / np.linalg.norm(normals)
    velocity = manifold.from_coordinates(manifold.origin, coordinates)
    return np.asarray(manifold.exp(manifold.origin, velocity))


def seconds_per_draw(manifold: Manifold, sampler: TangentSampler, seed: int) -> float:
    """Return the seconds that one draw takes, the drawing of the normals included.

    It is the best of three draws, or of fewer if they take longer than a second. The
    first draw may be slower, because it fills caches of the libraries.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the vectors.
    sampler : function
        One of `samplers`.
    seed : int
        The seed of the base point and of the normals.
    """
    point = base_point(manifold, seed)
    rng = np.random.default_rng(seed)
    times: list[float] = []
    while len(times) < 3 and sum(times) < 1.0:
        start = time.perf_counter()
        sampler(point, rng.standard_normal(manifold.dim))
        times.append(time.perf_counter() - start)
    return min(times)


def gram_error(manifold: Manifold, sampler: TangentSampler) -> float:
    """Return how far a sampler is from an isometry: max |⟨f(eᵢ), f(eⱼ)⟩_p − δᵢⱼ|.

    f is the linear map from normals to tangent vectors, and the eᵢ are at most 12
    random orthonormal directions. The law of f(z) is right where this is 0.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the vectors.
    sampler : function
        One of `samplers`.
    """
    point = base_point(manifold, 7)
    count = min(12, manifold.dim)
    gaussian = np.random.default_rng(8).standard_normal((manifold.dim, count))
    directions = np.linalg.qr(gaussian)[0].T
    images = np.stack([sampler(point, direction) for direction in directions])
    gram = np.asarray(manifold.inner(point, images[:, None], images[None, :]))
    return float(np.abs(gram - np.eye(count)).max())


def metropolis_draw(
    manifold: Manifold, point: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the end of a Metropolis–Hastings chain for the standard tangent Gaussian.

    NOT PRIVATE: the chain does not follow its law after any number of steps. It starts
    at 0 and knows the metric only through norms: a step adds a Gaussian of the ambient
    space, projected to the tangent space, and is accepted by the ratio of densities
    exp(−‖v‖²/2). Its length is 2.38/√d, the best for many dimensions d.

    Parameters
    ----------
    manifold : Manifold
        Symmetric positive definite matrices, or a sphere.
    point : array of shape point_shape
        The point of the tangent space.
    rng : numpy.random.Generator
        The source of proposals and decisions.

    Returns
    -------
    array of shape point_shape
        A tangent vector.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> sphere = Sphere(2)
    >>> metropolis_draw(sphere, sphere.origin, np.random.default_rng(0)).shape
    (3,)
    """
    step_length = 2.38 / math.sqrt(manifold.dim)
    vector = np.zeros(point.shape)
    square = 0.0
    for _ in range(METROPOLIS_STEPS_PER_DIMENSION * manifold.dim):
        step = step_length * rng.standard_normal(point.shape)
        if point.ndim == 2:
            # Symmetric; entries off the diagonal have half the variance.
            step = (step + step.T) / 2
        else:
            step -= (point @ step) * point
        proposal = vector + step
        proposed_square = float(manifold.norm(point, proposal)) ** 2
        if math.log(rng.random()) < (square - proposed_square) / 2:
            vector, square = proposal, proposed_square
    return vector


def metropolis_timing(manifold: Manifold, n_chains: int) -> dict[str, float]:
    """Run chains of `metropolis_draw` and return their cost and their mean square.

    Parameters
    ----------
    manifold : Manifold
        Symmetric positive definite matrices, or a sphere.
    n_chains : int
        The number of chains.

    Returns
    -------
    dict
        "seconds per draw", the mean over all chains, and "mean square per dimension",
        which is 1 for the law itself.
    """
    point = base_point(manifold, 0)
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    draws = [metropolis_draw(manifold, point, rng) for _ in range(n_chains)]
    seconds = time.perf_counter() - start
    norms = np.asarray(manifold.norm(point, np.stack(draws)))
    return {
        "seconds per draw": seconds / n_chains,
        "mean square per dimension": float(np.mean(norms**2)) / manifold.dim,
    }
