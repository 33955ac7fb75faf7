"""Attacks on releases, and the lower bounds on ε that they prove."""

from curvedp.audit.release_attacks import (
    distinguish,
    lowest_bit,
    naive_lorentz_laplace,
    naive_spd_gaussian,
    naive_sphere_laplace,
    norm_residual,
    symmetry_residual,
)

__all__ = [
    "distinguish",
    "lowest_bit",
    "naive_lorentz_laplace",
    "naive_spd_gaussian",
    "naive_sphere_laplace",
    "norm_residual",
    "symmetry_residual",
]
