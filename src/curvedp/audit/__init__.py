"""Attacks on mechanisms, and the lower bounds on ε and μ that the attacks prove.
`audit_mechanism` attacks one mechanism, `audit_optimizer` one run of an optimizer, and
`audit_all` everything that the library has; `docs/evidence/audit.md` explains the
method.
"""

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
