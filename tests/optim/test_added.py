"""Optimizers for adding or removing a record: attacked with pairs of different n, and n is nowhere told."""

import json
import math
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats

from curvedp.core.certificate import seal
from curvedp.core.codes import ProtectedUnit
from curvedp.core.wording import protected_unit_sentence
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Sphere
from curvedp.optim import FrechetMeanProblem, Problem, dp_rgd, dp_rsgd, dp_rsvrg
from curvedp.privacy import GDP, ZCDP, ApproxDP
from curvedp.privacy.optimizer_accounting import (
    add_remove_clip,
    add_remove_guarantee,
    add_remove_rsvrg_guarantee,
)
from curvedp.privacy.unit import PERSON_IN_FULL
from curvedp.release.verify import verify_certificate

ADDED = {"adjacency": "add-remove"}
LINEAR = Problem(Euclidean(1), lambda w, z: jax.numpy.sum(w * z))
ZERO = np.zeros(1)
M = Sphere(2)
X = M.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (200, 3)))
START, MEAN = np.array([1.0, 0, 0]), FrechetMeanProblem(M)
TARGETS = [GDP(1.0, **ADDED), ApproxDP(2.0, 1e-6, **ADDED), ZCDP(0.5, **ADDED)]
RUNS = {
    "rgd": lambda X, g, **o: dp_rgd(MEAN, X, START, 5, 0.7, 0.5, guarantee=g, **o),
    "rsgd": lambda X, g, **o: dp_rsgd(
        MEAN, X, START, 10, 0.1, 0.7, 0.2, guarantee=g, **o
    ),
    "rsvrg": lambda X, g, **o: dp_rsvrg(
        MEAN, X, START, 2, 4, (0.7, 0.3), 0.3, guarantee=g, batch_size=0.2, **o
    ),
}


def distances(optimizer, records, count, seed, **options):
    """Where many runs of records ±1 end, in steps along the sum: Σ records in the batch, plus noise, over the count."""
    rng = np.random.default_rng(seed)
    data = np.array(records, dtype=float).reshape(-1, 1)
    found = [
        optimizer(LINEAR, data, ZERO, clip=1.0, learning_rate=1.0, rng=rng, **options)
        for _ in range(count)
    ]
    return np.array([run.point[0] for run in found]), found[0]


def worst(claimed, first, second, level=1e-4):
    """max over half-lines and ε of P − e^ε·Q − δ(ε), by Clopper and Pearson, both ways: positive only by a breach."""
    found = -math.inf
    for p, q in ((first, second), (second, first)):
        for cut in np.quantile(np.concatenate([p, q]), np.linspace(0.05, 0.95, 10)):
            for side in (1, -1):
                k, j, n = (
                    int(np.sum(side * p <= side * cut)),
                    int(np.sum(side * q <= side * cut)),
                    len(p),
                )
                low = stats.beta.ppf(level, k, n - k + 1) if k else 0.0
                high = stats.beta.ppf(1 - level, j + 1, n - j) if j < n else 1.0
                found = max(
                    found,
                    max(
                        low - math.exp(e) * high - float(claimed.delta(e))
                        for e in (0.0, 0.5, 1.0, 2.0, 3.0)
                    ),
                )
    return found


def test_audit_of_full_steps_with_another_n():
    """Eleven records against ten: the eleventh pulls fully at every step."""
    target = GDP(1.5, **ADDED)
    options = {"steps": 3, "guarantee": target}
    ten, _ = distances(dp_rgd, [0] * 10, 500, 1, **options)
    eleven, run = distances(dp_rgd, [0] * 10 + [9], 500, 2, **options)
    assert worst(target, eleven, ten) <= 0
    assert (
        worst(GDP(0.75, **ADDED), eleven, ten) > 0
    )  # whoever believes the noise twice as large is refuted
    # What is attacked is nearly all that is paid: steps have 19/20 of μ², the count the rest.
    clip = add_remove_clip(1.0, 1, np.float64)
    assert run.noise == pytest.approx(clip * math.sqrt(3 / 0.95) / 1.5, rel=1e-9)


def test_audit_of_batches_with_another_n(monkeypatch):
    noise, count, clip = 0.5, 5.0, add_remove_clip(1.0, 1, np.float64)
    monkeypatch.setattr(
        "curvedp.privacy.optimizer_accounting.add_remove_noise",
        lambda *_: (noise, count),
    )  # much is to be seen
    options = {"steps": 3, "batch_size": 0.8, "guarantee": ApproxDP(1.0, 1e-6, **ADDED)}
    ten, _ = distances(dp_rsgd, [0] * 10, 500, 3, **options)
    eleven, _ = distances(dp_rsgd, [0] * 10 + [9], 500, 4, **options)
    assert worst(add_remove_guarantee(3, 0.8, clip, noise, count), eleven, ten) <= 0
    assert worst(add_remove_guarantee(3, 0.8, clip, 3 * noise, count), eleven, ten) > 0


def test_audit_of_variance_reduced_steps_with_another_n(monkeypatch):
    """One record more, whose gradient grows along the way: at the anchor and in its difference it pulls fully. There are so
    many others that the noisy count hides nothing."""
    steep = Problem(Euclidean(1), lambda w, z: -5e4 * jax.numpy.sum(z * (w + 1) ** 2))
    noise, count, ends = (0.5, 0.5), 5.0, []
    monkeypatch.setattr(
        "curvedp.privacy.optimizer_accounting.add_remove_rsvrg_noise",
        lambda *_: (noise, count),
    )
    for seed, records in ((3, [0] * 300), (4, [0] * 300 + [1])):
        rng, data = (
            np.random.default_rng(seed),
            np.array(records, dtype=float).reshape(-1, 1),
        )
        options = {"batch_size": 1.0, "guarantee": GDP(1.0, **ADDED), "rng": rng}
        runs = [
            dp_rsvrg(steep, data, ZERO, 1, 2, (1.0, 1.0), 1.0, **options)
            for _ in range(800)
        ]
        ends.append(np.array([run.point[0] for run in runs]))
    clips = (add_remove_clip(1.0, 1, np.float64),) * 2
    assert (
        worst(
            add_remove_rsvrg_guarantee(1, 2, 1.0, clips, noise, count), ends[1], ends[0]
        )
        <= 0
    )
    twice = (
        2 * noise[0],
        2 * noise[1],
    )  # whoever believes the noise twice as large is refuted
    assert (
        worst(
            add_remove_rsvrg_guarantee(1, 2, 1.0, clips, twice, 2 * count),
            ends[1],
            ends[0],
        )
        > 0
    )


def all_told(result):
    told = result.certificate.to_dict()
    return json.dumps(
        {
            name: value
            for name, value in told.items()
            if name not in ("sha256", "created")
        }
    )


@pytest.mark.parametrize(  # every run, every guarantee; a program is compiled for each number of records
    ("name", "target"),
    [
        *((name, TARGETS[0]) for name in RUNS),
        *zip(["rsgd", "rsvrg"], TARGETS[1:], strict=True),
    ],
    ids=str,
)
def test_certificates_hold_and_do_not_tell_n(name, target):
    texts = []
    fewer = [X[:-1]] if target is TARGETS[0] else []
    none = [X[:0]] if name == "rgd" else []  # of the others below
    for records in (X, *fewer, *none):
        result = RUNS[name](records, target)
        assert result.certificate.guarantee.adjacency == "add-remove"
        assert result.certificate.privacy_unit is ProtectedUnit.RECORD
        assert M.residual(result.point) < 1e-9
        texts.append(all_told(result))
    assert len(set(texts)) == 1
    checks = verify_certificate(result.certificate)  # of one, as all are the same
    assert all(check.holds is not False for check in checks), [
        c for c in checks if c.holds is False
    ]
    parameters = dict(result.certificate.parameters)
    for noise in (name for name in parameters if name.endswith("noise")):
        lie = {**parameters, noise: 0.5 * parameters[noise]}
        assert any(
            c.holds is False
            for c in verify_certificate(
                seal(replace(result.certificate, parameters=lie))
            )
        )


@pytest.mark.parametrize("name", RUNS)
def test_persons_may_be_added(name):
    result = RUNS[name](
        X, GDP(2.0, **ADDED), groups=np.repeat(np.arange(40), 5), record_history=1
    )
    sentence = protected_unit_sentence(result.certificate)
    assert sentence.startswith(f"{PERSON_IN_FULL}, added or removed")
    assert np.isfinite(result.history).all()
    nobody = RUNS[name](X[:0], GDP(2.0, **ADDED), groups=[])
    assert nobody.point.shape == (3,)
    assert all_told(nobody) == all_told(result)


def test_with_little_noise_it_is_the_descent():
    """μ so large that noise and count do nothing: the same points as the ordinary descent's."""
    exact = dp_rgd(MEAN, X, START, 5, 0.7, 0.5, noise=1e-12)
    ours = RUNS["rgd"](X, GDP(1e9, **ADDED))
    np.testing.assert_allclose(ours.point, exact.point, atol=1e-5)
    reduced = dp_rsvrg(
        MEAN, X, START, 2, 4, (0.7, 0.7), 0.3, noise=(1e-12, 1e-12), batch_size=200
    )
    added = dp_rsvrg(
        MEAN,
        X,
        START,
        2,
        4,
        (0.7, 0.7),
        0.3,
        guarantee=GDP(1e9, **ADDED),
        batch_size=1.0,
    )
    np.testing.assert_allclose(added.point, reduced.point, atol=1e-5)
    full = dp_rsgd(MEAN, X, START, 5, 1.0, 0.7, 0.5, guarantee=GDP(1e9, **ADDED))
    np.testing.assert_allclose(full.point, exact.point, atol=1e-5)


def test_sums_are_exact_in_any_order():
    rng = np.random.default_rng(5)
    shuffled = [
        RUNS["rgd"](
            X[rng.permutation(200)], GDP(1.0, **ADDED), rng=np.random.default_rng(6)
        )
        for _ in range(3)
    ]
    assert len({run.point.tobytes() for run in shuffled}) == 1


def test_refusals_do_not_tell_n():
    target = GDP(1.0, **ADDED)
    calls = {
        "share": lambda: dp_rsgd(MEAN, X, START, 10, 20, 0.7, 0.2, guarantee=target),
        "as a share": lambda: dp_rsgd(
            MEAN, X, START, 10, np.int64(1), 0.7, 0.2, guarantee=target
        ),
        "poisson": lambda: dp_rsgd(
            MEAN, X, START, 10, 0.1, 0.7, 0.2, guarantee=target, sampling="fixed-size"
        ),
        "batch_size": lambda: dp_rsgd(
            MEAN, X, START, 10, 1.5, 0.7, 0.2, guarantee=target
        ),
        "give batch_size": lambda: dp_rsvrg(
            MEAN, X, START, 2, 3, (0.7, 0.3), 0.2, guarantee=target
        ),
        "needs": lambda: dp_rgd(MEAN, X[:, :2], START, 5, 0.7, 0.5, guarantee=target),
        "groups": lambda: dp_rgd(
            MEAN, X, START, 5, 0.7, 0.5, guarantee=target, groups=np.arange(199)
        ),
    }
    for says, call in calls.items():
        with pytest.raises(ParameterError, match=says) as caught:
            call()
        assert "200" not in str(caught.value)
