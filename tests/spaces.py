"""The spaces that tests run over, and random points of them. A new space is one more line in SPACES."""

import numpy as np

from curvedp.geometry import (
    Correlation,
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    SpecialEuclidean,
    Sphere,
    Stiefel,
    Torus,
)

SPACES = [
    Euclidean(3),
    Sphere(3),
    Lorentz(3),
    PoincareBall(3),
    SPDAffineInvariant(3),
    SPDLogEuclidean(3),
    SPDLogCholesky(3),
    SPDBuresWasserstein(3),
    Stiefel(5, 2),
    Grassmann(5, 2),
    Rotations(4),
    KendallShapes(5),
    Torus(3),
    Simplex(3),
    Correlation(4),
    SpecialEuclidean(3, 0.7),
    HPDAffineInvariant(2),
    Product(Sphere(2), SPDAffineInvariant(2), Lorentz(2)),
]
# Sizes where shapes, formulas or curvature degenerate.
EDGES = [
    Euclidean(1),
    Sphere(1),
    Lorentz(1),
    PoincareBall(1),
    SPDAffineInvariant(1),
    SPDAffineInvariant(2),
    SPDAffineInvariant(4),
    SPDLogEuclidean(2),
    SPDLogCholesky(1),
    SPDBuresWasserstein(2),
    Stiefel(4, 1),
    Stiefel(3, 3),
    Grassmann(2, 1),
    Grassmann(4, 3),
    Rotations(2),
    Rotations(3),
    KendallShapes(3),
    Torus(1),
    Simplex(1),
    Correlation(2),
    SpecialEuclidean(2),
    HPDAffineInvariant(1),
    HPDAffineInvariant(3),
    Product(Rotations(3)),
    Product(Product(Sphere(1), Euclidean(2)), KendallShapes(4)),
]
# The kernels and what they take: points p, q, tangent vectors u, v at p, coordinates z.
METHODS = {
    "exp": "pv",
    "log": "pq",
    "dist": "pq",
    "inner": "puv",
    "norm": "pv",
    "transport": "pqv",
    "project": "p",
    "to_tangent": "pv",
    "residual": "p",
    "from_coordinates": "pz",
    "to_coordinates": "pv",
}


def reach(M):
    """A length within which exp and log are inverse to each other at the points used here, two steps apart."""
    if isinstance(M, SPDBuresWasserstein):
        return 0.25  # no radius holds everywhere (it is not complete): a quarter of the one at the origin
    if isinstance(M, Simplex):
        return 0.25  # exp stays inside
    return min(1.0, 0.4 * M.injectivity_radius)


def coordinates(M, rng, n):
    """n coordinate vectors of length up to `reach`."""
    z = rng.normal(size=(n, M.dim))
    return z * (reach(M) * rng.uniform(0.1, 1, size=(n, 1)) / np.linalg.norm(z, axis=-1, keepdims=True))


def sample(M, rng, n):
    """Points p, q, tangent vectors u, v at p, coordinates z."""
    p = M.exp(M.origin, M.from_coordinates(M.origin, coordinates(M, rng, n)))
    q = M.exp(p, M.from_coordinates(p, coordinates(M, rng, n)))
    z = coordinates(M, rng, n)
    u, v = M.from_coordinates(p, coordinates(M, rng, n)), M.from_coordinates(p, z)
    return {"p": p, "q": q, "u": u, "v": v, "z": z}


def length(M, p, v):
    """Norm through the coordinates, so that a wrong `norm` does not hide a wrong vector."""
    return np.linalg.norm(M.to_coordinates(p, v), axis=-1)
