"""Loss distributions against exact integer arithmetic: never below, close above, without a floor."""

import itertools
import math
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from flint import acb, ctx, fmpz_poly

from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Composition,
    PureDP,
    RaoDP,
    RenyiDP,
    compose_profiles,
    laplace_profile,
)
from curvedp.privacy.guarantees.base import guarantee_of
from curvedp.privacy.pld import composed, convolve, discretize
from curvedp.privacy.pld.composed import ComposedPLD
from curvedp.privacy.pld.convolve import (
    convolve_tilted,
    exponential_tilt,
    hockey_stick_divergence,
)
from curvedp.privacy.pld.discretize import (
    DiscretePLD,
    PairProfile,
    connect_the_dots,
    convex_envelope,
)
from curvedp.privacy.subsampling import FixedSizeGaussianStep, PoissonGaussianStep

UNIT = 1 << 220  # masses are rounded down to multiples of 2^-220


def exact_convolution(factors):
    """(lowest index, the masses as integers over UNIT^Σn) of the losses together, without any rounding."""
    low, product = 0, fmpz_poly([1])
    for loss, count in factors:
        masses = [0] * int(loss.index[-1] - loss.index[0] + 1)
        for i, mass in zip(loss.index, loss.masses, strict=True):
            numerator, denominator = float(mass).as_integer_ratio()
            masses[int(i - loss.index[0])] = numerator * UNIT // denominator
        product *= fmpz_poly(masses) ** count
        low += count * int(loss.index[0])
    return low, [int(c) for c in product.coeffs()]


PARTS = {
    "two points": ([PureDP(0.7)], (5,)),
    "four points": ([ApproxDP(0.5, 1e-12)], (3,)),
    "Gaussian": ([GDP(0.6)], (4,)),
    "Gaussian and points": ([GDP(1.1), PureDP(0.4)], (1, 6)),
    "Poisson": ([PoissonGaussianStep(0.8, 0.05)], (12,)),
    "fixed size": ([FixedSizeGaussianStep(1.5, 0.2), ApproxDP(0.1, 1e-9)], (3, 2)),
    "zCDP": ([ZCDP(0.1), GDP(0.3)], (1, 2)),
    "Rao": ([RaoDP(0.2), PureDP(0.3)], (1, 2)),
}


@pytest.mark.parametrize("name", PARTS)
def test_every_tilt_lies_just_above_the_exact_composition(name):
    parts, counts = PARTS[name]
    whole = ComposedPLD(
        tuple(
            PairProfile.symmetric(p.delta_upper_bound, p.truncation_loss(1e-44))
            for p in parts
        ),
        counts,
        fineness=2.0**-7,
    )
    tilts = len(whole.tilts)
    for k in sorted(
        {0, min(1, tilts - 1), tilts // 2, tilts - 1}
    ):  # all are computed alike
        width, first, values = whole._delta_curve(k)
        factors = whole._discretized_factors(width)
        low, masses = exact_convolution(factors)
        scale = UNIT ** sum(counts)
        share = np.array([m / scale for m in masses])  # of integers: rounded once
        losses = (low + np.arange(len(masses))) * width
        finite = Fraction(1)
        for loss, count in factors:
            finite *= (1 - Fraction(loss.infinite)) ** count
        infinite = float(1 - finite)
        begin = whole.largest_eps_of_tilts[k - 1] if k else 0.0
        for j in range(0, len(values), max(len(values) // 20, 1)):
            eps = (first + j) * width
            truth = float(np.sum(share * np.maximum(-np.expm1(eps - losses), 0.0)))
            assert values[j] >= (truth + infinite) * (1 - 1e-11)
            if (
                begin <= eps < min(whole.largest_eps_of_tilts[k], 1e300)
                and truth > 1e-42
            ):
                assert values[j] <= (truth + infinite) * (1 + 1e-6) + 1e-44


@pytest.mark.parametrize("bits", [4, 8, 10])
@pytest.mark.parametrize("count", [1, 7, 20])
@pytest.mark.parametrize("kind", ["spread", "atoms", "one"])
def test_the_error_charged_for_transforms_exceeds_the_error_made(bits, count, kind):
    rng = np.random.default_rng(bits * count)
    size = 1 << bits
    index = np.arange(-(size // 4), size // 4 + 1)
    masses = {
        "spread": rng.random(len(index)),
        "atoms": np.where(np.isin(index, [-3, 1, 2]), rng.random(len(index)), 1e-30),
        "one": np.where(index == 1, 1.0, 1e-17),
    }[kind]
    loss = DiscretePLD(2.0**-6, index, masses / masses.sum(), 0.0)
    for rate in (0.0, 3.0):
        found, kappa, _, error = convolve_tilted([(loss, count)], rate, size)
        weights = loss.masses * np.exp(rate * loss.losses - loss.log_moment(rate)[0])
        truth = exact_wrapped(index, weights, count, size)
        made = np.linalg.norm(found - truth)
        rounding = (
            count * 64 * 2.0**-53 * np.linalg.norm(truth)
        )  # the masses themselves are rounded up in between
        assert made <= error + rounding
        assert error < 1e-9
        assert kappa == pytest.approx(
            count * loss.log_moment(rate)[0], rel=1e-12, abs=1e-12
        )


@pytest.mark.parametrize(
    "count", [1 << 14, 10**6 + 1]
)  # even and odd: of a lattice the signs differ
@pytest.mark.parametrize("kind", ["quiet", "small", "lattice", "far", "many"])
def test_powers_of_very_many_steps_by_sixty_digits(kind, count):
    size, rng = 256, np.random.default_rng(2)
    index = np.arange(-100, 101)
    masses = {
        "quiet": np.where(index == 0, 1.0, 1e-7 * rng.random(len(index))),
        "small": 1e-4 * np.exp(-((index / 3.0) ** 2))
        + (index == 0),  # losses of a few cells, as of small batches
        "lattice": 1.0 * np.isin(index, [-1, 1])
        + 1e-30,  # its transform is −1 at the highest frequency
        "far": (index == 0) + 1e-6 * (index == 100) + 1e-3 * (index == 1) + 1e-30,
        "many": rng.random(len(index)),
    }[kind]
    loss = DiscretePLD(2.0**-6, index, masses / masses.sum(), 0.0)
    found, _, _, error = convolve_tilted([(loss, count)], 0.0, size)
    made = np.linalg.norm(
        found - mp_wrapped(index, exponential_tilt(loss, 0.0)[1], count, size)
    )
    assert made <= error
    assert error < {"lattice": 1e-7, "many": 1e-7}.get(kind, 1e-11)


def mp_wrapped(index, weights, count, size):
    """The weights' convolution with themselves modulo `size`, as an inverse transform of powers."""
    with ctx.workdps(60):
        place = [acb(0)] * size
        for i, w in zip(index, weights, strict=True):
            place[int(i) % size] += acb(float(w))
        back = acb.dft([value**count for value in acb.dft(place)], inverse=True)
        assert max(float(value.real.rad()) for value in back) < 1e-30
        return np.array([float(value.real.mid()) for value in back])


def exact_wrapped(index, weights, count, size):
    low, masses = exact_convolution([(DiscretePLD(1.0, index, weights, 0.0), count)])
    out = [0] * size
    for i, mass in enumerate(masses):
        out[(low + i) % size] += mass
    scale = UNIT**count
    return np.array([m / scale for m in out])


def test_randomized_response_on_the_grid_is_itself():
    pair = connect_the_dots(PairProfile.symmetric(PureDP(1.0).delta, 1.0), 0.25)
    masses = {
        loss: mass
        for loss, mass in zip(pair.losses.tolist(), pair.masses.tolist(), strict=True)
        if mass > 1e-12
    }
    assert masses == pytest.approx(
        {-1.0: 1 / (1 + math.e), 1.0: math.e / (1 + math.e)}, rel=1e-12
    )
    assert pair.infinite == 0.0


def profile_of(loss, eps):
    return loss.infinite + np.sum(
        loss.masses * np.maximum(-np.expm1(eps[:, None] - loss.losses), 0.0), axis=1
    )


@pytest.mark.parametrize(
    "guarantee",
    [
        GDP(0.5),
        GDP(5.0),
        PureDP(0.3),
        ApproxDP(2.0, 1e-5),
        RaoDP(1.0),
        laplace_profile(1.0, 2, 1.0, 0.5),
        PoissonGaussianStep(1.0, 0.01),
    ],
)
def test_discretized_profiles_are_bounds_of_total_mass_one(guarantee):
    top = guarantee_of(guarantee).truncation_loss(1e-44)
    loss = connect_the_dots(
        PairProfile.symmetric(guarantee.delta_upper_bound, top), top / 2**14
    )
    assert 0 <= math.fsum(loss.masses) + loss.infinite - 1 < 1e-10
    eps = np.linspace(0, 0.9 * top, 57)
    truth = guarantee.delta(eps)
    found = profile_of(loss, eps)
    assert np.all(found >= truth * (1 - 1e-9))
    seen = truth > 1e-10
    assert np.all(found[seen] <= truth[seen] * (1 + 2e-3))


@pytest.mark.parametrize(
    "guarantee",
    [ZCDP(1e-4), ZCDP(0.1), ZCDP(10.0), RenyiDP(2.0, 0.1), RenyiDP(8.0, 1.0)],
    ids=repr,
)
def test_bounds_that_are_not_convex_lose_what_is_above_theirconvex_envelope(guarantee):
    """Once their negative masses were raised to 0 and the rest counted in full: totals from 1.2 to 9."""
    top = guarantee_of(guarantee).truncation_loss(1e-44)
    loss = connect_the_dots(
        PairProfile.symmetric(guarantee.delta_upper_bound, top), top / 2**12
    )
    assert 0 <= math.fsum(loss.masses) + loss.infinite - 1 < 1e-10
    eps = np.linspace(0, top, 101)
    assert np.all(
        profile_of(loss, eps)[1:]
        <= guarantee.delta_upper_bound(eps)[1:] * (1 + 1e-2) + 1e-44
    )


def test_the_envelope_lies_below_every_dot_and_is_convex():
    rng = np.random.default_rng(3)
    for _ in range(50):
        eps = np.cumsum(np.concatenate([[0.0], rng.uniform(0.01, 0.3, 40)]))
        dots = np.minimum(GDP(1.0).delta(eps) * rng.uniform(1.0, 1.4, 41), 1.0)
        corner, value = convex_envelope(eps, dots)
        x, at = np.exp(corner), np.interp(np.exp(eps), np.exp(corner), value)
        assert np.all(at <= dots * (1 + 1e-9))
        assert np.all(at >= GDP(1.0).delta(eps) * (1 - 1e-12))
        slopes = np.diff(value) / np.diff(x)
        assert np.all(np.diff(slopes) >= -1e-12)
        assert (
            1 - value[0] >= -2 * slopes[0] - 1e-12
        )  # convex with its mirror image as well


def test_ten_thousand_compositions_have_no_floor():
    whole = Composition((GDP(0.02),), (10_000,))
    eps = np.linspace(0.0, 24.0, 97)
    truth, found = GDP(2.0).delta(eps), whole.delta(eps)
    assert truth[-1] < 1e-27
    assert np.all(found >= truth)
    assert np.all(found <= truth * (1 + 1e-3))
    for delta in (1e-3, 1e-9, 1e-30):
        assert (
            GDP(2.0).epsilon(delta)
            <= whole.epsilon(delta)
            <= GDP(2.0).epsilon(delta) * (1 + 1e-4)
        )
        assert whole.delta(whole.epsilon(delta)) <= delta


def test_tiny_guarantees_keep_their_scale():
    """Two randomized responses of ε₀ = 1e-6: p² at loss 2ε₀, so δ(3ε₀/2) = p²(1 − e^{−ε₀/2})."""
    tiny, p = 1e-6, 1 / (1 + math.exp(-1e-6))
    truth = p * p * -math.expm1(-0.5 * tiny)
    assert (
        truth <= compose_profiles([PureDP(tiny)] * 2).delta(1.5 * tiny) <= truth * 1.001
    )


def test_beyond_the_largest_loss_nothing_is_left():
    whole = compose_profiles([PureDP(0.5)] * 3)
    assert whole.delta(1.6) < 1e-300
    assert whole.epsilon(1e-200) <= 1.5005
    mixed = compose_profiles([PureDP(0.5), ApproxDP(0.5, 1e-30)])
    assert 1e-30 <= mixed.delta(1.1) <= 1.001e-30
    assert mixed.epsilon(1e-31) == math.inf


def test_a_rough_grid_is_a_bound_too():
    for name in ("Gaussian and points", "Poisson", "fixed size"):
        parts, counts = PARTS[name]
        whole = Composition(tuple(parts), counts)
        for eps in (0.1, 1.0, 3.0):
            assert (
                whole.delta(eps) * (1 - 1e-6)
                <= whole.cheap_delta_bound(eps)
                <= whole.delta(eps) * 1.2
            )


def test_threads_get_the_same_numbers():
    whole = [Composition((GDP(0.1 + 0.01 * i), PureDP(0.2)), (1, 3)) for i in range(8)]
    alone = [w.delta(1.0) for w in whole]
    fresh = [
        ComposedPLD(
            tuple(
                PairProfile.symmetric(
                    p.delta_upper_bound,
                    min(p.truncation_loss(1e-44), p.implied_pure_epsilon()),
                )
                for p in w.parts
            ),
            w.counts,
        )
        for w in whole
    ]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda w: float(w.delta(np.array([1.0]))[0]), fresh))
    assert together == alone


@pytest.mark.parametrize(
    ("scale", "count", "theirs"),
    [(10, 100, 4.692667438), (10, 1000, 18.950287504), (30, 10_000, 20.6259481)],
)
def test_laplace_is_not_looser_than_another_accountant(scale, count, theirs):
    """dp-accounting 0.6.0, from_laplace_mechanism(scale).self_compose(count), interval 1e-4, δ = 1e-6, rounded up."""
    ours = compose_profiles([laplace_profile(0.0, 1, scale, 1.0)] * count).epsilon(1e-6)
    assert theirs * (1 - 1e-5) < ours <= theirs


@pytest.mark.parametrize("scale", [0.7, 10.0, 30.0])
def test_the_atom_of_a_bounded_loss_lies_on_the_grid(scale):
    """Laplace's loss is ±Δ/b with probability one half and more. Its moments, integrated, against those of the grid: what
    is added is of second order and small; midway between two dots it is a multiple."""
    law, top = laplace_profile(0.0, 1, scale, 1.0), mp.mpf(1) / scale
    composed = ComposedPLD(
        (PairProfile.symmetric(law.delta_upper_bound, law.pure_epsilon),),
        (1000,),
    )
    fitted = composed.window(1).width
    added = {}
    for width in (
        fitted,
        law.pure_epsilon / (round(law.pure_epsilon / fitted) + 0.5),
    ):
        loss = connect_the_dots(
            PairProfile.symmetric(law.delta_upper_bound, law.pure_epsilon),
            width,
        )
        inner = mp.quad(lambda x: mp.exp((1 - 2 * x) * top - x * top) * top / 2, [0, 1])
        truth = mp.log(mp.exp(top) / 2 + mp.exp(-2 * top) / 2 + inner)
        added[width] = (mp.mpf(loss.log_moment(1.0)[0]) - truth) / width**2
        assert added[width] >= 0
    on, off = added.values()
    assert on < off / 4


@pytest.mark.parametrize("rate", [0.0, 0.5, 30.0])
@pytest.mark.parametrize("size", [1, 2, 7, 60])
@pytest.mark.parametrize("width", [0.05, 1e-12])
def test_discounted_sums_are_never_below(size, rate, width):
    rng = np.random.default_rng(size)
    masses, error = rng.dirichlet(np.full(size, 0.2)), 1e-9
    found = {e: hockey_stick_divergence(masses, rate, width, e) for e in (0.0, error)}
    for j in range(size):
        with mp.workdps(50):
            far = [mp.mpf(width) * k for k in range(1, size - j)]
            shares = [mp.exp(-rate * x) * -mp.expm1(-x) for x in far]
            exact = mp.fdot(masses[j + 1 :].tolist(), shares)
            worst = (
                error * mp.norm(shares) if shares else 0
            )  # of masses off by a vector of length `error`
        assert 0 <= found[0.0][j] - exact <= 1e-12 * size * exact
        assert found[error][j] >= exact + worst
        assert (
            found[error][j] - found[0.0][j]
            <= error * min(1.0, size * width) * math.sqrt(size) * 1.02
        )


def test_many_small_losses_are_as_sharp_as_large_ones():
    """A thousand coins of ε = 1e-8 against binomials: by differences of sums near 1, δ was once up to 75 % above."""
    n, eps0 = 1000, mp.mpf(1e-8)
    coins = Composition((PureDP(1e-8),), (n,))
    with mp.workdps(40):
        p = 1 / (1 + mp.exp(-eps0))
        for eps in (0.0, 3e-7, 1e-6):
            heads = range(math.ceil((eps / 1e-8 + n) / 2), n + 1)
            truth = mp.fsum(
                mp.binomial(n, k)
                * (
                    p**k * (1 - p) ** (n - k)
                    - mp.exp(mp.mpf(eps)) * (1 - p) ** k * p ** (n - k)
                )
                for k in heads
            )
            assert truth <= coins.delta(eps) <= truth * (1 + 1e-3)


@pytest.mark.parametrize("rate", [0.0, 0.3, 7.0])
def test_tilted_masses_are_never_below(rate):
    loss = connect_the_dots(PairProfile.symmetric(GDP(1.0).delta, 40.0), 0.01)
    kappa, masses = exponential_tilt(loss, rate)
    with mp.workdps(50):
        for i, mass, found in zip(
            loss.index.tolist(), loss.masses.tolist(), masses.tolist(), strict=True
        ):
            exact = mp.mpf(mass) * mp.exp(
                mp.mpf(rate) * (i * mp.mpf(loss.width)) - mp.mpf(kappa)
            )
            if exact > 1e-290:
                assert exact <= found <= exact * (1 + mp.mpf(1e-10))


# ---- the table of rounding errors in the documentation

ROW = re.compile(
    r"^\| \(([a-v])\) \|.*\| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", flags=re.MULTILINE
)
# A number or a symbol of a bound. One mechanism is used, so that Σ is left out.
TOKEN = re.compile(r"(?P<number>[\d.]+)|(?P<symbol>abs\([^)]*\)|[uknNMrwλT])")
COEFFICIENT = re.compile(r"(?<![\^\d])\d+")
# The values of the symbols at which the two columns of bounds are compared. N and r
# follow from k.
MAGNITUDES = (0.0, 1e-9, 1.0, 30.0, 1e9)
VALUES_OF_SYMBOLS = {
    "u": (1.0,),
    "k": (4, 10, 13, 14, 15, 20, 24),
    "n": (1, 1000, 1 << 14, 10**9),
    "M": MAGNITUDES,
    "T": MAGNITUDES,
    "w": MAGNITUDES,
    "λ": MAGNITUDES,
    "abs(λL)": MAGNITUDES,
    "abs(κ_f)": MAGNITUDES,
    "abs(κ − λε)": MAGNITUDES,
    "abs(λ·end)": MAGNITUDES,
}
# The lines of the table that each constant belongs to, and the line of code that must
# name it.
LINES_OF_CONSTANTS = {
    "MASS_ERROR": "a",
    "ZERO_MASS_ERROR": "b",
    "TILT_ERROR": "c",
    "TRANSFORM_ERROR": "defhi",
    "MOMENTS_ERROR": "g",
    "SUMS_ERROR": "h",
    "EXCESS_ERROR": "i",
    "Z_ERROR": "j",
    "LOG_POWER_ERROR": "k",
    "EXP_ERROR": "l",
    "DIVERGENCE_ERROR": "m",
    "UNTILT_ERROR": "n",
    "INFINITY_ERROR": "o",
    "TAIL_ERROR": "p",
    "POSITION_ERROR": "q",
    "WEIGHT_ERROR": "r",
    "CHORD_ERROR": "s",
    "SUM_ERROR": "t",
    "GROWTH_ERROR": "u",
    "ENVELOPE_ERROR": "v",
}


def constants_of_table(text):
    """Return {constant: numbers charged for it, by line} from the rows of the table."""
    table = {}
    for line, _, charged, names in ROW.findall(text):
        numbers = [int(number) for number in COEFFICIENT.findall(charged)]
        for name in re.findall(r"`(\w+)`", names):
            table.setdefault(name, {})[line] = numbers
    return table


def disagreements(text):
    """Return the constants of the code that the table of Theorem C2 does not charge."""
    table = constants_of_table(text)
    return [
        name
        for name, lines in LINES_OF_CONSTANTS.items()
        if set(table.get(name, {})) != set(lines)
        or any(
            getattr(pld_module(name), name) not in table[name][line] for line in lines
        )
    ]


def pld_module(name):
    """Return the module of `privacy.pld` that defines a constant."""
    modules = (discretize, convolve, composed)
    return next(module for module in modules if name in vars(module))


def test_the_documented_constants_are_those_of_the_code():
    text = (Path(__file__).parents[2] / "docs/theory/accounting.md").read_text()
    assert disagreements(text) == []
    assert disagreements(text.replace("| 24u |", "| 16u |")) == ["MOMENTS_ERROR"]


def value_of_bound(bound, values):
    """Return the value of a bound as the table writes it, such as n(7k + 3)u.

    Parameters
    ----------
    bound : str
        The bound. Neighboring factors are multiplied.
    values : dict
        The numbers for the symbols.
    """

    def as_factor(match):
        """Return a number or a symbol as a factor in parentheses."""
        if match["number"]:
            return f"({float(match['number'])!r})"
        return f"({float(values[match['symbol']])!r})"

    expression = TOKEN.sub(as_factor, bound.replace("Σ", "")).replace("·", "*")
    expression = re.sub(r"\)\s*\(", ")*(", expression)
    if not re.fullmatch(r"[-\d.e+*() ]+", expression):
        raise ValueError(f"{bound} is not a bound that the test can read")
    return eval(expression)


def symbol_values(bounds):
    """Yield values for all symbols in two bounds: every combination of them."""
    symbols = {match["symbol"] for match in TOKEN.finditer(bounds)} - {None}
    if symbols & {"N", "r"}:
        symbols = symbols - {"N", "r"} | {"k"}
    grid = [VALUES_OF_SYMBOLS[symbol] for symbol in symbols]
    for combination in itertools.product(*grid):
        values = dict(zip(symbols, combination, strict=True))
        if "k" in values:
            values["N"] = 2 ** values["k"]
            values["r"] = min(convolve._CELLS_SUMMED_BY_PARTS, values["N"] // 4)
        yield values


def least_charge(line, proved):
    """Return what a line must charge, so that products of two errors are covered too."""
    return proved + 20.0 if line == "m" else 1.01 * proved


def lines_charged_too_little(text):
    """Return the lines of the table that charge too little for what they prove."""
    too_little = []
    for line, proved, charged, _ in ROW.findall(text):
        pairs = zip(proved.split(", "), charged.split(", "), strict=True)
        if not all(
            value_of_bound(charge, values)
            >= least_charge(line, value_of_bound(proof, values))
            for proof, charge in pairs
            for values in symbol_values(f"{proof} {charge}")
        ):
            too_little.append(line)
    return too_little


def test_every_charge_is_at_least_what_is_proved():
    text = (Path(__file__).parents[2] / "docs/theory/accounting.md").read_text()
    assert "".join(row[0] for row in ROW.findall(text)) == "abcdefghijklmnopqrstuv"
    assert lines_charged_too_little(text) == []


def test_every_coefficient_of_the_table_matters():
    text = (Path(__file__).parents[2] / "docs/theory/accounting.md").read_text()
    for row in ROW.finditer(text):
        line, proved, charged, names = row.groups()
        for number in COEFFICIENT.finditer(proved):
            begin, end = number.span()
            wrong = f"{proved[:begin]}{100 * int(number[0])}{proved[end:]}"
            wrong_row = f"| ({line}) | | {wrong} | {charged} | {names} |"
            assert lines_charged_too_little(wrong_row) == [line], wrong_row

    halved = text.replace(
        "(4·abs(λL) + 4·abs(κ_f) + 64)u", "(2·abs(λL) + 2·abs(κ_f) + 32)u"
    )
    assert lines_charged_too_little(halved) == ["c"]


def test_the_untilting_charge_counts_kappas_of_both_signs():
    large = DiscretePLD(1.0, np.array([0, 1]), np.array([0.5, 0.5]), 0.0)
    small = DiscretePLD(1.0, np.array([-1, 0]), np.array([0.5, 0.5]), 0.0)
    convolution = convolve_tilted([(large, 1000), (small, 1000)], 1.0, 16)
    kappas = [1000 * loss.log_moment(1.0)[0] for loss in (large, small)]
    assert kappas[1] < 0 < kappas[0]
    assert convolution.kappa == pytest.approx(sum(kappas), rel=1e-12)
    assert convolution.kappa_magnitude == pytest.approx(
        kappas[0] - kappas[1], rel=1e-12
    )


def test_chernoff_bound_counts_weights_that_underflow():
    end = 745.2
    loss = DiscretePLD(end, np.array([0, 1]), np.array([1.0, 5e-324]), 0.0)
    with mp.workdps(50):
        exact = mp.log(1 + mp.mpf(5e-324) * mp.exp(mp.mpf(end))) - mp.mpf(end)
    assert loss.log_moment(1.0)[0] - end < exact - 0.3  # without the raised mass
    assert convolve.log_tail_mass([(loss, 1)], 1.0, end) >= exact


def test_masses_that_share_a_place_are_summed_and_rounded_up():
    rng = np.random.default_rng(3)
    index = np.arange(-4000, 4000) * 8
    masses = rng.random(8000) * 10.0 ** -rng.integers(0, 17, 8000)
    wrapped = convolve._wrap_around(index, masses, 16)
    for place in range(16):
        exact = sum(map(Fraction, masses[index % 16 == place].tolist()), Fraction(0))
        assert (
            exact
            <= Fraction(float(wrapped[place]))
            <= exact * (1 + Fraction(1, 10**11))
        )
    assert np.array_equal(
        convolve._wrap_around(np.arange(16), masses[:16], 16), masses[:16]
    )
