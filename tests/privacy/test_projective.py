"""Profiles on projective spaces: the loss law against brute integration in ambient coordinates, δ against another route."""

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate

from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann, KendallShapes, Rotations, Sphere
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.privacy.loss.disc_probability import Disc, log_disc_probabilities
from curvedp.privacy.loss.projective import ProjectiveLoss
from curvedp.privacy.profiles.projective import ProjectiveProfile

LAWS = {"gaussian": RiemannianGaussian, "laplace": RiemannianLaplace}


def loss(kind: str, s: float, first, second):
    return (
        (second**2 - first**2) / (2 * s * s)
        if kind == "gaussian"
        else (second - first) / s
    )


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("space", "scale", "distance"),
    [
        (Rotations(3), 0.5, 0.8),
        (Rotations(3), 2.0, math.pi),
        (Grassmann(3, 1), 0.3, 0.4),
        (Grassmann(8, 1), 0.4, 1.2),
        (Grassmann(4, 3), 0.4, 1.0),
        (KendallShapes(4), 0.4, 0.7),
        (KendallShapes(6), 0.5, math.pi / 2),
    ],
    ids=str,
)
def test_losses_of_draws_follow_the_tails(kind, space, scale, distance) -> None:
    """Draws and distances by the manifold itself; a law of the sphere of the same curvature is told apart."""
    scale = scale if kind == "gaussian" else scale / space.dim
    law, rng, n = LAWS[kind](space, scale), np.random.default_rng(3), 20_000
    velocity = space.from_coordinates(
        space.origin, np.eye(1, space.dim)[0] * distance * (1 - 1e-12)
    )
    other = space.exp(space.origin, velocity)
    x = law.sample(rng, space.origin, n)
    value = loss(kind, scale, space.dist(space.origin, x), space.dist(other, x))
    profile = law.profile(distance)
    assert isinstance(profile, ProjectiveProfile)
    tails = profile.loss_law
    assert value.max() <= profile.pure_epsilon * (1 + 1e-9)
    grid = np.linspace(0, 0.8, 9) * min(tails.max_loss, 6 * tails.loss_scale)
    truth = np.exp(tails.log_tails(grid)[0])
    seen = np.mean(value[:, None] > grid, axis=0)
    spread = np.sqrt(np.maximum(truth * (1 - truth), 1 / n) / n)
    assert np.max(np.abs((seen - truth) / spread)) < 4.5
    wrong = np.exp(
        LAWS[kind](space, 0.85 * scale).profile(distance).loss_law.log_tails(grid)[0]
    )
    assert np.max(np.abs((seen - wrong) / spread)) > 5


gauss = functools.cache(np.polynomial.legendre.leggauss)


def nodes(a, b, count: int = 48):
    """A rule on [a, b] that takes square roots at both ends: x = a + (b − a)·(1 − cos θ)/2."""
    z, w = gauss(count)
    theta = (z + 1) * math.pi / 2
    half = (np.asarray(b) - a)[..., None] / 2
    return np.asarray(a)[..., None] + half * (1 - np.cos(theta)), half * np.sin(
        theta
    ) * math.pi / 2 * w


def spans(low: float, high: float, *marks: float):
    """Pairs of neighbors among the ends and the marks in between."""
    return itertools.pairwise([low, *sorted(x for x in marks if low < x < high), high])


def line_share(d: int, A: float, B: float, R: float, gain) -> float:
    """E gain(|A + B·w|) over |A + B·w| < R for a real w = cos φ, by φ, cut where A + B·w changes its sign."""
    low, high = max(-1.0, (-R - A) / B), min(1.0, (R - A) / B)
    if high <= low:
        return 0.0
    middle = [math.acos(-A / B)] if A < B else []
    total = 0.0
    for a, b in spans(math.acos(high), math.acos(low), *middle):
        phi, w = nodes(a, b)
        total += float(
            np.sum(w * np.sin(phi) ** (d - 2) * gain(np.abs(A + B * np.cos(phi))))
        )
    return total / math.exp(
        math.lgamma((d - 1) / 2) + math.lgamma(0.5) - math.lgamma(d / 2)
    )


def disc_share(d: int, A: float, B: float, R: float, gain) -> float:
    """The same for a complex w of density (n−1)/π·(1−|w|²)^{n−2}, in polar coordinates t, ψ about the zero of A + B·w."""
    n, c = d // 2, A / B
    total = 0.0
    for a, b in spans(max(0.0, B * (c - 1)), min(R, B * (c + 1)), abs(B * (1 - c))):
        if b <= a:
            continue
        t, w = nodes(a, b)
        q = t / B
        widest = np.arccos(
            np.clip((c * c + q * q - 1) / np.maximum(2 * c * q, 1e-300), -1, 1)
        )
        psi, v = nodes(np.zeros_like(widest), widest)
        square = c * c + q[:, None] ** 2 - 2 * c * q[:, None] * np.cos(psi)
        around = 2 * np.sum(v * np.maximum(1 - square, 0.0) ** (n - 2), axis=1)
        total += float(np.sum(w * t / B**2 * (n - 1) / math.pi * around * gain(t)))
    return total


def brute_delta(kind: str, field: str, d: int, s: float, D: float, eps: float) -> float:
    """δ(ε) = ∫ (p₁ − e^ε·p₂)₊ by a rule in two or three dimensions that knows where its integrand bends; no Beta, no flux.

    The profile integrates tails of the loss; this integrates the density ratio itself over the places x.
    """

    def density(r):
        weight = np.exp(-r * r / (2 * s * s) if kind == "gaussian" else -r / s)
        return weight * np.sin(r) ** (d - 1) * (np.cos(r) if field == "complex" else 1)

    far = math.pi - D
    if kind == "gaussian":
        level = 2 * s * s * eps
        cuts = [
            abs(D * D - level) / (2 * D),
            (far**2 - level) / (2 * far),
            math.sqrt(max(math.pi**2 / 4 - level, 0)),
        ]
    else:
        cuts = [(D - s * eps) / 2, (far - s * eps) / 2, math.pi / 2 - s * eps]
    share = line_share if field == "real" else disc_share
    total = mass = 0.0
    for a, b in spans(0.0, math.pi / 2, *cuts, math.pi / 2 - D, D):
        for r, w in zip(*nodes(a, b, 64), strict=True):
            end = (
                math.sqrt(r * r + 2 * s * s * eps)
                if kind == "gaussian"
                else r + s * eps
            )

            def gain(cosine, r=r):
                second = np.arccos(np.minimum(cosine, 1.0))
                return -np.expm1(np.minimum(eps - loss(kind, s, r, second), 0.0))

            mass += w * density(r)
            if end < math.pi / 2:
                A, B = math.cos(r) * math.cos(D), math.sin(r) * math.sin(D)
                total += w * density(r) * share(d, A, B, math.cos(end), gain)
    return total / mass


@pytest.mark.parametrize(
    ("kind", "field", "d", "s", "D", "eps"),
    [
        ("gaussian", "real", 2, 0.5, 0.6, 0.3),
        ("gaussian", "real", 3, 0.4, math.pi / 2, 1.0),
        ("laplace", "real", 5, 0.2, 0.5, 0.7),
        ("gaussian", "real", 30, 0.3, 0.8, 1.5),
        ("gaussian", "complex", 4, 0.5, 0.6, 0.3),
        ("gaussian", "complex", 4, 0.3, math.pi / 2, 2.0),
        ("laplace", "complex", 4, 0.3, 0.4, 0.2),
        ("laplace", "complex", 8, 0.2, 1.0, 1.0),
        ("gaussian", "complex", 12, 0.4, 0.3, 0.1),
        ("gaussian", "complex", 40, 0.2, 0.3, 0.4),
    ],
)
def test_delta_by_brute_integration(kind, field, d, s, D, eps) -> None:
    """1e-8 is asked; δ is rounded up by 1e-9 and never below the truth. A law a millionth wider is told apart."""
    found = ProjectiveProfile(kind, field, d, 1.0, s, D).delta(eps)
    truth = brute_delta(kind, field, d, s, D, eps)
    assert truth * (1 - 1e-12) <= found == pytest.approx(truth, rel=2e-9)
    assert ProjectiveProfile(kind, field, d, 4.0, s / 2, D / 2).delta(
        eps
    ) == pytest.approx(found, rel=1e-10)
    assert ProjectiveProfile(kind, field, d, 1.0, s * (1 + 1e-6), D).delta(
        eps
    ) != pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("s", "D", "part"),
    [(0.3, 0.2, 0.1), (0.8, 0.9, 0.3), (0.25, 1.5, 0.6), (0.5, math.pi / 2, 0.95)],
)
def test_tails_on_the_rotations_by_mpmath(kind, s, D, part) -> None:
    """Dimension 3: the share of directions is a length, so one integral to 25 digits is the truth (1e-8 is asked)."""
    law = ProjectiveLoss(kind, 1, 3, s, D)
    t = part * law.max_loss
    with mp.workdps(25):
        S, distance, level = mp.mpf(s), mp.mpf(D), mp.mpf(t)

        def b(r):
            return (
                mp.sqrt(r * r + 2 * S * S * level)
                if kind == "gaussian"
                else r + S * level
            )

        def rho(r):
            return (
                mp.exp(-r * r / (2 * S * S)) if kind == "gaussian" else mp.exp(-r / S)
            ) * mp.sin(r) ** 2

        def share(r):
            if b(r) >= mp.pi / 2:
                return mp.mpf(0)
            unit, product = mp.sin(r) * mp.sin(distance), mp.cos(r) * mp.cos(distance)
            high, low = (
                (mp.cos(b(r)) - product) / unit,
                (-mp.cos(b(r)) - product) / unit,
            )
            return (min(max(high, -1), 1) - min(max(low, -1), 1)) / 2

        far = mp.pi - distance
        if kind == "gaussian":
            cuts = [
                abs(distance**2 - 2 * S**2 * level) / (2 * distance),
                (far**2 - 2 * S**2 * level) / (2 * far),
            ]
            cuts.append(mp.sqrt(mp.pi**2 / 4 - 2 * S**2 * level))
        else:
            cuts = [
                (distance - S * level) / 2,
                (far - S * level) / 2,
                mp.pi / 2 - S * level,
            ]
        marks = sorted(
            {
                mp.mpf(0),
                *cuts,
                mp.pi / 2,
                *(mp.mpf(k) * S for k in (1, 2, 4, 8) if k * S < mp.pi / 2),
            }
        )
        truth = mp.log(
            mp.quad(lambda r: rho(r) * share(r), marks) / mp.quad(rho, marks)
        )
    assert law.log_tails(np.array([t]))[0][0] == pytest.approx(
        float(truth), rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize("n", [2, 3, 7, 25, 90])
def test_discs_in_the_unit_disc(n) -> None:
    rng = np.random.default_rng(n)
    c = rng.uniform(0, 2, 25)
    c[:8] *= 1e-3
    radius = rng.uniform(np.maximum(0, c - 1), c + 1)
    radius[:5] *= 1e-4  # small discs about 0
    disc = Disc(
        (1 + radius - c) / 2, (1 - radius + c) / 2, (1 - radius - c) / 2, radius
    )
    logs = log_disc_probabilities(n, disc)
    upper, lower = np.exp(logs)
    for i in range(25):

        def inside(q: float, i: int = i) -> float:
            cosine = (radius[i] ** 2 - c[i] ** 2 - q * q) / (2 * q * c[i])
            return 1 - math.acos(min(1.0, max(-1.0, cosine))) / math.pi

        marks = [
            0.0,
            *sorted(x for x in (abs(radius[i] - c[i]), radius[i] + c[i]) if 0 < x < 1),
            1.0,
        ]
        parts = [
            integrate.quad(
                lambda q: 2 * (n - 1) * q * (1 - q * q) ** (n - 2) * inside(q),
                a,
                b,
                epsabs=0,
                limit=200,
            )[0]
            for a, b in itertools.pairwise(marks)
        ]
        assert upper[i] == pytest.approx(sum(parts), rel=1e-8, abs=1e-300)
        assert upper[i] + lower[i] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "c", "radius"),
    [(300, 1.3, 0.32), (300, 1.1, 0.15), (900, 0.9, 0.02), (900, 0.2, 1.0)],
)
def test_probabilities_below_the_smallest_double_keep_their_digits(
    n, c, radius
) -> None:
    """Of the disc, or of what is outside it; the power of 1−|w|² alone leaves the doubles."""
    x = [
        np.array([value])
        for value in (
            (1 + radius - c) / 2,
            (1 - radius + c) / 2,
            (1 - radius - c) / 2,
            radius,
        )
    ]
    upper, lower = (float(part[0]) for part in log_disc_probabilities(n, Disc(*x)))
    with mp.workdps(40):

        def part(q: mp.mpf) -> mp.mpf:
            """Of the circle of radius q, what the smaller of the two holds."""
            cosine = (mp.mpf(radius) ** 2 - mp.mpf(c) ** 2 - q * q) / (2 * q * c)
            turn = mp.acos(min(mp.mpf(1), max(mp.mpf(-1), cosine))) / mp.pi
            return 1 - turn if radius < c else turn

        ends = [abs(mp.mpf(radius) - c), min(mp.mpf(1), mp.mpf(radius) + c)]
        marks = [
            ends[0] + (ends[1] - ends[0]) * mp.mpf(2) ** (k - 24) for k in range(25)
        ]
        rest = mp.quad(
            lambda q: 2 * (n - 1) * q * (1 - q * q) ** (n - 2) * part(q),
            [ends[0], *marks],
        )
        expected, found, other = (
            float(mp.log(rest)),
            *((upper, lower) if radius < c else (lower, upper)),
        )
    assert expected < -500
    assert found == pytest.approx(expected, rel=1e-12)
    assert -1e-200 < other <= 0


def test_shapes_of_many_landmarks_have_a_profile() -> None:
    """Their deep tails once were denormal numbers, on which panels were halved without end."""
    deviation = ProjectiveLoss(
        "gaussian", 1, KendallShapes(60).dim, 0.1, 0.1, is_complex=True
    ).loss_scale
    mu = RiemannianGaussian(KendallShapes(60), 0.1).profile(0.1).mu
    assert mu == pytest.approx(deviation, rel=0.01)  # the loss is nearly normal


@pytest.mark.parametrize(
    ("kind", "field"),
    [("gaussian", "real"), ("laplace", "real"), ("gaussian", "complex")],
)
def test_the_worst_pair_is_the_farthest(kind, field) -> None:
    profiles = [
        ProjectiveProfile(kind, field, 4, 1.0, 0.3, D) for D in (0.1, 0.9, math.pi / 2)
    ]
    for eps in (0.0, 0.2, 0.6):
        values = [p.delta(eps) for p in profiles]
        assert all(b >= a for a, b in itertools.pairwise(values))


def test_far_from_the_cut_locus_it_is_the_sphere() -> None:
    lines, sphere = Grassmann(5, 1), Sphere(4)
    for law in (RiemannianGaussian, RiemannianLaplace):
        a, b = law(lines, 0.02).profile(0.03), law(sphere, 0.02).profile(0.03)
        assert a.mu == pytest.approx(b.mu, rel=1e-8)
        assert a.delta(0.5) == pytest.approx(b.delta(0.5), rel=1e-8)
        assert a.rao == pytest.approx(b.rao, rel=1e-8)
    assert RiemannianGaussian(KendallShapes(3), 0.3).profile(0.2).mu == pytest.approx(
        RiemannianGaussian(Sphere(2), 0.6).profile(0.4).mu, rel=1e-9
    )  # ℂP¹ is the sphere of radius ½


@pytest.mark.parametrize(
    "space", [Rotations(3), KendallShapes(5), Grassmann(4, 1)], ids=str
)
def test_a_profile_keeps_its_promises(space) -> None:
    profile = RiemannianGaussian(space, 0.4).profile(0.3)
    eps = profile.epsilon(1e-6)
    assert profile.delta(eps) <= 1e-6
    assert 0 < eps < profile.pure_epsilon
    assert profile.tradeoff(0.1) < 0.9
    assert profile.renyi(2.0) <= profile.mu**2 + 1e-9
    assert profile.rao <= profile.mu * 1.2
    assert profile.delta(profile.pure_epsilon) == 0.0
    assert profile.rho <= profile.mu**2 / 2 * (1 + 1e-6)
    assert profile.is_exact


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "normal"},
        {"field": "quaternions"},
        {"dim": 1},
        {"dim": 5, "field": "complex"},
        {"dim": 2, "field": "complex"},
        {"curvature": 0.0},
        {"curvature": -1.0},
        {"scale": 0.0},
        {"scale": math.nan},
        {"scale": 1e9},
        {"sensitivity": -1.0},
        {"sensitivity": math.inf},
        {"sensitivity": 1.6},
    ],
)
def test_parameters_without_a_profile_are_refused(change) -> None:
    good = {
        "kind": "gaussian",
        "field": "real",
        "dim": 4,
        "curvature": 1.0,
        "scale": 0.5,
        "sensitivity": 0.1,
    }
    ProjectiveProfile(**good)
    with pytest.raises(ParameterError):
        ProjectiveProfile(**good | change)


@pytest.mark.parametrize("curvature", [0.01, 1.0, 400.0])
def test_the_range_of_scales_is_in_units_of_the_space(curvature) -> None:
    unit = 1 / math.sqrt(curvature)
    for scale in (1.1e-12, 0.9e6):
        ProjectiveProfile(
            "gaussian", "real", 4, curvature, scale * unit, min(scale, 1.0) * unit
        )
    for scale in (0.9e-12, 1.1e6):
        with pytest.raises(ParameterError, match="scale"):
            ProjectiveProfile(
                "gaussian", "real", 4, curvature, scale * unit, min(scale, 1.0) * unit
            )
