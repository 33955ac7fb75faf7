"""Spaces of geomstats and geoopt as ours, and back: those whose distances agree, which the tests measure.

Others are refused, not guessed: the same name with another metric has another sensitivity.
"""

from importlib import import_module
from math import isclose
from typing import Any

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

# Ours; geomstats' module, class, metric's module and class; geoopt's class with its options. A size is what our class takes.
_TABLE: list[tuple[Any, tuple[str, str, str, str], tuple[str, dict[str, Any]]]] = [
    (Euclidean, ("euclidean", "Euclidean", "euclidean", "CanonicalEuclideanMetric"), ("Euclidean", {"ndim": 1})),
    (Sphere, ("hypersphere", "Hypersphere", "hypersphere", "HypersphereMetric"), ("Sphere", {})),
    (Lorentz, ("hyperboloid", "Hyperboloid", "hyperboloid", "HyperboloidMetric"), ("Lorentz", {})),
    (PoincareBall, ("poincare_ball", "PoincareBall", "poincare_ball", "PoincareBallMetric"), ("PoincareBall", {})),
    (
        SPDAffineInvariant,
        ("spd_matrices", "SPDMatrices", "spd_matrices", "SPDAffineMetric"),
        ("SymmetricPositiveDefinite", {"default_metric": "AIM"}),
    ),
    (
        SPDLogEuclidean,
        ("spd_matrices", "SPDMatrices", "spd_matrices", "SPDLogEuclideanMetric"),
        ("SymmetricPositiveDefinite", {"default_metric": "LEM"}),
    ),
]


def from_geomstats(space: Any) -> Manifold:
    """Our manifold with the points and distances of a geomstats space; a `ParameterError` where we have none."""
    names = type(space).__name__, type(space.metric).__name__
    size = getattr(space, "n", space.dim)
    found: list[Manifold] = [ours(size) for ours, (_, name, _, metric), _ in _TABLE if (name, metric) == names]
    if not found:
        raise ParameterError(f"{names[0]} with {names[1]} is no space of ours; there are {_known(1)}")
    return found[0]


def to_geomstats(manifold: Manifold) -> Any:
    """The geomstats space with the points and distances of our manifold."""
    home, name, metric_home, metric = _row(manifold)[1]
    size = manifold.point_shape[0] if len(manifold.point_shape) == 2 else manifold.dim
    space = getattr(_module(f"geomstats.geometry.{home}", "geomstats"), name)(size, equip=False)
    space.equip_with_metric(getattr(_module(f"geomstats.geometry.{metric_home}", "geomstats"), metric))
    return space


def from_geoopt(manifold: Any, shape: tuple[int, ...]) -> Manifold:
    """Our manifold with the distances of a geoopt manifold, whose points have this shape."""
    curvature = [float(value) for value in (getattr(manifold, "c", 1.0), getattr(manifold, "k", 1.0))]
    metric = getattr(getattr(manifold, "default_metric", None), "value", None)
    for ours, _, (name, options) in _TABLE:
        if type(manifold).__name__ == name and options.get("default_metric") == metric and _is_one(curvature):
            found: Manifold = ours(shape[0] if len(shape) == 2 or ours in (Euclidean, PoincareBall) else shape[0] - 1)
            if found.point_shape != tuple(shape):
                raise ParameterError(f"{shape} is not the shape of one point of {manifold}")
            return found
    raise ParameterError(f"{manifold} is no space of ours; there are {_known(2)}, with curvature ±1")


def to_geoopt(manifold: Manifold) -> Any:
    """The geoopt manifold with the distances of ours."""
    name, options = _row(manifold)[2]
    return getattr(_module("geoopt", "geoopt"), name)(**options)


def _row(manifold: Manifold) -> Any:
    found = [row for row in _TABLE if row[0] is type(manifold)]
    if not found:
        raise ParameterError(f"{manifold!r} has no like there; {', '.join(row[0].__name__ for row in _TABLE)} have")
    return found[0]


def _is_one(curvature: list[float]) -> bool:
    return all(isclose(abs(value), 1.0, rel_tol=1e-6) for value in curvature)


def _known(column: int) -> str:
    return ", ".join(sorted({str(row[column][column % 2 and 1]) for row in _TABLE}))


def _module(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(f"this needs {package}: pip install {package}") from error
