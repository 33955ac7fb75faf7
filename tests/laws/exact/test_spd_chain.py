"""The chain envelope of the SPD Gaussian against brute force and floats."""

import itertools
import math

import numpy as np
import pytest

from curvedp.entropy import GeneratorSource
from curvedp.entropy.bits import LazyUniforms
from curvedp.laws.exact.spd_chain import ChainEnvelope, _ChainDraw
from curvedp.laws.spd_chain import ChainEnvelope as FloatChain


def source(seed: int = 1) -> GeneratorSource:
    return GeneratorSource(np.random.default_rng(seed))


@pytest.fixture(scope="module", params=[(3, 1.6), (4, 1.4)], ids=str)
def chain(request) -> ChainEnvelope:
    m, sigma = request.param
    return ChainEnvelope(m, sigma, FloatChain.tightest(m, sigma).positions)


def test_the_chain_by_brute_force(chain: ChainEnvelope) -> None:
    m, sigma = chain.m, chain.sigma
    mode = FloatChain.tightest(m, sigma).positions
    touch = {(i, j): (mode[i] - mode[j]) / 2 for i in range(m) for j in range(i + 2, m)}
    assert chain._touch == pytest.approx(touch)
    slopes = np.zeros(m)
    for i, j in itertools.combinations(range(m), 2):
        half = 0.5 if j == i + 1 else 0.5 / math.tanh(touch[i, j])
        slopes[i] += half
        slopes[j] -= half
    means = np.array([float(x) for x in chain.means()])
    assert means == pytest.approx(sigma**2 * slopes, rel=1e-12, abs=1e-12)
    edges = np.array(chain._edges)
    assert edges[0] == pytest.approx(means.min() - 7 * sigma)
    assert edges[-1] == pytest.approx(means.max() + 7 * sigma)
    cdf = np.array(
        [
            [(1 + math.erf((e - mean) / (sigma * math.sqrt(2)))) / 2 for e in edges]
            for mean in means
        ]
    )
    z = np.diff(np.hstack([np.zeros((m, 1)), cdf, np.ones((m, 1))]))
    bottom, top = np.append(-np.inf, edges), np.append(edges, np.inf)
    factor = np.tril(
        -np.expm1(np.minimum(bottom[None, :] - top[:, None], 0.0))
    )  # [cell above, cell below]
    message = z[-1]
    for i in reversed(range(m - 1)):
        message = z[i] * (factor @ message)
    _, _, plain, _ = chain.tables(64)
    assert [float(x) for x in plain[0]] == pytest.approx(
        np.cumsum(message).tolist(), rel=1e-6, abs=1e-12
    )
    for seed in range(
        20
    ):  # the first coordinate by all its cells, the last below the cell above it
        u = LazyUniforms(source(seed), 1)
        share = float(u.balls(64)[0])
        sums = np.cumsum(message)
        assert chain.pick(0, len(sums) - 1, u) == pytest.approx(
            np.searchsorted(sums, share * sums[-1]), abs=1
        )
        above = 300 + 30 * seed
        sums = np.cumsum(z[-1] * factor[above])
        assert chain.pick(m - 1, above, u) == pytest.approx(
            np.searchsorted(sums, share * sums[-1]), abs=1
        )


def test_a_chain_trial_against_floats(chain: ChainEnvelope) -> None:
    edges = np.array(chain._edges)
    bottom, top = np.append(-np.inf, edges), np.append(edges, np.inf)
    seen = 0
    for seed in range(30):
        trial = _ChainDraw(chain, source(seed))
        rho = np.array([float(x) for x in trial.rho(128)])
        cells = np.array(trial._cells)
        assert np.all((bottom[cells] <= rho) & (rho <= top[cells]))
        assert np.all(np.diff(cells) <= 0)
        assert trial.decreasing() == bool(np.all(np.diff(rho) < 0))
        if not trial.decreasing():
            continue
        seen += 1
        bounds = sum(
            math.log(-math.expm1(bottom[b] - top[a]))
            for a, b in itertools.pairwise(cells)
        )
        assert float(chain.log_bounds(trial._cells, 128)) == pytest.approx(
            bounds, rel=1e-9
        )
        rest = 0.0
        for (i, j), x0 in chain._touch.items():
            x = (rho[i] - rho[j]) / 2
            rest += math.log(math.sinh(x) / math.sinh(x0)) - (x - x0) / math.tanh(x0)
        assert float(chain.log_rest(trial.rho(128))) == pytest.approx(
            rest, rel=1e-8, abs=1e-12
        )
        gaps = sum(math.log(-math.expm1(b - a)) for a, b in itertools.pairwise(rho))
        assert float(trial.log_ratio(128)) == pytest.approx(
            gaps - bounds + rest, rel=1e-6, abs=1e-9
        )
        assert trial.log_ratio(128) <= 0
    assert seen > 20
