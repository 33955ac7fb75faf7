"""Envelopes of the affine-invariant Gaussian: acceptance, target, pieces and refusals."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import SPDAffineInvariant
from curvedp.laws import RiemannianGaussian
from curvedp.laws.spd import envelopes, random_matrices
from curvedp.laws.spd.envelopes import (
    FarEnvelope,
    NearEnvelope,
    acceptance,
    best_envelope,
    rejection_sample,
    sample_log_eigenvalues,
)
from curvedp.laws.spd.normalizer import mean_square_radius
from curvedp.laws.spd.random_matrices import gaussian_eigenvalues, uniform_orthogonal

ENVELOPES = [
    (NearEnvelope.tightest, 2, 0.5),
    (NearEnvelope.tightest, 3, 0.4),
    (NearEnvelope.tightest, 5, 0.3),
    (FarEnvelope, 2, 1.5),
    (FarEnvelope, 3, 1.2),
    (FarEnvelope, 4, 1.0),
]


@pytest.mark.parametrize(("make", "m", "sigma"), ENVELOPES)
def test_an_envelope_accepts_what_it_says_and_gives_the_target(make, m, sigma):
    """E(ratio) is the acceptance; ratio·envelope is the target, so ratio-weighted moments are the target's."""
    envelope, n = make(m, sigma), 20_000
    rho, log_ratio = envelope.propose(np.random.default_rng(1), n)
    assert rho.shape == (n, m)
    assert log_ratio.max() <= 1e-9
    ordered = log_ratio > -np.inf
    assert np.all(np.diff(rho[ordered], axis=1) <= 0)
    weight = np.exp(log_ratio)
    error = weight.std() / math.sqrt(n)
    assert weight.mean() == pytest.approx(
        math.exp(envelope.log_acceptance), abs=5 * error
    )
    square = (rho**2).sum(axis=1)
    mean = (weight * square).sum() / weight.sum()
    error = math.sqrt(np.mean(weight**2 * (square - mean) ** 2) / n) / weight.mean()
    assert mean == pytest.approx(mean_square_radius(m, sigma), abs=5 * error)
    trace = rho.sum(axis=1)
    spread = (weight * trace**2).sum() / weight.sum()
    error = math.sqrt(np.mean(weight**2 * (trace**2 - spread) ** 2) / n) / weight.mean()
    assert spread == pytest.approx(
        m * sigma**2, abs=5 * error
    )  # sinh does not see the trace


@pytest.mark.parametrize(("m", "sigma"), [(2, 0.3), (3, 1.0), (6, 0.2), (20, 0.1)])
def test_the_tightest_tangent_is_the_best(m, sigma):
    best = NearEnvelope.tightest(m, sigma)
    for factor in (0.98, 1.02):
        assert (
            NearEnvelope(m, sigma, best.tangent * factor).log_acceptance
            < best.log_acceptance
        )
    assert best.name == "near"
    names = acceptance(m, sigma)
    assert set(names) == {"near", "far"}
    assert names["near"] == pytest.approx(math.exp(best.log_acceptance), rel=1e-12)
    assert best_envelope(m, sigma).name == max(names, key=names.__getitem__)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_gaussian_matrices_and_rotations(m):
    n = 4000
    found = gaussian_eigenvalues(np.random.default_rng(1), n, m)
    g = np.random.default_rng(2).standard_normal((n, m, m)) / math.sqrt(2)
    s = np.where(
        np.eye(m) == 1,
        g * math.sqrt(2),
        np.triu(g, 1) + np.swapaxes(np.triu(g, 1), 1, 2),
    )
    truth = np.linalg.eigvalsh(s)[:, ::-1]
    for i in range(m):
        assert stats.ks_2samp(found[:, i], truth[:, i]).pvalue > 1e-4
        assert (
            stats.ks_2samp(
                1.1 * (found[:, 0] - found[:, -1]), truth[:, 0] - truth[:, -1]
            ).pvalue
            < 1e-6
        )
    for i, j in itertools.combinations(range(m), 2):
        assert (
            stats.ks_2samp(found[:, i] - found[:, j], truth[:, i] - truth[:, j]).pvalue
            > 1e-4
        )
    assert stats.kstest(found.sum(axis=1) / math.sqrt(m), "norm").pvalue > 1e-4
    q = uniform_orthogonal(np.random.default_rng(3), n, m)
    assert q @ np.swapaxes(q, 1, 2) == pytest.approx(
        np.broadcast_to(np.eye(m), q.shape), abs=1e-12
    )
    for i, j in itertools.product(
        range(m), repeat=2
    ):  # the square of an entry is Beta(1/2, (m−1)/2)
        assert (
            stats.kstest(q[:, i, j] ** 2, stats.beta(0.5, (m - 1) / 2).cdf).pvalue
            > 1e-4
        )


def test_spd_draws_in_pieces_and_about_many_centers(monkeypatch):
    centers = np.array([np.diag([1.0, 4.0]), [[2.0, 0.5], [0.5, 1.0]], np.eye(2)])
    whole = RiemannianGaussian(SPDAffineInvariant(2), 1e-9).sample(
        np.random.default_rng(0), centers, (4, 3)
    )
    assert whole == pytest.approx(np.broadcast_to(centers, (4, 3, 2, 2)), abs=1e-7)
    monkeypatch.setattr(
        random_matrices, "MAX_TEMPORARY_ENTRIES", 20
    )  # five matrices at a time
    pieces = RiemannianGaussian(SPDAffineInvariant(2), 1e-9).sample(
        np.random.default_rng(0), centers, (4, 3)
    )
    assert pieces == pytest.approx(whole, abs=1e-7)
    many = RiemannianGaussian(SPDAffineInvariant(2), 0.3).sample(
        np.random.default_rng(0), np.eye(2), 23
    )
    assert len(np.unique(many[:, 0, 0])) == 23
    assert RiemannianGaussian(SPDAffineInvariant(2), 0.3).sample(
        np.random.default_rng(0), np.eye(2)
    ).shape == (2, 2)
    assert sample_log_eigenvalues(np.random.default_rng(0), 1, 2.0, 6).shape == (6, 1)
    assert sample_log_eigenvalues(np.random.default_rng(0), 2, 2.0, 0).shape == (0, 2)
    assert (
        stats.kstest(
            sample_log_eigenvalues(np.random.default_rng(1), 1, 2.0, 2000).ravel() / 2,
            "norm",
        ).pvalue
        > 1e-4
    )


def test_what_has_no_draw_is_refused():
    eye = np.eye(2)
    for center in (np.eye(3), [[1.0, 2.0], [2.0, 1.0]], np.array([1.0, 2.0])):
        with pytest.raises(ParameterError):
            RiemannianGaussian(SPDAffineInvariant(2), 0.3).sample(
                np.random.default_rng(0), center
            )
    for size in (-1, 1.5, "3", (2, -1)):
        with pytest.raises(ParameterError):
            RiemannianGaussian(SPDAffineInvariant(2), 0.3).sample(
                np.random.default_rng(0), eye, size
            )
    edge = -5 + math.sqrt(25 + 36)  # σ² + 10σ = 36
    draws = RiemannianGaussian(SPDAffineInvariant(2), edge * (1 - 1e-9)).sample(
        np.random.default_rng(0), eye, 9999
    )
    assert np.all(np.linalg.eigvalsh(draws) > 0)
    with pytest.raises(ParameterError, match="smaller scale"):
        RiemannianGaussian(SPDAffineInvariant(2), edge * (1 + 1e-9)).sample(
            np.random.default_rng(0), eye
        )
    poor = FarEnvelope(3, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelopes, "_envelopes", lambda m, sigma, beta: (poor,))
        patch.setattr(NearEnvelope, "log_acceptance_bound", -math.inf)
        patch.setattr(FarEnvelope, "log_acceptance", math.log(1e-5) - 1e-9)
        with pytest.raises(ParameterError, match="accepts"):
            sample_log_eigenvalues(np.random.default_rng(0), 3, 1.0, 1)
        patch.setattr(FarEnvelope, "log_acceptance", math.log(1e-5))
        assert sample_log_eigenvalues(np.random.default_rng(0), 3, 1.0, 1).shape == (
            1,
            3,
        )
    for m, sigma in ((1, 1.0), (2, -1.0), (2, math.nan)):
        with pytest.raises(ParameterError):
            acceptance(m, sigma)


def test_a_broken_envelope_is_noticed():
    class Wrong(FarEnvelope):
        def propose(self, rng, n):
            rho, log_ratio = super().propose(rng, n)
            return rho, log_ratio + 1e-6

    with pytest.raises(EnvelopeViolation):
        rejection_sample(np.random.default_rng(0), Wrong(2, 8.0), 2, 3000)
