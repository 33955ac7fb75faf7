"""Numerical tools without any privacy in them: directed rounding, enclosures, series.

Nothing here imports another package of the library, except `curvedp.errors`. Import the
modules themselves. For bounds: `directed_rounding`, `enclosures`, `error_free`,
`fixed_point`, `log_space`, `piecewise_chebyshev`, `quadrature`. For geometry, on every
array library: `elementary`, `matrix_functions`, `eigen`, `spd_pencil`, `spd3`,
`rotation_log`, `stiefel_geodesic`, `stiefel_newton`, `stiefel_log`, `unit_exponential`.
For how they run: `arrays`, `autodiff`, `constant_work`, `threads`.
"""
