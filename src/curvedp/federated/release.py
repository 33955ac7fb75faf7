"""The certificate of a federated release."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curvedp.entropy import SecureSource
from curvedp.federated.plan import Plan, Round
from curvedp.federated.session import digest
from curvedp.geometry.names import manifold_name
from curvedp.mechanisms.certificate import Certificate, Claims
from curvedp.mechanisms.certificate import digest as digest_of

__all__ = ["federated_certificate", "trust_model"]


def trust_model(plan: Plan) -> str:
    """Who must be trusted with what, in words."""
    with_them = f" together with any {plan.collusion} of the sites" if plan.collusion else ""
    return (
        f"no curator: the guarantee holds against the public, and against the server{with_them}, as far as X25519, "
        "ChaCha20, SHA-256 and Ed25519 hold. A site's own records are known to that site. Sites compute what they say they "
        "compute: one that does not can spoil the value, not the others' privacy"
    )


def federated_certificate(plan: Plan, rounds: Sequence[Round], value: np.ndarray) -> Certificate:
    """Everything public about the run."""
    return Certificate(
        mechanism="federated-sum",
        manifold=manifold_name(plan.kernel.manifold),
        parameters={"plan": plan.to_dict(), "scale": plan.scale},
        sensitivity=plan.sensitivity(0),
        claims=Claims.of(plan.profile, plan.tau),
        guarantee=plan.guarantee,
        numerics={"path": "discrete", "grid": plan.exponent(0), "tau": plan.tau, "profile": plan.profile.label},
        entropy={"source": SecureSource.name, "cryptographic": SecureSource.is_cryptographic},
        statistic={
            "name": f"federated {plan.kernel.name}",
            "n": sum(map(sum, plan.counts)),
            "plan": plan.id,
        },
        unit="one record, replaced by any other",
        trust=trust_model(plan),
        release={
            "integers": None,
            "sha256": digest_of([round.total for round in rounds]),
            "stages": [_round(plan, r, round) for r, round in enumerate(rounds)],
            "reason": "a sum over sites",
            "afterwards": [],
        },
    )


def _round(plan: Plan, r: int, round: Round) -> dict[str, Any]:
    lost = [plan.sites[i] for i in range(len(plan.sites)) if i not in round.alive]
    return {
        "lost": lost,
        "variance": str(plan.variance(r)),
        "sensitivity": plan.sensitivity(r),
        "exponent": plan.exponent(r),
        "integers": digest({"total": list(round.total)}).hex(),
    }
