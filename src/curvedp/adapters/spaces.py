"""Manifolds of geomstats as manifolds of this library, and back.
Only pairs whose distances agree are translated; the tests measure that. Others are
refused, not guessed: the same name with another metric has another sensitivity.
"""

from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from curvedp.errors import MissingExtra, ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Manifold,
    PoincareBall,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
)

_Counterpart = TypeVar("_Counterpart")


class _GeomstatsSpace(NamedTuple):
    """Where geomstats has the counterpart of one of our manifolds."""

    # The module below `geomstats.geometry`.
    module: str
    # The class of the space and the class of its metric.
    space: str
    metric: str


# By our class. Both classes take the same size.
_COUNTERPARTS: dict[type[Any], _GeomstatsSpace] = {
    Euclidean: _GeomstatsSpace("euclidean", "Euclidean", "CanonicalEuclideanMetric"),
    Sphere: _GeomstatsSpace("hypersphere", "Hypersphere", "HypersphereMetric"),
    Lorentz: _GeomstatsSpace("hyperboloid", "Hyperboloid", "HyperboloidMetric"),
    PoincareBall: _GeomstatsSpace(
        "poincare_ball", "PoincareBall", "PoincareBallMetric"
    ),
    SPDAffineInvariant: _GeomstatsSpace(
        "spd_matrices", "SPDMatrices", "SPDAffineMetric"
    ),
    SPDLogEuclidean: _GeomstatsSpace(
        "spd_matrices", "SPDMatrices", "SPDLogEuclideanMetric"
    ),
}

# Spaces of geomstats whose size is the side `n` of their matrices, not the dimension.
_MATRIX_SPACES = ("SPDMatrices",)


def from_geomstats(space: Any) -> Manifold:
    """Return our manifold with the points and distances of a geomstats space.

    Parameters
    ----------
    space : geomstats space
        The space, equipped with a metric.

    Returns
    -------
    Manifold
        The manifold with the same points and distances.

    Raises
    ------
    ParameterError
        If this library has no such manifold.
    """
    space_name = type(space).__name__
    metric_name = type(space.metric).__name__
    for manifold_class, counterpart in _COUNTERPARTS.items():
        if (counterpart.space, counterpart.metric) == (space_name, metric_name):
            size = space.n if space_name in _MATRIX_SPACES else space.dim
            manifold: Manifold = manifold_class(size)
            return manifold

    known_names = {counterpart.space for counterpart in _COUNTERPARTS.values()}
    raise ParameterError(
        f"{space_name} with {metric_name} is not a space that curvedp has; "
        f"there are {', '.join(sorted(known_names))}"
    )


def to_geomstats(manifold: Manifold) -> Any:
    """Return the geomstats space with the points and distances of our manifold.

    Parameters
    ----------
    manifold : Manifold
        One of our manifolds.

    Returns
    -------
    geomstats space
        The space, equipped with the metric of our manifold.

    Raises
    ------
    ParameterError
        If geomstats has no such space.
    MissingExtra
        If geomstats is not installed.
    """
    counterpart = find_counterpart(_COUNTERPARTS, manifold)
    module = import_foreign(f"geomstats.geometry.{counterpart.module}", "geomstats")
    has_matrix_points = len(manifold.point_shape) == 2
    size = manifold.point_shape[0] if has_matrix_points else manifold.dim

    classes = vars(module)
    space = classes[counterpart.space](size, equip=False)
    space.equip_with_metric(classes[counterpart.metric])
    return space


def find_counterpart(
    counterparts: dict[type[Any], _Counterpart], manifold: Manifold
) -> _Counterpart:
    """Return the entry of a table for the class of our manifold.

    The adapters to geomstats and to geoopt have one table each.

    Parameters
    ----------
    counterparts : dict
        The equivalent class of another package for each class of ours.
    manifold : Manifold
        One of our manifolds.

    Returns
    -------
    object
        The entry for the manifold's class.

    Raises
    ------
    ParameterError
        If the table has no entry for that class.
    """
    if type(manifold) not in counterparts:
        supported = ", ".join(kind.__name__ for kind in counterparts)
        raise ParameterError(
            f"no equivalent of {manifold!r} is known; there is one for {supported}"
        )
    return counterparts[type(manifold)]


def import_foreign(module: str, package: str) -> ModuleType:
    """Import a module of another package, or say how to install the package.

    Parameters
    ----------
    module : str
        The module's full name.
    package : str
        The name under which pip installs it.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingExtra
        If the package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(f"this needs {package}: pip install {package}") from error
