"""Releases in stages: noise about numbers that one record moves by a known amount, at points already released.

Gaussian noise, or Laplace noise for pure ε. Shares are taken from a public total of 1, and a stage that would exceed it does
not exist; how many stages there are may depend on released values.

Gaussian: the μ² of all stages add up to that of the whole, by the filter theorem for Gaussian DP (Smith & Thakurta 2022,
fully adaptive composition). Proof: given what was released before, the log-likelihood ratio of a stage is N(∓s/2, s) with s
its μ², at most share·μ²; the whole is a martingale plus drift whose quadratic variation, a predictable number, is at most μ².
Spend the rest on noise about nothing: embedded in a Brownian motion it is N(∓μ²/2, μ²) at worst, which is the trade-off of
one Gaussian release.

Laplace: the ε of all stages add up. Proof: given what was released before, the log-likelihood ratio of a stage is at most
share·ε in absolute value, and so on every path the whole is at most ε (Rogers, Roth, Ullman & Vadhan 2016).
Of a vector whose length moves by Δ the density is ∝ exp(−|y|/b), b = Δ/ε (the K-norm mechanism of the Euclidean ball, Hardt &
Talwar 2010); of numbers that move by Δ in sum each has Laplace noise of its own, b = Δ/ε (Dwork et al. 2006).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, nextafter, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry.mean.streamed import Domain, into_ball
from curvedp.mechanisms.base import Draw, replay
from curvedp.mechanisms.certificate import Certificate, Check
from curvedp.mechanisms.measured import Measured
from curvedp.mechanisms.noise import LAWS, Law, least_noise, least_scale, spread_of
from curvedp.mechanisms.outer_ball import OuterBall
from curvedp.mechanisms.statistic import Positive, Statistic
from curvedp.mechanisms.vectors import Noise, VectorMechanism, drawn, exact_noise
from curvedp.privacy import GDP, ApproxDP, Guarantee, PureDP
from curvedp.records.base import Records, open_records

QUERIES = 7  # of a search over 127 lengths


class Stages:
    """The budget, and what has been released from it so far."""

    def __init__(self, scale: float, noisy: Noise, law: Law = "gaussian") -> None:
        self.left, self.told, self.counts = 1.0, [], []  # type: ignore[var-annotated]  # dictionaries; see `private_radius`
        self._scale, self._noisy = nextafter(scale * (1 + 1e-12), inf), noisy  # covers the rounding of the shares
        self.law = law

    def ask(
        self, kind: str, share: float, moved: float, values: np.ndarray, summed: float | None = None
    ) -> tuple[np.ndarray, float]:
        """Noisy values that one record moves by at most `moved`, for a share of the budget, and the deviation of each.
        Laplace noise is drawn for each by itself where they move by at most `summed` in sum, which is less noise."""
        share = min(share, self.left)
        self.left -= share
        if summed is None or self.law == "gaussian":
            summed, rows = moved, values[None]
        else:
            rows = values[:, None]
        noise = summed * self._scale / (share if self.law == "laplace" else sqrt(share))
        self.told.append({"kind": kind, "share": share, "sensitivity": summed, "noise": noise, "size": values.size})
        found = self._noisy(rows, np.full(len(rows), noise)).reshape(values.shape)
        return found, noise * spread_of(self.law, rows.shape[1])

    def rest(self) -> Guarantee:
        """All that is left, as the guarantee of one last release."""
        left, self.left = self.left, 0.0
        return PureDP(left / self._scale) if self.law == "laplace" else GDP(sqrt(left) / self._scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedMechanism(VectorMechanism):
    """A walk through stages as one release; a subclass says which. Its scale is 1/μ, or 1/ε, of the whole."""

    scale: Positive

    laws: ClassVar[tuple[Law, ...]] = ("gaussian",)
    moved = 1.0
    staged: ClassVar[bool] = True
    streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("law", self.law, self.laws)

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        return cls(statistic=statistic, **cls.least(guarantee, statistic))

    @classmethod
    def least(cls, guarantee: Guarantee, statistic: Statistic) -> dict[str, Any]:
        """The least noise that meets the guarantee, and its law."""
        law, scale = least_noise(guarantee) if cls.laws == LAWS else (LAWS[0], least_scale(guarantee))
        dear = statistic.dearer * spread_of("laplace", statistic.space.dim)
        if isinstance(guarantee, ApproxDP) and dear < scale * guarantee.eps:
            law, scale = least_noise(PureDP(guarantee.eps))
        return {"scale": scale, "law": law}

    def accepted(self, data: Any) -> Any:
        return collected(self.statistic, data)

    def draw(self, data: Any, source: Source) -> Draw:
        draws, noisy = exact_noise(source, self.law)
        value, stages = self.walk(self.numbers(data), noisy)
        return drawn(value, draws, stages.told)

    def finish(self, value: Any) -> Any:
        """As it is: the walk has moved it to where it can be."""
        return value

    def value_of(self, certificate: Certificate) -> Any:
        return self.replayed(certificate.release["integers"])[0]

    def checks(self, certificate: Certificate) -> list[Check]:
        """Every stage follows from the integers before it, and the shares add up to at most 1."""
        return same_stages(self.replayed(certificate.release["integers"])[1].told, certificate.release["stages"])

    def replayed(self, integers: Any) -> tuple[Any, Stages]:
        """The walk, read back from its integers."""
        return self.walk(self.numbers(), replay(integers))

    def numbers(self, data: Any = None) -> Any:
        """What the walk reads: of records, or of nothing but their number."""
        return Measured(self.statistic, data)

    @abstractmethod
    def walk(self, measured: Measured, noisy: Noise) -> tuple[Any, Stages]:
        """(value, what was released)."""


def collected(statistic: OuterBall, data: Any) -> Records:
    """Records wherever they lie, those in memory moved into the outer ball; only shape and type can be refused."""
    M = statistic.manifold
    records: Records = data if hasattr(data, "sums") else open_records(data, M.point_shape, "records")
    if records.n != statistic.n:
        raise ParameterError(f"{records.n} records, not {statistic.n}")
    if records.where != "memory":
        return records
    return open_records(into_ball(Domain(M, *statistic.outer), records.array()), M.point_shape)


class Search(NamedTuple):
    """A binary search over 2^queries − 1 public lengths, each `ratio` times the next; by default down to 1e-12 of the first.

    An early question that noise answers wrongly leads far too high; one that is passed too easily ends at the length it was
    asked about, where a few more records are cut. So each question allows `patience` standard deviations more than the next.
    """

    queries: int = QUERIES
    ratio: float = 1.25
    patience: float = 0.0

    def noise(self, scale: float, share: float) -> float:
        """The standard deviation of each count."""
        return scale * sqrt(self.queries / share)


def private_quantile(
    stages: Stages,
    beyond: Callable[[np.ndarray], np.ndarray],
    top: float,
    outside: float,
    share: float,
    about: np.ndarray | None = None,
    search: Search = Search(),  # noqa: B008  # immutable
) -> float:
    """The smallest of the public lengths below `top` that about `outside` records exceed, by binary search; `beyond` counts
    how many exceed each of them, and `about` is the point that they are distances from."""
    count = 2**search.queries - 1
    lengths = top * search.ratio ** -np.arange(count, dtype=np.float64)
    counts, low, high = beyond(lengths), 0, count - 1
    for later in range(search.queries)[::-1]:
        middle = (low + high + 1) // 2
        noisy, noise = stages.ask("radius", share / search.queries, 1.0, counts[middle : middle + 1])
        stages.counts.append((about, float(lengths[middle]), float(noisy[0]), noise))
        enough = noisy[0] <= outside + later * search.patience * noise
        low, high = (middle, high) if enough else (low, middle - 1)
        high = max(low, high)
    return float(lengths[low])


def same_stages(told: list[Any], stated: Any) -> list[Check]:
    """Whether a certificate's stages are those that its integers lead to, and their shares add up to at most 1."""
    total = sum(stage.get("share", 0.0) for stage in told)
    same = isinstance(stated, list) and len(told) == len(stated)
    return [
        Check(
            f"{len(told)} stages",
            same and all(_alike(a, b) for a, b in zip(told, stated, strict=True)),
            "each follows from the integers released before it",
        ),
        Check(f"shares of μ² {total:.9g}", total <= 1 + 1e-9, "the filter's total"),
    ]


def _alike(a: Mapping[str, Any], b: Any) -> bool:
    """Two descriptions of a stage, up to the last digits of what is computed from integers."""
    return isinstance(b, dict) and sorted(a) == sorted(b) and all(_equal(a[name], b[name]) for name in a)


def _equal(mine: Any, stated: Any) -> bool:
    if isinstance(mine, str) or mine is None:
        return bool(mine == stated)
    numbers, others = np.asarray(mine), np.asarray(stated)
    same = others.dtype.kind in "if" and numbers.shape == others.shape
    return bool(same and np.allclose(numbers, others, rtol=1e-9, atol=1e-12))
