"""Attacks on mechanisms, and the lower bounds on ε that they prove."""

from curvedp.audit.empirical import AuditResult, audit_mechanism, audit_scores
from curvedp.audit.one_run import audit_optimizer
from curvedp.audit.table import audit_all

__all__ = [
    "AuditResult",
    "audit_all",
    "audit_mechanism",
    "audit_optimizer",
    "audit_scores",
]
