"""Attacks on mechanisms, and the lower bounds on ε that they prove."""

from curvedp.audit.empirical import AuditResult, audit_mechanism, audit_scores
from curvedp.audit.one_run import OneRunResult, audit_optimizer, one_run_bound
from curvedp.audit.table import Row, audit_all

__all__ = [
    "AuditResult",
    "OneRunResult",
    "Row",
    "audit_all",
    "audit_mechanism",
    "audit_optimizer",
    "audit_scores",
    "one_run_bound",
]
