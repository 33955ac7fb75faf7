"""The float filter in front of the balls on a grid so fine that it often cannot decide: the same integers without it."""

import numpy as np
import pytest

from curvedp.entropy import GeneratorSource, balls, exact, exact_curved, exact_gaussian, exact_laplace, exact_spd
from curvedp.geometry import Euclidean, Lorentz, PoincareBall, SPDAffineInvariant, Sphere


class Replay(GeneratorSource):
    """Children with streams of their own: what one asks for does not move another."""

    def __init__(self, *seed: int) -> None:
        super().__init__(np.random.default_rng(seed))
        self._seed, self._children = seed, 0

    def child(self) -> "Replay":
        self._children += 1
        return Replay(*self._seed, self._children)


@pytest.mark.parametrize(
    ("sampler", "space", "count"),
    [
        (exact_gaussian, Euclidean(60), 12),
        (exact_laplace, Euclidean(60), 12),
        (exact_gaussian, Sphere(60), 12),
        (exact_gaussian, Lorentz(60), 8),
        (exact_laplace, PoincareBall(60), 40),
        (exact_gaussian, SPDAffineInvariant(10), 4),
    ],
)
def test_what_floats_cannot_settle_is_left_to_balls(sampler, space, count, monkeypatch):
    scale = 0.01 if sampler is exact_laplace else 0.1

    def draws():
        return [
            sampler(space, scale, space.origin, source=Replay(seed), grid=balls.FILTER_GRID).integers.ravel().tolist()
            for seed in range(count)
        ]

    settled = []
    original = balls.FloatBall.round

    def watched(self, grid):
        integers, certain = original(self, grid)
        settled.append(bool(np.all(certain)))
        return integers, certain

    monkeypatch.setattr(balls.FloatBall, "round", watched)
    filtered = draws()
    assert not all(settled)  # it was asked, and could not say
    asked = len(settled)
    for module in (exact, exact_curved, exact_spd):
        monkeypatch.setattr(module, "FILTER_SIZE", 10**9)
    assert draws() == filtered
    assert len(settled) == asked
    for module in (exact, exact_curved, exact_spd):
        monkeypatch.setattr(module, "FILTER_SIZE", 48)
        monkeypatch.setattr(module, "FILTER_GRID", balls.FILTER_GRID - 1)
    assert draws()[:2] == filtered[:2]
    assert len(settled) == asked  # on finer grids than this it is not asked
