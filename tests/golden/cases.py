"""Thirty releases from a replayed source of random bits: one per mechanism and home of the records.

They show when a change moves a release that nobody wanted to move. Values are compared to
within a few cells of the public grid on which releases are rounded, not bit by bit, so
that a sum in another order is no failure.

`python tests/golden/cases.py` writes `releases.json` anew. Do that only in a change that
says why releases move.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from curvedp import (
    GDP,
    ApproxDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PureDP,
)
from curvedp.geometry import (
    Euclidean,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    Sphere,
    Stiefel,
)
from curvedp.geometry.manifold import Manifold
from curvedp.randomness import GeneratorSource

PATH = Path(__file__).with_name("releases.json")

# A space and the radius of its public ball about the origin.
SPACES: dict[str, tuple[Manifold, float]] = {
    "euclidean": (Euclidean(3), 2.0),
    "circle": (Sphere(1), 0.9),
    "sphere": (Sphere(2), 0.7),
    "hyperbolic": (Lorentz(3), 1.5),
    "poincare": (PoincareBall(2), 2.0),
    "spd": (SPDAffineInvariant(3), 1.5),
    "hermitian": (HPDAffineInvariant(2), 1.5),
    "log-cholesky": (SPDLogCholesky(2), 1.5),
    "rotations": (Rotations(3), 0.9),
    "shapes": (KendallShapes(4), 0.3),
    "stiefel": (Stiefel(4, 2), 0.5),
    "product": (Product(Sphere(2), Euclidean(2)), 0.6),
}

# (mechanism, guarantee, space, home of the records) of each released mean.
MEANS = [
    ("auto", GDP(1.0), "sphere", "memory"),
    ("auto", GDP(1.0), "product", "dask"),
    ("auto", GDP(1.0), "stiefel", "memory"),
    ("gaussian", GDP(1.0), "sphere", "memory"),
    ("gaussian", GDP(1.0), "spd", "memory"),
    ("gaussian", GDP(1.0), "hyperbolic", "memory"),
    ("laplace", PureDP(1.0), "sphere", "memory"),
    ("laplace", PureDP(1.0), "spd", "memory"),
    ("laplace", PureDP(1.0), "euclidean", "memory"),
    ("tangent-gaussian", ApproxDP(1.0, 1e-6), "spd", "memory"),
    ("tangent-gaussian", ApproxDP(1.0, 1e-6), "spd", "dask"),
    ("tangent-gaussian", ApproxDP(1.0, 1e-6), "spd", "jax"),
    ("tangent-gaussian", ApproxDP(1.0, 1e-6), "hermitian", "memory"),
    ("tangent-gaussian", ApproxDP(1.0, 1e-6), "log-cholesky", "memory"),
    ("tangent-laplace", PureDP(2.0), "rotations", "memory"),
    ("tangent-laplace", PureDP(2.0), "shapes", "memory"),
    ("newton", GDP(0.8), "hyperbolic", "memory"),
    ("newton", GDP(0.8), "sphere", "memory"),
    ("gradient", GDP(1.0), "spd", "memory"),
    ("kng", PureDP(2.0), "circle", "memory"),
]


def make_records(manifold: Manifold, radius: float, n: int = 300) -> np.ndarray:
    """Draw records most of which lie in the ball, some outside; one is not finite."""
    rng = np.random.default_rng(7)
    spread = 0.6 * radius / np.sqrt(manifold.dim)
    coordinates = rng.normal(size=(n, manifold.dim)) * spread + 0.1 * radius
    tangents = manifold.from_coordinates(manifold.origin, coordinates)
    records = np.array(manifold.exp(manifold.origin, tangents))
    records[3] = np.nan
    return records


def replayed_source() -> GeneratorSource:
    """Return a source that gives the same bits each time."""
    return GeneratorSource(np.random.default_rng(11))


def move_home(records: np.ndarray, home: str) -> Any:
    """Return the records in memory, in Dask's chunks or as an array of JAX."""
    if home == "dask":
        import dask.array

        return dask.array.from_array(records, chunks=(17, *records.shape[1:]))
    if home == "jax":
        import jax

        with jax.enable_x64(True):
            return jax.numpy.asarray(records)
    return records


def release_mean(
    mechanism: str, guarantee: Any, space: str, home: str
) -> dict[str, Any]:
    manifold, radius = SPACES[space]
    records = move_home(make_records(manifold, radius), home)
    estimator = PrivateFrechetMean(
        manifold,
        radius=radius,
        mechanism=mechanism,
        guarantee=guarantee,
        source=replayed_source(),
    )
    estimator.fit(records)
    return describe([estimator.location_], estimator.certificate_)


def release_private_ball_mean() -> dict[str, Any]:
    manifold, radius = SPACES["sphere"]
    estimator = PrivateFrechetMean(
        manifold, radius="private", guarantee=GDP(1.0), source=replayed_source()
    )
    estimator.fit(make_records(manifold, radius))
    return describe([estimator.location_], estimator.certificate_)


def release_median() -> dict[str, Any]:
    manifold, radius = SPACES["sphere"]
    estimator = PrivateFrechetMedian(
        manifold, radius=radius, guarantee=GDP(1.0), source=replayed_source()
    )
    estimator.fit(make_records(manifold, radius))
    return describe([estimator.location_], estimator.certificate_)


def release_dispersion(home: str) -> dict[str, Any]:
    manifold, radius = SPACES["sphere"]
    estimator = PrivateDispersion(
        manifold, radius=radius, guarantee=GDP(1.0), source=replayed_source()
    )
    estimator.fit(move_home(make_records(manifold, radius), home))
    return describe([estimator.variance_], estimator.certificate_)


def release_class_means() -> dict[str, Any]:
    manifold, radius = SPACES["poincare"]
    records = make_records(manifold, radius)
    estimator = PrivateMDM(
        manifold, radius=radius, guarantee=GDP(1.0), source=replayed_source()
    )
    estimator.fit(records, np.arange(len(records)) % 2)
    return describe(estimator.means_, estimator.certificates_[1])


def release_geodesic(space: str, guarantee: Any) -> dict[str, Any]:
    manifold, radius = SPACES[space]
    records = make_records(manifold, radius)
    estimator = PrivateGeodesicRegression(
        manifold,
        radius=radius,
        speed=0.5,
        clip=0.2,
        x_range=(0.0, 1.0),
        guarantee=guarantee,
        source=replayed_source(),
    )
    estimator.fit(np.linspace(0.0, 1.0, len(records)), records)
    values = [estimator.footpoint_, estimator.velocity_]
    return describe(values, estimator.certificate_)


def release_pca(method: str) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    records = rng.normal(size=(200, 4)) * [3.0, 1.0, 1.0, 1.0]
    estimator = PrivatePCA(
        n_components=1, radius=5.0, method=method, source=replayed_source()
    )
    estimator.fit(records)
    return describe([estimator.components_], estimator.certificate_)


def describe(values: Any, certificate: Any) -> dict[str, Any]:
    """Return the released numbers and what the certificate claims, as JSON."""
    claims = certificate.claims
    claimed = [claims.gdp, claims.pure, claims.zcdp, claims.rao]
    return {
        "value": [float(x) for value in values for x in np.ravel(value)],
        "mechanism": certificate.mechanism,
        "sensitivity": certificate.sensitivity,
        "claims": [None if x is None else float(x) for x in claimed],
    }


def golden_cases() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the function that makes each release, by the name of the case."""
    cases: dict[str, Callable[[], dict[str, Any]]] = {}
    for mechanism, guarantee, space, home in MEANS:
        name = f"mean {mechanism} {space} {home}"
        cases[name] = lambda m=mechanism, g=guarantee, s=space, h=home: release_mean(
            m, g, s, h
        )
    cases["mean private-ball sphere"] = release_private_ball_mean
    cases["median sphere"] = release_median
    for home in ("memory", "dask"):
        cases[f"dispersion sphere {home}"] = lambda h=home: release_dispersion(h)
    cases["class means poincare"] = release_class_means
    cases["geodesic sphere gdp"] = lambda: release_geodesic("sphere", GDP(1.0))
    cases["geodesic circle pure"] = lambda: release_geodesic("circle", PureDP(2.0))
    for method in ("one-shot", "dp-rgd"):
        cases[f"pca {method}"] = lambda m=method: release_pca(m)
    return cases


if __name__ == "__main__":
    releases = {name: release() for name, release in golden_cases().items()}
    PATH.write_text(json.dumps(releases, indent=1, sort_keys=True) + "\n")
