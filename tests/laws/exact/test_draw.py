"""One draw, many ways to compute it: filters, precisions and refinements must all give the same integers."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import EnvelopeViolation, NotResolved, ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.laws.exact import draw as exact
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.laws.exact import exponential as exact_exponential
from curvedp.laws.exact import radial as exact_radial
from curvedp.laws.exact import spd as exact_spd
from curvedp.laws.exact import spd_far as exact_spd_far
from curvedp.laws.exact import spd_near as exact_spd_near
from curvedp.laws.exact.draw import ExactDraw
from curvedp.numerics import enclosures as balls
from curvedp.randomness import GeneratorSource, SecureSource, lazy_reals
from curvedp.randomness.csprng import Allowance
from support.goodness import accepts, form, ks, off_origin


class Replay(GeneratorSource):
    """Each real has its own stream, so that its later bits do not depend on who asked for bits when."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed))
        self._seed, self._children = seed, 0

    def child(self) -> GeneratorSource:
        self._children += 1
        return GeneratorSource(np.random.default_rng([self._seed, self._children]))


SPACES = [
    (exact_gaussian, Euclidean(3)),
    (exact_laplace, Euclidean(3)),
    (exact_gaussian, Sphere(2)),
    (exact_gaussian, Sphere(60)),
    (exact_laplace, Sphere(2)),
    (exact_gaussian, Lorentz(3)),
    (exact_laplace, PoincareBall(3)),
    (exact_gaussian, SPDAffineInvariant(3)),
    (exact_gaussian, SPDAffineInvariant(10)),
    (exact_gaussian, HPDAffineInvariant(2)),
    (exact_gaussian, HPDAffineInvariant(7)),
    (exact_gaussian, Rotations(3)),
    (exact_laplace, Grassmann(60, 1)),
    (exact_gaussian, KendallShapes(26)),
]


def draws(
    sampler, manifold, grid: int = 30, seeds: range = range(6)
) -> list[list[int]]:
    center = off_origin(manifold)
    return [
        sampler(manifold, 0.3, center, source=Replay(seed), grid=grid)
        .integers.ravel()
        .tolist()
        for seed in seeds
    ]


@pytest.mark.parametrize(("sampler", "manifold"), SPACES)
def test_same_bits_same_integers_whatever_computes_them(
    sampler, manifold, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = (exact, exact_exponential, exact_spd, exact_spd_near)
    expected = draws(sampler, manifold)

    def force(name: str, value) -> None:
        for module in modules:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)

    force("FILTER_SIZE", 0)  # floats first, always
    assert draws(sampler, manifold) == expected
    force("FILTER_SIZE", 10**9)  # never
    assert draws(sampler, manifold) == expected

    rounds = []
    original = exact.decide

    def watched(evaluate, precision: int = 64):
        def asked(p: int):
            rounds.append(p)
            return evaluate(p)

        return original(asked, precision)

    force(
        "first_precision", lambda grid: 20
    )  # far too coarse for the grid: must refine, with the same reals
    force("decide", watched)
    assert draws(sampler, manifold) == expected
    assert max(rounds) >= 40

    force("first_precision", lambda grid: 1024)
    assert draws(sampler, manifold) == expected


@pytest.mark.parametrize(
    ("manifold", "sigma"),
    [
        (SPDAffineInvariant(3), 3.0),
        (SPDAffineInvariant(6), 2.5),
        (HPDAffineInvariant(3), 2.0),
    ],
)
def test_refinement_of_spectral_envelopes(
    manifold, sigma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far, whose accept steps start at 64 bits: here from 24."""
    center = off_origin(manifold)

    def sample() -> list[list[int]]:
        return [
            exact_gaussian(manifold, sigma, center, source=Replay(s)).integers.tolist()
            for s in range(5)
        ]

    expected = sample()
    original = balls.decide
    for module in (exact_spd, exact_spd_far, lazy_reals):
        monkeypatch.setattr(
            module, "decide", lambda evaluate, precision=64: original(evaluate, 24)
        )
    assert sample() == expected


@pytest.mark.parametrize(("sampler", "manifold"), SPACES)
def test_coarse_cells_contain_the_fine_draw(sampler, manifold) -> None:
    coarse, fine = (
        draws(sampler, manifold, grid=20, seeds=range(3)),
        draws(sampler, manifold, grid=150, seeds=range(3)),
    )
    for a, b in zip(coarse, fine, strict=True):
        assert all(
            k == (j + (1 << 129)) >> 130 for k, j in zip(a, b, strict=True)
        )  # rounded to nearest


def test_footpoint_is_exact_not_its_float_image() -> None:
    # 2·(0.1, 0.2, 0.3) is another float vector for the same direction: the same draw, to 150 bits.
    center = np.array([0.1, 0.2, 0.3])
    a = exact_gaussian(Sphere(2), 0.1, center, source=Replay(1), grid=150).integers
    b = exact_gaussian(Sphere(2), 0.1, 2 * center, source=Replay(1), grid=150).integers
    assert a.tolist() == b.tolist()
    # and it lies on the sphere to the grid's precision, as no float64 computation can
    norm = sum(int(k) ** 2 for k in a)
    assert abs(norm - (1 << 300)) < 1 << 153
    # on Lorentz the time coordinate of the footpoint is implied by the others
    a = exact_gaussian(
        Lorentz(2), 0.1, [9.0, 0.1, 0.2], source=Replay(1), grid=150
    ).integers
    assert abs(int(a[0]) ** 2 - int(a[1]) ** 2 - int(a[2]) ** 2 - (1 << 300)) < 1 << 154


def test_models_of_hyperbolic_space_agree() -> None:
    # The same reals in both models: Poincaré's y = x/(1+x₀).
    y = np.array([0.25, -0.5])  # |y|² = 5/16
    lift = 2 * y / (1 - 5 / 16)
    x = exact_gaussian(Lorentz(2), 0.7, [0.0, *lift], source=Replay(5), grid=60).value
    ball = exact_gaussian(PoincareBall(2), 0.7, y, source=Replay(5), grid=60).value
    assert np.allclose(
        x[1:] / (1 + x[0]), ball, atol=1e-14
    )  # the lift is a float, so to its precision only


def test_center_on_a_cell_edge_with_tiny_noise_is_decided() -> None:
    # 0.5 is the edge between cells 0 and 1; noise of 1e-250 decides, and refinement has to go to 850 bits for it.
    cells = {
        int(
            exact_gaussian(
                Euclidean(1), 1e-250, [0.5], source=Replay(s), grid=1
            ).integers[0]
        )
        for s in range(8)
    }
    assert cells == {1}  # 2·0.5 = 1: the middle of a cell
    cells = [
        int(
            exact_gaussian(
                Euclidean(1), 1e-250, [0.25], source=Replay(s), grid=1
            ).integers[0]
        )
        for s in range(40)
    ]
    assert 5 < sum(cells) < 35


@pytest.mark.parametrize(
    ("manifold", "scale"),
    [
        (Lorentz(3), 1e10),
        (PoincareBall(3), 1e10),
        (SPDAffineInvariant(3), 1e10),
        (Euclidean(2), 1e290),
    ],
)
def test_noise_beyond_every_float_goes_to_the_end_of_the_grid(
    manifold, scale: float
) -> None:
    draw = exact_gaussian(manifold, scale, manifold.origin, source=Replay(3))
    assert np.all(np.isfinite(draw.value))
    if isinstance(manifold, PoincareBall):
        assert abs(np.linalg.norm(draw.value) - 1) < 1e-8
    else:
        assert np.abs(draw.value).max() >= 1e280


def test_footpoint_far_out_in_hyperbolic_space() -> None:
    # At distance 20 the hyperboloid's coordinates are 10^8: float64 would leave 8 digits of the noise.
    base = np.array([np.cosh(20.0), np.sinh(20.0), 0.0])
    draws = [
        exact_gaussian(Lorentz(2), 1e-3, base, source=Replay(s), grid=60)
        for s in range(300)
    ]
    across = np.array([float(draw.integers[2]) / 2.0**60 for draw in draws])
    assert accepts(ks(across / 1e-3, stats.norm.cdf))  # sinh r·sin φ, r small


# ---- flat metrics, products, coordinates


@pytest.mark.parametrize("manifold", [SPDLogEuclidean(3), SPDLogCholesky(2)])
def test_flat_spd_is_released_in_its_flat_coordinates(manifold) -> None:
    center, source = off_origin(manifold), GeneratorSource(np.random.default_rng(1))
    sample = [exact_gaussian(manifold, 0.4, center, source=source) for _ in range(300)]
    distances = np.array([manifold.dist(center, draw.point) for draw in sample])
    assert sample[0].integers.shape == (manifold.dim,)
    assert accepts(ks(distances / 0.4, stats.chi(manifold.dim).cdf))


def test_product_draws_each_factor() -> None:
    manifold = Product(Sphere(2), Product(SPDLogEuclidean(2), Euclidean(2)))
    center, source = off_origin(manifold), GeneratorSource(np.random.default_rng(2))
    sample = [exact_gaussian(manifold, 0.3, center, source=source) for _ in range(300)]
    assert sample[0].integers.shape == (3 + 3 + 2,)
    points = np.stack([draw.point for draw in sample])
    assert np.all(manifold.residual(points) < 1e-12)
    parts = list(
        zip(
            manifold.factors,
            manifold.split(center),
            manifold.split(points),
            strict=True,
        )
    )
    for factor, start, end in parts[1:]:  # flat
        assert accepts(ks(factor.dist(start, end) / 0.3, stats.chi(factor.dim).cdf))
    with pytest.raises(ParameterError):
        exact_laplace(manifold, 0.3, center)


# ---- what a draw says of itself


def test_slack_is_a_public_number() -> None:
    """The same for every footpoint, source and stroke of luck (M6 of the attacks: it was counted from what was used)."""
    source = SecureSource()
    for sampler, manifold in SPACES:
        factors = len(getattr(manifold, "factors", (manifold,)))
        for center in (off_origin(manifold), manifold.origin):
            for given in (source, SecureSource(), Replay(3)):
                assert (
                    sampler(manifold, 0.3, center, source=given).tau
                    == factors * 2.0**-100
                )
    wide = [
        exact_gaussian(Euclidean(1400), 1.0, np.full(1400, v)).tau
        for v in (0.0, 1e7, 1e300)
    ]
    assert wide == [2.0**-100] * 3
    assert exact_gaussian(Euclidean(10_000), 1.0, np.zeros(10_000)).tau == 3 * 2.0**-100
    spd = [
        exact_gaussian(SPDAffineInvariant(12), 0.4, np.exp(v) * np.eye(12)).tau
        for v in (0.0, 10.0)
    ]
    assert spd[0] == spd[1] == 2.0**-100


def test_a_draw_outside_its_slack_is_not_released(monkeypatch) -> None:
    monkeypatch.setattr("curvedp.randomness.csprng._EPOCHS_PER_BLOCK", 2)
    exact_gaussian(
        Euclidean(400), 1.0, np.zeros(400), source=Replay(1)
    )  # within an epoch
    with pytest.raises(NotResolved, match="nothing is released"):
        exact_gaussian(Euclidean(4000), 1.0, np.zeros(4000), source=Replay(1))
    allowance = Allowance(4096, 1e-3)
    assert allowance.tau() == 1000 * 2 * 2.0**-109
    allowance.meter(Replay(1)).child().words(1001 * 2044)  # children are counted too
    with pytest.raises(NotResolved):
        allowance.tau()


def test_value_is_the_integers_on_the_grid() -> None:
    draw = exact_gaussian(Euclidean(2), 1.0, [2.0**40, -3.0], grid=30)
    assert all(isinstance(k, int) for k in draw.integers)
    assert draw.value.tolist() == [k / 2**30 for k in draw.integers]
    assert math.isfinite(exact_gaussian(Euclidean(1), 1.0, [0.0], grid=200).value[0])


def test_a_wrong_envelope_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    law = exact_radial.ExactRadialDensity("gaussian", form(1, 3), 0.377)
    envelope = exact_radial.radial_envelope(law)
    lowered = tuple(
        exact_radial.EnvelopeSegment(p.start, p.stop, p.slope, p.height - 0.2)
        for p in envelope.segments
    )
    monkeypatch.setattr(
        exact_radial,
        "radial_envelope",
        lambda _: exact_radial.RadialEnvelope(law, envelope.level, lowered),
    )
    source = GeneratorSource(np.random.default_rng(0))
    with pytest.raises(EnvelopeViolation):
        [exact_radial.draw_radius(law, source) for _ in range(100)]


GOOD = {"manifold": Sphere(2), "sigma": 1.0, "center": [1.0, 0.0, 0.0]}


@pytest.mark.parametrize(
    "bad",
    [
        {"grid": 0},
        {"grid": 201},
        {"grid": 30.0},
        {"grid": True},
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"sigma": np.nan},
        {"sigma": np.inf},
        {"sigma": "1"},
        {"sigma": 1e-300},
        {"sigma": 1e300},
        {"manifold": Lorentz(2), "sigma": 1e13},
        {"center": [np.nan, 0.0, 0.0]},
        {"center": [np.inf, 0.0, 0.0]},
        {"center": [1.0, 0.0]},
        {"center": [0.0, 0.0, 0.0]},
        {"center": ["a", "b", "c"]},
        {"center": [1j, 0.0, 0.0]},
        {"manifold": "sphere"},
        {"manifold": Grassmann(6, 3), "center": np.eye(6)[:, :3]},
        {"manifold": PoincareBall(2), "center": [0.6, 0.8000000000000002]},
        {"manifold": PoincareBall(2), "center": [1.0, 0.0]},
        {"source": 7},
        {"source": np.random.default_rng(0)},
    ],
)
def test_bad_parameters_are_refused(bad: dict) -> None:
    arguments = {**GOOD, **bad}
    with pytest.raises(ParameterError):
        exact_gaussian(
            arguments.pop("manifold"),
            arguments.pop("sigma"),
            arguments.pop("center"),
            **arguments,
        )


# ---- the doors: known bytes in, known numbers out


def five():
    return GeneratorSource(np.random.default_rng(5))


@pytest.mark.parametrize("draw", [exact_gaussian, exact_laplace])
@pytest.mark.parametrize(
    ("space", "center"),
    [
        (Euclidean(2), [0.25, -3.0]),
        (Sphere(2), [0.6, 0.0, 0.8]),
        (Lorentz(2), [1.25, 0.75, 0.0]),
        (PoincareBall(2), [0.5, 0.0]),
    ],
)
def test_tiny_noise_stays_at_the_center(draw, space, center):
    found = draw(space, 1e-12, center, source=five(), grid=20)
    assert found.integers.tolist() == [round(c * 2**20) for c in center]
    assert found.value.tolist() == [round(c * 2**20) / 2**20 for c in center]
    assert found.grid == 20
    assert found.tau == draw(space, 0.1, center).tau == 2.0**-100


def test_products_and_charts_go_back_to_points():
    space = Product(Sphere(1), SPDLogEuclidean(2), Euclidean(1))
    center = space.join(
        [np.array([0.0, 1.0]), np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([4.0])]
    )
    found = exact_gaussian(space, 1e-12, center, source=five(), grid=40)
    assert found.integers.shape == (2 + 3 + 1,)
    np.testing.assert_allclose(found.point, center, atol=1e-9)
    assert ExactDraw(
        np.array([3, -5], dtype=object), 1, 0.0, Euclidean(2)
    ).value.tolist() == [1.5, -2.5]


def test_many_coordinates_have_the_same_law_as_one():
    """The filter in floats settles most of 400 coordinates; the sum of squares is χ²."""
    found = exact_gaussian(Euclidean(400), 2.0, np.full(400, 7.0), source=five()).value
    assert 300 < np.sum(((found - 7) / 2) ** 2) < 510
    fine = exact_gaussian(Euclidean(3), 2.0, np.zeros(3), source=five(), grid=200)
    assert max(abs(int(k)) for k in fine.integers).bit_length() > 190


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact_gaussian(Euclidean(1), 1.0, [0.0], grid=201),
        lambda: exact_gaussian(Euclidean(1), 1.0, [0.0], grid=0),
        lambda: exact_gaussian(Euclidean(1), 1e-291, [0.0]),
        lambda: exact_gaussian(Euclidean(1), 1e291, [0.0]),
        lambda: exact_gaussian(Lorentz(2), 1e13, [1.0, 0.0, 0.0]),
        lambda: exact_gaussian(Euclidean(1), 1.0, [math.nan]),
        lambda: exact_gaussian(Euclidean(1), 1.0, [0.0, 1.0]),
        lambda: exact_gaussian(Sphere(2), 1.0, [0.0, 0.0, 0.0]),
        lambda: exact_gaussian(PoincareBall(2), 1.0, [1.0, 0.0]),
        lambda: exact_gaussian(Product(Euclidean(1), PoincareBall(1)), 1.0, [0.0, 1.5]),
        lambda: exact_gaussian("S2", 1.0, [0.0]),
        lambda: exact_gaussian(
            Euclidean(1), 1.0, [0.0], source=np.random.default_rng(0)
        ),
        lambda: exact_gaussian(Stiefel(3, 2), 1.0, np.eye(3, 2)),
        lambda: exact_laplace(SPDLogEuclidean(2), 1.0, np.eye(2)),
    ],
)
def test_what_has_no_exact_draw_is_refused(call):
    with pytest.raises(ParameterError):
        call()
