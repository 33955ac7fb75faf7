"""The optimizers' fast normals against the normal law: body, wedges, tail, independence."""

import numpy as np
from scipy import stats

from curvedp.optim import _ziggurat
from curvedp.optim._ziggurat import ziggurat_normals
from curvedp.randomness import GeneratorSource

COUNT = 1_000_000


def draws(seed=0):
    return ziggurat_normals(
        GeneratorSource(np.random.default_rng(seed)), (1000, COUNT // 1000)
    ).ravel()


def fit(x):
    """Chi-square p-value over 2000 cells of equal chance, many within one layer."""
    inner = stats.norm.ppf(np.arange(1, 2000) / 2000)
    return stats.chisquare(
        np.bincount(np.searchsorted(inner, x), minlength=2000)
    ).pvalue


def test_layers_of_the_ziggurat_close():
    """256 layers of one area under the half-density: the last ends at height 1."""
    widths, area = _ziggurat._WIDTHS, _ziggurat._LAYER_AREA
    heights = np.exp(-0.5 * widths**2)
    assert np.all(np.diff(widths) < 0)
    np.testing.assert_allclose(widths[1:-1] * np.diff(heights[1:]), area, rtol=1e-11)
    assert widths[0] * heights[1] == area  # the bottom one, with the tail folded in


def test_draws_are_standard_normal():
    x = draws()
    assert fit(x) > 1e-4
    assert stats.kstest(x, "norm").pvalue > 1e-4
    for cut in (3.0, 3.6541528853610088, 4.0, 4.5):  # the tail, on both sides
        for count in (np.sum(x > cut), np.sum(x < -cut)):
            assert stats.binomtest(int(count), COUNT, stats.norm.sf(cut)).pvalue > 1e-4
    tail = np.abs(x[np.abs(x) > _ziggurat._TAIL_START])
    assert (
        stats.kstest(
            stats.norm.sf(tail) / stats.norm.sf(_ziggurat._TAIL_START), "uniform"
        ).pvalue
        > 1e-4
    )
    for lag in (1, 2, 1000):
        assert abs(np.mean(x[lag:] * x[:-lag])) < 4.5 / np.sqrt(COUNT)
        assert abs(np.mean(x[lag:] ** 2 * x[:-lag] ** 2) - 1) < 4.5 * np.sqrt(8 / COUNT)


def test_wrong_laws_are_seen(monkeypatch):
    assert fit(1.02 * draws()) < 1e-6
    monkeypatch.setattr(
        _ziggurat, "_INNER_WIDTHS", _ziggurat._WIDTHS[:-1]
    )  # every point of a layer is kept: no tail, no wedges
    far = int(np.sum(np.abs(draws()) > 3.92))
    assert stats.binomtest(far, COUNT, 2 * stats.norm.sf(3.92)).pvalue < 1e-6


def test_the_second_comparison_alone_gives_the_law(monkeypatch):
    """Every point judged by the curve itself, none by the quick comparison: the two must agree."""
    monkeypatch.setattr(
        _ziggurat,
        "_INNER_WIDTHS",
        np.where(np.arange(256) > 0, 0.0, _ziggurat._TAIL_START),
    )
    assert fit(draws()[:200_000]) > 1e-4
    monkeypatch.setattr(
        _ziggurat, "_HEIGHTS", _ziggurat._HEIGHTS * 0.7
    )  # a curve that is too low keeps too much
    monkeypatch.setattr(
        _ziggurat, "_LAYERS", 8
    )  # of the widest layers, where wedges weigh
    assert fit(draws()[:200_000]) < 1e-6


def test_shapes():
    source = GeneratorSource(np.random.default_rng(1))
    assert ziggurat_normals(source, (3, 5)).shape == (3, 5)
    assert ziggurat_normals(source, (0, 5)).shape == (0, 5)
    assert ziggurat_normals(source, ()).shape == ()
