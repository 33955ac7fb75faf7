"""Attacks on releases, and the lower bounds on ε that they prove."""

from curvedp.audit.empirical import AuditResult, audit_mechanism
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
    "AuditResult",
    "audit_mechanism",
    "distinguish",
    "lowest_bit",
    "naive_lorentz_laplace",
    "naive_spd_gaussian",
    "naive_sphere_laplace",
    "norm_residual",
    "symmetry_residual",
]
