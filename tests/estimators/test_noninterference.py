"""Same bits from the source and same grid integers: then every byte that leaves is the same, whatever the records are.

The exact samplers are led to fixed integers, so that two wildly different data sets release the same numbers. What is
published (fitted attributes and certificates) may depend on nothing else of them.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

import curvedp
from curvedp import GDP, PureDP
from curvedp.core.certificate import seal
from curvedp.geometry import (
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.laws.exact import ExactDraw
from curvedp.randomness import GeneratorSource
from support.transcript import replace_draws

SPD3 = SPDAffineInvariant(3)
DATA = {
    "near": lambda M, rng: M.from_normal_coordinates(
        M.origin, 0.1 * rng.normal(size=(60, M.dim))
    ),
    "far": lambda M, rng: M.from_normal_coordinates(
        M.origin, 5.0 * rng.normal(size=(60, M.dim))
    ),
    "equal": lambda M, rng: np.broadcast_to(M.origin, (60, *M.point_shape)),
    "missing": lambda M, rng: np.full((60, *M.point_shape), np.nan),
    "huge": lambda M, rng: (
        1e300
        * np.asarray(M.from_normal_coordinates(M.origin, rng.normal(size=(60, M.dim))))
    ),
}


@pytest.fixture
def led(monkeypatch):
    """Every exact draw gives integers that depend on how many there were before it, and on nothing else."""

    def restart():
        state = {"count": 0}

        def scripted(manifold, scale, center, *, source=None, grid=30):
            from curvedp.laws.exact import grid_shape

            state["count"] += 1
            rng = np.random.default_rng(state["count"])
            value = np.asarray(manifold.origin, dtype=float) + 0 * np.asarray(center)
            near = (
                value
                if grid_shape(manifold) == value.shape
                else np.zeros(grid_shape(manifold))
            )
            integers = (
                np.round((near + 0.01 * rng.normal(size=near.shape)) * 2**grid)
                .astype(np.int64)
                .astype(object)
            )
            return ExactDraw(integers, grid, 2.0**-100, manifold)

        replace_draws(monkeypatch, scripted, ("exact_gaussian", "exact_laplace"))

    return restart


def published(model) -> str:
    """Every fitted attribute and every certificate, without the time."""
    told = {}
    for name, value in sorted(vars(model).items()):
        if not name.endswith("_") or name.startswith("_"):
            continue
        certificates = value if isinstance(value, list) else [value]
        if hasattr(certificates[0], "to_dict"):
            told[name] = [
                seal(
                    replace(each, provenance=replace(each.provenance, created=""))
                ).to_dict()
                for each in certificates
            ]
        else:
            told[name] = repr(plain(value))
    return json.dumps(told, sort_keys=True)


def plain(value):
    return (
        [plain(part) for part in value]
        if isinstance(value, tuple)
        else np.asarray(value).tolist()
    )


CASES = {
    **{
        f"mean {mechanism} {M}": (
            lambda M=M, mechanism=mechanism, guarantee=guarantee: curvedp.PrivateFrechetMean(
                M, radius=0.5, mechanism=mechanism, guarantee=guarantee
            ),
            M,
        )
        for M, mechanism, guarantee in [
            (Sphere(2), "gaussian", GDP(1.0)), (Sphere(2), "laplace", PureDP(1.0)), (Sphere(2), "tangent-gaussian", GDP(1.0)),
            (Lorentz(3), "newton", GDP(1.0)), (SPDAffineInvariant(2), "gradient", GDP(1.0)),
            (SPDLogEuclidean(2), "gaussian", GDP(1.0)), (Rotations(3), "tangent-laplace", PureDP(1.0)),
        ]
    },
    **{
        f"private ball {M}": (lambda M=M: curvedp.PrivateFrechetMean(M, radius="private"), M)
        for M in (Sphere(2), SPDAffineInvariant(2), Lorentz(2))
    },
    "private variance": (lambda: curvedp.PrivateDispersion(Sphere(2), radius="private"), Sphere(2)),
    "private line": (
        lambda: curvedp.PrivateGeodesicRegression(Sphere(2), radius="private", guarantee=GDP(1.0), x_range=(0, 1)),
        Sphere(2),
    ),
    "median": (lambda: curvedp.PrivateFrechetMedian(SPDAffineInvariant(2), radius=5.0), SPDAffineInvariant(2)),
    "dispersion": (lambda: curvedp.PrivateDispersion(Sphere(2), radius=0.5, mechanism="gaussian"), Sphere(2)),
    "classes": (lambda: curvedp.PrivateMDM(Sphere(2), radius=0.5, mechanism="tangent-gaussian"), Sphere(2)),
    "reduced classes": (lambda: curvedp.PrivateMDM(SPD3, reduce=2, guarantee=GDP(2.0)), SPD3),
    "softmax": (lambda: curvedp.PrivateSoftmax(SPD3, reduce=2, guarantee=GDP(2.0)), SPD3),
    "line": (
        lambda: curvedp.PrivateGeodesicRegression(
            Sphere(2), radius=0.5, speed=0.5, clip=0.2, guarantee=GDP(1.0), method="dp-rgd"
        , x_range=(0, 1)),
        Sphere(2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_leaves_is_a_function_of_integers_and_public_numbers(name, led):
    make, M = CASES[name]
    seen = {}
    for data, records in DATA.items():
        led()
        X = np.array(records(M, np.random.default_rng(1)))
        labeled = (X, np.arange(60) % 2)
        extra = {
            **dict.fromkeys(("classes", "reduced classes", "softmax"), labeled),
            "line": (np.linspace(0, 1, 60), X),
        }
        extra = extra.get(name.removeprefix("private "), (X,))
        model = make().set_params(source=GeneratorSource(np.random.default_rng(0)))
        seen[data] = published(model.fit(*extra))
    assert len(set(seen.values())) == 1, [
        data for data in seen if seen[data] != seen["near"]
    ]


def test_the_test_can_fail(led):
    """An estimator that tells what the records were is seen."""

    class Talkative(curvedp.PrivateFrechetMean):
        def fit(self, X, y=None, groups=None):
            super().fit(X, y)
            self.reach_ = float(np.nanmax(np.abs(X)))
            return self

    seen = set()
    for scale in (1.0, 2.0):
        led()
        model = Talkative(
            Sphere(2),
            radius=0.5,
            mechanism="tangent-gaussian",
            source=GeneratorSource(np.random.default_rng(0)),
        )
        seen.add(published(model.fit(scale * np.ones((10, 3)))))
    assert len(seen) == 2
