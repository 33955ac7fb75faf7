"""The geodesic regression paper: its sampler against its law in closed form, and Table 1 on made-up wine."""

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Sphere
from curvedp.papers.reg.examples import permutation_pvalue
from curvedp.papers.reg.line import displayed_line
from curvedp.papers.reg.sampler import angles, imposed, sequential_sampler, sphere_data
from curvedp.papers.reg.wine import MIDDLE, RESPONSES, UNIT
from curvedp.papers.runner import Setting, find_reproductions
from curvedp.regression import fit_geodesic


def test_the_printed_sampler_follows_the_printed_law_on_the_line():
    """On ℝ ∇_p E = p − p̂: the footpoint is Laplace with scale 2τ/(nε). The chain is thinned until that shows."""
    rng = np.random.default_rng(0)
    x = rng.random(30)
    Y = (1 + 2 * x + 0.1 * rng.standard_normal(30))[:, None]
    samples = sequential_sampler(Euclidean(1), x, Y, rng, 300, velocities=1, thin=30)
    scale = 2 * samples.fit.residuals(x, Y).max() / 30
    off = (samples.footpoints - samples.fit.footpoint)[:, 0] / scale
    assert stats.kstest(off, stats.laplace.cdf).pvalue > 1e-4
    assert stats.kstest(off / 2, stats.laplace.cdf).pvalue < 1e-6
    # the velocity at p̃ is Laplace about its own optimum, which p̃ moves: mean x(y − p̃ − xv) = 0
    best = np.mean(x * (Y[:, 0] - samples.footpoints), axis=1) / np.mean(x * x)
    off = (samples.velocities[:, 0, 0] - best) / (scale / np.mean(x * x))
    assert stats.kstest(off, stats.laplace.cdf).pvalue > 1e-4


def test_footpoint_and_velocity_have_budgets_of_their_own():
    """On ℝ the scale of each Laplace law is inverse to its own ε, and to no other."""
    x = np.random.default_rng(0).random(30)
    Y = (1 + 2 * x + 0.1 * np.random.default_rng(1).standard_normal(30))[:, None]
    drawn = {
        eps: sequential_sampler(
            Euclidean(1), x, Y, np.random.default_rng(2), 300, 1, thin=30, eps=eps
        )
        for eps in ((1.0, 1.0), (4.0, 1.0), (1.0, 4.0))
    }
    spread_of_foot = {eps: s.footpoints.std() for eps, s in drawn.items()}
    assert spread_of_foot[4.0, 1.0] < spread_of_foot[1.0, 1.0] / 2.5
    assert spread_of_foot[1.0, 4.0] > spread_of_foot[1.0, 1.0] / 1.5

    def spread_of_velocity(samples):
        """Return the spread about the velocity that is best at each footpoint."""
        best = np.mean(x * (Y[:, 0] - samples.footpoints), axis=1) / np.mean(x * x)
        return (samples.velocities[:, 0, 0] - best).std()

    velocity = {eps: spread_of_velocity(samples) for eps, samples in drawn.items()}
    assert velocity[1.0, 4.0] < velocity[1.0, 1.0] / 2.5
    assert velocity[4.0, 1.0] > velocity[1.0, 1.0] / 1.5
    for wrong in ((0.0, 1.0), (1.0, -1.0), (1.0, float("nan"))):
        with pytest.raises(ParameterError, match=r"eps\[[01]\]"):
            sequential_sampler(
                Euclidean(1), x, Y, np.random.default_rng(0), 2, eps=wrong
            )


def test_the_displayed_law_on_the_line_is_gaussian_by_chain_and_exactly():
    """exp{−Σ(p + xv̂ − y)²/2τ} is N(p̂, τ/n): the chain of `paper.py` and the exact draws of `line.py` both follow it."""
    rng = np.random.default_rng(2)
    x = rng.random(30)
    Y = (1 + 2 * x + 0.1 * rng.standard_normal(30))[:, None]
    samples = sequential_sampler(
        Euclidean(1), x, Y, rng, 300, velocities=1, thin=30, law="displayed"
    )
    tau = samples.fit.residuals(x, Y).max()
    exact = displayed_line(x, Y, rng, 4000)
    for feet in (samples.footpoints[:, 0], exact[:, 0, 0]):
        off = (feet - samples.fit.footpoint[0]) / np.sqrt(tau / 30)
        assert stats.kstest(off, stats.norm.cdf).pvalue > 1e-4
        assert stats.kstest(off / 2, stats.norm.cdf).pvalue < 1e-6
    for feet, shots in (
        (samples.footpoints[:, 0], samples.velocities[:, 0, 0]),
        (exact[:, 0, 0], exact[:, 1, 0]),
    ):
        best = np.mean(x * (Y[:, 0] - feet[:, None]), axis=1) / np.mean(x * x)
        assert (
            stats.kstest(
                (shots - best) / np.sqrt(tau / np.sum(x * x)), stats.norm.cdf
            ).pvalue
            > 1e-4
        )


def test_imposed_noise_has_the_distance_and_angle_it_is_given():
    M, rng = Sphere(2), np.random.default_rng(3)
    x, Y = sphere_data(20, 1.0, rng)
    samples = imposed(M, fit_geodesic(M, x, Y), rng, 400, 0.01, 5.47)
    assert np.mean(M.dist(samples.footpoints, samples.fit.footpoint)) == pytest.approx(
        0.01, rel=0.1
    )
    turned = angles(M, samples.fit, samples.footpoints[0], samples.velocities[0])
    assert np.std(turned) == pytest.approx(5.47, rel=0.15)


@pytest.mark.parametrize("name", ["reg-table1", "reg-fig4"])
def test_on_made_up_wine(name, tmp_path):
    function = find_reproductions()[name].function()
    rng = np.random.default_rng(1)
    alcohol = rng.uniform(8.5, 11.5, 120)
    responses = MIDDLE + UNIT * (
        0.8 * (alcohol - 10)[:, None] + 0.2 * rng.standard_normal((120, 4))
    )
    head = ";".join([*RESPONSES, "alcohol"])
    np.savetxt(
        tmp_path / "winequality-red.csv",
        np.c_[responses, alcohol],
        delimiter=";",
        header=head,
        comments="",
        fmt="%.9g",
    )
    figures, picture = function(Setting(data_dir=tmp_path))
    assert picture.axes
    if name == "reg-table1":
        assert figures["least squares"] < 0.3
        assert (
            figures["least squares"]
            < figures["ours"]["(ε, δ), one record replaced"]["mean"]
            < 0.7
        )
        assert figures["least squares"] < figures["displayed"]["mean"]
    else:
        assert len(picture.axes) == 4


def test_permutations_tell_a_trend_from_none():
    M, rng, x = Sphere(2), np.random.default_rng(3), np.linspace(0, 1, 25)
    Y = M.from_normal_coordinates(
        M.origin, np.outer(x, [0.8, 0.2]) + 0.05 * rng.standard_normal((25, 2))
    )
    assert permutation_pvalue(M, x, Y, 39, rng) == 1 / 40
    assert permutation_pvalue(M, rng.random(25), Y, 39, rng) > 0.1
