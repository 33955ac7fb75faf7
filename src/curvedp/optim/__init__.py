"""Private training on manifolds: clipped Riemannian gradients with tangent Gaussian noise.

The optimizers account for what they release and return a certificate (extra: jax).
"""

from curvedp import errors

try:
    import jax  # noqa: F401 - checked here so that the error names the extra
except ImportError as error:
    raise errors.MissingExtra(
        "curvedp.optim needs JAX: pip install 'curvedp[jax]'"
    ) from error

from curvedp.optim.problem import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    Problem,
    SubspaceProblem,
)
from curvedp.optim.result import OptimResult
from curvedp.optim.rgd import dp_rgd
from curvedp.optim.rsgd import dp_rsgd
from curvedp.optim.rsvrg import dp_rsvrg

__all__ = [
    "FrechetMeanProblem",
    "LeadingEigenvectorProblem",
    "OptimResult",
    "Problem",
    "SubspaceProblem",
    "dp_rgd",
    "dp_rsgd",
    "dp_rsvrg",
]
