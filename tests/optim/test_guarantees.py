"""What the optimizers promise: derived a second time here, and attacked on a worst-case pair of datasets."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from curvedp.geometry import Euclidean
from curvedp.optim import Problem, dp_rgd, dp_rsgd, dp_rsvrg
from curvedp.privacy.optimizer_accounting import (
    rgd_guarantee,
    rsgd_guarantee,
    rsvrg_guarantee,
)

# Its gradient is the record itself, wherever the iterate is: with records ±C the worst pair is met at every step.
LINEAR = Problem(Euclidean(1), lambda w, z: jax.numpy.sum(w * z))


def runs(optimizer, record, count, n=4, seed=0, **options):
    """Final points of `count` runs on n records, all 0 but one; learning rate 1, so that the point is minus the sum."""
    rng = np.random.default_rng(seed)
    data = np.zeros((n, 1))
    data[0] = record
    arguments = {"clip": 1.0, "learning_rate": 1.0, "rng": rng, **options}
    return np.array(
        [
            optimizer(LINEAR, data, np.zeros(1), **arguments).point[0]
            for _ in range(count)
        ]
    )


def violations(claimed, first, second, confidence=1e-4):
    """max over events {x ≤ t} and ε of P(x ≤ t) − e^ε·Q(x ≤ t) − δ(ε), by Clopper–Pearson: positive only by a breach."""
    worst = -math.inf
    for cut in np.quantile(
        np.concatenate([first, second]), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    ):
        k, j, count = int(np.sum(first <= cut)), int(np.sum(second <= cut)), len(first)
        low = stats.beta.ppf(confidence, k, count - k + 1) if k else 0.0
        high = stats.beta.ppf(1 - confidence, j + 1, count - j)
        worst = max(
            worst,
            max(
                low - math.exp(e) * high - float(claimed.delta(e))
                for e in (0.0, 0.5, 1.0, 2.0, 3.0)
            ),
        )
    return worst


def audited_mu(first, second):
    """Lower bound on μ from the median cut: Φ⁻¹ of two Clopper–Pearson bounds (Nasr et al. 2023, §4)."""
    count, cut = len(first), 0.5 * (first.mean() + second.mean())
    errors = [int(np.sum(first > cut)), int(np.sum(second <= cut))]
    bounds = [stats.beta.ppf(0.9999, k + 1, count - k) for k in errors]
    return -stats.norm.ppf(bounds[0]) - stats.norm.ppf(bounds[1])


def test_audit_of_dp_rgd():
    """The worst pair: a record that pulls fully one way at every step, or the other way."""
    options = {"steps": 4, "noise": 0.5, "count": 500}  # μ = 2·2/(4·0.5) = 2
    claimed = dp_rgd(
        LINEAR,
        np.zeros((4, 1)),
        np.zeros(1),
        steps=4,
        clip=1.0,
        learning_rate=1.0,
        noise=0.5,
    ).guarantee.mu
    assert claimed == pytest.approx(2.0, rel=1e-9)
    first, second = (
        runs(dp_rgd, 50.0, seed=1, **options),
        runs(dp_rgd, -50.0, seed=2, **options),
    )
    assert 0.7 * claimed <= audited_mu(first, second) <= claimed
    # Caught: a σ 30% below what is claimed, and the noise of the mean put on the sum (n times too little).
    center = np.array([[first.mean()], [second.mean()]])
    noises = np.stack([first, second]) - center
    for factor in (0.7, 1 / 4):
        wrong = center + factor * noises
        assert audited_mu(wrong[0], wrong[1]) > claimed


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_audit_of_dp_rsgd(sampling):
    options = {
        "steps": 2,
        "noise": 0.5,
        "batch_size": 2,
        "sampling": sampling,
        "count": 500,
    }
    claimed = rsgd_guarantee(4, 2, 2, 1.0, 0.5, sampling)
    first, second = (
        runs(dp_rsgd, 50.0, seed=3, **options),
        runs(dp_rsgd, -50.0, seed=4, **options),
    )
    assert violations(claimed, first, second) <= 0
    # The same observations break the claim of a curator who believes the noise twice as large as it is.
    assert violations(rsgd_guarantee(4, 2, 2, 1.0, 1.0, sampling), first, second) > 0


def test_audit_of_dp_rsvrg():
    """Differences of a linear loss vanish, so the attack sees the anchors' gradients: it must not beat what they cost."""
    options = {
        "epochs": 2,
        "inner_steps": 1,
        "noise": (0.5, 0.05),
        "batch_size": 2,
        "clip": (1.0, 1.0),
        "count": 300,
    }
    first, second = (
        runs(dp_rsvrg, 50.0, seed=5, **options),
        runs(dp_rsvrg, -50.0, seed=6, **options),
    )
    anchors = rgd_guarantee(4, 2, 1.0, 0.5)
    assert violations(anchors, first, second) <= 0
    assert violations(rgd_guarantee(4, 2, 1.0, 1.0), first, second) > 0
    whole = rsvrg_guarantee(4, 2, 1, 2, (1.0, 1.0), (0.5, 0.05), "poisson")
    assert whole.delta(1.0) >= anchors.delta(1.0)
