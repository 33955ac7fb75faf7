"""The spaces that tests run over, and random points of them. A new space is one more line in SPACES."""

from curvedp import testing
from curvedp.geometry import (
    Correlation,
    CorrelationOffLog,
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
    CorrelationOffLog(4),
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
    CorrelationOffLog(2),
    SpecialEuclidean(2),
    HPDAffineInvariant(1),
    HPDAffineInvariant(3),
    Product(Rotations(3)),
    Product(Product(Sphere(1), Euclidean(2)), KendallShapes(4)),
]


def reach(M):
    """A length within which exp and log are inverse to each other at the points used here, two steps apart."""
    return (
        0.25 if isinstance(M, Simplex) else testing.default_max_length(M)
    )  # there exp stays inside


def sample(M, rng, n):
    """Points p, q, tangent vectors u, v at p, coordinates z."""
    return testing.sample(M, rng, n, reach(M))
