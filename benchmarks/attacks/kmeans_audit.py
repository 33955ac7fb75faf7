"""Audit of private k-means at 10⁵ transcripts a side, and two cheats that it catches.

    python -m benchmarks.kmeans_audit [transcripts]

Two data sets on S² differ in one record: at the end of an axis in one of them, at the
other end in the other (or absent). Both are led along the same released values. A
transcript is scored by the logarithm of its likelihood ratio, than which no test is
stronger (Neyman & Pearson). Beside the share of μ that the audit proves stands the most
that any path told apart, Σ (difference/noise)²/μ², in which there is no statistics.

The cheats: 0.8 of the noise; and the sensitivity of an added record for a replaced one.
Exit code 1 if the claim was refuted, or a cheat was not.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from curvedp import GDP
from curvedp.audit import AuditResult, audit_scores
from curvedp.geometry import Sphere
from curvedp.mechanisms.staged.kmeans import ADDED, KMeansMechanism
from curvedp.privacy import PrivacyCurve
from curvedp.statistics.clusters import Clusters

_SPHERE = Sphere(2)
_RECORDS = 30
_DELTA = 1e-2
_FAILURE = 1e-6
# Of the number of transcripts, for the cheats: less is enough to find them out.
_PART_FOR_CHEATS = 5


class Transcripts(NamedTuple):
    """Scores of simulated transcripts.

    Attributes
    ----------
    scores : array
        The logarithms of the likelihood ratios of the first data set to the second.
    largest_loss : float
        The largest Σ (difference/noise)² of any transcript.
    """

    scores: np.ndarray
    largest_loss: float


def attacked_pair(is_replaced: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return two neighboring data sets, of records that are nearly all alike."""
    first, second = np.eye(3)[1], -np.eye(3)[1]
    common = np.repeat(np.asarray(_SPHERE.origin)[None], _RECORDS - 1, axis=0)
    one = np.concatenate([common, first[None]])
    return one, np.concatenate([common, second[None]]) if is_replaced else common


def mechanism_for(is_replaced: bool) -> KMeansMechanism:
    """Return the mechanism for these data sets, with public initial centers."""
    n = _RECORDS if is_replaced else None
    adjacency = "replace-one" if is_replaced else "add-remove"
    starts = np.stack([_SPHERE.origin, _SPHERE.project([0.3, 1.0, 0.1])])
    statistic = Clusters(_SPHERE, None, 2.0, 2, starts, n)
    return KMeansMechanism.calibrate(statistic, GDP(1.0, adjacency=adjacency))


def simulate(
    mechanism: KMeansMechanism,
    pair: tuple[np.ndarray, np.ndarray],
    side: int,
    size: int,
) -> Transcripts:
    """Return the scores of transcripts of one of the two data sets.

    Parameters
    ----------
    mechanism : KMeansMechanism
        The mechanism, or a cheat.
    pair : tuple of two arrays
        The two data sets.
    side : int
        Which of them is released.
    size : int
        The number of transcripts.
    """
    rng = np.random.default_rng(side)
    data = [mechanism.prepare_data(X) for X in pair]
    scores = np.empty(size)
    largest_loss = 0.0
    for index in range(size):
        stages: list[tuple[np.ndarray, float, np.ndarray]] = []

        def lead(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            noise = rng.standard_normal(values.shape)
            stages.append((values, float(scales[0]), noise))  # noqa: B023 - called now
            return values + scales[:, None] * noise

        mechanism.run(mechanism.queries(data[side]), lead)
        path = iter(stages)
        log_ratio = loss = 0.0

        def follow(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            nonlocal log_ratio, loss
            own, scale, noise = next(path)  # noqa: B023 - called now
            assert scale == scales[0]
            difference = (own - values) / scale
            square = float(np.sum(difference**2))
            loss += square
            log_ratio += float(np.sum(difference * noise)) + square / 2
            return own + scale * noise

        mechanism.run(mechanism.queries(data[1 - side]), follow)
        scores[index] = -log_ratio if side else log_ratio
        largest_loss = max(largest_loss, loss)
    return Transcripts(scores, largest_loss)


def audit(
    claim: PrivacyCurve,
    mechanism: KMeansMechanism,
    pair: tuple[np.ndarray, np.ndarray],
    size: int,
) -> tuple[AuditResult, float]:
    """Hold a claim against transcripts of both data sets.

    Returns
    -------
    result : AuditResult
        What the scores prove.
    largest_loss : float
        The largest Σ (difference/noise)² of any transcript.
    """
    sides = [simulate(mechanism, pair, side, size) for side in (0, 1)]
    rows = [[np.round(side.scores * 2.0**26) * 2.0**-26] for side in sides]
    result = audit_scores(claim, *rows, delta=_DELTA, confidence=1 - _FAILURE)
    return result, max(side.largest_loss for side in sides)


def main() -> None:
    """Print a row for each claim and each cheat."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print("| neighbors | noise | transcripts | proved of μ | largest loss / μ² |")
    print("|---" * 5 + "|")
    is_fine = True
    for is_replaced in (True, False):
        honest = mechanism_for(is_replaced)
        claim = honest.privacy_profile
        pair = attacked_pair(is_replaced)
        added_for_replaced = patch.object(KMeansMechanism, "stage_sensitivities", ADDED)
        cases: list[tuple[str, KMeansMechanism, AbstractContextManager[object]]] = [
            ("as claimed", honest, nullcontext()),
            ("0.8 of it", replace(honest, scale=0.8 * honest.scale), nullcontext()),
        ]
        if is_replaced:
            cases.append(("that of an added record", honest, added_for_replaced))
        for name, mechanism, cheat in cases:
            is_honest = name == "as claimed"
            count = size if is_honest else max(size // _PART_FOR_CHEATS, 1)
            with cheat:
                result, largest_loss = audit(claim, mechanism, pair, count)
            is_refuted = not result.holds or largest_loss > 1 + 1e-6
            is_fine &= is_refuted != is_honest
            neighbors = "replaced" if is_replaced else "added"
            print(
                f"| {neighbors} | {name} | {count:,} | {result.tightness:.3f} | "
                f"{largest_loss:.4f} |",
                flush=True,
            )
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
