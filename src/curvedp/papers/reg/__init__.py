"""*Differentially private geodesic regression*: its fit, its sampler and its data.
`fit_geodesic` is Fletcher's least-squares geodesic, the fit that the paper starts from.

The sequential sampler is NOT PRIVATE (docs/errata.md, E19 to E26). For a release use
`curvedp.PrivateGeodesicRegression`.
"""

from curvedp.papers.reg.sampler import (
    Samples,
    angles,
    errors,
    imposed,
    jacobi_norms,
    sequential_sampler,
    sphere_data,
)
from curvedp.regression import GeodesicFit, fit_geodesic

__all__ = [
    "GeodesicFit",
    "Samples",
    "angles",
    "errors",
    "fit_geodesic",
    "imposed",
    "jacobi_norms",
    "sequential_sampler",
    "sphere_data",
]
