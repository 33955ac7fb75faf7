"""Calibration: met at the answer, missed just below it, monotone in the target, refused where impossible."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import HPDAffineInvariant, Lorentz, SPDAffineInvariant
from curvedp.mechanisms import GaussianMechanism, LaplaceMechanism
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RaoDP,
    RenyiDP,
    gaussian_floor,
    gaussian_profile,
    laplace_profile,
    smallest_scale,
)
from curvedp.privacy import calibration as calibrate_module
from curvedp.privacy.calibration import _ScaleSearch, meets, secant_root
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_mu, gdp_mu_below
from curvedp.privacy.profiles import radial
from curvedp.privacy.profiles.products import product_profile
from curvedp.privacy.scale_cost import cost_estimate, cost_lower_bound, log_excess
from privacy.guarantees import ALL

TARGETS = [GDP(0.5), ApproxDP(1.0, 1e-6), ZCDP(0.1), RenyiDP(2.0, 0.5), RaoDP(0.5)]


def calibrate(kind, k, d, D, target):
    """As the mechanisms do."""
    make = gaussian_profile if kind == "gaussian" else laplace_profile
    return smallest_scale(lambda s: make(k, d, s, D), target, D)


def spd2(sigma, sensitivity):
    """The Gaussian on SPD(2), which is ℝ × H² of curvature −½."""
    return product_profile([(0.0, 1), (-0.5, 2)], sigma, sensitivity)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "case",
    [
        ("gaussian", 1, 2, 0.3),
        ("gaussian", -1, 3, 0.1),
        ("gaussian", 0, 3, 1.0),
        ("laplace", 1, 3, 0.2),
    ],
)
def test_smallest_scale(target, case):
    kind, k, d, D = case
    make = gaussian_profile if kind == "gaussian" else laplace_profile
    scale = calibrate(kind, k, d, D, target)
    assert meets(make(k, d, scale, D), target)
    assert not meets(make(k, d, scale * (1 - 1e-8), D), target)


def test_closed_forms():
    assert calibrate("gaussian", 0, 3, 1.0, GDP(0.5)) == pytest.approx(2.0, rel=1e-11)
    assert calibrate("laplace", 0, 3, 1.0, PureDP(0.5)) == pytest.approx(2.0, rel=1e-11)
    # the sphere's Gaussian has a pure ε
    assert calibrate("gaussian", 1, 2, 1.0, PureDP(1.0)) == pytest.approx(
        math.sqrt((2 * math.pi - 1) / 2), rel=1e-11
    )


def test_monotone_in_the_target():
    scales = [
        calibrate("gaussian", 1, 3, 0.4, GDP(mu)) for mu in np.linspace(0.3, 0.31, 12)
    ]
    assert np.all(np.diff(scales) < 0)
    close = [
        calibrate("gaussian", 1, 3, 0.4, GDP(0.3 * (1 + i * 1e-13))) for i in range(6)
    ]
    assert np.all(np.diff(close) <= 0)


def test_below_the_floor():
    message = (
        "GDP(0.5) is below the floor μ=2.862 of the Riemannian Gaussian on Lorentz(10) at sensitivity 1.0;"
        " use the mechanism tangent-gaussian"
    )
    with pytest.raises(UnattainableGuarantee) as error:
        calibrate("gaussian", -1, 10, 1.0, GDP(0.5))
    assert str(error.value) == message
    for target in TARGETS:
        with pytest.raises(UnattainableGuarantee, match="floor"):
            calibrate("gaussian", -1, 10, 1.0, target)
    assert meets(
        gaussian_profile(-1, 10, calibrate("gaussian", -1, 10, 1.0, GDP(2.9)), 1.0),
        GDP(2.9),
    )
    with pytest.raises(UnattainableGuarantee, match="floor"):
        calibrate("laplace", -1, 10, 1.0, PureDP(1.0))


def test_unbounded_losses_have_no_pure_epsilon():
    for k in (0, -1):
        with pytest.raises(UnattainableGuarantee, match="unbounded"):
            calibrate("gaussian", k, 3, 1.0, PureDP(1.0))


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (
            ("laplace", -1e-6, 1, 1e-4),
            ApproxDP(1000.0, 1e-6),
        ),  # δ leaves 0 within 2e-9 of the scale
        (
            ("laplace", -1.0, 3, 0.1),
            GDP(gaussian_floor(-1.0, 3, 0.1) * 1.0001),
        ),  # next to the end of the law
        (("gaussian", 1.0, 10_000, 0.5), ZCDP(0.1)),
        (("gaussian", -1e-6, 100, 1e-12), RenyiDP(1e4, 1e8)),
        (("gaussian", 100.0, 2, 0.31), GDP(1e-8)),
        (("gaussian", 0.0, 2, 1e-12), ApproxDP(1e-8, 1e-30)),
    ],
)
def test_extremes(case, target):
    kind, k, d, D = case
    make = gaussian_profile if kind == "gaussian" else laplace_profile
    scale = calibrate(kind, k, d, D, target)
    assert meets(make(k, d, scale, D), target)
    assert not meets(make(k, d, scale * (1 - 1e-8), D), target)


def test_the_laplace_line_in_closed_form():
    """δ(ε) = 1 − e^{(ε − Δ/σ)/2} on the line."""
    scale = calibrate("laplace", 0.0, 1, 1.0, ApproxDP(10.0, 1e-3))
    assert scale == pytest.approx(1 / (10.0 - 2 * math.log1p(-1e-3)), rel=1e-9)


def test_lengths_beyond_doubles_are_refused():
    for length in (1e200, 1e-200, math.nan):
        with pytest.raises(ParameterError, match="sensitivity"):
            smallest_scale(lambda s: gaussian_profile(0.0, 1, s, 1.0), GDP(1.0), length)


def test_what_is_not_a_target():
    with pytest.raises(ParameterError):
        calibrate("gaussian", 1, 2, 0.5, gaussian_profile(1, 2, 1.0, 1.0))


def test_spd2_by_its_profile():
    scale = smallest_scale(lambda s: spd2(s, 0.1), ApproxDP(1.0, 1e-5), 0.1)
    assert meets(spd2(scale, 0.1), ApproxDP(1.0, 1e-5))
    with pytest.raises(UnattainableGuarantee, match=r"SPDAffineInvariant\(2\)"):
        smallest_scale(lambda s: spd2(s, 1.0), GDP(0.1), 1.0)


def test_meeting_a_target():
    profile = gaussian_profile(0.0, 3, 2.0, 1.0)
    for target, cost in (
        (GDP, profile.mu),
        (ZCDP, profile.rho),
        (RaoDP, profile.rao),
        (lambda x: RenyiDP(4.0, x), profile.renyi(4.0)),
        (lambda x: ApproxDP(0.3, x), profile.delta(0.3)),
    ):
        assert meets(profile, target(cost))
        assert not meets(profile, target(math.nextafter(cost, 0.0)))
    assert not meets(profile, PureDP(1e9))
    assert meets(
        laplace_profile(0.0, 1, 1.0, 1.0),
        PureDP(laplace_profile(0.0, 1, 1.0, 1.0).pure_epsilon),
    )
    assert not meets(profile, GDP(9.0, adjacency="add-remove"))
    for bad in ((GDP(1.0), GDP(1.0)), (profile, 1.0), (None, GDP(1.0))):
        with pytest.raises(ParameterError):
            meets(*bad)
    with pytest.raises(ParameterError):
        calibrate("gaussian", 0.0, 2, 1.0, 0.5)


GUESSES = [
    ("gaussian", 1.0, 3, 0.5, GDP(0.4)),
    ("gaussian", -1.0, 2, 0.2, GDP(0.4)),
    ("gaussian", -1.0, 2, 0.2, RenyiDP(5.0, 0.3)),
    ("laplace", 1.0, 2, 0.3, GDP(0.4)),
    ("laplace", -1.0, 2, 0.1, GDP(0.4)),
    ("laplace", -1.0, 2, 0.1, ApproxDP(0.5, 1e-6)),
    *(
        ("gaussian", 0.0, 2, 1.0, t)
        for t in (
            GDP(0.4),
            ApproxDP(0.5, 1e-6),
            ZCDP(0.05),
            RenyiDP(5.0, 0.3),
            RaoDP(0.7),
        )
    ),
]


@pytest.mark.parametrize(("kind", "curvature", "dim", "D", "target"), GUESSES)
def test_the_search_is_short(kind, curvature, dim, D, target):
    """A dozen profiles or two for a scale to 40 bits."""
    asked = []

    def profile_at(scale):
        asked.append(scale)
        return (gaussian_profile if kind == "gaussian" else laplace_profile)(
            curvature, dim, scale, D
        )

    found = smallest_scale(profile_at, target, D)
    assert len(set(asked)) <= 12
    assert meets(profile_at(found), target)
    assert not meets(profile_at(found * (1 - 2.0**-20)), target)


SKETCHED = [
    ("laplace", 0.0, 10),
    ("laplace", -1.0, 3),
    ("gaussian", 1.0, 2),
    ("gaussian", -1.0, 10),
]


@pytest.mark.parametrize(("kind", "curvature", "dim"), SKETCHED)
@pytest.mark.parametrize(
    "target", [GDP(0.9), GDP(3.0), ApproxDP(1.0, 1e-6), ApproxDP(3.0, 1e-3)]
)
def test_a_sketch_agrees_with_the_table_and_spares_tables(
    kind, curvature, dim, target, monkeypatch
):
    """Where the search ends, two tables are built, of the answer and of the lattice point below: the sketch led there."""
    make, built = gaussian_profile if kind == "gaussian" else laplace_profile, []
    whole = radial.TabulatedLossLaw
    monkeypatch.setattr(
        radial,
        "TabulatedLossLaw",
        lambda law: built.append(law) or whole(law),
    )
    D = 0.01 * (
        1 + dim / 1000 + target.cost()[0].numerator % 97 / 1e4
    )  # no other test has asked for it
    found = smallest_scale(
        lambda s: make(curvature, dim, s, D), target, D / math.sqrt(dim)
    )
    assert len(built) <= 2
    profile = make(curvature, dim, found, D)
    assert cost_estimate(profile, target) == pytest.approx(
        cost_lower_bound(profile, target), rel=1e-10
    )
    other = make(curvature, dim, 1.5 * found, D)
    assert cost_estimate(other, target) == pytest.approx(
        cost_lower_bound(other, target), rel=1e-9
    )


def test_a_wrong_sketch_changes_nothing_but_the_time(monkeypatch):
    """The answer is seen to meet the target, and its predecessor to miss it, whatever led there."""
    truth = calibrate("laplace", 0.0, 4, 0.011, GDP(0.7))
    honest = calibrate_module.cost_estimate
    for factor in (0.5, 0.999, 1 - 1e-9, 1 + 1e-11, 2.0):
        monkeypatch.setattr(
            calibrate_module,
            "cost_estimate",
            lambda p, t, f=factor: f * honest(p, t),
        )
        assert calibrate("laplace", 0.0, 4, 0.011, GDP(0.7)) == truth


def test_costs_by_definition():
    for spent, allowed, floor, truth in (
        (2.0, 1.0, 0.0, math.log(2)),
        (1.0, 2.0, 0.5, math.log(1 / 3)),
        (0.5, 2.0, 0.5, -700),
    ):
        assert log_excess(GDP(allowed), spent, floor) == pytest.approx(truth)
    assert log_excess(GDP(1.0), math.inf, 0.0) == math.inf
    assert log_excess(GDP(1.0), 1.0, 0.0) == 0.0
    # δ = 1 is a cost, not the end of a law
    assert 0 < log_excess(ApproxDP(1.0, 1e-6), 1.0, 0.0) < math.inf
    assert log_excess(GDP(1.0), math.nextafter(1.0, 2.0), 0.0) > 0
    assert log_excess(GDP(0.3), 0.4, 0.35) > 0
    low, high = gdp_delta(0.5, 0.2), gdp_delta(0.8, 0.2)
    about = math.log(
        gdp_mu_below(0.2, math.log(high)) / gdp_mu_below(0.2, math.log(low))
    )
    assert 0 < log_excess(ApproxDP(0.2, low), high, 0.0) == about
    compares_deltas = log_excess(ApproxDP(0.2, low), high, 0.0, compares_deltas=True)
    assert compares_deltas == pytest.approx(math.log(high / low))
    for eps, delta in itertools.product(
        (0.0, 1e-6, 1.0, 30.0), (1e-300, 1e-9, 0.3, 0.5, 1 - 2.0**-53)
    ):
        assert (
            0 < gdp_mu_below(eps, math.log(delta)) <= gdp_mu(eps, delta) * (1 + 1e-12)
        )
        assert gdp_mu_below(eps, math.log(delta)) > gdp_mu_below(
            eps, math.log(delta) - 1e-3
        )
    with pytest.raises(ParameterError, match="doubles"):
        log_excess(GDP(1.0), math.nan, 0.0)
    profile = laplace_profile(1.0, 2, 1.0, 1.0)
    spent = cost_lower_bound(profile, ZCDP(0.3))
    assert spent <= profile.rho
    assert spent == pytest.approx(
        max(profile.renyi(a) / a for a in (1.0, 2.0, 8.0, 64.0)), rel=1e-8
    )


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_secant_finds_the_root_of_a_power(power):
    asked = []

    def excess(scale):
        asked.append(scale)
        return -power * math.log(scale / 3.0)

    def secant(function, start):
        x = secant_root(lambda x: function(math.exp(x)), math.log(start), -power, 40)
        return None if x is None else math.exp(x)

    for start in (0.01, 2.9, 500.0):
        asked.clear()
        assert secant(excess, start) == pytest.approx(3.0, rel=1e-9)
        assert len(asked) <= 6
    assert secant(lambda s: math.inf, 1.0) is None
    steep = secant(lambda s: -700.0 if s > 2 else math.log(2 / s) + 1e-3, 8.0)
    assert steep is None or steep == pytest.approx(2.0, rel=0.01)


def test_bisection_finds_jumps_and_says_where_there_is_no_root():
    def search(start):
        return _ScaleSearch(lambda s: gaussian_profile(0.0, 2, s, 1.0), GDP(1.0), start)

    for start in (1.0, 7.0, 100.0):
        root = search(start)._bisect(lambda s: 1.0 if s < 7.0 else -1.0)
        assert root == pytest.approx(7.0, rel=1e-9)
    with pytest.raises(ParameterError, match="every scale"):
        search(1.0)._bisect(lambda s: -1.0)
    with pytest.raises(UnattainableGuarantee):
        search(1.0)._bisect(lambda s: 1.0 if s < 3 else math.inf)


def test_what_no_scale_meets_says_why():
    with pytest.raises(UnattainableGuarantee, match=r"floor μ=2\.862 .* Lorentz\(10\)"):
        calibrate("gaussian", -1.0, 10, 1.0, GDP(0.5))
    for target, symbol in (
        (ZCDP(0.1), "ρ"),
        (RenyiDP(2.0, 0.1), "ε"),
        (RaoDP(0.1), "θ"),
        (ApproxDP(0.1, 1e-6), "δ"),
    ):
        with pytest.raises(UnattainableGuarantee, match=f"floor {symbol}="):
            calibrate("gaussian", -1.0, 4, 1.0, target)
    with pytest.raises(UnattainableGuarantee, match="unbounded"):
        calibrate("gaussian", 0.0, 4, 1.0, PureDP(1.0))


def test_searches_that_start_where_no_law_is():
    found = smallest_scale(lambda s: laplace_profile(-1.0, 2, s, 0.1), GDP(0.4), 5.0)
    assert found == pytest.approx(
        calibrate("laplace", -1.0, 2, 0.1, GDP(0.4)), rel=1e-10
    )
    assert calibrate("laplace", -1.0, 2, 0.1, PureDP(0.2)) == pytest.approx(
        0.5, rel=1e-10
    )
    for eps in (0.1, 0.1 * (1 + 1e-14), 0.05):  # it would take a scale that no law has
        with pytest.raises(UnattainableGuarantee):
            calibrate("laplace", -1.0, 2, 0.1, PureDP(eps))
    assert calibrate("laplace", -1.0, 2, 0.1, PureDP(0.1 * (1 + 1e-10))) < 1.0


@pytest.mark.parametrize(
    ("kind", "target", "bits"),
    [
        ("gaussian", GDP(0.4), 40),
        ("laplace", GDP(0.4), 40),
        ("laplace", ZCDP(0.05), 30),
    ],
)
def test_scales_lie_on_the_stated_lattice(kind, target, bits):
    """A multiple of 2^-40 of a power of two (2^-30 for zCDP), and of no coarser one by chance in all of five cases."""
    found = [calibrate(kind, 1.0, 2, D, target) for D in (0.1, 0.2, 0.3, 0.37, 0.45)]
    steps = [math.frexp(x)[0] * 2**bits for x in found]
    assert all(step == round(step) for step in steps)
    assert any(step % 2 for step in steps)


@pytest.mark.parametrize("mechanism", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize(
    "M",
    [Lorentz(5), SPDAffineInvariant(2), SPDAffineInvariant(3), HPDAffineInvariant(2)],
    ids=repr,
)
@pytest.mark.parametrize(
    "target",
    [GDP(0.01), ApproxDP(0.01, 1e-9), ZCDP(1e-4), RenyiDP(8.0, 1e-4)],
    ids=repr,
)
def test_a_refusal_names_the_law_that_was_asked_and_one_that_can(mechanism, M, target):
    with pytest.raises(
        UnattainableGuarantee, match="use the mechanism tangent-gaussian"
    ) as refusal:
        mechanism.calibrated(M, 0.5, target)
    if "Riemannian" in str(refusal.value):
        assert f"Riemannian {mechanism.__name__.removesuffix('Mechanism')}" in str(
            refusal.value
        )


def test_what_is_met_bounds_the_profile():
    """Whatever the definition, strict or loose: a target that is met promises no less δ than there is, and one of each is
    missed (a Hellinger angle was met by everything)."""
    profile, eps, missed = (
        gaussian_profile(0.0, 1, 1.0, 1.0),
        np.array([0.0, 0.25, 1.0, 3.0]),
        set(),
    )
    for kind in ALL:
        for name, factor in itertools.product(kind.additive_fields, (0.01, 1.7, 4.0)):
            value = min(
                factor * getattr(kind, name),
                3.1 if isinstance(kind, RaoDP) else math.inf,
            )
            target = replace(kind, **{name: value})
            if not meets(profile, target):
                missed.add(repr(kind))
            elif isinstance(target, ApproxDP):
                assert profile.delta(target.eps) <= target.delta0
            else:
                assert np.all(profile.delta(eps) <= target.delta(eps) * (1 + 1e-9)), (
                    target
                )
    assert missed == {repr(kind) for kind in ALL if kind.additive_fields}
