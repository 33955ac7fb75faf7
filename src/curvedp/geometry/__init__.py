"""Manifolds, the spaces that records live on, and means of records on them. Every manifold
has the same kernels (`exp`, `log`, `dist`, …), which take batches of points in an array
of any library.
"""

from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.frechet_mean.error_bound import mean_error_bound
from curvedp.geometry.frechet_mean.mean import frechet_mean
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.names import manifold_name, parse_manifold
from curvedp.geometry.spaces.correlation import Correlation, CorrelationOffLog
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.geometry.spaces.grassmann import Grassmann
from curvedp.geometry.spaces.hpd import HPDAffineInvariant
from curvedp.geometry.spaces.kendall import KendallShapes
from curvedp.geometry.spaces.lorentz import Lorentz
from curvedp.geometry.spaces.poincare import PoincareBall
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.rotations import Rotations
from curvedp.geometry.spaces.simplex import Simplex
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_bures import SPDBuresWasserstein
from curvedp.geometry.spaces.spd_flat import SPDLogCholesky, SPDLogEuclidean
from curvedp.geometry.spaces.special_euclidean import SpecialEuclidean
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.geometry.spaces.stiefel import Stiefel
from curvedp.geometry.spaces.torus import Torus

__all__ = [
    "Correlation", "CorrelationOffLog", "Euclidean", "Grassmann", "HPDAffineInvariant", "KendallShapes", "Lorentz",
    "Manifold", "PoincareBall", "Product", "Rotations", "SPDAffineInvariant", "SPDBuresWasserstein", "SPDLogCholesky",
    "SPDLogEuclidean", "Simplex", "SpecialEuclidean", "Sphere", "Stiefel", "Torus", "frechet_mean", "manifold_name",
    "mean_error_bound", "parse_manifold", "project_to_ball",
]  # fmt: skip
