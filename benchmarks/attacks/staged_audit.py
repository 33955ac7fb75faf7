"""Audits of releases in stages, private balls and medians, at 10⁶ outputs a side: pairs of records that attack the stages.

`python -m benchmarks.staged_audit [outputs] [part of a name ...]`, or `make staged-audit`; exit code 1 if a claim was
refuted, a cheat was not, or the simulation is not the release.

One release in stages takes 10 to 50 ms. Here many walks go in step: `Walks` asks what the mechanism asks, with the floats'
law of the same noise, for records in a few distinct places. That it is the mechanism's own walk is checked, not assumed:

- led along what was simulated, the mechanism's own walk must ask for the same numbers with the same noise at every stage;
- the scores of real releases, with exact noise, must have the same law (Kolmogorov & Smirnov).

A transcript is scored by the logarithm of its likelihood ratio, the most telling of all scores (Neyman & Pearson). Beside
what an audit proves from it stands the most that any path told apart, Σ (difference/noise)² against μ², or
Σ |difference|/scale against ε: no statistics is in that.
"""

import sys
from collections.abc import Iterator, Mapping
from math import ceil, log2
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ks_2samp

from benchmarks.staged_walks import Balls, Medians, Pair, Walks, log_ratio
from curvedp import GDP, PureDP
from curvedp.audit import AuditResult, audit_scores
from curvedp.core.chart import GRID
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    Sphere,
    Torus,
)
from curvedp.geometry.capabilities import EmbeddedMean, ScalableCone
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.budget import StagedMechanism
from curvedp.mechanisms.staged.median import MedianMechanism
from curvedp.mechanisms.staged.scale_search import scaling_direction
from curvedp.randomness import GeneratorSource
from curvedp.statistics.geometric_median import GeometricMedian
from curvedp.statistics.searched_ball import SearchedMean

BLOCK = 20_000
RELEASES, LED = (
    200,
    50,
)  # real ones that are compared with the simulation, and simulated ones that a real walk is led along
FAILURE = 1e-6  # of the whole table
SPREAD = "on edges"  # the one pair whose records are not nearly all in one place
SPACES: tuple[Manifold, ...] = (
    Euclidean(3), Sphere(2), Lorentz(2), SPDAffineInvariant(2), Rotations(3), Torus(2),
)  # fmt: skip


# ---- pairs of data sets


def pair_of(mechanism: StagedMechanism, z: np.ndarray, last: np.ndarray) -> Pair:
    """Records at coordinates z about the origin, and the same with another last one."""
    M, other = mechanism.manifold, z.copy()
    other[-1] = last
    data = tuple(
        np.asarray(M.from_normal_coordinates(M.origin, each)) for each in (z, other)
    )
    inside = np.concatenate([mechanism.prepare_data(X).array() for X in data])
    places, which = np.unique(inside, axis=0, return_inverse=True)
    sides = which.reshape(2, -1)
    return Pair(
        data,
        places,
        np.stack([np.bincount(side, minlength=len(places)) for side in sides]).astype(
            float
        ),
    )


def attacks(mechanism: StagedMechanism) -> Iterator[tuple[str, Pair]]:
    """All but one identical, and that one far out, or as near on the other side as tells most (found by trying); far out, or
    with the others; and records on the edges of bins and radii, one of which goes to another edge."""
    M, n, outer = (
        mechanism.manifold,
        mechanism.statistic.n,
        mechanism.statistic.outer_radius,
    )
    axis = (
        scaling_direction(M, np.asarray(M.origin))
        if isinstance(M, ScalableCone)
        else np.eye(M.dim)[0]
    )
    far = 0.9 * min(outer, M.injectivity_radius)
    rough = isinstance(M, EmbeddedMean) and isinstance(mechanism, PrivateBallMechanism)
    near = outer * (
        1e-4 if rough else 1e-12 if mechanism.noise_kind == "gaussian" else 1e-13
    )
    same, apart = np.zeros((2, n, M.dim))
    apart[-1] = far * axis
    yield "opposite", pair_of(mechanism, apart, -near * axis)
    yield "one far record", pair_of(mechanism, same, far * axis)
    edges = np.where(
        np.arange(n) % 3 == 0, 2.0, outer / 1.6 ** (2 + 4 * (np.arange(n) % 3))
    )
    yield SPREAD, pair_of(mechanism, edges[:, None] * axis, outer / 1.6**2 * axis)


# ---- the mechanism itself


def asked(
    mechanism: Any, X: np.ndarray, drawn: list[np.ndarray]
) -> list[tuple[np.ndarray, float]]:
    """(numbers, their noise) of every stage, by the mechanism's own walk, led along what was drawn."""
    found: list[tuple[np.ndarray, float]] = []
    path, measured = iter(drawn), mechanism.queries(mechanism.prepare_data(X))

    def noisy(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
        found.append((values, float(scales[0])))
        return next(path).reshape(values.shape)

    end, stages = mechanism.run(measured, noisy)
    if isinstance(mechanism, PrivateBallMechanism):
        found.append(
            (
                measured.mean_clipped_log(*end).values[None],
                mechanism.final_mechanism_in(end, stages).scale,
            )
        )
    return found


def released(
    mechanism: Any, X: np.ndarray, source: GeneratorSource
) -> list[np.ndarray]:
    """The numbers of one release, with exact noise on the grid, in the units of each stage."""
    draw = mechanism.draw(mechanism.prepare_data(X), source)
    drawn = [
        np.asarray(each, dtype=float).ravel() * 2.0**-GRID for each in draw.integers
    ]
    if isinstance(
        mechanism, PrivateBallMechanism
    ):  # means of clipped logarithms are drawn in a public unit
        radius = next(
            stage["radius"] for stage in draw.stages if stage["kind"] == "ball"
        )
        drawn[-1] = drawn[-1] * 2.0 ** ceil(log2(radius))
    return drawn


def score_of(mechanism: Any, pair: Pair, drawn: list[np.ndarray]) -> float:
    """Log of the likelihood ratio of a release."""
    both = [asked(mechanism, X, drawn) for X in pair.data]
    total = 0.0
    for (one, noise), (two, _), each in zip(*both, drawn, strict=True):
        total += float(
            np.sum(
                log_ratio(
                    mechanism.noise_kind,
                    (one, two),
                    np.array(noise),
                    each.reshape(one.shape),
                    False,
                )
            )
        )
    return total


def strayed(walks: Walks, among: int, spread: bool) -> float:
    """The most by which what the simulation asked differs from what the mechanism's own walk asks along the same numbers, in
    units of the noise; inf where it asks other questions. Where records are not spread out but in one place, which the walk
    has reached, directions to them are rounding: there what tells the data sets apart is compared, not what they share."""
    worst = 0.0
    for k in range(among):
        mine = [
            (told, int(np.searchsorted(told.rows, k)))
            for told in walks.told
            if k in told.rows
        ]
        drawn = [told.drawn[place] for told, place in mine]
        both = [asked(walks.mechanism, X, drawn) for X in walks.pair.data]
        if any(len(side) != len(mine) for side in both):
            return float("inf")
        for (one, noise), (two, _), (told, place) in zip(*both, mine, strict=True):
            real, simulated = (
                np.stack([one.ravel(), two.ravel()]),
                told.values[:, place],
            )
            off = (
                real - simulated
                if spread
                else (real[0] - real[1]) - (simulated[0] - simulated[1])
            )
            worst = max(
                worst,
                float(np.max(np.abs(off))) / noise,
                abs(float(told.noise[place]) / noise - 1),
            )
    return worst


# ---- audits


class Result(NamedTuple):
    """One audit, and what any path told apart at most."""

    audit: AuditResult
    most: float
    walks: Walks
    scores: np.ndarray

    @property
    def refuted(self) -> bool:
        """By outputs, or by a path."""
        return not self.audit.holds or self.most > 1 + 1e-6


def simulated(
    mechanism: Any,
    pair: Pair,
    side: int,
    size: int,
    rng: np.random.Generator,
    cheat: Mapping[str, float],
) -> tuple[np.ndarray, float, Walks]:
    """Scores of so many transcripts, the most that any was told apart by, and the last walks."""
    kind = Medians if isinstance(mechanism, MedianMechanism) else Balls
    scores, most = [], 0.0
    for start in range(0, size, BLOCK):
        with np.errstate(all="ignore"):
            walks = kind(
                mechanism, pair, side, min(BLOCK, size - start), rng, cheat
            ).run()
        scores.append(walks.score)
        most = max(most, float(walks.most.max()))
    return np.concatenate(scores), most, walks


def audited(
    mechanism: Any, pair: Pair, size: int, cheat: Mapping[str, float]
) -> Result:
    """Hold the claim against so many transcripts a side."""
    rng = np.random.default_rng(0)
    (one, most, walks), (two, more, _) = (
        simulated(mechanism, pair, side, size, rng, cheat) for side in (0, 1)
    )
    rows = [[np.round(scores * 2.0**26) * 2.0**-26] for scores in (one, two)]
    delta = 1e-6 if mechanism.noise_kind == "laplace" else 1e-2
    found = audit_scores(
        mechanism.privacy_profile, *rows, delta=delta, confidence=1 - FAILURE / 100
    )  # fewer than 100 audits
    return Result(found, max(most, more), walks, one)


def tolerated(spread: bool) -> float:
    """How far the simulation may stray: by rounding, which on matrices is some of the direction to where one is already."""
    return 1e-6 if spread else 0.05


def same_law(mechanism: Any, pair: Pair, scores: np.ndarray) -> float:
    """The p-value of the scores of real releases having the law of these."""
    source = GeneratorSource(np.random.default_rng(1))
    real = [
        score_of(mechanism, pair, released(mechanism, pair.data[0], source))
        for _ in range(RELEASES)
    ]
    return float(ks_2samp(real, scores[:100_000]).pvalue)


def mechanisms() -> Iterator[tuple[str, Any]]:
    """Means in private balls and medians, each by both kinds of noise."""
    for M in SPACES:
        for guarantee, n in ((GDP(1.0), 100), (PureDP(1.0), 200)):
            of = SearchedMean(M, None, None, n)
            noise = PrivateBallMechanism.calibrate_noise(of, guarantee)
            mean = PrivateBallMechanism(
                statistic=of,
                scale=noise.scale,
                noise_kind=noise.kind,
                final_name="gradient-step",
            )
            yield f"mean, {guarantee}, {M}", mean
            yield (
                f"median, {guarantee}, {M}",
                MedianMechanism(
                    statistic=GeometricMedian(M, None, None, n),
                    scale=noise.scale,
                    noise_kind=noise.kind,
                ),
            )


# Noise of 0.8, and the steps believed to move by half of what they do.
CHEATS: Mapping[str, Mapping[str, float]] = {
    "0.8 of the noise": {"all": 0.8},
    "steps move by r/n": {"last": 0.5, "location": 0.5, "direction": 0.5},
}


def row(name: str, mechanism: Any, size: int) -> bool:
    """Print the audits of a mechanism at every pair, and of the cheats at the most telling one; whether all is well."""
    found, fine = {}, True
    for attack, pair in attacks(mechanism):
        began = process_time()
        result = found[attack] = audited(mechanism, pair, size, {})
        off = strayed(result.walks, LED, attack == SPREAD)
        fine &= not result.refuted and off < tolerated(attack == SPREAD)
        print(f"{name:42s} {attack:15s} {proved(result):.3f} {result.most:.4f} {off:7.0e} {process_time() - began:5.0f}",
              flush=True)  # fmt: skip
    worst = max(found, key=lambda attack: proved(found[attack]))
    pair = dict(attacks(mechanism))[worst]
    cheats = [audited(mechanism, pair, size // 4, cheat) for cheat in CHEATS.values()]
    alike = same_law(mechanism, pair, found[worst].scores)
    told = [
        f"{cheat} {proved(each):.3f} {each.most:.4f}"
        for cheat, each in zip(CHEATS, cheats, strict=True)
    ]
    print(f"  {worst}: {'; '.join(told)}; same law p = {alike:.3f}", flush=True)
    return bool(fine and alike > 1e-5 and all(each.refuted for each in cheats))


def proved(result: Result) -> float:
    """The share of the claim, ε or μ, that the audit proved to be used up."""
    return result.audit.tightness


def main(outputs: str = "1e6", *names: str) -> int:
    """Print the table."""
    print(f"{'release':42s} {'pair':15s} {'proved':5s} {'most':6s} strayed CPU s")
    every = [
        (name, mechanism)
        for name, mechanism in mechanisms()
        if all(part in name for part in names)
    ]
    well = [row(*each, int(float(outputs))) for each in every]
    return int(not all(well))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
