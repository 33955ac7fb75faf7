"""Geodesic regression: fits, Jacobi fields in closed form, and the sensitivities that make a private one possible."""

from curvedp.regression.fit import GeodesicFit, fit_geodesic

__all__ = ["GeodesicFit", "fit_geodesic"]
