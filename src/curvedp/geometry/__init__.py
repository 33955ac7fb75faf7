"""Where points live: manifolds with exact, batched, array-library-agnostic kernels."""

from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.euclidean import Euclidean
from curvedp.geometry.grassmann import Grassmann
from curvedp.geometry.kendall import KendallShapes
from curvedp.geometry.lorentz import Lorentz
from curvedp.geometry.mean import frechet_mean, mean_error_bound
from curvedp.geometry.names import manifold_name, parse_manifold
from curvedp.geometry.poincare import PoincareBall
from curvedp.geometry.product import Product
from curvedp.geometry.rotations import Rotations
from curvedp.geometry.spd import SPDAffineInvariant, SPDBuresWasserstein, SPDLogCholesky, SPDLogEuclidean
from curvedp.geometry.sphere import Sphere
from curvedp.geometry.stiefel import Stiefel

__all__ = [
    "Euclidean",
    "Grassmann",
    "KendallShapes",
    "Lorentz",
    "Manifold",
    "PoincareBall",
    "Product",
    "Rotations",
    "SPDAffineInvariant",
    "SPDBuresWasserstein",
    "SPDLogCholesky",
    "SPDLogEuclidean",
    "Sphere",
    "Stiefel",
    "frechet_mean",
    "manifold_name",
    "mean_error_bound",
    "parse_manifold",
    "project_to_ball",
]
