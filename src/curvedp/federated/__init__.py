"""Private statistics over sites without a curator: masked sums with distributed noise.

Each site keeps its records, its ledger and its veto. `coordinate` runs a `Plan` over any transport; `federated.flower` is
one. `docs/federation.md` says who sees what.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from curvedp.signing import key_of, new_identity

if TYPE_CHECKING:
    from curvedp.federated.kernels import ClassMeansKernel, DispersionKernel, MeanKernel, MomentKernel
    from curvedp.federated.plan import Plan
    from curvedp.federated.release import FederatedRelease, coordinate, in_process
    from curvedp.federated.site import Site

__all__ = [
    "ClassMeansKernel",
    "DispersionKernel",
    "FederatedRelease",
    "MeanKernel",
    "MomentKernel",
    "Plan",
    "Site",
    "coordinate",
    "in_process",
    "key_of",
    "new_identity",
]


def __getattr__(name: str) -> Any:
    """Names are imported on first use: a site's process that answers by its keys alone needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = {
        "Plan": "plan",
        "Site": "site",
        **dict.fromkeys(("FederatedRelease", "coordinate", "in_process"), "release"),
    }
    return getattr(import_module(f"{__name__}.{homes.get(name, 'kernels')}"), name)
