"""Exact rejection sampling from exp(−g/s)·J on a public domain, under an envelope of cells that refines itself.

g is known only through evaluations and a Lipschitz constant: a cone over each cell. Accepted points follow the target
whatever the cells are, so the cells may follow the data (docs/knorm.md).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from curvedp.errors import EnvelopeViolation
from curvedp.laws.domains import GeodesicBall
from curvedp.laws.radial import Floats

Cells = dict[str, Floats]  # columns of a table with one row a cell
# (*points, how far each argument of g may move from them (N, blocks)) -> constants of g there, (N,) for each block
LocalConstants = Callable[..., tuple[Floats, ...]]

_MOST_CELLS = (
    1 << 20
)  # about 300 MB; from there on the envelope stays as it is, and sampling goes on under it
_BATCH = 2048  # evaluations of g in one call
_RAW_BATCH = 1 << 17  # proposals before thinning
_RAW_COST = 1 / 64  # of a proposal that is thinned away, in evaluations of g
_ROUNDING = 1e-9  # relative; a wrong constant shows at 1e-2 and more


class CellSampler:
    """Cells over `domain` for the target exp(−g/scale)·J, g Lipschitz with `constants`: one for each block, or a function
    that bounds them in a part of the domain.
    """

    def __init__(
        self,
        domain: GeodesicBall,
        scale: float,
        g: Callable[..., Any],
        constants: tuple[float, ...] | LocalConstants,
        rng: Any,  # a NumPy generator, or anything with its `random`, `uniform` and `standard_exponential`
    ) -> None:
        self._domain, self._scale, self._g, self._constants, self._rng = (
            domain,
            scale,
            g,
            constants,
            rng,
        )
        self._radii = np.asarray(domain.radii)
        self._k = domain.manifold.dim
        self._corners = _corners(self._k)
        self._thinning = _Thinning(len(self._radii), self._k)
        self.built = self.tried = 0  # evaluations of g spent on cells and on proposals
        blocks = len(self._radii)
        root = np.zeros((1, blocks, self._k))
        self._cells = self._measure(root, self._radii[None, :].copy(), None)

    def draw(self, count: int) -> Floats:
        """`count` independent points of the target, as coordinates (count, blocks, k)."""
        found: list[Floats] = []
        missing = count
        while missing > 0:
            expected = missing / self._yield()
            worth = max(expected, self.tried) > self.built
            if worth and len(self._cells["value"]) < _MOST_CELLS and self._refine():
                continue
            accepted = self._propose(
                int(min(max(missing, expected / 8) + 16, max(self.built, _BATCH)))
            )
            found.append(accepted[:missing])
            missing -= len(found[-1])
        return (
            np.concatenate(found) if found else np.zeros((0, len(self._radii), self._k))
        )

    def _yield(self) -> float:
        """Predicted draws for the cost of one evaluation of g; it steers the work, not the law."""
        c = self._cells
        top = c["log_cost"].max()
        guess = float(
            np.exp(c["log_target"] - top).sum() / np.exp(c["log_cost"] - top).sum()
        )
        return min(max(guess, 1e-300), 1.0)

    def _refine(self) -> bool:
        """Split the cells with the most excess mass, each across the block that loosens its bound most."""
        c = self._cells
        excess = np.exp(c["log_cost"] - c["log_cost"].max()) * -np.expm1(-c["spread"])
        children = len(self._corners)
        share = min(max(64, self.built // 4), _BATCH * 4) // children + 1
        order = np.argpartition(-excess, min(share, len(excess)) - 1)[:share]
        chosen = order[excess[order] > 0]
        if len(chosen) == 0:
            return False
        loss = c["lipschitz"][chosen] * c["half"][chosen]
        block = np.argmax(loss, axis=1)
        n = len(chosen)
        half = c["half"][chosen]
        half[np.arange(n), block] /= 2
        center = np.repeat(
            c["center"][chosen][:, None], children, axis=1
        )  # (n, children, blocks, k)
        step = half[np.arange(n), block][:, None, None] * self._corners
        center[np.arange(n)[:, None], np.arange(children), block[:, None]] += step
        parents = {
            name: np.repeat(c[name][chosen], children, axis=0)
            for name in ("at", "value", "lipschitz", "lower")
        }
        new = self._measure(
            center.reshape(n * children, *center.shape[2:]),
            np.repeat(half, children, axis=0),
            parents,
        )
        keep = np.ones(len(c["value"]), dtype=bool)
        keep[chosen] = False
        self._cells = {name: np.concatenate([c[name][keep], new[name]]) for name in c}
        return True

    def _measure(self, center: Floats, half: Floats, parents: Cells | None) -> Cells:
        """Evaluate g once in every cell that meets the domain, and bound the target over the cell."""
        near = np.maximum(np.abs(center) - half[:, :, None], 0.0)
        low = np.linalg.norm(near, axis=2)
        meets = np.all(low <= self._radii, axis=1)
        center, half, low = center[meets], half[meets], low[meets]
        high = np.minimum(
            np.linalg.norm(np.abs(center) + half[:, :, None], axis=2), self._radii
        )
        # Outside the domain g need not exist: evaluate at the nearest point inside. Projection onto a ball is
        # 1-Lipschitz, so no point of the cell is farther from it than from the center.
        norm = np.linalg.norm(center, axis=2)
        outside = norm > self._radii
        at = (
            center
            * np.where(outside, self._radii / np.where(outside, norm, 1.0), 1.0)[
                :, :, None
            ]
        )
        value = self._evaluate(at)
        self.built += len(value)
        lipschitz = self._lipschitz(at, half * math.sqrt(self._k), high)
        reach = lipschitz * half * math.sqrt(self._k)
        lower = np.maximum(value - reach.sum(axis=1), 0.0)
        if parents is not None:
            parents = {name: rows[meets] for name, rows in parents.items()}
            moved = np.sum(
                parents["lipschitz"] * np.linalg.norm(at - parents["at"], axis=2),
                axis=1,
            )
            self._check(np.abs(value - parents["value"]), moved, value)
            lower = np.maximum(
                lower, parents["lower"]
            )  # the parent's bound holds here too
        length = self._domain.across(center) + half[:, 0] * math.sqrt(self._k)
        log_top = self._domain.log_volume_bound(low, high, length) - lower / self._scale
        log_cell = self._k * np.log(2 * half).sum(axis=1)
        spread = reach.sum(axis=1) / self._scale
        log_thin = self._thinning(reach / self._scale, (value - lower) / self._scale)
        # A guess of the target's mass, pessimistic where g may still vary a lot: it decides how long cells are split.
        log_target = (
            self._domain.log_volume(at) - value / self._scale + log_cell - 0.15 * spread
        )
        return {
            "center": center,
            "half": half,
            "at": at,
            "value": value,
            "lipschitz": lipschitz,
            "lower": lower,
            "log_top": log_top,
            "log_mass": log_top + log_cell,
            "log_cost": log_top
            + log_cell
            + np.logaddexp(log_thin, math.log(_RAW_COST)),
            "log_target": log_target,
            "spread": spread,
        }

    def _lipschitz(self, at: Floats, reach: Floats, high: Floats) -> Floats:
        """Constants in the coordinates, as far as `reach` from `at` in each block, which holds the cell and its children."""
        if isinstance(self._constants, tuple):
            return self._domain.lipschitz(self._constants, high)
        units = [tuple(row) for row in np.eye(len(self._radii))]
        moved = np.stack(
            [
                np.sum(self._domain.lipschitz(unit, high) * reach, axis=1)
                for unit in units
            ],
            axis=1,
        )
        parts = [slice(i, i + _BATCH) for i in range(0, len(at), _BATCH)]
        found = [self._constants(*self._domain.points(at[i]), moved[i]) for i in parts]
        return self._domain.lipschitz(
            tuple(np.concatenate(part) for part in zip(*found, strict=True)), high
        )

    def _propose(self, evaluations: int) -> Floats:
        """Thinned proposals, as many as g may be evaluated, and those that g accepts."""
        c = self._cells
        cumulated = np.cumsum(np.exp(c["log_mass"] - c["log_mass"].max()))
        ready: list[tuple[Floats, Floats]] = []
        missing, raw = evaluations, evaluations
        while missing > 0:
            points, bound = self._thinned(cumulated, raw)
            ready.append((points[:missing], bound[:missing]))
            missing -= len(ready[-1][1])
            raw = min(int(1.1 * raw * missing / max(len(points), 1)) + 64, _RAW_BATCH)
        z, bound = (np.concatenate(part) for part in zip(*ready, strict=True))
        value = self._evaluate(z)
        self.tried += len(z)
        self._check(bound, value, value)
        log_ratio = (bound - value) / self._scale
        return np.asarray(z[log_ratio > -self._rng.standard_exponential(len(z))])

    def _thinned(self, cumulated: Floats, n: int) -> tuple[Floats, Floats]:
        """Points under the cones: uniform in a cell of the envelope, thinned to exp(−cone/s)·J, no evaluation of g."""
        c, rng = self._cells, self._rng
        cell = np.searchsorted(
            cumulated[:-1], rng.random(n) * cumulated[-1], side="right"
        )
        z = c["center"][cell] + c["half"][cell][:, :, None] * rng.uniform(
            -1, 1, (n, len(self._radii), self._k)
        )
        inside = np.all(np.linalg.norm(z, axis=2) <= self._radii, axis=1)
        z, cell = z[inside], cell[inside]
        drop = np.sum(
            c["lipschitz"][cell] * np.linalg.norm(z - c["at"][cell], axis=2), axis=1
        )
        bound = np.maximum(c["value"][cell] - drop, c["lower"][cell])
        log_ratio = (
            self._domain.log_volume(z) - bound / self._scale - c["log_top"][cell]
        )
        kept = log_ratio > -rng.standard_exponential(len(z))
        return z[kept], bound[kept]

    def _evaluate(self, z: Floats) -> Floats:
        value = np.empty(len(z))
        for i in range(0, len(z), _BATCH):
            points = self._domain.points(z[i : i + _BATCH])
            part = np.asarray(self._g(*points), dtype=np.float64)
            if part.shape != (len(points[0]),) or not np.all(part >= 0):
                raise EnvelopeViolation(
                    f"the gradient norm must return {len(points[0])} numbers >= 0"
                )
            value[i : i + _BATCH] = part
        return value

    def _check(self, smaller: Floats, larger: Floats, value: Floats) -> None:
        """Every evaluation of g is held against the Lipschitz constant; NaN fails."""
        if not np.all(smaller <= larger + _ROUNDING * (self._scale + np.abs(value))):
            raise EnvelopeViolation(
                f"the gradient norm leaves its Lipschitz bound by {np.max(smaller - larger):.3g}: "
                "its constants are too small"
            )


def _corners(k: int) -> Floats:
    """The 2^k sign vectors: where the children of a cell sit, in units of their half-width."""
    return np.stack(np.meshgrid(*[[-1.0, 1.0]] * k, indexing="ij"), axis=-1).reshape(
        -1, k
    )


class _Thinning:
    """The share of a cell that is left under its cone, E exp(−(D − Σ G_b·|w_b|/√k)₊) for w uniform on the cell's
    cubes: the cone drops by G_b toward the corners of block b, and by D down to the cell's bound. By fixed points: it
    steers only.
    """

    def __init__(self, blocks: int, k: int) -> None:
        points = np.random.default_rng(0).uniform(-1, 1, (64, blocks, k))
        self._lengths = np.linalg.norm(points, axis=2) / math.sqrt(k)

    def __call__(self, reach: Floats, depth: Floats) -> Floats:
        left = np.maximum(depth[:, None] - reach @ self._lengths.T, 0.0)
        least = left.min(axis=1)
        return np.asarray(
            np.log(np.mean(np.exp(least[:, None] - left), axis=1)) - least
        )
