"""*Improved differentially private Riemannian optimization* (Utpala et al. 2023): its
accounting (Claims 3 to 5), its rates (Theorems 6 to 8, §5.3), its Algorithms 11 and 12,
the tangent Gaussian and the covariance descriptors.

For private descent use `curvedp.optim`: the paper's noise is NOT PROVED PRIVATE
(docs/errata.md, E39).
"""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.papers.opt.accounting import (
        best_split,
        claim_4_applies,
        claim_4_epsilon,
        claim_4_largest_order,
        moments_epsilon,
        moments_rho,
        moments_sigma,
        one_step_moment_at_least,
        true_delta_at_least,
    )
    from curvedp.papers.opt.descriptors import covariance_descriptors
    from curvedp.papers.opt.rates import (
        claim_5_constant,
        claim_5_sigma,
        compare_rates,
        curvature_constant,
        theorem_6,
        theorem_7,
        theorem_8,
    )
    from curvedp.papers.opt.rsvrg import paper_rsvrg, paper_rsvrg_with_restarts
    from curvedp.papers.opt.tangent import TangentGaussian

__all__ = [
    "TangentGaussian",
    "best_split",
    "claim_4_applies",
    "claim_4_epsilon",
    "claim_4_largest_order",
    "claim_5_constant",
    "claim_5_sigma",
    "compare_rates",
    "covariance_descriptors",
    "curvature_constant",
    "moments_epsilon",
    "moments_rho",
    "moments_sigma",
    "one_step_moment_at_least",
    "paper_rsvrg",
    "paper_rsvrg_with_restarts",
    "theorem_6",
    "theorem_7",
    "theorem_8",
    "true_delta_at_least",
]

# The descent needs JAX and the rest does not.
__getattr__, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.papers.opt.accounting": [
            "best_split",
            "claim_4_applies",
            "claim_4_epsilon",
            "claim_4_largest_order",
            "moments_epsilon",
            "moments_rho",
            "moments_sigma",
            "one_step_moment_at_least",
            "true_delta_at_least",
        ],
        "curvedp.papers.opt.descriptors": ["covariance_descriptors"],
        "curvedp.papers.opt.rates": [
            "claim_5_constant",
            "claim_5_sigma",
            "compare_rates",
            "curvature_constant",
            "theorem_6",
            "theorem_7",
            "theorem_8",
        ],
        "curvedp.papers.opt.rsvrg": ["paper_rsvrg", "paper_rsvrg_with_restarts"],
        "curvedp.papers.opt.tangent": ["TangentGaussian"],
    },
)
