"""Rao privacy: θ by numerical Fisher information, angles by numerical integrals, (ε, δ) by brute force; errata E15–E18."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gamma

from curvedp.errors import ParameterError
from curvedp.papers.rao.mechanisms import (
    bernoulli_distance,
    exponential_distance,
    gaussian_distance,
    gaussian_hellinger,
    gaussian_theta,
    generalized_gaussian_hellinger,
    generalized_gaussian_information,
    generalized_gaussian_theta,
    laplace_hellinger,
    laplace_theta,
    mean_square_radius,
    poisson_distance,
    riemannian_gaussian_theta,
    riemannian_laplace_theta,
)
from curvedp.privacy import RaoDP
from curvedp.privacy.guarantees.rao import (
    hellinger_compose,
    hellinger_from_affinity,
    rao_delta,
    rao_epsilon,
    rao_tradeoff,
)


def hellinger_angle(p, q):
    """2·arccos Σ√(p_i q_i) of two probability vectors, by chords, which keep the digits near 0: ‖√p − √q‖ = 2 sin(θ/4)."""
    p, q = np.sqrt(np.asarray(p)), np.sqrt(np.asarray(q))
    return 4 * float(np.arctan2(np.linalg.norm(p - q), np.linalg.norm(p + q)))


def random_pairs(size, count, rng):
    p, q = rng.dirichlet(np.full(size, 0.4), size=(2, count))
    return p, q


def test_joint_range_covers_every_two_and_three_point_pair():
    rng = np.random.default_rng(9)
    for size in (2, 3):
        p, q = random_pairs(size, 20_000, rng)
        theta = 2 * np.arccos(np.clip(np.sum(np.sqrt(p * q), axis=1), 0, 1))
        for eps in (0.0, 0.3, 1.0, 4.0):
            true = np.sum(np.maximum(p - math.exp(eps) * q, 0), axis=1)
            assert np.all(rao_delta(theta + 1e-12, eps) >= true - 1e-12)


def test_joint_range_is_attained():
    for theta in (1e-6, 0.3, 1.5, 3.0):
        # p = sin²x, q = sin²(x − θ/2): all two-point pairs at this angle
        x = np.linspace(theta / 2, math.pi / 2, 200_001)
        for eps in (0.0, 0.5, 3.0):
            best = np.max(np.sin(x) ** 2 - math.exp(eps) * np.sin(x - theta / 2) ** 2)
            assert rao_delta(theta, eps) == pytest.approx(best, rel=1e-6)
            assert rao_delta(theta, eps) >= best


def test_delta_epsilon_and_total_variation_agree():
    for theta in (0.01, 0.7, 2.5):
        assert rao_delta(theta, 0.0) == pytest.approx(math.sin(theta / 2), rel=1e-14)
        floor = math.sin(theta / 2) ** 2
        assert rao_delta(theta, math.inf) == pytest.approx(floor, rel=1e-14)
        assert rao_delta(theta, 60.0) >= floor
        assert rao_epsilon(theta, floor * 0.999) == math.inf
        for eps in (1e-3, 0.5, 5.0):
            with mp.workdps(40):
                g, s2 = mp.exp(mp.mpf(eps)), mp.sin(mp.mpf(theta) / 2) ** 2
                truth = (1 - g + mp.sqrt((g - 1) ** 2 + 4 * g * s2)) / 2
            assert 0 <= float(rao_delta(theta, eps) / truth - 1) < 1e-14
            assert rao_epsilon(theta, rao_delta(theta, eps)) == pytest.approx(
                eps, rel=1e-9
            )
        assert rao_epsilon(theta, math.sin(theta / 2) * 1.001) == 0.0
    assert rao_delta(math.pi, 5.0) == 1.0
    assert rao_delta(100.0, 5.0) == 1.0
    assert rao_epsilon(100.0, 0.5) == math.inf


def test_tradeoff_matches_delta():
    theta = 0.9
    alpha = np.sin(np.linspace(0, math.pi / 2, 20001)) ** 2
    beta = rao_tradeoff(theta, alpha)
    for eps in (0.0, 0.5, 2.0):
        assert np.max(1 - beta - math.exp(eps) * alpha) == pytest.approx(
            rao_delta(theta, eps), rel=1e-5
        )


def test_angle_composition_on_product_distributions():
    rng = np.random.default_rng(10)
    (p1, p2), (q1, q2) = random_pairs(4, 2, rng)
    product = hellinger_angle(np.outer(p1, p2).ravel(), np.outer(q1, q2).ravel())
    assert hellinger_compose(
        [hellinger_angle(p1, q1), hellinger_angle(p2, q2)]
    ) == pytest.approx(product, rel=1e-12)


def test_angle_composition_holds_adaptively_and_under_post_processing():
    rng = np.random.default_rng(11)
    for _ in range(50):
        p, q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
        second_p, second_q = (
            rng.dirichlet(np.ones(4), 3),
            rng.dirichlet(np.ones(4), 3),
        )  # chosen by the first outcome
        joint = hellinger_angle(
            (p[:, None] * second_p).ravel(), (q[:, None] * second_q).ravel()
        )
        worst = max(
            hellinger_angle(a, b) for a, b in zip(second_p, second_q, strict=True)
        )
        assert joint <= hellinger_compose([hellinger_angle(p, q), worst]) + 1e-12
        channel = rng.dirichlet(np.ones(5), 3)
        assert (
            hellinger_angle(p @ channel, q @ channel) <= hellinger_angle(p, q) + 1e-12
        )


def test_small_angles_keep_their_digits():
    h = 1e-12
    assert hellinger_angle([0.5 + h, 0.5 - h], [0.5, 0.5]) == pytest.approx(
        2 * h, rel=1e-3
    )
    assert hellinger_from_affinity(1e-30) == pytest.approx(
        2 * math.sqrt(2) * 1e-15, rel=1e-12
    )
    assert hellinger_from_affinity(800.0) == math.pi or hellinger_from_affinity(
        800.0
    ) == pytest.approx(math.pi)
    assert hellinger_from_affinity(0.0) <= 1e-300


def fisher(log_density, lo, hi, step=1e-5):
    """∫(∂_μ log p)² p at μ = 0 for a location family: the score by central differences, the integral by quadrature."""

    def integrand(x):
        score = (log_density(x - step) - log_density(x + step)) / (2 * step)
        return score * score * math.exp(log_density(x))

    return quad(integrand, lo, 0, limit=400)[0] + quad(integrand, 0, hi, limit=400)[0]


def affinity(density, shift, reach):
    value = 0.0
    for a, b in ((-reach, 0.0), (0.0, shift), (shift, reach + shift)):
        value += quad(
            lambda x: math.sqrt(density(x) * density(x - shift)),
            a,
            b,
            limit=400,
            epsabs=1e-13,
        )[0]
    return value


def test_laplace_and_gaussian_against_fisher_information():
    s = 1.7
    info = fisher(lambda x: -abs(x) / s - math.log(2 * s), -80, 80)
    assert laplace_theta(0.6, s) == pytest.approx(0.6 * math.sqrt(info), rel=1e-4)
    info = fisher(
        lambda x: -x * x / (2 * s * s) - 0.5 * math.log(2 * math.pi * s * s), -20, 20
    )
    assert gaussian_theta(0.6, s) == pytest.approx(0.6 * math.sqrt(info), rel=1e-6)


@pytest.mark.parametrize("n", [0.8, 1.0, 1.5, 2.0, 3.0, 8.0])
def test_generalized_gaussian_against_fisher_information(n):
    """E17: density ∝ exp(−(|x−μ|/σ)^N), score N|x|^{N−1}/σ^N, by mpmath."""
    s = 1.3
    norm = 2 * s * mp.gamma(1 + 1 / mp.mpf(n))
    info = 2 * mp.quad(
        lambda x: (n * x ** (n - 1) / s**n) ** 2 * mp.exp(-((x / s) ** n)) / norm,
        [0, 0.01, 1, 5, 60],
    )
    assert generalized_gaussian_information(s, n) == pytest.approx(
        float(info), rel=1e-4 if n < 1 else 1e-10
    )
    assert generalized_gaussian_theta(0.4, s, n) == pytest.approx(
        0.4 * math.sqrt(float(info)), rel=1e-4
    )


@pytest.mark.parametrize("shift", [0.01, 0.5, 3.0])
def test_hellinger_angles_against_integrals(shift):
    s = 1.2
    laplace = affinity(lambda x: math.exp(-abs(x) / s) / (2 * s), shift, 60)
    assert laplace_hellinger(shift, s) == pytest.approx(
        2 * math.acos(laplace), rel=1e-5
    )
    normal = affinity(
        lambda x: math.exp(-x * x / (2 * s * s)) / math.sqrt(2 * math.pi) / s, shift, 15
    )
    assert gaussian_hellinger(shift, s) == pytest.approx(
        2 * math.acos(normal), rel=1e-5
    )
    for n in (1.0, 2.0, 5.0):
        norm = 2 * s * gamma(1 + 1 / n)
        general = affinity(
            lambda x, n=n, norm=norm: math.exp(-((abs(x) / s) ** n)) / norm, shift, 60
        )
        assert generalized_gaussian_hellinger(shift, s, n) == pytest.approx(
            2 * math.acos(general), rel=1e-4
        )
    assert generalized_gaussian_hellinger(shift, s, 1.0) == pytest.approx(
        laplace_hellinger(shift, s), rel=1e-9
    )
    assert generalized_gaussian_hellinger(shift, s, 2.0) == pytest.approx(
        gaussian_hellinger(shift, s / math.sqrt(2)), rel=1e-9
    )


def test_the_angle_never_exceeds_the_parametric_distance():
    for ratio in (1e-8, 1e-3, 0.5, 2.0, 50.0):
        assert laplace_hellinger(ratio, 1.0) <= laplace_theta(ratio, 1.0) * (1 + 1e-13)
        assert gaussian_hellinger(ratio, 1.0) <= gaussian_theta(
            ratio, 1.0, two_parameter=True
        ) * (1 + 1e-13)
        assert gaussian_theta(ratio, 1.0, two_parameter=True) <= gaussian_theta(
            ratio, 1.0
        ) * (1 + 1e-13)
        assert generalized_gaussian_hellinger(
            ratio, 1.0, 3.0
        ) <= generalized_gaussian_theta(ratio, 1.0, 3.0) * (1 + 1e-9)


def test_multivariate_laplace_worst_direction():
    rng = np.random.default_rng(12)
    d, scale, delta = 5, 0.7, 1.1
    bound = laplace_hellinger(delta, scale, dim=d)
    shift = np.abs(rng.normal(size=(2000, d)))
    shift *= delta / np.linalg.norm(shift, axis=1, keepdims=True)
    x = shift / (2 * scale)
    angles = hellinger_from_affinity(np.sum(x - np.log1p(x), axis=1))
    assert np.max(angles) <= bound
    even = np.full(d, delta / math.sqrt(d) / (2 * scale))
    assert hellinger_from_affinity(np.sum(even - np.log1p(even))) == pytest.approx(
        bound, rel=1e-12
    )


def test_e15_the_distance_of_example_1():
    """Printed: 2√2·log((A+B)/(A−B)). True: half of it, as its own special case √2|log σ₂/σ₁| shows."""
    m1, s1, m2, s2 = 0.3, 1.0, 0.3, 2.5
    a = math.sqrt((m1 - m2) ** 2 + 2 * (s1 + s2) ** 2)
    b = math.sqrt((m1 - m2) ** 2 + 2 * (s1 - s2) ** 2)
    printed = 2 * math.sqrt(2) * math.log((a + b) / (a - b))
    special = math.sqrt(2) * abs(math.log(s2 / s1))
    assert printed == pytest.approx(2 * special, rel=1e-13)
    assert gaussian_distance(m1, s1, m2, s2) == pytest.approx(special, rel=1e-13)
    # and independently: the length of a geodesic of ds² = (dμ² + 2dσ²)/σ², a half circle in (μ/√2, σ)
    m2 = 2.0
    u1, u2 = m1 / math.sqrt(2), m2 / math.sqrt(2)
    center = (u1 * u1 + s1 * s1 - u2 * u2 - s2 * s2) / (2 * (u1 - u2))
    angle1, angle2 = math.atan2(s1, u1 - center), math.atan2(s2, u2 - center)
    length = math.sqrt(2) * abs(quad(lambda t: 1 / math.sin(t), angle1, angle2)[0])
    assert gaussian_distance(m1, s1, m2, s2) == pytest.approx(length, rel=1e-10)


def test_e16_the_two_families_differ():
    """Printed as a special case of the two-parameter distance: |Δμ|/σ. It is that of the fixed-σ family."""
    for ratio in (0.1, 1.0, 5.0):
        two = gaussian_distance(0.0, 1.0, ratio, 1.0)
        assert two == pytest.approx(
            2 * math.sqrt(2) * math.asinh(ratio / (2 * math.sqrt(2))), rel=1e-14
        )
        assert two < gaussian_theta(ratio, 1.0) == ratio


def test_e17_the_printed_density_is_not_one():
    """Printed: exp{|x−μ|^N/σ} with normalizer 2σΓ(1/N)/N: it grows, and even with the sign mended does not sum to 1."""
    s, n = 1.7, 2.0
    normalizer = 2 * s * gamma(1 / n) / n
    mended = 2 * quad(lambda x: math.exp(-(x**n) / s) / normalizer, 0, 60)[0]
    assert abs(mended - 1) > 0.1
    true = 2 * quad(lambda x: math.exp(-((x / s) ** n)) / normalizer, 0, 60)[0]
    assert true == pytest.approx(1.0, rel=1e-10)
    assert generalized_gaussian_information(math.sqrt(2) * 0.9, 2.0) == pytest.approx(
        1 / 0.9**2, rel=1e-13
    )


def test_e18_the_root_does_not_reach_the_scale():
    """Printed: √(Σ|Δμ|²/σ). True: √(Σ|Δμ|²)/σ; they agree at σ = 1 only."""
    shift, s = np.array([0.3, 0.4]), 2.0
    info = fisher(lambda x: -abs(x) / s - math.log(2 * s), -90, 90)
    true = math.sqrt(float(shift @ shift) * info)
    assert laplace_theta(float(np.linalg.norm(shift)), s) == pytest.approx(
        true, rel=1e-4
    )
    assert abs(math.sqrt(float(shift @ shift) / s) - true) > 0.1


def test_exponential_families_against_fisher_integrals():
    assert bernoulli_distance(0.2, 0.7) == pytest.approx(
        quad(lambda p: 1 / math.sqrt(p * (1 - p)), 0.2, 0.7)[0]
    )
    assert bernoulli_distance(0.2, 0.7) == pytest.approx(
        hellinger_angle([0.2, 0.8], [0.7, 0.3]), rel=1e-13
    )
    assert poisson_distance(2.0, 7.0) == pytest.approx(
        quad(lambda r: 1 / math.sqrt(r), 2, 7)[0]
    )
    assert exponential_distance(2.0, 7.0) == pytest.approx(
        quad(lambda r: 1 / r, 2, 7)[0]
    )


@pytest.mark.parametrize(
    ("kappa", "d", "s"),
    [(1.0, 2, 1.0), (1.0, 5, 0.3), (-1.0, 3, 1.0), (-0.5, 2, 2.0), (1.0, 1, 1.0)],
)
def test_mean_square_radius_against_mpmath(kappa, d, s):
    root = mp.sqrt(abs(kappa))
    sn = mp.sin if kappa > 0 else mp.sinh
    end = mp.pi / root if kappa > 0 else 12 * s + 3 * s * s * d
    points = mp.linspace(0, end, 30)

    def weight(r):
        return mp.exp(-r * r / (2 * s * s)) * sn(root * r) ** (d - 1)

    truth = mp.quad(lambda r: r * r * weight(r), points) / mp.quad(weight, points)
    assert mean_square_radius(kappa, d, s) == pytest.approx(float(truth), rel=1e-12)


@pytest.mark.parametrize("kappa", [1.0, -1.0])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_riemannian_theta_against_the_fisher_information_of_the_location(kappa, kind):
    """d = 2, polar grid about η: the score along a unit tangent u is r·cos φ/σ² (Gaussian) or cos φ/σ (Laplace); the
    derivative of d(·, η) is taken numerically from the law of cosines, not from that formula."""
    s, h = 0.6, 1e-5
    if kind == "laplace" and kappa < 0:
        s = 0.4  # integrable only for 1/σ > 1
    end = math.pi - 1e-3 if kappa > 0 else 25.0
    nodes, weights = np.polynomial.legendre.leggauss(400)
    r, wr = (nodes + 1) * end / 2, weights * end / 2
    phi = (np.arange(64) + 0.5) * 2 * math.pi / 64
    rr, pp = np.meshgrid(r, phi, indexing="ij")

    def log_weight(t):
        """The log density, as the center moves by t along u, at the point with polar coordinates (r, φ)."""
        if kappa > 0:
            dist = np.arccos(
                np.clip(
                    np.cos(rr) * math.cos(t) + np.sin(rr) * math.sin(t) * np.cos(pp),
                    -1,
                    1,
                )
            )
        else:
            dist = np.arccosh(
                np.maximum(
                    np.cosh(rr) * math.cosh(t)
                    - np.sinh(rr) * math.sinh(t) * np.cos(pp),
                    1,
                )
            )
        return -(dist**2) / (2 * s * s) if kind == "gaussian" else -dist / s

    area = (np.sin(r) if kappa > 0 else np.sinh(r)) * wr
    mass = area[:, None] * np.exp(log_weight(0.0))
    score = (log_weight(h) - log_weight(-h)) / (2 * h)
    info = np.sum(mass * score**2) / np.sum(mass)
    theta = (
        riemannian_gaussian_theta(0.5, s, 2, curvature=kappa)
        if kind == "gaussian"
        else riemannian_laplace_theta(0.5, s, 2)
    )
    assert theta == pytest.approx(0.5 * math.sqrt(info), rel=2e-3)


def test_bad_parameters():
    for call in (
        lambda: laplace_theta(math.nan, 1.0),
        lambda: gaussian_theta(1.0, 0.0),
        lambda: generalized_gaussian_theta(1.0, 1.0, 0.5),
        lambda: generalized_gaussian_hellinger(1.0, 1.0, 0.9),
        lambda: gaussian_distance(0.0, -1.0, 0.0, 1.0),
        lambda: riemannian_gaussian_theta(1.0, 1.0, 0),
        lambda: mean_square_radius(math.nan, 2, 1.0),
        lambda: RaoDP(0.0),
    ):
        with pytest.raises(ParameterError):
            call()


ULP = 1e-13


def above(found, truth, slack=ULP):
    """Rounded up, and by no more than the slack."""
    return truth * (1 - 1e-16) <= found <= truth * (1 + slack)


@pytest.mark.parametrize("theta", [1e-7, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.7, 6.0])
def test_rao_curves(theta, eps):
    with mp.workdps(60):
        s2, g = mp.sin(mp.mpf(theta) / 2) ** 2, mp.exp(mp.mpf(eps))
        truth = (1 - g + mp.sqrt((g - 1) ** 2 + 4 * g * s2)) / 2
        found = rao_delta(theta, eps)
        assert above(found, float(truth))
        assert float(1 - s2) * (1 - 1e-12) <= rao_tradeoff(theta, 0.0) <= float(1 - s2)
        turned = mp.asin(mp.sqrt(mp.mpf(0.25))) + mp.mpf(theta) / 2
        expected = float(mp.cos(turned) ** 2) if turned < mp.pi / 2 else 0.0
        assert rao_tradeoff(theta, 0.25) == pytest.approx(
            expected, rel=1e-12, abs=1e-30
        )
    if eps > 0.1:
        middle = (
            float(s2) + (float(mp.sin(mp.mpf(theta) / 2)) - float(s2)) / 3
        )  # between sin² and sin
        back = rao_epsilon(theta, middle)
        assert back > 0
        assert rao_delta(theta, back) == pytest.approx(middle, rel=1e-9)
        assert rao_delta(theta, back) <= middle * (1 + 4e-15)


def test_rao_ends():
    assert rao_delta(math.pi, 3.0) == 1.0 == rao_delta(4.0, 0.0)
    assert rao_epsilon(math.pi, 0.5) == math.inf == rao_epsilon(1.0, math.sin(0.5) ** 2)
    assert rao_epsilon(1.0, 0.6) == 0.0  # above sin(1/2): no ε is needed
    for x in (1e-20, 1e-3, 1.0, 800.0):
        with mp.workdps(60):
            assert above(
                hellinger_from_affinity(x), float(2 * mp.acos(mp.exp(-mp.mpf(x))))
            )


def test_epsilon_of_an_angle_is_rounded_up_next_to_its_pole():
    """δ − sin²(θ/2) of a few ulps to a few percent: the quotient magnifies every rounding."""
    rng = np.random.default_rng(2)
    for theta in rng.uniform(0.05, 2.5, 40):
        square = math.sin(theta / 2) ** 2
        for gap in (1e-13, 1e-9, 1e-4, 0.05):
            delta = square * (1 + gap)
            with mp.workdps(60):
                s2, d = mp.sin(mp.mpf(float(theta)) / 2) ** 2, mp.mpf(delta)
                exact = mp.log(d * (1 - d) / (d - s2))
                found = rao_epsilon(float(theta), delta)
                if math.isfinite(found) and exact > 0:
                    assert mp.mpf(found) >= exact
                    assert found <= float(exact) + 1e-13 + 4e-15 * delta / (
                        delta - square
                    )
    assert rao_epsilon(1.0, math.sin(0.5) ** 2 * (1 - 1e-12)) == math.inf
