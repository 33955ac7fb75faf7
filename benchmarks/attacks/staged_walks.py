"""Many releases in stages at once, for `benchmarks.staged_audit`: private balls and medians of records in a few places.

`Walks` asks what the mechanism's own walk asks, with the floats' law of the same noise, of two data sets at once: one leads,
the other is led along what was drawn. NOT for release.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean, ScalableCone
from curvedp.mechanisms.staged import ball_search, median
from curvedp.mechanisms.staged.quantile_search import (
    MAX_MEDIAN_RATIO,
    BinarySearch,
    ShellHistogram,
    best_radius_shares,
    distance_distributions,
)
from curvedp.mechanisms.staged.queries import mean_sensitivity
from curvedp.mechanisms.staged.scale_search import (
    Bins,
    half_bin_count,
    likeliest_position,
    scaling_direction,
)
from curvedp.mechanisms.vector import simulate_noise, std_per_scale
from curvedp.numerics.fixed_point import FixedPoint

FEW = 256  # rows that are weighed together


class Pair(NamedTuple):
    """Two data sets that differ in one record, and the distinct places of both with how many records of either are there."""

    data: tuple[np.ndarray, np.ndarray]
    places: np.ndarray
    weights: np.ndarray


class Told(NamedTuple):
    """What was asked of some of the walks: the numbers of either data set, their noise, what was drawn."""

    rows: np.ndarray
    values: np.ndarray
    noise: np.ndarray
    drawn: np.ndarray
    apart: bool  # whether each number has noise of its own


class Walks:
    """So many walks of a mechanism in step, led by one of two data sets. `cheat` multiplies the noise of stages by kind."""

    def __init__(
        self,
        mechanism: Any,
        pair: Pair,
        side: int,
        size: int,
        rng: np.random.Generator,
        cheat: Mapping[str, float],
    ) -> None:
        self.mechanism, self.pair, self.side, self.rng, self.cheat = (
            mechanism,
            pair,
            side,
            rng,
            cheat,
        )
        self.M, self.law, self.n = (
            mechanism.manifold,
            mechanism.noise_kind,
            mechanism.statistic.n,
        )
        self.c = np.broadcast_to(
            np.asarray(mechanism.statistic.center), (size, *self.M.point_shape)
        ).copy()
        self.left, self.score, self.most = np.ones(size), np.zeros(size), np.zeros(size)
        self.told: list[Told] = []
        self.all = np.arange(size)
        self.z = np.empty(
            (size, len(pair.places), self.M.dim)
        )  # logarithms of the places where a walk is
        self.known = np.zeros(size, dtype=bool)

    @property
    def pure(self) -> bool:
        """Whether the noise is Laplace."""
        return bool(self.law == "laplace")

    def ask(
        self,
        kind: str,
        rows: np.ndarray,
        share: Any,
        moved: Any,
        values: np.ndarray,
        summed: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `Stages.ask`, of some of the walks: what was drawn, and its deviation. Values are those of either data set."""
        share = np.minimum(share, self.left[rows])
        self.left[rows] -= share
        apart = self.pure and summed is not None
        noise = (
            (summed if apart else moved)
            * self.mechanism.scale
            / (share if self.pure else np.sqrt(share))
        )
        told = noise * self.cheat.get(kind, self.cheat.get("all", 1.0))
        values = np.broadcast_to(values, (2, len(rows), values.shape[-1]))
        shape = (len(rows), values.shape[-1])
        fresh = simulate_noise(
            self.rng, self.law, (shape[0] * shape[1], 1) if apart else shape
        ).reshape(shape)
        drawn = values[self.side] + told[:, None] * fresh
        self.score[rows] += log_ratio(self.law, values, told, drawn, apart)
        self.most[rows] += difference(self.law, values, told, apart)
        self.told.append(Told(rows, values, noise, drawn, apart))
        return drawn, noise * std_per_scale(self.law, 1 if apart else shape[1])

    def logs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of every place at the walks' points, and their lengths."""
        new = rows[~self.known[rows]]
        z = np.asarray(
            self.M.normal_coordinates(self.c[new][:, None], self.pair.places)
        )
        self.z[new], self.known[new] = (
            np.where(np.isfinite(z).all(axis=-1, keepdims=True), z, 0.0),
            True,
        )
        z = self.z[rows]
        return z, np.sqrt(np.einsum("kmd,kmd->km", z, z))

    def go(self, rows: np.ndarray, points: np.ndarray) -> None:
        """There."""
        self.c[rows], self.known[rows] = points, False

    def mean(self, vectors: np.ndarray) -> np.ndarray:
        """Of vectors of the places, for either data set."""
        return np.einsum("sm,kmd->skd", self.pair.weights / self.n, vectors)

    def beyond(self, s: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """How many records of either data set are farther than each length."""
        parts = (
            w[:, None, None] * (s[:, place, None] > lengths)
            for place, w in enumerate(self.pair.weights.T)
        )
        return np.asarray(sum(parts))

    def moved(self, bounds: Any, size: int) -> np.ndarray:
        """`mean_sensitivity` without the rounding of sums, which is below 1e-12."""
        return np.asarray(bounds) * mean_sensitivity(1.0, FixedPoint(2.0), size, self.n)

    def quantile(
        self,
        rows: np.ndarray,
        s: np.ndarray,
        top: Any,
        outside: float,
        share: float,
        search: BinarySearch,
    ) -> Any:
        """As `BinarySearch.quantile`."""
        low, high = (
            np.zeros(len(rows), dtype=int),
            np.full(len(rows), 2**search.queries - 2),
        )
        for later in range(search.queries)[::-1]:
            middle = (low + high + 1) // 2
            counts = self.beyond(
                s, (top * search.ratio ** -middle.astype(float))[:, None]
            )
            noisy, noise = self.ask("radius", rows, share / search.queries, 1.0, counts)
            enough = noisy[:, 0] <= outside + later * search.patience * noise
            low, high = (
                np.where(enough, middle, low),
                np.where(enough, high, middle - 1),
            )
            high = np.maximum(low, high)
        return top * search.ratio ** -low.astype(float)

    def shells(
        self,
        rows: np.ndarray,
        s: np.ndarray,
        top: Any,
        share: float,
        shells: ShellHistogram,
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `ShellHistogram.read`: typical lengths, and the noisy counts."""
        lengths = np.broadcast_to(top, len(rows))[:, None] * shells.ratio ** -np.arange(
            shells.n_shells, dtype=float
        )
        counts = np.diff(
            self.beyond(s, lengths)[..., 1:], prepend=0.0, append=float(self.n)
        )
        noisy, _ = self.ask("shells", rows, share, sqrt(2), counts, summed=2.0)
        best = np.argmax(noisy[:, :-1] + noisy[:, 1:], axis=1)
        a, b = (np.take_along_axis(noisy, (best + k)[:, None], 1)[:, 0] for k in (0, 1))
        lean = np.where(
            a + b > 0,
            np.clip((a - b) / np.where(a + b > 0, a + b, 1.0), -1, 1) / 2,
            0.0,
        )
        return lengths[np.arange(len(rows)), best + 1] * shells.ratio**lean, noisy

    def to(self, rows: np.ndarray, points: np.ndarray) -> None:
        """As `usable`: there, or where the walk is."""
        finite = np.isfinite(points.reshape(len(rows), -1)).all(axis=1)
        safe = np.where(
            finite.reshape(-1, *[1] * (points.ndim - 1)), points, self.c[rows]
        )
        good = finite & (np.asarray(self.M.residual(safe)) <= 1e-6)
        self.go(rows[good], np.asarray(self.M.project(safe[good])))


class Medians(Walks):
    """As `MedianMechanism.walk`."""

    def run(self) -> "Medians":
        """All stages."""
        plan, size = median._SCHEDULES[self.law], np.zeros(len(self.all))
        for _ in range(plan.n_searches):
            size = self.size(size)
            self.step(
                size,
                max(
                    plan.step_share, self.mechanism._share_of_few(median._LATER_SHELLS)
                ),
            )
        size = self.size(size)
        weights = [plan.growth**k for k in range(plan.n_final_steps)]
        for share in [self.left * weight / sum(weights) for weight in weights]:
            self.step(size, share)
        return self

    def size(self, before: np.ndarray) -> np.ndarray:
        """A median distance, or for pure ε a typical one."""
        s, top, share = (
            self.logs(self.all)[1],
            self.mechanism.statistic.outer_radius,
            median._SCHEDULES[self.law].distance_share,
        )
        if not self.pure:
            return np.asarray(
                self.quantile(self.all, s, top, self.n / 2, share, BinarySearch())
            )
        first = not before.any()
        rule = median._FIRST_SHELLS if first else median._LATER_SHELLS
        top = top if first else np.minimum(top, MAX_MEDIAN_RATIO * before)
        return self.shells(
            self.all,
            s,
            top,
            max(share, self.mechanism._share_of_few(rule)),
            rule.shells,
        )[0]

    def step(self, size: np.ndarray, share: Any) -> None:
        """Along the mean direction."""
        z, s = self.logs(self.all)
        mean = self.mean(
            z / np.maximum(s, median._SMOOTHING * size[:, None])[..., None]
        )
        noisy, _ = self.ask(
            "direction", self.all, share, self.moved(1.0, self.M.dim), mean
        )
        length = np.linalg.norm(noisy, axis=1)
        move = (size * np.minimum(1.0, 1 / np.where(length > 0, length, 1.0)))[
            :, None
        ] * noisy
        outer = self.mechanism.statistic.outer_ball
        self.go(
            self.all,
            np.asarray(
                project_to_ball(
                    self.M,
                    *outer,
                    np.asarray(self.M.from_normal_coordinates(self.c, move)),
                )
            ),
        )


class Balls(Walks):
    """As `PrivateBallMechanism.walk`, and one gradient step in the ball that was found."""

    def run(self) -> "Balls":
        """All stages."""
        self.units()
        mechanism, off = self.mechanism, self.extrinsic()
        hopeless = mechanism._step_noise_ratio > (
            0.5 if mechanism._is_hyperbolic else 1.0
        )
        self.r = np.zeros(len(self.all))
        self.r[:] = self.middle(self.all, off / 4)
        wide = ball_search._NOISE_PER_RADIUS[self.law]
        nearer = min(0.5, wide * mechanism._step_noise_ratio) if self.pure else 0.5
        going = (
            ~np.full(len(self.all), hopeless)
            & (self.r <= wide * off)
            & self.affords(self.all)
        )
        if not (self.pure and off < np.inf):
            rows = self.all[~going & self.affords(self.all)]
            self.r[rows] = self.widened(rows)
        rows = self.all[going]
        while len(rows):
            length, before = self.step(rows), self.r[rows]
            self.r[rows] = self.widened(rows)
            more = self.r[rows] <= nearer * before
            if mechanism._is_hyperbolic:
                more |= length > ball_search._ONE_WAY_LENGTH * before
            rows = rows[more & self.affords(rows)]
        mean, moved = self.clipped(self.all)
        self.ask("last", self.all, self.left.copy(), moved, mean)
        return self

    def affords(self, rows: np.ndarray) -> np.ndarray:
        """One more step, or one more search."""
        shares = self.mechanism._shares
        cost = (
            shares.final
            + self.mechanism._step_share
            + shares.hessian
            + self.mechanism._search_share(ball_search._FINE_SEARCH)
        )
        return np.asarray(self.left[rows] >= cost)

    def units(self) -> None:
        """The scale of a cone."""
        M, target = self.M, self.mechanism.statistic
        if not isinstance(M, ScalableCone):
            return
        half = half_bin_count(M, target.outer_radius, ball_search._BIN_WIDTH)
        real = [
            self.mechanism.queries(self.mechanism.prepare_data(X))
            for X in self.pair.data
        ]
        sums = [
            each.scale_histogram(
                target.center, 0, Bins(ball_search._BIN_WIDTH, half, self.law)
            )
            for each in real
        ]
        share = min(
            self.mechanism._share_for_few_records(
                self.mechanism._shares.units, ball_search._FEW_RECORDS_WIDE_SHARE
            ),
            ball_search._MAX_SHARE,
        )
        noisy, noise = self.ask(
            "units", self.all, share, sqrt(2), np.stack(sums)[:, None], summed=2.0
        )
        t = ball_search._BIN_WIDTH * likeliest_position(noisy, noise, self.n, self.law)
        self.to(
            self.all,
            np.asarray(
                M.from_normal_coordinates(
                    target.center, t[:, None] * scaling_direction(M, target.center)
                )
            ),
        )

    def extrinsic(self) -> float:
        """The mean of embedded points."""
        if not isinstance(self.M, EmbeddedMean):
            return float("inf")
        mechanism = self.mechanism
        few = (
            0.0
            if self.pure
            else (ball_search._EMBEDDING_ROOT_SHARE * mechanism.scale / self.n) ** 2
        )
        real = [
            mechanism.queries(mechanism.prepare_data(X)).mean_embedding(0)
            for X in self.pair.data
        ]
        values, share = (
            np.stack([each[0] for each in real])[:, None],
            min(ball_search._MAX_SHARE, max(mechanism._step_share, few)),
        )
        noisy, noise = self.ask("extrinsic", self.all, share, real[0][1], values)
        self.to(self.all, np.asarray(self.M.from_embedding(noisy)))
        return float(noise[0] * sqrt(self.M.dim))

    def middle(self, rows: np.ndarray, least: float = np.inf) -> np.ndarray:
        """About a median distance; for pure ε a radius."""
        top = self.mechanism.statistic.outer_radius
        if self.pure:
            fine = ball_search._NARROW_SHELLS._replace(
                n_shells=ball_search._WIDE_SHELLS.n_shells
            ).without_inner_shells(least / top)
            return self.in_shells(
                rows, top, fine if least < top else ball_search._WIDE_SHELLS
            )
        return self.search(rows, top, ball_search._COARSE_SEARCH, self.n / 2)

    def widened(self, rows: np.ndarray) -> np.ndarray:
        """A radius that only as many records are beyond as noise hides."""
        wider = ball_search._SEARCH_START[self.law]
        found = self.tight(rows, wider * self.r[rows])
        again = ~(found < wider * self.r[rows]) & self.affords(rows)
        if again.any():
            found[again] = self.middle(rows[again])
            if not self.pure:
                found[again] = self.tight(rows[again], wider * found[again])
        return found

    def tight(self, rows: np.ndarray, top: Any) -> np.ndarray:
        """By counts, or by a histogram."""
        if self.pure:
            return self.in_shells(rows, top, ball_search._NARROW_SHELLS)
        return self.search(
            rows, top, ball_search._FINE_SEARCH, self.mechanism._allowed_outside
        )

    def search(
        self, rows: np.ndarray, top: Any, search: BinarySearch, outside: float
    ) -> np.ndarray:
        """By counts."""
        share = self.mechanism._search_share(search)
        return np.asarray(
            self.quantile(rows, self.logs(rows)[1], top, outside, share, search)
        )

    def in_shells(
        self, rows: np.ndarray, top: Any, shells: ShellHistogram
    ) -> np.ndarray:
        """By a histogram."""
        mechanism, d, left = self.mechanism, self.M.dim, self.left[rows]
        first = shells.ratio == ball_search._WIDE_SHELLS.ratio
        share = (
            mechanism._share_for_few_records(
                mechanism._shares.units, ball_search._FEW_RECORDS_WIDE_SHARE
            )
            if first
            else mechanism._search_share(ball_search._FINE_SEARCH)
        )
        worth = 2 * sqrt(d) * std_per_scale(self.law, d) * mechanism.scale
        worth = worth / np.maximum(left - share, mechanism._shares.final)
        noisy = self.shells(rows, self.logs(rows)[1], top, share, shells)[1]
        return np.asarray(
            top * self.best_radius_shares(noisy, self.told[-1].noise, worth, shells)
        )

    def best_radius_shares(
        self,
        noisy: np.ndarray,
        noise: np.ndarray,
        worth: np.ndarray,
        shells: ShellHistogram,
    ) -> np.ndarray:
        """As `least_loss`, a few hundred rows at a time: each has thousands of distance_distributions."""
        inside, found = self.n * distance_distributions(shells)[0], []
        for rows in np.array_split(np.arange(len(noisy)), 1 + len(noisy) // FEW):
            misfits = (
                cdist(noisy[rows], inside.reshape(-1, inside.shape[-1]), "cityblock")
                / noise[rows, None]
            )
            found.append(
                best_radius_shares(
                    misfits.reshape(-1, *inside.shape[:2]), self.n, worth[rows], shells
                )
            )
        return np.concatenate(found)

    def clipped(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean clipped logarithms, and what moves them."""
        (z, s), r = self.logs(rows), self.r[rows]
        short = np.minimum(1.0, r[:, None] / np.where(s > 0, s, 1.0))
        return self.mean(z * short[..., None]), self.moved(r, self.M.dim)

    def step(self, rows: np.ndarray) -> np.ndarray:
        """One noisy clipped gradient step; the gradients' lengths."""
        mean, moved = self.clipped(rows)
        unit = 2.0 ** np.ceil(np.log2(self.r[rows]))
        v, noise = self.ask(
            "location",
            rows,
            self.mechanism._step_share,
            moved / unit,
            mean / unit[:, None],
        )
        v, noise = unit[:, None] * v, unit * noise
        if self.M.dim >= 3:
            square, lost = np.sum(v * v, axis=1), (self.M.dim - 2) * noise**2
            v = (
                v
                * np.where(
                    square > lost, 1 - lost / np.where(square > lost, square, 1.0), 0.0
                )[:, None]
            )
        length, r = np.linalg.norm(v, axis=1), self.r[rows]
        if self.mechanism._is_hyperbolic:
            v = v / self.bend(rows, v)[:, None]
        v = v * np.minimum(1.0, r / np.maximum(np.linalg.norm(v, axis=1), r))[:, None]
        self.to(rows, np.asarray(self.M.from_normal_coordinates(self.c[rows], v)))
        return length

    def bend(self, rows: np.ndarray, v: np.ndarray) -> np.ndarray:
        """H along the step."""
        (z, s), r, length = self.logs(rows), self.r[rows], np.linalg.norm(v, axis=1)
        axis, root = (
            v / np.where(length > 0, length, 1.0)[:, None],
            sqrt(-self.M.constant_curvature),
        )
        cut = np.minimum(s, r[:, None])
        t, most = _bent(cut * root), _bent(r * root)
        cosine = np.einsum("kmd,kd->km", z, axis) / np.where(s > 0, s, 1.0)
        values = self.mean(np.stack([t, t * np.minimum(cosine**2, 1.0)], axis=-1))
        moved = sqrt(2) * self.moved(most / 2, 2)
        noisy, _ = self.ask("bend", rows, self.mechanism._shares.hessian, moved, values)
        return np.asarray(1 + np.clip(noisy[:, 0] - noisy[:, 1], 0.0, moved * self.n))


def _bent(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, 1e-4)
    return np.asarray(x / np.tanh(x) - 1)


def log_ratio(
    law: str, values: Any, noise: np.ndarray, drawn: np.ndarray, apart: bool
) -> np.ndarray:
    """Log of the density at the first data set over that at the second."""
    off = [drawn - value for value in values]
    if law == "gaussian":
        one, two = (np.sum(each**2, axis=-1) / (2 * noise**2) for each in off)
    else:
        one, two = (_length(each, apart) / noise for each in off)
    return np.asarray(two - one)


def difference(law: str, values: Any, noise: np.ndarray, apart: bool) -> np.ndarray:
    """Its variance, or the most that it can be."""
    length = _length(values[0] - values[1], apart) / noise
    return np.asarray(length**2 if law == "gaussian" else length)


def _length(v: np.ndarray, apart: bool) -> np.ndarray:
    return np.asarray(
        np.sum(np.abs(v), axis=-1) if apart else np.linalg.norm(v, axis=-1)
    )
