"""The exact path number by number: densities by mpmath, masses by quadrature or brute force, draws from known normals."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from curvedp.errors import NotIntegrable
from curvedp.geometry import Euclidean, Lorentz, PoincareBall, Sphere
from curvedp.laws.exact.charts import exact_chart
from curvedp.laws.exact.exponential import _public_reflection, _radial_factors
from curvedp.laws.exact.radial import ExactRadialDensity, LazyRadius, radial_envelope
from curvedp.laws.exact.spd import _identity_sampler, acceptance_probability
from curvedp.laws.exact.spd_far import FarGaussianDraw
from curvedp.laws.isotropic.envelope import radial_mode
from curvedp.laws.isotropic.space import two_point_homogeneous_space
from curvedp.laws.spd.envelopes import FarEnvelope, NearEnvelope
from curvedp.laws.spd.normalizer import log_normalizer, log_pfaffian
from curvedp.numerics.enclosures import FloatBall, arb_array
from curvedp.randomness import GeneratorSource
from curvedp.randomness.lazy_reals import LazyNormals, LazyUniforms
from support.goodness import form
from support.randomness import seeded_source

LAWS = [
    ExactRadialDensity("gaussian", form(0, 1), 0.7),
    ExactRadialDensity("gaussian", form(0, 5), 30.0),
    ExactRadialDensity("gaussian", form(1, 2), 0.4),
    ExactRadialDensity("gaussian", form(1, 9), 3.0),
    ExactRadialDensity("gaussian", form(-1, 3), 0.6),
    ExactRadialDensity("gaussian", form(-1, 2), 3.0),
    ExactRadialDensity("laplace", form(0, 1), 2.0),
    ExactRadialDensity("laplace", form(0, 4), 0.1),
    ExactRadialDensity("laplace", form(1, 1), 0.8),
    ExactRadialDensity("laplace", form(1, 3), 0.5),
    ExactRadialDensity("laplace", form(-1, 3), 0.3),
]


def height(law: ExactRadialDensity, r):
    sn = {0: lambda x: x, 1: mp.sin, -1: mp.sinh}[law.space.curvature]
    s = mp.mpf(law.scale)
    return (-r * r / (2 * s * s) if law.kind == "gaussian" else -r / s) + (
        law.space.dim - 1
    ) * mp.log(sn(r))


def line(piece, r):
    return mp.mpf(piece.height) + mp.mpf(piece.slope) * (r - mp.mpf(piece.start))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_radial_laws_and_their_envelopes(law: ExactRadialDensity) -> None:
    far = (
        math.pi
        if law.space.curvature == 1
        else law.scale * 40
        + 40 * law.scale**2 * (law.space.curvature < 0) * law.space.dim
    )
    with mp.workdps(25), ctx.workprec(128):
        for r in (0.3, 1.7):
            assert float(law.log_density(arb(r))) == pytest.approx(
                float(height(law, mp.mpf(r))), rel=1e-14
            )
            assert float(law.slope(arb(r))) == pytest.approx(
                float(mp.diff(lambda x: height(law, x), r)), rel=1e-12
            )
            bend = float(mp.diff(lambda x: height(law, x), r, 2))
            assert float(law.curvature(arb(r))) == pytest.approx(
                -bend, rel=1e-12, abs=1e-12
            )
        envelope, mode = (
            radial_envelope(law),
            radial_mode(law.kind, law.space, law.scale),
        )
        segments = envelope.segments
        if law.space.dim == 1:
            assert mode == 0.0
        else:
            assert (
                law.slope(arb(mode * (1 - 1e-12)))
                > 0
                > law.slope(arb(mode * (1 + 1e-12)))
            )
        assert envelope.level == pytest.approx(
            float(law.log_density(arb(mode))), rel=1e-14
        )
        assert segments[0].start == 0.0
        assert segments[-1].stop is None
        bend = (
            float(law.curvature(arb(mode)))
            if mode or law.kind == "gaussian"
            else math.inf
        )
        points = {mode + c / math.sqrt(bend) for c in (-2.1, -0.9, 0.0, 0.9, 2.1)}
        assert len(segments) == sum(0 < t < far for t in points | {mode or 1e-300})
        assert all(a.stop == b.start for a, b in itertools.pairwise(segments))
        covered, total = mp.mpf(0), mp.mpf(0)
        end = mp.pi if law.space.curvature == 1 else mp.inf
        for piece in segments:
            stop = end if piece.stop is None else mp.mpf(piece.stop)
            last = min(stop, mp.mpf(far))
            for u in np.linspace(1e-9, 1 - 1e-9, 40):
                r = piece.start + (last - piece.start) * mp.mpf(u)
                assert (
                    height(law, r) - envelope.level
                    <= line(piece, r) + mp.mpf(10) ** -20
                )
            mass = mp.quad(lambda r, p=piece: mp.exp(line(p, r)), [piece.start, stop])
            assert float(piece.mass(law)) == pytest.approx(float(mass), rel=1e-12)
            half = mp.mpf(float(piece.quantile(law, arb(0.375))))
            part = mp.quad(lambda r, p=piece: mp.exp(line(p, r)), [piece.start, half])
            assert float(part / mass) == pytest.approx(0.375, rel=1e-9)
            total += mass
            marks = [piece.start, *np.linspace(float(piece.start), float(last), 6)[1:]]
            covered += mp.quad(lambda r: mp.exp(height(law, r) - envelope.level), marks)
        assert 0.88 < float(covered / total) <= 1  # accepts about 95%


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_radius_is_the_envelope_inverted_at_its_uniform(
    law: ExactRadialDensity,
) -> None:
    envelope = radial_envelope(law)
    for seed in range(12):
        uniform = LazyUniforms(seeded_source(seed), 1)
        radius = LazyRadius(envelope, uniform)
        with ctx.workprec(192), mp.workdps(50):
            r = radius.ball(192)
            masses = [piece.mass(law) for piece in envelope.segments]
            goal = uniform.balls(192)[0] * sum(masses, arb(0))
            index = next(
                i for i in range(len(masses)) if goal < sum(masses[: i + 1], arb(0))
            )
            piece = envelope.segments[index]
            share = (goal - sum(masses[:index], arb(0))) / masses[index]
            assert abs(r - piece.quantile(law, share)) < 1e-30 * r
            assert r.rad() < 1e-40 * r
            x = mp.mpf(r.mid().str(60, radius=False))
            truth = height(law, x) - envelope.level - line(piece, x)
            assert float(radius.log_ratio(192)) == pytest.approx(
                float(truth), rel=1e-9, abs=1e-25
            )


def test_a_laplace_law_ends_where_its_mass_does() -> None:
    assert (
        ExactRadialDensity("laplace", form(-1, 3), math.nextafter(0.5, 0.0)).space.dim
        == 3
    )
    for dim, scale in ((3, 0.5), (2, 1.0), (5, 0.3)):
        with pytest.raises(NotIntegrable):
            ExactRadialDensity("laplace", form(-1, dim), scale)
    assert ExactRadialDensity("laplace", form(-1, 1), 9.0).end == arb.pos_inf()
    assert ExactRadialDensity("laplace", form(0, 5), 9.0).scale == 9.0
    assert ExactRadialDensity("gaussian", form(-1, 5), 9.0).scale == 9.0


# ---- lazy reals


def test_uniforms_and_normals_are_their_bits() -> None:
    batch = LazyUniforms(seeded_source(3), 7)
    assert batch.leading.tolist() == seeded_source(3).words(7).tolist()
    u = [int(w) for w in batch.leading]
    cells = batch.floats()
    assert cells.mid.tolist() == [((w >> 12) + 0.5) * 2.0**-52 for w in u]
    assert set(cells.rad.tolist()) == {2.0**-53}
    with ctx.workprec(256):
        for i, ball in enumerate(batch.balls(64, range(7))):
            assert ball.mid() == arb(2 * u[i] + 1) / arb(2) ** 65
            assert float(ball.rad()) == pytest.approx(2.0**-65, rel=1e-6)
    assert batch._bits == 64
    with ctx.workprec(256):
        more = batch.balls(65, range(7))
    assert batch._bits == 128
    assert [int(k) >> 64 for k in batch._integers] == u
    assert float(more[3].rad()) == pytest.approx(2.0**-129, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_normals_by_the_polar_method(n: int) -> None:
    normals = LazyNormals(seeded_source(n), n)
    expected: list[float] = []
    for batch, accepted in normals._batches:
        x = (
            2
            * ((batch.leading.astype(object) + 0.5) / 2**64)
            .astype(float)
            .reshape(-1, 2)
            - 1
        )
        s = (x**2).sum(axis=1)
        assert accepted.tolist() == np.flatnonzero(s < 1)[: len(accepted)].tolist()
        x, s = x[accepted], s[accepted]
        expected += (x * np.sqrt(-2 * np.log(s) / s)[:, None]).ravel().tolist()
    assert sum(len(accepted) for _, accepted in normals._batches) == (n + 1) // 2
    first = (n + 1) // 2
    assert len(normals._batches[0][0].leading) == 2 * (first + first // 3 + 2)
    assert normals.floats().mid == pytest.approx(expected[:n], rel=1e-12)
    assert normals.floats().mid.shape == normals.balls(64).shape == (n,)
    assert np.all(normals.floats().rad < 1e-11)
    assert [float(z) for z in normals.balls(128)] == pytest.approx(
        expected[:n], rel=1e-12
    )
    assert [float(normals.ball(i, 128)) for i in range(n)] == pytest.approx(
        expected[:n], rel=1e-12
    )
    with pytest.raises(IndexError):
        normals.ball(2 * sum(len(accepted) for _, accepted in normals._batches), 64)


# ---- SPD


@pytest.mark.parametrize("m", [1, 2, 3])
def test_masses_of_eigenvalues(m: int) -> None:
    """(2π)^{dim/2} = C_m ∫ ∏(ρᵢ−ρⱼ) e^{−|ρ|²/2}: by hand for 1 and 2, in polar coordinates of the traceless plane for 3."""
    if m == 1:
        truth = 0.0
    elif m == 2:
        truth = math.log(math.sqrt(2) * math.pi)
    else:
        t = (np.arange(4000) + 0.5) * (np.pi / 3) / 4000 + np.pi / 6  # ρ₁ > ρ₂ > ρ₃
        rho = np.cos(t)[:, None] * [1, -1, 0] / np.sqrt(2) + np.sin(t)[:, None] * [
            1,
            1,
            -2,
        ] / np.sqrt(6)
        angle = (
            np.sum(
                np.prod(
                    [abs(rho[:, i] - rho[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))],
                    axis=0,
                )
            )
            * np.pi
            / 12000
        )
        truth = 3 * math.log(2 * math.pi) - math.log(
            3 * math.sqrt(math.pi / 2) * math.sqrt(2 * math.pi) * angle
        )
    h = [(m - 1 - 2 * i) / 2 for i in range(m)]
    far = (
        truth
        + m / 2 * math.log(2 * math.pi * 1.7**2)
        + 1.7**2 * sum(x * x for x in h) / 2
    )
    assert log_normalizer(m, 1.7) - log_pfaffian(m, 1.7) == pytest.approx(far, abs=1e-6)


@pytest.mark.parametrize("m", [2, 4])
def test_a_far_trial_is_its_eigenvalues_and_its_rotation(m: int) -> None:
    trial = FarGaussianDraw(m, 1.3, LazyNormals(seeded_source(m), m))
    z = trial._normals.floats().mid
    rho = 1.3**2 * (m - 1 - 2 * np.arange(m)) / 2 + 1.3 * z
    assert [float(x) for x in trial.log_eigenvalues(128)] == pytest.approx(
        rho.tolist(), rel=1e-12
    )
    assert trial.is_decreasing() == bool(np.all(np.diff(rho) < 0))
    seeds = iter(range(100))
    while not trial.is_decreasing():
        trial = FarGaussianDraw(m, 1.3, LazyNormals(seeded_source(next(seeds)), m))
    rho = np.array([float(x) for x in trial.log_eigenvalues(128)])
    truth = sum(math.log(-math.expm1(b - a)) for a, b in itertools.combinations(rho, 2))
    assert float(trial.log_ratio(128)) == pytest.approx(truth, rel=1e-9)
    trial.draw_rotation(seeded_source(5))
    assert [len(g.floats().mid) for g in trial._reflections] == list(range(2, m + 1))
    point = np.diag(np.exp(rho))
    for g in trial._reflections:
        u = np.zeros(m)
        u[m - len(g.floats().mid) :] = g.floats().mid
        first = m - len(g.floats().mid)
        u[first] += np.sign(u[first]) * np.linalg.norm(u)
        mirror = np.eye(m) - 2 * np.outer(u, u) / (u @ u)
        point = mirror @ point @ mirror
    found = trial.exp(128)
    assert np.array(
        [[float(found[i, j]) for j in range(m)] for i in range(m)]
    ) == pytest.approx(point, rel=1e-9)


@pytest.mark.parametrize(
    ("m", "sigma"),
    [(1, 0.5), (2, 1.5), (3, 0.5), (3, 1.6), (4, 1.4), (5, 1.0), (7, 1e-9)],
)
def test_the_best_envelope_is_drawn_from_as_often_as_said(m: int, sigma: float) -> None:
    class Counting(GeneratorSource):
        coins = 0

        def words(self, size):
            self.coins += size == 1
            return super().words(size)

    chances = {"NearDraw": 1.0}
    if m > 1 and sigma > 1e-3:
        chances = {
            "NearDraw": math.exp(NearEnvelope.tightest(m, sigma).log_acceptance),
            "FarGaussianDraw": math.exp(FarEnvelope(m, sigma).log_acceptance),
        }
    counting = Counting(np.random.default_rng(8))
    draws = [_identity_sampler("gaussian", m, 1, sigma)(counting) for _ in range(60)]
    best = max(chances, key=chances.__getitem__)
    assert {type(draw).__name__ for draw in draws} == {best}
    assert acceptance_probability("gaussian", m, 1, sigma) <= chances[best] * (
        1 + 1e-12
    )
    assert acceptance_probability("gaussian", m, 1, sigma) > 0.4 * chances[best]
    assert counting.coins < 60 * 1.6 / acceptance_probability("gaussian", m, 1, sigma)


@pytest.mark.parametrize(
    ("m", "sigma", "kind"),
    [(2, 0.3, "NearDraw"), (2, 5.0, "FarGaussianDraw"), (3, 20.0, "FarGaussianDraw")],
)
def test_near_and_far_have_their_ends(m: int, sigma: float, kind: str) -> None:
    assert (
        type(_identity_sampler("gaussian", m, 1, sigma)(seeded_source())).__name__
        == kind
    )


# ---- constant curvature


def test_places_are_the_exponential_map() -> None:
    """The point at distance r from the footpoint in the direction of the normals, for each model."""
    rng, r = np.random.default_rng(2), 0.9
    g = rng.standard_normal(3)
    p = np.array([0.4, -0.8, 1.1])
    foot, normals = [FloatBall(p)], [FloatBall(g)]
    assert exact_chart(Euclidean(3)).point(foot, normals, FloatBall(1.0), FloatBall(r))[
        0
    ].mid == pytest.approx(p + r * g / np.linalg.norm(g))
    hyper = FloatBall(math.cosh(r)), FloatBall(math.sinh(r))
    time, space = exact_chart(Lorentz(3)).point(foot, normals, *hyper)
    hyperboloid = Lorentz(3)
    x, start = np.append(time.mid, space.mid), np.append(math.sqrt(1 + p @ p), p)
    coordinates = hyperboloid.to_coordinates(start, hyperboloid.log(start, x))
    assert hyperboloid.dist(start, x) == pytest.approx(r, rel=1e-9)
    assert coordinates == pytest.approx(r * g / np.linalg.norm(g), rel=1e-9)
    q = np.array([0.3, -0.5, 0.2])
    ball = PoincareBall(3)
    y = exact_chart(ball).point([FloatBall(q)], normals, *hyper)[0].mid
    assert ball.dist(q, y) == pytest.approx(r, rel=1e-9)
    s = np.array([0.6, 0.0, 0.8])
    w = g - s * (g @ s)
    z = (
        exact_chart(Sphere(2))
        .point(
            [FloatBall(3 * s)], normals, FloatBall(math.cos(r)), FloatBall(math.sin(r))
        )[0]
        .mid
    )
    assert z == pytest.approx(
        math.cos(r) * s + math.sin(r) * w / np.linalg.norm(w), rel=1e-12
    )
    assert Sphere(2).dist(s, z) == pytest.approx(r, rel=1e-9)


@pytest.mark.parametrize(
    ("space", "functions"),
    [
        (Euclidean(3), None),
        (Sphere(3), (math.cos, math.sin)),
        (Lorentz(3), (math.cosh, math.sinh)),
    ],
)
def test_steps_and_the_public_mirror(space, functions) -> None:
    radius = LazyRadius(
        radial_envelope(
            ExactRadialDensity("gaussian", two_point_homogeneous_space(space), 0.6)
        ),
        LazyUniforms(seeded_source(), 1),
    )
    with ctx.workprec(128):
        cs, sn = _radial_factors(radius, exact_chart(space), 128)
        r = float(radius.ball(128))
    expected = (1.0, r) if functions is None else (functions[0](r), functions[1](r))
    assert (float(cs), float(sn)) == pytest.approx(expected, rel=1e-14)
    mirror = _public_reflection(4)
    with ctx.workprec(128):
        image = np.array(mirror([arb_array(row) for row in np.eye(4)]))
        back = np.array([float(x) for x in mirror([image[0]])[0]])
        assert (
            mirror([arb_array(np.ones(3)), arb(2)])[1] == 2
        )  # of another space: not reflected
    q = image.astype(float)
    v = np.sqrt(2.0 + np.arange(4))
    assert q == pytest.approx(np.eye(4) - 2 * np.outer(v, v) / (v @ v), rel=1e-14)
    assert back == pytest.approx([1, 0, 0, 0], abs=1e-14)
