"""Private optimization on manifolds: clipped Riemannian gradients with Gaussian noise.
`dp_rgd`, `dp_rsgd` and `dp_rsvrg` minimize the mean of a loss over records. They
account for the privacy that their steps cost, and return a certificate. They need the
extra ``jax``.
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
