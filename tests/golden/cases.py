"""Releases from a replayed source, one for each estimator × mechanism × space × home of the records.

`python tests/golden/cases.py` writes `releases.json` anew: do that only in a change that says why bits move.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from curvedp import (
    GDP,
    ApproxDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PureDP,
)
from curvedp.entropy import GeneratorSource
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)

PATH = Path(__file__).with_name("releases.json")
SPACES = {
    "euclidean": (Euclidean(3), 2.0),
    "circle": (Sphere(1), 0.9),
    "sphere": (Sphere(2), 0.7),
    "sphere9": (Sphere(9), 0.5),
    "lorentz": (Lorentz(3), 1.5),
    "poincare": (PoincareBall(2), 2.0),
    "affine": (SPDAffineInvariant(3), 1.5),
    "hermitian": (HPDAffineInvariant(2), 1.5),
    "log-euclidean": (SPDLogEuclidean(3), 1.5),
    "log-cholesky": (SPDLogCholesky(2), 1.5),
    "grassmann": (Grassmann(4, 2), 0.4),
    "rotations": (Rotations(3), 0.9),
    "kendall": (KendallShapes(4), 0.3),
    "stiefel": (Stiefel(4, 2), 0.5),
    "product": (Product(Sphere(2), Euclidean(2)), 0.6),
}
MECHANISMS = {
    "auto": GDP(1.0),
    "gaussian": GDP(1.0),
    "laplace": PureDP(1.0),
    "heat-kernel": GDP(1.0),
    "log-gaussian": ApproxDP(1.0, 1e-6),
    "log-laplace": PureDP(2.0),
    "newton": GDP(0.8),
    "kng": PureDP(2.0),
}
HOMES = ("memory", "dask", "jax")
JAX = ("sphere", "affine")  # what compiles fast


def records(manifold: Any, radius: float, n: int = 60) -> np.ndarray:
    """Most in the ball, some outside, one not finite."""
    rng = np.random.default_rng(7)
    z = (
        rng.normal(size=(n, manifold.dim)) * 0.6 * radius / np.sqrt(manifold.dim)
        + 0.1 * radius
    )
    X = np.array(
        manifold.exp(manifold.origin, manifold.from_coordinates(manifold.origin, z))
    )
    X[3] = np.nan
    return X


def source() -> GeneratorSource:
    """The same bits each time."""
    return GeneratorSource(np.random.default_rng(11))


def at_home(X: np.ndarray, home: str) -> Any:
    """The records in memory, in chunks or on a device."""
    if home == "dask":
        import dask.array

        return dask.array.from_array(X, chunks=(17, *X.shape[1:]))
    if home == "jax":
        import jax

        with jax.enable_x64(True):
            return jax.numpy.asarray(X)
    return X


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """(name, what makes the released values and their certificates)."""
    for space, (manifold, radius) in SPACES.items():
        X = records(manifold, radius)
        shared = {"manifold": manifold, "radius": radius}
        for name, guarantee in MECHANISMS.items():
            if name == "kng" and space not in (
                "circle",
                "sphere",
                "poincare",
            ):  # up to dimension 4, and slow
                continue
            if name == "gaussian" and space in (
                "product",
                "hermitian",
            ):  # minutes of calibration
                continue
            if name == "heat-kernel" and space not in (
                "sphere",
                "lorentz",
                "poincare",
            ):  # not offered elsewhere
                continue
            homes = (
                HOMES if name == "log-gaussian" and space in JAX else ("memory", "dask")
            )
            for home in homes if name in ("auto", "log-gaussian") else ("memory",):
                options = {
                    **shared,
                    "mechanism": name,
                    "guarantee": guarantee,
                    "source": source(),
                }
                yield (
                    f"mean {name} {space} {home}",
                    lambda o=options, X=X, h=home: _mean(o, X, h),
                )
        for home in ("memory", "dask"):
            options = {**shared, "guarantee": GDP(1.0), "source": source()}
            yield (
                f"dispersion {space} {home}",
                lambda o=options, X=X, h=home: _dispersion(o, X, h),
            )
        if space in ("sphere", "affine", "lorentz"):
            for home in ("memory", "dask"):
                options = {**shared, "guarantee": GDP(1.0), "source": source()}
                yield (
                    f"mdm {space} {home}",
                    lambda o=options, X=X, h=home: _mdm(o, X, h),
                )
        for guarantee in (
            (PureDP(2.0), GDP(1.0))
            if space in ("euclidean", "circle", "sphere", "affine")
            else ()
        ):
            options = {
                **shared,
                "speed": 0.5,
                "clip": 0.2,
                "guarantee": guarantee,
                "source": source(),
            }
            yield (
                f"regression {type(guarantee).__name__} {space}",
                lambda o=options, X=X: _regression(o, X),
            )
    for method in ("one-shot", "dp-rgd"):
        yield f"pca {method}", lambda m=method: _pca(m)


def _certificate(certificate: Any) -> dict[str, Any]:
    claims = certificate.claims
    numbers = [
        certificate.sensitivity,
        claims.gdp,
        claims.pure,
        claims.zcdp,
        claims.rao,
    ]
    return {
        "mechanism": certificate.mechanism,
        "numbers": [_hex(number) for number in numbers],
    }


def _hex(x: Any) -> Any:
    return None if x is None else float(x).hex()


def _values(*arrays: Any) -> list[list[str]]:
    return [[_hex(x) for x in np.asarray(array).ravel()] for array in arrays]


def _mean(options: dict[str, Any], X: np.ndarray, home: str) -> dict[str, Any]:
    fitted = PrivateFrechetMean(**options).fit(at_home(X, home))
    return {
        "value": _values(fitted.location_),
        "certificate": _certificate(fitted.certificate_),
    }


def _dispersion(options: dict[str, Any], X: np.ndarray, home: str) -> dict[str, Any]:
    fitted = PrivateDispersion(**options).fit(at_home(X, home))
    return {
        "value": _values(fitted.variance_),
        "certificate": _certificate(fitted.certificate_),
    }


def _mdm(options: dict[str, Any], X: np.ndarray, home: str) -> dict[str, Any]:
    fitted = PrivateMDM(**options).fit(at_home(X, home), np.arange(len(X)) % 2)
    return {
        "value": _values(fitted.means_),
        "certificate": _certificate(fitted.certificates_[1]),
    }


def _regression(options: dict[str, Any], X: np.ndarray) -> dict[str, Any]:
    fitted = PrivateGeodesicRegression(**options, x_range=(0.0, 1.0)).fit(
        np.linspace(0, 1, len(X)), X
    )
    return {
        "value": _values(fitted.footpoint_, fitted.velocity_),
        "certificate": _certificate(fitted.certificate_),
    }


def _pca(method: str) -> dict[str, Any]:
    X = np.random.default_rng(1).normal(size=(200, 4)) * [3.0, 1, 1, 1]
    fitted = PrivatePCA(n_components=1, radius=5.0, method=method, source=source()).fit(
        X
    )
    return {
        "value": _values(fitted.components_),
        "certificate": _certificate(fitted.certificate_),
    }


def made(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a case gives, or the kind of its refusal."""
    from curvedp.errors import CurvedpError

    try:
        return make()
    except CurvedpError as error:
        return {"refused": type(error).__name__}


if __name__ == "__main__":
    import sys
    import time

    stored = {}
    for name, make in cases():
        start = time.perf_counter()
        stored[name] = made(make)
        print(f"{time.perf_counter() - start:6.2f} s  {name}", file=sys.stderr)
    PATH.write_text(json.dumps(stored, indent=0, sort_keys=True) + "\n")
