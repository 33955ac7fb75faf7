"""What the table of audits is made of: a claim, and outputs at two neighbors."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from curvedp.audit.empirical import AuditResult, audit_scores
from curvedp.audit.pairs import rounded
from curvedp.geometry.base import Manifold
from curvedp.laws.cells import CellSampler, LocalConstants
from curvedp.laws.domains import GeodesicBall
from curvedp.privacy import Guarantee

_BLOCK = 100_000

Outputs = Callable[[np.random.Generator, int, int], list[np.ndarray]]


class Case(NamedTuple):
    """A claim, and `outputs(rng, side, size)`: rows of scores of outputs at the first or second of two neighbors."""

    mechanism: str
    manifold: Manifold
    claim: Callable[[], Guarantee]
    outputs: Outputs
    most: int | None = None  # outputs a side, where each takes milliseconds

    def audit(self, samples: int, delta: float, confidence: float, rng: np.random.Generator) -> AuditResult:
        """Attack with at most `samples` outputs a side, drawn in blocks so that memory stays flat."""
        samples, sides = min(samples, self.most or samples), []
        for side in (0, 1):
            sizes = [min(_BLOCK, samples - start) for start in range(0, samples, _BLOCK)]
            parts = [self.outputs(rng, side, size) for size in sizes]
            sides.append([np.concatenate(rows) for rows in zip(*parts, strict=True)])
        return audit_scores(self.claim(), *sides, delta=delta, confidence=confidence)


def k_norm_outputs(
    domain: GeodesicBall,
    scale: float,
    norms: Sequence[Callable[..., np.ndarray]],
    constants: Sequence[tuple[float, ...] | LocalConstants],
) -> Outputs:
    """Exact draws of exp(−norm/scale) for either norm, with both norms and their difference as scores.

    The difference is the log likelihood ratio, up to the normalizers. Cells are kept from block to block.
    """
    samplers: dict[int, tuple[np.random.Generator, CellSampler]] = {}

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        if side not in samplers or samplers[side][0] is not rng:
            samplers[side] = rng, CellSampler(domain, scale, norms[side], constants[side], rng)
        points: tuple[Any, ...] = domain.points(samplers[side][1].draw(size))
        one, two = (np.asarray(norm(*points)) for norm in norms)
        return [rounded(score) for score in (two - one, one, two)]

    return outputs
