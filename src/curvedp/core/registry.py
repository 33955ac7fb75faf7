"""Where mechanisms and statistics are found by the names in certificates.
The class `Registry` is in `curvedp._registry`; that of the manifolds is
`curvedp.geometry.manifold.manifold_kinds`. A package of yours registers its mechanisms
by an entry point in its `pyproject.toml`:

    [project.entry-points."curvedp.mechanisms"]
    mine = "my_package.mechanisms"      # a module that defines the classes
"""

from typing import TYPE_CHECKING

from curvedp._registry import Registry

if TYPE_CHECKING:
    from curvedp.core.mechanism import Mechanism
    from curvedp.core.statistic import Statistic

# In the order in which "auto" and messages list them.
_MECHANISM_MODULES = (
    "curvedp.mechanisms.isotropic.gaussian",
    "curvedp.mechanisms.isotropic.laplace",
    "curvedp.mechanisms.isotropic.tangent",
    "curvedp.mechanisms.gradient_step",
    "curvedp.mechanisms.newton",
    "curvedp.mechanisms.knorm_gradient",
    "curvedp.mechanisms.noisy_sum",
    "curvedp.mechanisms.staged.median",
    "curvedp.mechanisms.staged.ball_search",
    "curvedp.mechanisms.staged.step_to_mean",
    "curvedp.mechanisms.staged.reduced_classifier",
    "curvedp.mechanisms.staged.prototypes",
    "curvedp.mechanisms.staged.kmeans",
    "curvedp.mechanisms.staged.population",
    "curvedp.mechanisms.geodesic_descent",
    "curvedp.mechanisms.geodesic_knorm",
    "curvedp.mechanisms.optimizer",
    "curvedp.mechanisms.selection",
    "curvedp.inference.permutation",
    "curvedp.federated.release",
)
_STATISTIC_MODULES = (
    "curvedp.core.statistic",
    "curvedp.statistics.frechet_mean",
    "curvedp.statistics.frechet_variance",
    "curvedp.statistics.accuracy",
    "curvedp.statistics.second_moment",
    "curvedp.statistics.noisy_sums",
    "curvedp.statistics.searched_ball",
    "curvedp.statistics.tangent_moments",
    "curvedp.statistics.geometric_median",
    "curvedp.statistics.geodesic",
    "curvedp.statistics.reduced_classes",
    "curvedp.statistics.prototypes",
    "curvedp.statistics.clusters",
    "curvedp.statistics.population",
    "curvedp.statistics.clipped_gradient",
    "curvedp.mechanisms.selection",
    "curvedp.inference.kernel",
    "curvedp.federated.plan",
)

mechanisms: "Registry[type[Mechanism]]" = Registry(
    _MECHANISM_MODULES, "curvedp.mechanisms"
)
statistics: "Registry[type[Statistic]]" = Registry(
    _STATISTIC_MODULES, "curvedp.statistics"
)
