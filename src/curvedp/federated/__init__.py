"""Private statistics over sites without a curator: masked sums with distributed noise.

Experimental: the masking protocol has not been reviewed by outside cryptographers, and
the first use in a process gives an `ExperimentalWarning`. Each site keeps its records,
its ledger and its veto. `coordinate` runs a `Plan` over any transport;
`federated.flower` is one. `docs/theory/federation.md` says who sees what.
"""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.federated.clusters import ClustersKernel
    from curvedp.federated.kernels import (
        ClassMeansKernel,
        DispersionKernel,
        MeanKernel,
        MomentKernel,
    )
    from curvedp.federated.plan import Plan
    from curvedp.federated.release import coordinate, in_process
    from curvedp.federated.site import Site
    from curvedp.signing import key_of, new_identity

__all__ = [
    "ClassMeansKernel",
    "ClustersKernel",
    "DispersionKernel",
    "MeanKernel",
    "MomentKernel",
    "Plan",
    "Site",
    "coordinate",
    "in_process",
    "key_of",
    "new_identity",
]

__getattr__, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.federated.clusters": ["ClustersKernel"],
        "curvedp.federated.kernels": [
            "ClassMeansKernel",
            "DispersionKernel",
            "MeanKernel",
            "MomentKernel",
        ],
        "curvedp.federated.plan": ["Plan"],
        "curvedp.federated.release": ["coordinate", "in_process"],
        "curvedp.federated.site": ["Site"],
        "curvedp.signing": ["key_of", "new_identity"],
    },
)
