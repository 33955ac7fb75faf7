"""Numerical tools without any privacy in them: directed rounding, enclosures, series.

Nothing here imports another package of the library, except `curvedp.errors`. Import the
modules themselves: `directed_rounding`, `enclosures`, `error_free`, `log_space`,
`piecewise_chebyshev`.
"""
