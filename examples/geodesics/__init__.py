"""Pictures of geodesic regression; the fit is `curvedp.regression.fit_geodesic`."""
