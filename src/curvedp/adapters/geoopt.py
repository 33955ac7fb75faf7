"""Manifolds of geoopt as ours, and back: those whose distances agree, which the tests measure."""

from math import isclose
from typing import Any

from curvedp.adapters.spaces import module_of, row_of
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

_THEIRS: dict[type[Any], tuple[str, dict[str, Any]]] = {
    Euclidean: ("Euclidean", {"ndim": 1}),
    Sphere: ("Sphere", {}),
    Lorentz: ("Lorentz", {}),
    PoincareBall: ("PoincareBall", {}),
    SPDAffineInvariant: ("SymmetricPositiveDefinite", {"default_metric": "AIM"}),
    SPDLogEuclidean: ("SymmetricPositiveDefinite", {"default_metric": "LEM"}),
}


def from_geoopt(manifold: Any, shape: tuple[int, ...]) -> Manifold:
    """Our manifold with the distances of a geoopt manifold, whose points have this shape."""
    metric = getattr(getattr(manifold, "default_metric", None), "value", None)
    curved = all(
        isclose(abs(float(getattr(manifold, name, 1.0))), 1.0, rel_tol=1e-6)
        for name in "ck"
    )
    for ours, (name, options) in _THEIRS.items():
        if (
            type(manifold).__name__ == name
            and options.get("default_metric") == metric
            and curved
        ):
            found: Manifold = ours(
                shape[0]
                if len(shape) == 2 or ours in (Euclidean, PoincareBall)
                else shape[0] - 1
            )
            if found.point_shape != tuple(shape):
                raise ParameterError(
                    f"{shape} is not the shape of one point of {manifold}"
                )
            return found
    known = ", ".join(sorted({name for name, _ in _THEIRS.values()}))
    raise ParameterError(
        f"{manifold} is not a space that curvedp has; there are {known}, with curvature ±1"
    )


def to_geoopt(manifold: Manifold) -> Any:
    """The geoopt manifold with the distances of ours."""
    name, options = row_of(_THEIRS, manifold)
    return getattr(module_of("geoopt", "geoopt"), name)(**options)
