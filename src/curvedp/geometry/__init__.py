"""Where points live: manifolds with exact, batched, array-library-agnostic kernels."""

from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.manifolds.correlation import Correlation, CorrelationOffLog
from curvedp.geometry.manifolds.euclidean import Euclidean
from curvedp.geometry.manifolds.grassmann import Grassmann
from curvedp.geometry.manifolds.hpd import HPDAffineInvariant
from curvedp.geometry.manifolds.kendall import KendallShapes
from curvedp.geometry.manifolds.lorentz import Lorentz
from curvedp.geometry.manifolds.poincare import PoincareBall
from curvedp.geometry.manifolds.product import Product
from curvedp.geometry.manifolds.rotations import Rotations
from curvedp.geometry.manifolds.simplex import Simplex
from curvedp.geometry.manifolds.spd_affine import SPDAffineInvariant
from curvedp.geometry.manifolds.spd_bures import SPDBuresWasserstein
from curvedp.geometry.manifolds.spd_flat import SPDLogCholesky, SPDLogEuclidean
from curvedp.geometry.manifolds.special_euclidean import SpecialEuclidean
from curvedp.geometry.manifolds.sphere import Sphere
from curvedp.geometry.manifolds.stiefel import Stiefel
from curvedp.geometry.manifolds.torus import Torus
from curvedp.geometry.mean.bound import mean_error_bound
from curvedp.geometry.mean.frechet import frechet_mean
from curvedp.geometry.names import manifold_name, parse_manifold

__all__ = [
    "Correlation", "CorrelationOffLog", "Euclidean", "Grassmann", "HPDAffineInvariant", "KendallShapes", "Lorentz",
    "Manifold", "PoincareBall", "Product", "Rotations", "SPDAffineInvariant", "SPDBuresWasserstein", "SPDLogCholesky",
    "SPDLogEuclidean", "Simplex", "SpecialEuclidean", "Sphere", "Stiefel", "Torus", "frechet_mean", "manifold_name",
    "mean_error_bound", "parse_manifold", "project_to_ball",
]  # fmt: skip
