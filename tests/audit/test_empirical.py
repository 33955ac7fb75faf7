"""The audit proves what it says: honest mechanisms pass and come close, dishonest ones are caught."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import estimators, geometry
from curvedp.audit import audit_mechanism, audit_scores
from curvedp.audit.cases import Case, cases
from curvedp.audit.empirical import neighbors
from curvedp.audit.one_run import OptimizerCase, one_run_bound
from curvedp.audit.table import case_names
from curvedp.cli import app
from curvedp.core import registry
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    Manifold,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Sphere,
)
from curvedp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    LogGaussianMechanism,
)
from curvedp.privacy import GDP

CASES = [
    GaussianMechanism(Euclidean(3), 0.5, 0.5),
    GaussianMechanism(Sphere(2), 0.5, 0.5),
    GaussianMechanism(Lorentz(2), 0.5, 0.5),
    LaplaceMechanism(Sphere(2), 0.3, 0.2),
    LogGaussianMechanism(SPDAffineInvariant(3), 0.5, 0.5, np.eye(3)),
    LogGaussianMechanism(KendallShapes(4), 0.2, 0.2, KendallShapes(4).origin, 0.5),
]
# These are attacked elsewhere:
# - a decision, in tests/inference;
# - transcripts of sites, in benchmarks/studies/federated.py;
# - every number that classifiers of reduced matrices release, at two data sets, in
#   tests/mechanisms/test_reduction.py;
# - descents with private n, of 10 against 11 records, in tests/optim/test_added.py;
# - the best of several releases, in tests/mechanisms/test_selection.py;
# - prototypes of classes, whose records have labels, in tests/estimators/test_prototypes.py.
ELSEWHERE = {
    "permutation-test", "federated-sum", "reduced-means", "reduced-softmax", "dp-rsgd-sum",
    "dp-rsvrg-sum", "private-selection", "class-prototypes",
}  # fmt: skip


def test_everything_registered_is_attacked():
    """A manifold, mechanism or estimator that is added and not attacked fails here."""
    attacked = {name for name, _ in case_names()}
    assert {
        kind.info.name for kind in registry.mechanisms if _ours(kind)
    } - attacked <= ELSEWHERE
    through = {
        "PrivateFrechetMedian": "noisy-median",
        "PrivateGeodesicRegression": "tangent-bundle-descent",
        "PrivateRecenter": "PrivateMDM",  # domains are its public classes
        "PrivateSoftmax": "reduced-softmax",
        "PrivateKMeans": "kmeans",
        "PrivatePrototypes": "class-prototypes",
        "PrivateSynthesizer": "wrapped-gaussian",
        "PrivateTangentPCA": "step-to-mean",
        "PrivateTangentSpace": "PrivateFrechetMean",  # of which it is one
    }
    assert {
        through.get(name, name) for name in estimators.__all__
    } <= attacked | ELSEWHERE
    kinds = {
        kind
        for kind in vars(geometry).values()
        if isinstance(kind, type) and issubclass(kind, Manifold)
    }
    assert {type(case.manifold) for case in cases()} >= kinds - {
        Manifold,
        SPDBuresWasserstein,
    }  # nothing is drawn on it


def _ours(kind: type) -> bool:
    return kind.__module__.startswith("curvedp.")


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=f"{c.mechanism} {c.manifold}") for c in cases()]
)
def test_every_honest_claim_holds(case: Case):
    # Of releases in stages, milliseconds each, too few to refute anything: tests/audit/test_staged_audit.py attacks those.
    samples = 4000 if case.most is None else 4
    assert case.audit(samples, 1e-2, 1 - 1e-9, np.random.default_rng(1)).holds


@pytest.mark.parametrize(
    "name", ["tangent-laplace Rotations(n=3)", "riemannian-laplace Euclidean(d=3)", "PrivateFrechetMean Lorentz(d=2)",
             "tangent-bundle-descent Sphere(d=2)"]
)  # fmt: skip
def test_noise_understated_by_a_tenth_is_caught_in_the_table_too(name):
    """As the lower half of `python -m benchmarks.audit` does for all of it; at full noise the same cases hold, above."""
    case = next(c for c in cases(0.9) if f"{c.mechanism} {c.manifold}" == name)
    assert not case.audit(250_000, 1e-2, 1 - 1e-6, np.random.default_rng(1)).holds


@pytest.mark.parametrize(
    "mechanism", CASES, ids=lambda m: f"{m.info.name}-{m.manifold}"
)
def test_honest_claims_are_approached(mechanism):
    result = audit_mechanism(
        mechanism, samples=60_000, delta=1e-2, rng=np.random.default_rng(1)
    )
    assert result.holds
    assert result.tightness > 0.85  # an audit that proves nothing is no audit


@pytest.mark.parametrize(
    "mechanism", CASES, ids=lambda m: f"{m.info.name}-{m.manifold}"
)
def test_a_scale_understated_by_a_tenth_is_caught(mechanism):
    scale = "sigma" if isinstance(mechanism, GaussianMechanism) else "scale"
    less = dataclasses.replace(mechanism, **{scale: 0.9 * getattr(mechanism, scale)})
    result = audit_mechanism(
        mechanism,
        samples=250_000,
        delta=1e-2,
        rng=np.random.default_rng(1),
        sampler=less,
    )
    assert not result.holds


def test_the_worst_pair_in_a_chart_is_at_the_edge():
    """On the sphere the chart stretches by ρ/sin ρ across the radius; the pair must use most of it."""
    M = Sphere(2)
    mechanism = LogGaussianMechanism(M, 0.1, 0.2, M.origin, 1.4)
    p, q = neighbors(mechanism)
    assert float(M.dist(p, q)) <= 0.1 * (1 + 1e-9)
    apart = np.linalg.norm(M.log(M.origin, p) - M.log(M.origin, q))
    assert apart == pytest.approx(0.1 * 1.4 / np.sin(1.4), rel=2e-3)
    assert max(M.dist(M.origin, p), M.dist(M.origin, q)) <= 1.4


def test_a_claim_of_another_law_is_refuted_by_its_tail():
    """Laplace noise claimed to be as good as a Gaussian of the same μ near the middle: the tail at small δ tells."""
    rng = np.random.default_rng(0)
    one, two = rng.standard_t(2, 300_000), 1 + rng.standard_t(2, 300_000)
    assert not audit_scores(GDP(0.3), [one], [two]).holds


def test_one_run_bound_against_a_direct_sum():
    """δ = 0: the bound is where the binomial tail P(Bin(r, e^ε/(1+e^ε)) ≥ v) equals the failure probability."""
    from scipy.stats import binom

    eps = one_run_bound(1000, 300, 250, 0.0, 0.999)
    assert binom.sf(249, 300, 1 / (1 + np.exp(-eps))) == pytest.approx(1e-3, rel=1e-3)
    assert one_run_bound(1000, 300, 250, 1e-9, 0.999) <= eps
    assert one_run_bound(1000, 300, 150, 0.0, 0.999) == 0


def test_one_run_of_an_optimizer():
    result = OptimizerCase("dp-rgd", Sphere(2)).audit(
        200, 1 - 1e-6, np.random.default_rng(0)
    )
    assert result.holds
    assert result.audited > 0.25


def test_the_command(monkeypatch):
    result = CliRunner().invoke(
        app, ["audit", "--samples", "2000", "--only", "riemannian-laplace", "--json"]
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) == len(case_names("riemannian-laplace")) > 8
    assert all(row["holds"] for row in rows)
    real = LaplaceMechanism.simulate_draws
    monkeypatch.setattr(
        LaplaceMechanism,
        "simulate_draws",
        lambda self, rng, value, size: real(
            dataclasses.replace(self, scale=0.1), rng, value, size
        ),
    )
    result = CliRunner().invoke(
        app, ["audit", "--samples", "4000", "--only", "riemannian-laplace"]
    )
    assert result.exit_code == 1
    assert "refute" in result.output
