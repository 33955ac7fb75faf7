"""The simulation that releases in stages are audited with: it is the mechanism's own walk, and wrong ones are found out."""

import itertools

import numpy as np
import pytest

from benchmarks import staged_audit as staged
from benchmarks.staged_walks import Balls

EVERY = dict(staged.mechanisms())
CASES = {
    name: each
    for name, each in EVERY.items()
    if "Sphere" in name or "SPD" in name or "mean, GDP(1.0), Lor" in name
}


@pytest.mark.parametrize("name", CASES)
def test_a_real_walk_asks_the_same_and_no_path_tells_more_than_is_paid_for(name):
    for attack, pair in staged.attacks(CASES[name]):
        found = staged.audited(CASES[name], pair, 200, {})
        assert not found.refuted
        spread = attack == staged.SPREAD
        assert staged.strayed(found.walks, 2, spread) < staged.tolerated(spread)


@pytest.mark.parametrize("name", [name for name in CASES if "Sphere" in name])
def test_cheats_are_refuted(name):
    pair = dict(staged.attacks(CASES[name]))["opposite"]
    for cheat in staged.CHEATS.values():
        assert staged.audited(CASES[name], pair, 2000, cheat).refuted


def test_another_walk_is_noticed(monkeypatch):
    mechanism = CASES["mean, GDP(1.0), Sphere(d=2)"]
    pair = dict(staged.attacks(mechanism))[staged.SPREAD]
    monkeypatch.setattr(
        Balls, "moved", lambda self, bounds, size: np.asarray(bounds) * 1.001 / self.n
    )
    assert (
        staged.strayed(staged.audited(mechanism, pair, 100, {}).walks, 2, True) > 1e-4
    )


def test_another_law_is_noticed(monkeypatch):

    def once(
        function,
    ):  # the same real releases, and their scores, for both comparisons
        kept, asked = [], itertools.count()

        def called(*given):
            if (place := next(asked) % staged.RELEASES) == len(kept):
                kept.append(function(*given))
            return kept[place]

        return called

    for name in ("released", "score_of"):
        monkeypatch.setattr(staged, name, once(getattr(staged, name)))
    mechanism = EVERY["median, GDP(1.0), Euclidean(d=3)"]
    pair = dict(staged.attacks(mechanism))["opposite"]
    honest, quiet = (
        staged.audited(mechanism, pair, 4000, cheat).scores
        for cheat in ({}, {"all": 0.5})
    )
    assert staged.same_law(mechanism, pair, honest) > 1e-4
    assert staged.same_law(mechanism, pair, quiet) < 1e-4
