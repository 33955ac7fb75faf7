"""Manifolds of geoopt as manifolds of this library, and back.
Only pairs whose distances agree are translated; the tests measure that.
"""

from collections.abc import Mapping
from math import isclose
from typing import Any, NamedTuple

from curvedp.adapters.spaces import find_counterpart, import_foreign
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Manifold,
    PoincareBall,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
)


class _GeooptManifold(NamedTuple):
    """The class of geoopt that is the counterpart of one of ours, and its arguments."""

    name: str
    options: Mapping[str, int | str]


_COUNTERPARTS: dict[type[Any], _GeooptManifold] = {
    Euclidean: _GeooptManifold("Euclidean", {"ndim": 1}),
    Sphere: _GeooptManifold("Sphere", {}),
    Lorentz: _GeooptManifold("Lorentz", {}),
    PoincareBall: _GeooptManifold("PoincareBall", {}),
    SPDAffineInvariant: _GeooptManifold(
        "SymmetricPositiveDefinite", {"default_metric": "AIM"}
    ),
    SPDLogEuclidean: _GeooptManifold(
        "SymmetricPositiveDefinite", {"default_metric": "LEM"}
    ),
}


def from_geoopt(manifold: Any, shape: tuple[int, ...]) -> Manifold:
    """Return our manifold with the distances of a geoopt manifold.

    Parameters
    ----------
    manifold : geoopt.Manifold
        A manifold of geoopt, with curvature 1, 0 or −1.
    shape : tuple of int
        The shape of one point; a geoopt manifold does not say its size.

    Returns
    -------
    Manifold
        The manifold with the same points and distances.

    Raises
    ------
    ParameterError
        If this library has no such manifold, or its points have another shape.
    """
    matching_classes = [
        manifold_class
        for manifold_class, counterpart in _COUNTERPARTS.items()
        if _is_counterpart(manifold, counterpart)
    ]
    if not matching_classes:
        known_names = {counterpart.name for counterpart in _COUNTERPARTS.values()}
        raise ParameterError(
            f"{manifold} is not a space that curvedp has; there are "
            f"{', '.join(sorted(known_names))}, with curvature ±1"
        )

    manifold_class = matching_classes[0]
    our_manifold: Manifold = manifold_class(_size_from_shape(manifold_class, shape))
    if our_manifold.point_shape != tuple(shape):
        raise ParameterError(f"{shape} is not the shape of one point of {manifold}")
    return our_manifold


def _is_counterpart(manifold: Any, counterpart: _GeooptManifold) -> bool:
    """Return whether a geoopt manifold is the one that a table entry describes.

    Its class, its metric and its curvature must be the same as in the entry.

    Parameters
    ----------
    manifold : geoopt.Manifold
        A manifold of geoopt.
    counterpart : _GeooptManifold
        An entry of the table of counterparts.
    """
    name = type(manifold).__name__
    if name != counterpart.name:
        return False
    if name == "SymmetricPositiveDefinite":
        metric = manifold.default_metric.value
        return bool(metric == counterpart.options["default_metric"])
    if name == "Lorentz":
        return _is_one(manifold.k)
    if name == "PoincareBall":
        return _is_one(manifold.c)
    return True


def _is_one(curvature_parameter: Any) -> bool:
    """Return whether a curvature parameter is ±1 up to single precision.

    Parameters
    ----------
    curvature_parameter : torch.Tensor
        The number k or c of a hyperbolic manifold of geoopt.
    """
    return isclose(abs(float(curvature_parameter)), 1.0, rel_tol=1e-6)


def _size_from_shape(manifold_class: type[Any], shape: tuple[int, ...]) -> int:
    """Return the size that our class takes for points of a shape.

    It is the side of matrices and the length of vectors, but the dimension, one less
    than the length, for spheres and hyperboloids.

    Parameters
    ----------
    manifold_class : type of Manifold
        One of our classes.
    shape : tuple of int
        The shape of one point.
    """
    is_matrix = len(shape) == 2
    if is_matrix or manifold_class in (Euclidean, PoincareBall):
        return shape[0]
    return shape[0] - 1


def to_geoopt(manifold: Manifold) -> Any:
    """Return the geoopt manifold with the distances of our manifold.

    Parameters
    ----------
    manifold : Manifold
        One of our manifolds.

    Returns
    -------
    geoopt.Manifold
        The manifold of geoopt.

    Raises
    ------
    ParameterError
        If geoopt has no such manifold.
    MissingExtra
        If geoopt is not installed.
    """
    counterpart = find_counterpart(_COUNTERPARTS, manifold)
    geoopt = import_foreign("geoopt", "geoopt")
    return vars(geoopt)[counterpart.name](**counterpart.options)
