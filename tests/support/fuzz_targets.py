"""Every public call with good arguments, so that a fuzzer can spoil one of them at a time.

`TARGETS[group][name] = (function, good arguments)`. Building a target runs nothing that is being tested: the functions are
called by the tests, with exactly one argument replaced.
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import curvedp
from curvedp import audit, geometry, laws, mechanisms, optim, privacy, randomness
from curvedp.core import registry
from curvedp.core.certificate import seal
from curvedp.core.mechanism import Mechanism
from curvedp.core.statistic import Statistic
from curvedp.geometry import Euclidean, Lorentz, Sphere
from curvedp.laws.knorm import GeodesicBall
from curvedp.mechanisms import selection
from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RaoDP, RenyiDP
from curvedp.privacy.calibration import meets
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.privacy.profiles.products import product_profile
from curvedp.records import read_records
from curvedp.release.verify import verify_certificate
from curvedp.statistics.clusters import Clusters
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.geodesic import GeodesicLine
from curvedp.statistics.geometric_median import GeometricMedian
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.population import SyntheticPopulation
from curvedp.statistics.prototypes import ClassPrototypes
from curvedp.statistics.reduced_classes import ReducedClasses
from curvedp.statistics.searched_ball import SearchedMean
from curvedp.statistics.tangent_moments import TangentMomentsNearMean
from support.spaces import SPACES

S2 = Sphere(2)
X = S2.project(np.random.default_rng(0).normal([3.0, 0.0, 0.0], 0.5, (12, 3)))
MATRICES = np.eye(3) + 0.1 * np.einsum(
    "nij,nkj->nik", *2 * [np.random.default_rng(2).normal(size=(400, 3, 3))]
)
NOISE = randomness.GeneratorSource(
    np.random.default_rng(1)
)  # tests need no secret noise, and a fixed one repeats
Call = tuple[Callable[..., Any], dict[str, Any]]


def _fit(estimator: type, *data: str) -> Callable[..., Any]:
    """Estimators check in `fit`, as scikit-learn wants it: construct and fit in one call."""

    def call(**kwargs: Any) -> Any:
        arrays = [kwargs.pop(name) for name in data]
        return estimator(source=NOISE, **kwargs).fit(*arrays)

    return call


def _spend(**kwargs: Any) -> Any:
    """A spend on a ledger of its own; what is refused must leave it empty."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = curvedp.Ledger(Path(folder) / "x.ledger", GDP(1.0))
        try:
            return ledger.spend(**kwargs)
        except BaseException:
            assert ledger.spent is None, "a refusal has spent"
            raise


def _ledger(budget: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.ledger"
        try:
            return curvedp.Ledger(path, budget).remaining
        except BaseException:
            assert not path.exists(), "a refusal has made a file"
            raise


def _load(text: Any, suffix: str = ".csv") -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        path.write_bytes(
            text
            if isinstance(text, bytes)
            else str(text).encode(errors="surrogateescape")
        )
        return read_records(path, S2, header=False)


CERTIFICATE = (
    mechanisms.GaussianMechanism(S2, 0.1, 0.2)
    .release(S2.origin, source=NOISE)
    .certificate.to_dict()
)


def _verify(**fields: Any) -> Any:
    """A certificate with one field spoilt, through the text that a file would hold."""
    text = json.dumps(fields, default=repr)
    return verify_certificate(seal(mechanisms.Certificate.from_json(text)))


CURVED = {"curvature": -1.0, "dim": 2, "sensitivity": 0.3}
PROBLEM = {
    "problem": optim.FrechetMeanProblem(S2),
    "data": X,
    "init": S2.origin,
    "learning_rate": 0.1,
}
RGD = {
    **PROBLEM,
    "steps": 2,
    "clip": 1.0,
    "noise": 0.1,
    "rng": np.random.default_rng(0),
}
ESTIMATOR = {"manifold": S2, "radius": 0.5, "center": S2.origin, "guarantee": GDP(1.0), "mechanism": "tangent-gaussian",
             "ledger": None, "X": X}  # fmt: skip
GUARANTEES = [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), RenyiDP(4.0, 0.5), GDP(0.7), RaoDP(0.4),
              KLDP(0.1), MeanConcentratedDP(0.1, 0.5)]  # fmt: skip
PROFILES = [
    laws.RiemannianGaussian(S2, 0.5).profile(0.2),
    laws.RiemannianLaplace(Lorentz(3), 0.2).profile(0.1),
]


def _methods(values: list[Any]) -> dict[str, Call]:
    arguments = {
        "delta": {"eps": 0.5},
        "epsilon": {"delta": 1e-4},
        "tradeoff": {"alpha": 0.1},
        "renyi": {"order": 3.0},
    }
    return {
        f"{value}.{name}": (getattr(value, name), good)
        for value in values
        for name, good in arguments.items()
        if hasattr(value, name)
    }


# A statistic of each kind, and every mechanism that is registered there and calibrated by itself.
STATISTICS: list[Statistic] = [
    FrechetMean(S2, None, 0.5, 12),
    GeometricMedian(S2, None, 0.5, 12), SearchedMean(S2, None, 1.0, 40),
    ClippedSum(S2, None, 0.5), selection.BestRelease(3, "replace-one"),
    GeodesicLine(S2, None, 0.5, 0.6, 0.25, 12, [[0.0, 1.0]]),
    ReducedClasses(geometry.SPDAffineInvariant(3), 2, "power", 1.0, 2, 400),
    Clusters(S2, None, 1.0, 2, None, 12),
    TangentMomentsNearMean(S2, None, 1.0, 40), ClassPrototypes(S2, None, 0.5, 2, 40),
    SyntheticPopulation(S2, None, 0.5, 40, 1, None),
]  # fmt: skip
KINDS = [
    kind
    for kind in registry.mechanisms
    if "curvedp.mechanisms" in kind.__module__
    and kind.__module__ != "curvedp.mechanisms.optimizer"
]


def _served(kind: type[Mechanism]) -> Statistic:
    return next((s for s in STATISTICS if kind.supports(s)), STATISTICS[0])


def _asked(kind: type[Mechanism]) -> Any:
    if kind.info.name == "gaussian-sum":
        return GDP(1.0, adjacency="add-remove")
    return (
        PureDP(1.0)
        if any(part in kind.info.name for part in ("laplace", "k-norm", "selection"))
        else GDP(1.0)
    )


TARGETS: dict[str, dict[str, Call]] = {
    "guarantees": {
        "PureDP": (PureDP, {"eps": 1.0, "adjacency": "replace-one"}),
        "ApproxDP": (ApproxDP, {"eps": 1.0, "delta0": 1e-6}),
        "ZCDP": (ZCDP, {"rho": 0.1}),
        "RenyiDP": (RenyiDP, {"order": 4.0, "eps": 0.5}),
        "GDP": (GDP, {"mu": 1.0}),
        "KLDP": (KLDP, {"alpha": 0.2}),
        "MeanConcentratedDP": (MeanConcentratedDP, {"mean": 0.1, "deviation": 0.5}),
        "RaoDP": (RaoDP, {"theta": 0.5, "angle": "parametric"}),
        "guarantee_from_dict": (guarantee_from_dict, {"serialized": GDP(1.0).to_dict()}),
        "guarantee_from_dict.type": (
            lambda **d: guarantee_from_dict(d),
            {"type": "GDP", "mu": 1.0, "adjacency": "replace-one"},
        ),
        **_methods(GUARANTEES),
    },
    "accounting": {
        "compose": (lambda a, b: privacy.compose(a, b), {"a": GDP(1.0), "b": GDP(0.5)}),
        "compose.list": (privacy.compose_profiles, {"guarantees": [GDP(1.0), PureDP(0.5)]}),
        "convert": (
            lambda guarantee, to, delta: privacy.convert(guarantee, to=to, delta=delta),
            {"guarantee": GDP(1.0), "to": ApproxDP, "delta": 1e-6},
        ),
        "convert.renyi": (
            lambda guarantee, order: privacy.convert(guarantee, to=RenyiDP, order=order),
            {"guarantee": ZCDP(0.1), "order": 4.0},
        ),
        "gaussian_profile": (privacy.gaussian_profile, {**CURVED, "scale": 0.5}),
        "laplace_profile": (privacy.laplace_profile, {**CURVED, "scale": 0.3}),
        "gaussian_floor": (privacy.gaussian_floor, CURVED),
        "certified_delta": (privacy.certified_delta, {**CURVED, "kind": "gaussian", "scale": 0.5, "eps": 0.5}),
        "certified_mu": (
            privacy.certified_mu,
            {"kind": "laplace", "curvature": 1.0, "dim": 1, "scale": 0.5, "sensitivity": 0.3},
        ),
        "smallest_scale": (
            lambda target, sensitivity: privacy.smallest_scale(
                lambda s: privacy.gaussian_profile(1.0, 2, s, 0.1), target, sensitivity
            ),
            {"target": GDP(1.0), "sensitivity": 0.1},
        ),
        "product_profile": (product_profile, {"factors": [(0.0, 1), (-0.5, 2)], "sigma": 0.5, "sensitivity": 0.3}),
        "subsampled_gaussian": (
            privacy.subsampled_gaussian,
            {"noise_multiplier": 2.0, "sampling_rate": 0.1, "steps": 10, "sampling": "poisson"},
        ),
        "subsampled_noise_multiplier": (
            privacy.subsampled_noise_multiplier,
            {"target": ApproxDP(2.0, 1e-5), "sampling_rate": 0.1, "steps": 3, "sampling": "poisson"},
        ),
        "meets": (meets, {"profile": PROFILES[0], "target": GDP(1.0)}),
        **_methods(PROFILES),
    },
    "laws": {
        **{
            law.__name__: (law, {"manifold": S2, "scale": 0.3})
            for law in (laws.RiemannianGaussian, laws.RiemannianLaplace)
        },
        "GeodesicBall": (GeodesicBall, {"manifold": S2, "center": S2.origin, "radius": 0.5}),
        "sample": (
            laws.RiemannianGaussian(S2, 0.3).sample,
            {"rng": np.random.default_rng(0), "center": S2.origin, "size": 3},
        ),
        "profile": (laws.RiemannianGaussian(S2, 0.3).profile, {"sensitivity": 0.1}),
        "laplace.profile": (laws.RiemannianLaplace(Lorentz(2), 0.3).profile, {"sensitivity": 0.1}),
        "certified_delta": (laws.RiemannianGaussian(Sphere(2), 0.3).certified_delta, {"sensitivity": 0.1, "eps": 0.5}),
        "exact_gaussian": (
            laws.exact.exact_gaussian,
            {"manifold": S2, "scale": 0.3, "center": S2.origin, "grid": 30},
        ),
        "exact_draw": (
            laws.exact.exact_draw, {"kind": "laplace", "manifold": S2, "scale": 0.3, "center": S2.origin, "grid": 30}
        ),
        "exact_laplace": (laws.exact.exact_laplace, {"manifold": S2, "scale": 0.3, "center": S2.origin, "grid": 30}),
    },
    "geometry": {
        **{type(M).__name__: (type(M), {f.name: getattr(M, f.name) for f in fields(M)}) for M in SPACES},
        "Product": (lambda a, b: geometry.Product(a, b), {"a": S2, "b": Euclidean(1)}),
        "parse_manifold": (geometry.parse_manifold, {"text": "sphere:2"}),
        "manifold_name": (geometry.manifold_name, {"M": S2}),
        "project_to_ball": (geometry.project_to_ball, {"M": S2, "center": S2.origin, "radius": 0.5, "X": X}),
        "mean_error_bound": (geometry.mean_error_bound, {"M": S2, "radius": 0.5, "iterations": 10}),
        "frechet_mean": (geometry.frechet_mean, {"M": S2, "X": X, "ball": (S2.origin, 1.0)}),
    },
    "mechanisms": {
        **{
            f"{kind.__name__}.calibrate": (
                kind.calibrate,
                {"statistic": _served(kind), "guarantee": _asked(kind)},
            )
            for kind in KINDS
        },
        "GaussianMechanism": (mechanisms.GaussianMechanism, {"manifold": S2, "sensitivity": 0.1, "sigma": 0.2}),
        "LaplaceMechanism": (mechanisms.LaplaceMechanism, {"manifold": S2, "sensitivity": 0.1, "scale": 0.2}),
        **{
            kind.__name__: (
                kind,
                {"manifold": S2, "sensitivity": 0.1, "scale": 0.2, "base": S2.origin, "radius": 0.5,
                 "chart_sensitivity": 0.1},
            )
            for kind in (mechanisms.LogGaussianMechanism, mechanisms.LogLaplaceMechanism)
        },
        **{
            f"{kind.__name__}.calibrated": (
                kind.calibrated,
                {"manifold": Euclidean(2), "sensitivity": 0.1, "guarantee": ApproxDP(1.0, 1e-5)},
            )
            for kind in (
                mechanisms.GaussianMechanism,
                mechanisms.LaplaceMechanism,
                mechanisms.LogGaussianMechanism,
                mechanisms.LogLaplaceMechanism,
            )
        },
        "KNGMechanism": (
            mechanisms.KNGMechanism.calibrated,
            {"manifold": S2, "center": S2.origin, "radius": 0.5, "n": 12, "guarantee": PureDP(1.0)},
        ),
        "frechet_mean_sensitivity": (
            mechanisms.frechet_mean_sensitivity,
            {"manifold": S2, "radius": 0.5, "n": 10, "bound": "tight"},
        ),
        "release": (mechanisms.GaussianMechanism(S2, 0.1, 0.2).release, {"data": S2.origin}),
        "kng.release": (mechanisms.KNGMechanism.calibrated(S2, None, 0.5, 12, PureDP(1.0)).release, {"data": X}),
        "verify_certificate": (_verify, CERTIFICATE),
        "audit_mechanism": (
            audit.audit_mechanism,
            {"mechanism": mechanisms.GaussianMechanism(S2, 0.1, 0.2), "samples": 200, "delta": 1e-3, "confidence": 0.9,
             "rng": np.random.default_rng(0)},
        ),
    },
    "estimators": {
        "PrivateFrechetMean": (_fit(curvedp.PrivateFrechetMean, "X"), ESTIMATOR),
        "PrivateDispersion": (_fit(curvedp.PrivateDispersion, "X"), ESTIMATOR),
        "PrivateKMeans": (
            _fit(curvedp.PrivateKMeans, "X", "y", "groups"),
            {"manifold": S2, "n_clusters": 2, "guarantee": GDP(1.0), "ledger": None, "init": X[:2], "X": X,
             "y": None, "groups": np.arange(12)},
        ),
        "PrivateMDM": (_fit(curvedp.PrivateMDM, "X", "y"), {**ESTIMATOR, "y": np.arange(12) % 2}),
        "PrivatePrototypes": (
            _fit(curvedp.PrivatePrototypes, "X", "y"),
            {**{key: good for key, good in ESTIMATOR.items() if key != "mechanism"}, "y": np.arange(12) % 2},
        ),
        "PrivateRecenter": (
            _fit(curvedp.PrivateRecenter, "X", "y"),
            {"manifold": geometry.SPDAffineInvariant(3), "radius": 3.0, "target_domain": "", "final_dispersion": 1.0,
             "new_domain": "refuse", "guarantee": GDP(4.0), "ledger": None, "X": MATRICES,
             "y": np.array([f"s{k % 2}/a" for k in range(400)])},
        ),
        "PrivateTangentSpace": (_fit(curvedp.estimators.PrivateTangentSpace, "X"), ESTIMATOR),
        "PrivateTangentPCA": (
            _fit(curvedp.PrivateTangentPCA, "X"),
            {**ESTIMATOR, "mechanism": "one-shot", "n_components": 1},
        ),
        "PrivateSynthesizer": (
            _fit(curvedp.PrivateSynthesizer, "X", "y", "groups", "column"),
            {**{key: good for key, good in ESTIMATOR.items() if key != "mechanism"},
             "model": "wrapped-gaussian", "classes": [0, 1], "x_range": (0.0, 1.0), "y": np.arange(12) % 2,
             "groups": np.arange(12), "column": np.linspace(0, 1, 12)},
        ),
        "PrivateSoftmax": (
            _fit(curvedp.estimators.PrivateSoftmax, "X", "y"),
            {"manifold": geometry.SPDAffineInvariant(3), "reduce": 2, "features": "power", "guarantee": GDP(4.0),
             "ledger": None, "X": MATRICES, "y": np.arange(400) % 2},
        ),
        "PrivateFrechetMedian": (
            _fit(curvedp.PrivateFrechetMedian, "X"),
            {key: good for key, good in ESTIMATOR.items() if key != "mechanism"},
        ),
        "PrivatePCA": (
            _fit(curvedp.PrivatePCA, "X"),
            {"n_components": 1, "radius": 1.0, "method": "one-shot", "guarantee": GDP(1.0), "ledger": None, "X": X},
        ),
        "PrivateGeodesicRegression": (
            _fit(curvedp.PrivateGeodesicRegression, "x", "Y"),
            {"manifold": S2, "radius": 0.5, "speed": 0.5, "clip": 0.3, "guarantee": GDP(1.0), "method": "dp-rgd",
             "center": S2.origin, "x_range": (0.0, 1.0), "ledger": None, "x": np.linspace(0, 1, 12), "Y": X},
        ),
        "Ledger": (_ledger, {"budget": GDP(1.0)}),
        "spend": (_spend, {"guarantee": GDP(0.5), "label": "x", "partition": "p", "group": "g"}),
        "load_records": (_load, {"text": "1,0,0\n0,1,0\n"}),
    },
    "optim": {
        "dp_rgd": (optim.dp_rgd, RGD),
        "dp_rsgd": (optim.dp_rsgd, {**RGD, "batch_size": 5, "sampling": "poisson"}),
        "dp_rsvrg": (
            optim.dp_rsvrg,
            {**PROBLEM, "epochs": 1, "inner_steps": 2, "batch_size": 5, "clip": (1.0, 1.0), "noise": (0.1, 0.1),
             "rng": np.random.default_rng(0), "output": "last", "restarts": 1},
        ),
        "Problem": (optim.Problem, {"manifold": S2, "loss": lambda w, z: w @ z}),
        "FrechetMeanProblem": (optim.FrechetMeanProblem, {"manifold": S2}),
        "LeadingEigenvectorProblem": (optim.LeadingEigenvectorProblem, {"dim": 3}),
        "SubspaceProblem": (optim.SubspaceProblem, {"dim": 4, "rank": 2}),
    },
}  # fmt: skip
