"""Enclosures against 60-digit arithmetic: every ball contains the truth, and not by holding everything."""

import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from curvedp.errors import EnvelopeViolation
from curvedp.numerics import enclosures as balls
from curvedp.numerics.enclosures import (
    FloatBall,
    arb_array,
    decide,
    float_ball,
    float_up,
    precision,
    round_arb,
)
from curvedp.randomness import GeneratorSource
from curvedp.randomness.lazy_reals import LazyNormals, LazyUniforms
from curvedp.randomness.lazy_reals import accepts as coin_accepts
from support.goodness import accepts, ks, rejects

mp = mpmath.mp.clone()
mp.prec = 200
rng = np.random.default_rng(5)


def exact_inside(ball: FloatBall) -> np.ndarray:
    """mpmath numbers in the ball, some at its ends."""
    t = np.clip(rng.uniform(-1.2, 1.2, ball.mid.shape), -1, 1)
    return np.vectorize(
        lambda m, r, s: mp.mpf(m) + mp.mpf(r) * mp.mpf(s), otypes=[object]
    )(ball.mid, ball.rad, t)


def share(ball: FloatBall, truth: np.ndarray) -> np.ndarray:
    """|truth − mid|/rad; at most 1 where the enclosure holds."""
    return np.vectorize(lambda m, r, x: float(abs(x - mp.mpf(m)) / mp.mpf(r)))(
        ball.mid, ball.rad, truth
    )


def scattered(n: int, rad: float = 0.0) -> FloatBall:
    mid = rng.standard_normal(n) * 2.0 ** rng.integers(-30, 30, n)
    return FloatBall(mid, np.abs(mid) * rad * rng.random(n))


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


@pytest.mark.parametrize("rad", [0.0, 1e-14, 0.3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_encloses(name: str, rad: float) -> None:
    a, b = scattered(2000, rad), scattered(2000, rad)
    worst = share(
        OPERATIONS[name](a, b), OPERATIONS[name](exact_inside(a), exact_inside(b))
    )
    assert np.all(worst <= 1)
    assert worst.max() > 0.5  # the radius is not padding


@pytest.mark.parametrize("rad", [0.0, 1e-14, 0.3])
@pytest.mark.parametrize("name", ["sqrt", "log"])
def test_functions_enclose(name: str, rad: float) -> None:
    a = scattered(2000, rad)
    a = FloatBall(np.abs(a.mid), a.rad)
    truth = np.vectorize(
        getattr(mp, {"sqrt": "sqrt", "log": "ln"}[name]), otypes=[object]
    )(exact_inside(a))
    worst = share(getattr(a, name)(), truth)
    assert np.all(worst <= 1)
    assert worst.max() > 0.1


def test_log_near_1_and_far_out() -> None:
    x = np.concatenate(
        [
            1 + rng.standard_normal(500) * 2.0 ** -rng.integers(1, 52, 500),
            2.0 ** rng.uniform(-1000, 1000, 500),
        ]
    )
    x = np.append(np.abs(x), [0.5, 1.0, 2.0, np.sqrt(0.5), np.sqrt(2.0), 5e-324])
    ball = FloatBall(x).log()
    assert np.all(
        share(ball, np.vectorize(lambda v: mp.ln(mp.mpf(v)), otypes=[object])(x)) <= 1
    )
    assert np.all(
        ball.rad
        <= 8 * 2.0**-53 * np.maximum(np.abs(ball.mid), 2.0**-53 * 2)
        + 2.0**-53 * 3 * np.abs(np.log2(x))
    )


@pytest.mark.parametrize("n", [1, 3, 50, 1000])
def test_inner_product_encloses(n: int) -> None:
    a, b = scattered(n, 1e-15), scattered(n, 1e-15)
    truth = sum(
        (x * y for x, y in zip(exact_inside(a), exact_inside(b), strict=True)),
        mp.mpf(0),
    )
    assert share(a.dot(b), np.asarray(truth)) <= 1
    m = FloatBall(rng.standard_normal((7, n)))
    exact = [
        sum(Fraction(x) * Fraction(y) for x, y in zip(row, b.mid, strict=True))
        for row in m.mid
    ]
    for product in (m.dot(FloatBall(b.mid)), m.sharp_dot(FloatBall(b.mid))):
        assert all(
            abs(Fraction(c) - x) <= Fraction(r)
            for c, r, x in zip(product.mid, product.rad, exact, strict=True)
        )


def test_sharp_product_has_the_radius_of_one_rounding() -> None:
    q = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    sharp, plain = FloatBall(q.T).sharp_dot(q), FloatBall(q.T).dot(q)
    exact = [
        [sum(Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)) for b in q.T]
        for a in q.T
    ]
    off = np.array(
        [
            [abs(Fraction(c) - x) / Fraction(r) for c, r, x in zip(*row, strict=True)]
            for row in zip(sharp.mid, sharp.rad, exact, strict=True)
        ],
        dtype=float,
    )
    assert np.all(off <= 1)
    assert off.max() > 0.05
    assert sharp.rad.max() < 0.2 * plain.rad.max()


def test_sharp_product_of_long_rows_that_cancel() -> None:
    """What is taken as exact is so by the number of terms, not by the number of rows."""
    half = rng.standard_normal(1500)
    a, b = (
        np.stack([np.concatenate([half, half])] * 2),
        np.concatenate([half, -half * (1 + 1e-9)]),
    )
    exact = sum(Fraction(x) * Fraction(y) for x, y in zip(a[0], b, strict=True))
    product = FloatBall(a).sharp_dot(b)
    assert all(
        abs(Fraction(c) - exact) <= Fraction(r)
        for c, r in zip(product.mid, product.rad, strict=True)
    )
    assert np.all(product.rad < 1e-3 * np.abs(product.mid))
    assert (
        FloatBall([0.0], 1.0).sharp_dot(FloatBall([0.0], 1.0)).rad >= 1
    )  # ±1 times ±1


def test_a_wrong_unit_roundoff_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balls, "_UNIT_ROUNDOFF", 2.0**-55)
    a, b = scattered(2000), scattered(2000)
    assert np.any(share(a * b, exact_inside(a) * exact_inside(b)) > 1)


def test_nothing_is_claimed_across_a_pole() -> None:
    with np.errstate(all="ignore"):
        straddling = FloatBall([1.0]) / FloatBall([1e-3], [1e-2])
        assert not straddling.round(3)[1].any()
        assert not FloatBall([1e-3], [1e-2]).log().round(3)[1].any()


def test_rounding_is_certain_only_inside_a_cell() -> None:
    # 2^-1 is the edge between the cells of 0 and 1 on the integers
    ball = FloatBall(
        [0.4, 0.49, 0.5, 0.51, 0.6, 2.0**60], [0.09, 0.02, 0.0, 0.02, 0.09, 0.0]
    )
    integers, certain = ball.round(0)
    assert certain.tolist() == [True, False, False, False, True, False]
    assert integers[[0, 4]].tolist() == [0, 1]
    assert round_arb(arb(0.49, 0.02), 0) is None
    assert round_arb(arb(-0.6), 0) == -1
    with ctx.workprec(300):
        assert round_arb(arb(2.0**60), 200) == 2**260
    assert round_arb(arb.nan(), 3) is None


def test_conversions_enclose() -> None:
    with ctx.workprec(200):
        x = np.array(
            [arb(k).sqrt() * arb(2) ** (k - 20) for k in range(2, 60)], dtype=object
        )
        ball = float_ball(x)
        assert all(
            abs(v - arb(m)) <= arb(r)
            for v, m, r in zip(x, ball.mid, ball.rad, strict=True)
        )
        assert all(arb(float_up(v)) >= v for v in x)
        assert all(float_up(v) <= float(v) * (1 + 2.0**-51) for v in x)
    assert [float(v) for v in arb_array([0.1, -3.0])] == [0.1, -3.0]


# ---- lazy reals


def test_a_real_keeps_its_bits_when_refined() -> None:
    for real in (
        LazyUniforms(GeneratorSource(rng), 30),
        LazyNormals(GeneratorSource(rng), 30),
    ):
        indices = range(30)
        seen = []
        for bits in (64, 128, 1024):
            with ctx.workprec(bits):
                seen.append(
                    real.balls(bits, indices)
                    if isinstance(real, LazyUniforms)
                    else list(real.balls(bits))
                )
        with ctx.workprec(2048):
            for coarse, middle, fine in zip(*seen, strict=True):
                assert coarse.overlaps(fine)
                assert middle.overlaps(fine)
                assert fine.rad() < coarse.rad() * arb(2) ** -900
            floats = real.floats()
            for m, r, fine in zip(floats.mid, floats.rad, seen[-1], strict=True):
                assert abs(fine - arb(m)) <= arb(r)


def test_lazy_uniforms_and_normals_follow_their_laws() -> None:
    source = GeneratorSource(np.random.default_rng(9))
    u, z = (
        LazyUniforms(source, 100_000).floats().mid,
        LazyNormals(source, 100_001).floats(),
    )
    assert accepts(ks(u, lambda x: x))
    assert accepts(ks(z.mid, stats.norm.cdf))
    assert rejects(ks(1.05 * z.mid, stats.norm.cdf))
    assert abs(np.corrcoef(z.mid[0:-1:2], z.mid[1::2])[0, 1]) < 4 / np.sqrt(50_000)
    assert accepts(
        ks(z.mid[0:-1:2] ** 2 + z.mid[1::2] ** 2, stats.chi2(2).cdf)
    )  # the two of a pair are independent
    assert np.quantile(z.rad, 0.999) < 2.0**-40


def test_disc_edge_is_decided_by_further_bits() -> None:
    class Edge(GeneratorSource):
        """The first pair has x² + y² = 1 to 64 bits: x = 0.6, y = 0.8 (u = 0.8, v = 0.9)."""

        def words(self, size):
            w = super().words(size).copy()
            if not hasattr(self, "used"):
                self.used = True
                w[:2] = [int(Fraction(8, 10) * 2**64), int(Fraction(9, 10) * 2**64)]
            return w

    for seed in range(4):
        source = Edge(np.random.default_rng(seed))
        normals = LazyNormals(source, 2)
        batch, accepted = normals._batches[0]
        assert batch._bits > 64  # it had to ask
        with ctx.workprec(400):
            u, v = batch.balls(256, (0, 1))
            inside = bool((2 * u - 1) ** 2 + (2 * v - 1) ** 2 < 1)
        assert (0 in accepted) == inside


def test_decide_doubles_until_certain() -> None:
    asked = []
    assert decide(lambda p: asked.append(p) or ("yes" if p > 500 else None)) == "yes"
    assert asked == [64, 128, 256, 512]


def test_a_ratio_above_1_raises() -> None:
    coin = LazyUniforms(GeneratorSource(np.random.default_rng(0)), 1)
    with pytest.raises(EnvelopeViolation):
        coin_accepts(coin, lambda p: arb(1e-9, 1e-12))
    coin_accepts(
        coin, lambda p: arb(1e-12, 1e-9) if p < 100 else arb(-1)
    )  # not certainly above: refine


def test_coin_has_the_stated_probability() -> None:
    source = GeneratorSource(np.random.default_rng(3))
    hits = sum(
        coin_accepts(LazyUniforms(source, 1), lambda p: arb(0.3).log())
        for _ in range(20_000)
    )
    assert accepts(stats.binomtest(hits, 20_000, 0.3).pvalue)
    assert rejects(stats.binomtest(hits, 20_000, 0.33).pvalue)


# ---- precision


@pytest.mark.parametrize(
    ("setting", "safe"), [(precision, True), (ctx.workprec, False)]
)
def test_threads_cannot_change_each_others_precision(setting, safe: bool) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with setting(256):
            inside.set()
            leave.wait(30)

    before, thread = ctx.prec, threading.Thread(target=other)
    with setting(64):
        thread.start()
        assert inside.wait(0.3) == (not safe)  # the other one waits for its turn
        assert (ctx.prec == 64) == safe
    assert inside.wait(30)
    leave.set()
    thread.join()
    assert (ctx.prec == before) == safe
    ctx.prec = before


def test_precision_nests_and_survives_an_error() -> None:
    before = ctx.prec

    def fails() -> None:
        with precision(100), precision(200):
            assert ctx.prec == 200
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert ctx.prec == before
