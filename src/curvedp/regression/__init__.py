"""Geodesic regression: Jacobi fields, the non-private fit, and public sensitivities.
Geodesic regression predicts a point of a manifold by a geodesic in a real predictor.
`fit_geodesic` computes the least-squares geodesic without privacy. The other modules
compute what the private estimator `curvedp.PrivateGeodesicRegression` needs: clipped
gradients, how much one record moves them, and how far they are from linear.
"""

from curvedp.regression.fit import GeodesicFit, fit_geodesic

__all__ = ["GeodesicFit", "fit_geodesic"]
