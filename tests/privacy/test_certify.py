"""Ball arithmetic: contains the truth by other means and the float path, is narrow; the float path is never below."""

import math

import mpmath
import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb, ctx

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.geometry import Grassmann, KendallShapes, Rotations
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.papers.gdp.circle import (
    circle_gaussian_delta,
    circle_gaussian_delta_printed,
)
from curvedp.privacy import (
    certified_delta,
    certified_mu,
    gaussian_profile,
    laplace_profile,
)
from curvedp.privacy.enclosure import functions as balls
from curvedp.privacy.enclosure.delta import DeltaEnclosure, certified_projective_delta
from curvedp.privacy.enclosure.rounding import (
    float_above,
    float_below,
    outward_floats,
)
from curvedp.privacy.enclosure.tail_probability import TailProbability


def cases(count):
    """d up to 40; the study of 10⁴ cases is `python -m benchmarks.accounting --certified 10000`."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        kind = str(rng.choice(["gaussian", "laplace"]))
        curvature = float(rng.choice([-1.0, 0.0, 1.0, 4.0]))
        d = int(rng.choice([1, 2, 3, 4, 9, 40]))
        root = math.sqrt(abs(curvature)) or 1.0
        scale = 10 ** rng.uniform(-1.3, 0.3) / root
        if kind == "laplace":
            scale = min(scale / math.sqrt(d), 0.9 / (root * max(d - 1, 1)))
        D = scale * 10 ** rng.uniform(-2, 0.7)
        D = min(D, 0.99 * math.pi / root) if curvature > 0 else min(D, 4 / root)
        profile = (gaussian_profile if kind == "gaussian" else laplace_profile)(
            curvature, d, scale, D
        )
        eps = (
            float(rng.choice([0.0, rng.uniform(0, 1), rng.uniform(1, 10)]))
            * profile.rao
        )
        yield (
            kind,
            curvature,
            d,
            scale,
            D,
            eps if eps < profile.pure_epsilon else 0.7 * profile.pure_epsilon,
        )


@pytest.mark.parametrize("case", list(cases(30)))
def test_the_float_path_lies_inside_and_is_never_below(case):
    kind, *numbers, eps = case
    lower, upper = certified_delta(*case)
    assert 0 < lower <= upper <= lower * (1 + 1e-6)
    ours = (gaussian_profile if kind == "gaussian" else laplace_profile)(
        *numbers
    ).delta(eps)
    assert lower <= ours <= upper
    center = min(
        (lower / (1 - 3e-9) + upper / (1 + 3e-9)) / 2, 1.0
    )  # of the ball, before it was widened
    assert ours >= center * (1 - 1e-13)


def test_contains_mpmath_on_s3():
    """d = 3: the angle is uniform in its cosine, so the inner integral is elementary and mpmath can do the outer one."""
    s, D, eps = mpmath.mpf(1), mpmath.mpf(1), mpmath.mpf("0.5")
    low = (D**2 - 2 * s**2 * eps) / (2 * D)
    far = 2 * mpmath.pi - D

    def part(t, sign):
        def c(r):
            b = mpmath.sqrt(r * r + 2 * s * s * t)
            return (mpmath.cos(b) - mpmath.cos(r) * mpmath.cos(D)) / (
                mpmath.sin(r) * mpmath.sin(D)
            )

        def rho(r):
            return mpmath.exp(-r * r / (2 * s * s)) * mpmath.sin(r) ** 2

        a, b = abs(D**2 - 2 * s**2 * t) / (2 * D), (far**2 - 2 * s**2 * t) / (2 * far)
        inside = mpmath.quad(
            lambda r: rho(r) * (1 + sign * c(r)) / 2, [a, (a + b) / 2, b]
        )
        if sign > 0 and low > 0:
            inside += mpmath.quad(rho, [0, a])
        if sign < 0:
            inside += mpmath.quad(rho, [b, mpmath.pi])
        return inside / mpmath.quad(rho, [0, 1, mpmath.pi])

    with mpmath.workdps(30):
        low = (D**2 - 2 * s**2 * eps) / (2 * D)
        truth = part(eps, 1) - mpmath.exp(eps) * part(-eps, -1)
    lower, upper = certified_delta("gaussian", 1, 3, 1.0, 1.0, 0.5)
    assert lower <= truth <= upper


def test_a_wrong_value_lies_outside():
    lower, upper = certified_delta("gaussian", 1, 2, 1.0, 1.0, 0.5)
    assert not lower <= gaussian_profile(1, 2, 1.000001, 1.0).delta(0.5) <= upper


def test_deep_tail():
    lower, upper = certified_delta("gaussian", -1, 3, 1.0, 1.0, 17.0)
    assert upper < 1e-25
    assert lower <= gaussian_profile(-1, 3, 1.0, 1.0).delta(17.0) <= upper


def test_zero_beyond_the_cap():
    assert certified_delta("laplace", 1, 2, 1.0, 0.5, 0.6) == (
        0.0,
        pytest.approx(0.0, abs=1e-300),
    )


@pytest.mark.parametrize(
    "case",
    [("gaussian", 0.0, 1, 1e8, 1e-8, 1.0), ("gaussian", 0.0, 100, 1.0, 1e-4, 1e8)],
)
def test_deltas_below_every_float(case):
    lower, upper = certified_delta(*case)
    assert lower == 0
    assert upper <= 1e-300


def test_ten_thousand_dimensions():
    lower, upper = certified_delta("gaussian", 0.0, 10_000, 1.0, 1.0, 0.5)
    assert lower <= gaussian_profile(0.0, 3, 1.0, 1.0).delta(0.5) <= upper
    lower, upper = certified_delta("gaussian", 1.0, 1001, 0.03, 0.03, 0.5)
    assert lower <= gaussian_profile(1.0, 1001, 0.03, 0.03).delta(0.5) <= upper


def test_pure_dp_of_the_line_in_closed_form():
    """The Laplace law on the line: TV = 1 − e^{−1/2}, and the supremum is at ε = 0."""
    tv = -math.expm1(-0.5)
    lower, upper = certified_mu("laplace", 0, 1, 1.0, 1.0)
    truth = 2 * math.sqrt(2) * float(mpmath.erfinv(tv))
    assert lower <= truth <= upper


def test_bad_parameters():
    with pytest.raises(ParameterError):
        certified_delta("gaussian", 1, 2, 1.0, 1.0, math.nan)
    with pytest.raises(ParameterError):
        certified_delta("gaussian", 1, 2, 1.0, 4.0, 0.1)
    with pytest.raises(ParameterError):
        certified_delta("cauchy", 1, 2, 1.0, 1.0, 0.1)
    with pytest.raises(NotIntegrable):
        certified_delta("laplace", -1, 5, 0.5, 1.0, 0.1)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [1e-9, 1e-60, 1e-100])
def test_the_circle_at_any_epsilon(kind, scale):
    """Where e^ε has millions of digits and more: near the cap δ falls from 1 to 0, as mpmath says too."""
    D, pi = mpmath.mpf(0.25), mpmath.pi
    with mpmath.workdps(700):
        s = mpmath.mpf(scale)
        cap = D / s if kind == "laplace" else D * (2 * pi - D) / (2 * s * s)
        for share in (0.1, 0.9):
            eps = float(share * cap)
            if kind == "laplace":
                near = (D / s - eps) / 2
                truth = 1 - mpmath.exp(-near)
            else:  # the far side of the circle is out of reach: a line's Gaussian
                truth = mpmath.ncdf(D / (2 * s) - s * eps / D)
            lower, upper = certified_delta(kind, 1.0, 1, scale, 0.25, eps)
            assert lower <= truth <= upper <= 1
            assert upper <= max(lower * (1 + 1e-6), 1e-300)


def test_epsilon_beyond_what_the_float_path_resolves():
    """On hyperbolic spaces at ε = 10¹⁵⁰ and more the integrals are no numbers; δ falls with ε, so a bound before holds."""
    for eps in (1e150, 1e300):
        lower, upper = certified_delta("gaussian", -1.0, 5, 0.9, 0.003, eps)
        assert lower == 0
        assert 0 <= upper < 1e-60


def test_enclosures_are_roundedoutward():
    for x in (0.3, 1e-200, 0.999999999):
        low, high = outward_floats(arb(x))
        assert low < x * (1 - 2.9e-9)
        assert x * (1 + 2.9e-9) < high or high == 1.0
        assert high - low < 6.1e-9 * x + 1e-300 or high == 1.0
    assert outward_floats(arb(0.5, 0.1))[0] == pytest.approx(0.4, rel=1e-8)
    assert outward_floats(arb(0.5, 0.1))[1] == pytest.approx(0.6, rel=1e-8)
    assert outward_floats(arb(0))[0] == 0.0
    assert float_above(arb(0.1)) == math.nextafter(0.1, 1)
    assert float_below(arb(0.1)) == math.nextafter(0.1, -1)


@pytest.mark.parametrize(
    ("make", "curvature", "dim", "scale", "D"),
    [
        (gaussian_profile, 1.0, 3, 0.7, 1.0),
        (gaussian_profile, -1.0, 2, 1.0, 1.5),
        (gaussian_profile, 4.0, 2, 0.5, 0.6),
        (laplace_profile, 1.0, 2, 0.5, 2.0),
        (laplace_profile, 0.0, 3, 1.0, 1.0),
        (laplace_profile, -1.0, 2, 0.4, 0.5),
    ],
)
def test_certified_probabilities_are_complements_and_agree_with_floats(
    make, curvature, dim, scale, D
):
    profile = make(curvature, dim, scale, D)
    certifier, law = DeltaEnclosure(profile), profile.loss_law
    s, distance = certifier.noise.parameters()
    root = math.sqrt(abs(curvature)) or 1.0
    assert (float(s), float(distance)) == pytest.approx(
        (scale * root, D * root), rel=1e-14
    )
    for t in (0.0, 0.4 * law.loss_scale, min(1.5 * law.loss_scale, 0.9 * law.max_loss)):
        with ctx.workprec(96):
            above = TailProbability(
                certifier.noise, arb(t), 0.0, 1e-12, is_upper=True
            ).probability()
            below = TailProbability(
                certifier.noise, arb(t), 0.0, 1e-12, is_upper=False
            ).probability()
            other = TailProbability(
                certifier.noise, arb(-t), 0.0, 1e-12, is_upper=False
            ).probability()
        assert float(above + below) == pytest.approx(1.0, abs=1e-9)
        assert float(above) == pytest.approx(
            float(np.exp(law.log_tails(np.array([t]))[0][0])), rel=1e-9
        )
        assert float(other) == pytest.approx(
            float(
                np.exp(
                    profile.loss_table.log_upper_tail_of_second_law(np.array([t]))[0]
                )
            ),
            rel=1e-6,
        )
        start, end = certifier.noise.find_radial_support(60.0)
        assert start <= max(law.mode - law.width, 0.0)
        assert end >= law.mode + law.width or end == math.pi
        for edge in (start, end):
            if 0 < edge < math.pi or (certifier.noise.curvature_sign != 1 and edge > 0):
                fall = float(law.log_rho(np.array([edge - law.mode]))[0])
                assert -110 < fall <= -60
    cap = law.max_loss
    if math.isfinite(cap):
        assert certifier.noise.is_beyond_max_loss(cap * (1 + 1e-9))
        assert not certifier.noise.is_beyond_max_loss(cap * (1 - 1e-9))
        assert certifier.delta(cap * 1.01) == 0
    else:
        assert not certifier.noise.is_beyond_max_loss(1e9)
    ball = certifier.delta(0.1)
    assert certifier.delta(0.1) is ball
    assert ball.rad() < 2e-8 * ball
    assert ctx.prec == 53


@pytest.mark.parametrize(("s", "D"), [(0.4, 1.0), (2.0, 3.0)])
def test_the_circle_certified_against_direct_sums(s, D):
    with mp.workdps(30):
        for make, weight in (
            (gaussian_profile, lambda y: mp.exp(-y * y / (2 * mp.mpf(s) ** 2))),
            (laplace_profile, lambda y: mp.exp(-abs(y) / mp.mpf(s))),
        ):
            profile = make(1.0, 1, s, D)
            certifier = DeltaEnclosure(profile)
            mass = mp.quad(weight, [-mp.pi, 0, mp.pi])
            for eps in (0.0, 0.3 * profile.pure_epsilon):
                found = certifier.delta(eps)

                def gap(y, eps=eps, weight=weight):
                    other = abs(y - D)
                    return max(
                        weight(y) - mp.exp(eps) * weight(min(other, 2 * mp.pi - other)),
                        mp.mpf(0),
                    )

                y_a = (
                    (D * D - 2 * s * s * eps) / (2 * D)
                    if make is gaussian_profile
                    else (D - s * eps) / 2
                )
                far = 2 * math.pi - D
                r_b = (
                    (far * far - 2 * s * s * eps) / (2 * far)
                    if make is gaussian_profile
                    else math.pi - (D + s * eps) / 2
                )
                marks = sorted({-math.pi, -r_b, D - math.pi, 0.0, y_a, D, math.pi})
                assert float(found) == pytest.approx(
                    float(mp.quad(gap, marks) / mass), rel=1e-8
                )
    assert circle_gaussian_delta_printed(2.0, D, 0.1) != pytest.approx(
        circle_gaussian_delta(2.0, D, 0.1), rel=1e-6
    )


@pytest.mark.parametrize(
    ("make", "curvature", "dim", "scale", "D"),
    [
        (laplace_profile, 0.0, 3, 2.0, 5.0),
        (gaussian_profile, -1.0, 2, 1.0, 4.0),
        (gaussian_profile, 1.0, 2, 2.0, math.pi),
        (gaussian_profile, 0.25, 2, 2.0, 2 * math.pi),
    ],
)
def test_distances_beyond_half_a_turn_are_certified(make, curvature, dim, scale, D):
    """π is the end of a sphere alone."""
    profile = make(curvature, dim, scale, D)
    certifier = DeltaEnclosure(profile)
    assert float(certifier.noise.parameters()[1]) == pytest.approx(
        D * (math.sqrt(abs(curvature)) or 1.0), rel=1e-14
    )
    for eps in (0.0, 0.5):
        ball = certifier.delta(eps)
        assert float(ball) == pytest.approx(float(profile.delta(eps)), rel=4e-9)


@pytest.mark.parametrize("m", range(7))
def test_integrals_of_powers_of_the_sine(m):
    with mp.workdps(30), ctx.workprec(128):
        for phi in (0.2, 1.2, 2.0, 3.0):
            x, y = mp.cos(mp.mpf(phi) / 2) ** 2, mp.sin(mp.mpf(phi) / 2) ** 2
            truth = float(mp.quad(lambda t: mp.sin(t) ** m, [phi, mp.pi]))
            for analytic in (True, False):
                found = balls.sine_integral(m, acb(str(x)), acb(str(y)), analytic)
                assert float(found.real) == pytest.approx(truth, rel=1e-13)
    for k, sn, ct in (
        (0, 0.7, 1 / 0.7),
        (1, math.sin(0.7), 1 / math.tan(0.7)),
        (-1, math.sinh(0.7), 1 / math.tanh(0.7)),
    ):
        assert float(balls.sn(k, acb(0.7)).real) == pytest.approx(sn, rel=1e-14)
        assert float(balls.log_derivative_of_sn(k, arb(0.7))) == pytest.approx(
            ct, rel=1e-14
        )


# ---- real projective spaces: beside the float path, which shares no formula with it beyond the level sets, and a plain sum


@pytest.mark.parametrize("law", [RiemannianGaussian, RiemannianLaplace])
@pytest.mark.parametrize(
    ("scale", "distance"),
    [(0.5, 0.1), (0.05, 0.02), (2.0, 1.0), (0.3, math.pi), (1.0, 3.0)],
)
@pytest.mark.parametrize(
    "space", [Rotations(3), Grassmann(3, 1), Grassmann(5, 1)], ids=str
)
def test_the_float_path_lies_within_on_projective_spaces(
    law, scale, distance, space
) -> None:
    distance = distance * space.injectivity_radius / math.pi
    profile = law(space, scale).profile(distance)
    for eps in (0.0, 0.1, 1.0, 0.9 * profile.pure_epsilon):
        if eps <= 0.9 * profile.pure_epsilon:  # next to it floats round δ up from 0
            lower, upper = law(space, scale).certified_delta(distance, eps)
            value = profile.delta(eps)
            assert lower <= value <= upper
            assert upper - lower <= 1e-6 * upper or upper < 1e-290
    assert (
        law(space, scale).certified_delta(distance, 1.01 * profile.pure_epsilon)[0]
        == 0.0
    )


def test_by_integration_over_rotations() -> None:
    """(p₁ − e^ε·p₂)₊ summed over angle and polar angle of the axis, with d₂ the angle of the product of two turns."""
    s, D, eps, n = 0.7, 1.1, 0.4, 1500
    theta, c = (
        (np.arange(n) + 0.5)[:, None] * np.pi / n,
        -1 + (np.arange(n) + 0.5) * 2 / n,
    )
    second = 2 * np.arccos(
        np.abs(
            np.cos(theta / 2) * np.cos(D / 2) + np.sin(theta / 2) * np.sin(D / 2) * c
        )
    )
    weight = np.exp(-(theta**2) / (2 * s**2)) * np.sin(theta / 2) ** 2
    gain = -np.expm1(np.minimum(eps - (second**2 - theta**2) / (2 * s**2), 0.0))
    value = np.sum(weight * gain) / n / np.sum(weight)
    lower, upper = certified_projective_delta("gaussian", 0.25, 3, s, D, eps)
    assert value == pytest.approx((lower + upper) / 2, rel=1e-5)


def test_lines_in_four_dimensions_are_the_same_space() -> None:
    a = RiemannianGaussian(Rotations(3), 0.8).certified_delta(0.6, 0.3)
    b = RiemannianGaussian(Grassmann(4, 1), 0.4).certified_delta(0.3, 0.3)
    assert a == pytest.approx(b, rel=1e-8)


def test_where_no_certificate_is_known() -> None:
    with pytest.raises(ParameterError, match="real ones"):
        RiemannianGaussian(KendallShapes(5), 0.3).certified_delta(0.1, 0.1)
    for bad in (math.nan, -1.0, math.inf):
        with pytest.raises(ParameterError):
            certified_projective_delta("gaussian", 0.25, 3, 0.5, 0.1, bad)


@pytest.mark.parametrize(
    ("dim", "scale", "sensitivity"),
    [(1, 0.1, 0.01), (1, 0.1, 1.0), (1, 0.3, 0.01), (2, 0.1, 0.01)],
)
def test_close_to_the_largest_loss_delta_is_not_below_the_certified_one(
    dim, scale, sensitivity
):
    # Beyond the end of the table the tails are extrapolated. Their error grows with the
    # distance from that end, and δ was up to 2e-4 of itself too small.
    profile = gaussian_profile(1.0, dim, scale, sensitivity)
    largest_loss = profile.loss_law.max_loss
    for w in (15.0, 18.0, 22.0, 24.0, 28.0):
        eps = -largest_loss * math.expm1(-w)
        lower, _ = certified_delta("gaussian", 1.0, dim, scale, sensitivity, eps)
        assert lower * (1 - 1e-8) <= profile.delta(eps) <= 1.05 * lower
