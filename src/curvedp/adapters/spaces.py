"""Spaces of geomstats as ours, and back: those whose distances agree, which the tests measure.

Others are refused, not guessed: the same name with another metric has another sensitivity.
"""

from importlib import import_module
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

# Module, class and metric. A size is what our class takes.
_THEIRS: dict[type[Any], tuple[str, str, str]] = {
    Euclidean: ("euclidean", "Euclidean", "CanonicalEuclideanMetric"),
    Sphere: ("hypersphere", "Hypersphere", "HypersphereMetric"),
    Lorentz: ("hyperboloid", "Hyperboloid", "HyperboloidMetric"),
    PoincareBall: ("poincare_ball", "PoincareBall", "PoincareBallMetric"),
    SPDAffineInvariant: ("spd_matrices", "SPDMatrices", "SPDAffineMetric"),
    SPDLogEuclidean: ("spd_matrices", "SPDMatrices", "SPDLogEuclideanMetric"),
}


def from_geomstats(space: Any) -> Manifold:
    """Our manifold with the points and distances of a geomstats space; a `ParameterError` where we have none."""
    names = type(space).__name__, type(space.metric).__name__
    size = getattr(space, "n", space.dim)
    found: list[Manifold] = [
        ours(size) for ours, (_, *theirs) in _THEIRS.items() if tuple(theirs) == names
    ]
    if not found:
        known = ", ".join(sorted({name for _, name, _ in _THEIRS.values()}))
        raise ParameterError(
            f"{names[0]} with {names[1]} is not a space that curvedp has; there are {known}"
        )
    return found[0]


def to_geomstats(manifold: Manifold) -> Any:
    """The geomstats space with the points and distances of our manifold."""
    home, name, metric = row_of(_THEIRS, manifold)
    module = module_of(f"geomstats.geometry.{home}", "geomstats")
    size = manifold.point_shape[0] if len(manifold.point_shape) == 2 else manifold.dim
    space = getattr(module, name)(size, equip=False)
    space.equip_with_metric(getattr(module, metric))
    return space


def row_of(table: dict[type[Any], Any], manifold: Manifold) -> Any:
    """The row of our manifold in a table of theirs, or a `ParameterError`."""
    if type(manifold) not in table:
        have = ", ".join(ours.__name__ for ours in table)
        raise ParameterError(f"{manifold!r} has no counterpart there; {have} have")
    return table[type(manifold)]


def module_of(name: str, package: str) -> Any:
    """A module of another package, or a `MissingExtra` that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(f"this needs {package}: pip install {package}") from error
