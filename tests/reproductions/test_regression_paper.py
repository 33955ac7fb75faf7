"""The geodesic regression paper: its sampler against its law in closed form, and Table 1 on made-up wine."""

import numpy as np
from scipy import stats

from benchmarks.regression_peers import MIDDLE, RESPONSES, UNIT
from curvedp.geometry import Euclidean
from reproductions.reg.paper import sequential_sampler
from reproductions.runner import Setting, find_reproductions


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


def test_table1_on_made_up_wine(tmp_path):
    function = find_reproductions()["reg-table1"].function()
    rng = np.random.default_rng(1)
    alcohol = rng.uniform(8.5, 11.5, 120)
    responses = MIDDLE + UNIT * (0.8 * (alcohol - 10)[:, None] + 0.2 * rng.standard_normal((120, 4)))
    head = ";".join([*RESPONSES, "alcohol"])
    np.savetxt(
        tmp_path / "winequality-red.csv", np.c_[responses, alcohol], delimiter=";", header=head, comments="", fmt="%.9g"
    )
    figures, picture = function(Setting(data_dir=tmp_path))
    assert figures["least squares"] < 0.3
    assert figures["least squares"] < figures["ours"]["(ε, δ), one record replaced"]["mean"] < 0.7
    assert picture.axes
