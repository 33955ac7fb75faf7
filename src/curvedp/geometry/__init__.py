"""Where points live: manifolds with exact, batched, array-library-agnostic kernels."""

from curvedp.geometry.base import Manifold
from curvedp.geometry.euclidean import Euclidean
from curvedp.geometry.spd import SPDAffineInvariant, SPDBuresWasserstein, SPDLogCholesky, SPDLogEuclidean
from curvedp.geometry.sphere import Sphere

__all__ = [
    "Euclidean",
    "Manifold",
    "SPDAffineInvariant",
    "SPDBuresWasserstein",
    "SPDLogCholesky",
    "SPDLogEuclidean",
    "Sphere",
]
