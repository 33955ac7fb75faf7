"""Releases in stages: noise about numbers that one record moves by a known amount, at points already released.

Shares are taken from a public total of 1, and a stage that would exceed it does not exist; how many stages there are may
depend on released values. The μ² of Gaussian stages add up to that of the whole (Smith & Thakurta 2022), the ε of Laplace
stages to its ε (Rogers, Roth, Ullman & Vadhan 2016): proofs in docs/private-ball.md. Of a vector whose length moves by Δ the
Laplace density is ∝ exp(−|y|/b) (`noise`); of numbers that move by Δ in sum each has noise of its own (Dwork et al. 2006);
b = Δ/ε. The ε of k questions add up, so a binary search for a length has k times the noise; but a record that is replaced
leaves one of many public shells and enters another: all their counts together move by 2, however many there are.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, log, nextafter, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import gammainc, gammaincc, gammaincinv, poch

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.mechanisms.base import Draw, replay
from curvedp.mechanisms.certificate import Certificate, Check
from curvedp.mechanisms.measured import Measured
from curvedp.mechanisms.noise import (
    LAWS,
    Law,
    Noise,
    VectorMechanism,
    least_noise,
    least_scale,
    spread_of,
)
from curvedp.mechanisms.statistic import Positive, Statistic
from curvedp.privacy import GDP, ApproxDP, Guarantee, PureDP

Beyond = Callable[
    [np.ndarray], np.ndarray
]  # decreasing lengths -> how many records exceed each

QUERIES = 7  # of a search over 127 lengths
WIDER = 4.0  # times the typical length, or the likeliest median: beyond it nothing is looked for
_FINE = 3  # medians and radii that are weighed for each shell
_ONE_WAY = 0.7  # how much of what is cut off adds up: 1 if all records that lie outside lie one way
# Laws of a distance x, where x^order is Gamma(power/order): with exponential tails, normal ones and sharp edges, each from
# many records near 0 to all in one shell.
_POWER, _ORDER = np.stack(
    [(power, order) for order in (1.0, 2.0, 16.0) for power in 2.0 ** np.arange(-1, 7)],
    axis=1,
)


class Stages:
    """The budget, and what has been released from it so far."""

    def __init__(self, scale: float, noisy: Noise, law: Law = "gaussian") -> None:
        self.left = 1.0
        self.told: list[dict[str, Any]] = []
        self.counts: list[
            tuple[Any, ...]
        ] = []  # (center, length, count beyond it, noise), for alarms and regions
        self._scale, self._noisy = (
            nextafter(scale * (1 + 1e-12), inf),
            noisy,
        )  # covers the rounding of the shares
        self.law = law

    def ask(
        self,
        kind: str,
        share: float,
        moved: float,
        values: np.ndarray,
        summed: float | None = None,
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
        self.told.append(
            {
                "kind": kind,
                "share": share,
                "sensitivity": summed,
                "noise": noise,
                "size": values.size,
            }
        )
        found = self._noisy(rows, np.full(len(rows), noise)).reshape(values.shape)
        return found, noise * spread_of(self.law, rows.shape[1])

    def rest(self) -> Guarantee:
        """All that is left, as the guarantee of one last release."""
        left, self.left = self.left, 0.0
        return (
            PureDP(left / self._scale)
            if self.law == "laplace"
            else GDP(sqrt(left) / self._scale)
        )


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
        law, scale = (
            least_noise(guarantee)
            if cls.laws == LAWS
            else (LAWS[0], least_scale(guarantee))
        )
        dear = statistic.dearer * spread_of("laplace", statistic.space.dim)
        if isinstance(guarantee, ApproxDP) and dear < scale * guarantee.eps:
            law, scale = least_noise(PureDP(guarantee.eps))
        return {"scale": scale, "law": law}

    def draw(self, data: Any, source: Source) -> Draw:
        draws, noisy = self.exact_noise(source)
        value, stages = self.walk(self.numbers(data), noisy)
        return Draw.of(value, draws, stages.told)

    def finish(self, value: Any) -> Any:
        """As it is: the walk has moved it to where it can be."""
        return value

    def value_of(self, certificate: Certificate) -> Any:
        return self.replayed(certificate.release["integers"])[0]

    def checks(self, certificate: Certificate) -> list[Check]:
        """Every stage follows from the integers before it, and the shares add up to at most 1."""
        return same_stages(
            self.replayed(certificate.release["integers"])[1].told,
            certificate.release["stages"],
        )

    def replayed(self, integers: Any) -> tuple[Any, Stages]:
        """The walk, read back from its integers."""
        return self.walk(self.numbers(), replay(integers))

    def numbers(self, data: Any = None) -> Any:
        """What the walk reads: of records, or of nothing but their number."""
        return Measured(self.statistic, data)

    @abstractmethod
    def walk(self, measured: Measured, noisy: Noise) -> tuple[Any, Stages]:
        """(value, what was released)."""


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

    def quantile(
        self,
        stages: Stages,
        beyond: Beyond,
        top: float,
        outside: float,
        share: float,
        about: np.ndarray | None = None,
    ) -> float:
        """The smallest of the lengths below `top` that about `outside` records exceed; `beyond` counts how many exceed each
        of them, and `about` is the point that they are distances from."""
        count = 2**self.queries - 1
        lengths = top * self.ratio ** -np.arange(count, dtype=np.float64)
        counts, low, high = beyond(lengths), 0, count - 1
        for later in range(self.queries)[::-1]:
            middle = (low + high + 1) // 2
            noisy, noise = stages.ask(
                "radius", share / self.queries, 1.0, counts[middle : middle + 1]
            )
            stages.counts.append(
                (about, float(lengths[middle]), float(noisy[0]), noise)
            )
            enough = noisy[0] <= outside + later * self.patience * noise
            low, high = (middle, high) if enough else (low, middle - 1)
            high = max(low, high)
        return float(lengths[low])


def same_stages(told: list[Any], stated: Any) -> list[Check]:
    """Whether a certificate's stages are those that its integers lead to, and their shares add up to at most 1."""
    total, given = (
        sum(stage.get("share", 0.0) for stage in told),
        stated if isinstance(stated, list) else [None],
    )
    named = [sorted(each) for each in told] == [
        sorted(each) if isinstance(each, dict) else None for each in given
    ]
    same = named and all(
        _equal(a[name], b[name])
        for a, b in zip(told, stated, strict=True)
        for name in a
    )
    return [
        Check(
            f"{len(told)} stages",
            same,
            "each follows from the integers released before it",
        ),
        Check(f"shares of μ² {total:.9g}", total <= 1 + 1e-9, "the filter's total"),
    ]


def _equal(mine: Any, stated: Any) -> bool:
    """Up to the last digits of what is computed from integers."""
    if isinstance(mine, str) or mine is None:
        return bool(mine == stated)
    numbers, others = np.asarray(mine), np.asarray(stated)
    same = others.dtype.kind in "if" and numbers.shape == others.shape
    return bool(same and np.allclose(numbers, others, rtol=1e-9, atol=1e-12))


class Shells(NamedTuple):
    """So many public lengths, each `ratio` times the next."""

    number: int
    ratio: float

    def down_to(self, least: float) -> "Shells":
        """No more of them than reach that share of the first."""
        if not 0 < least < 1:
            return self
        return self._replace(
            number=min(self.number, 2 + ceil(-log(least) / log(self.ratio)))
        )

    def read(
        self,
        stages: Stages,
        beyond: Beyond,
        n: int,
        top: float,
        worth: float,
        share: float,
        about: np.ndarray,
    ) -> tuple[float, float]:
        """Off a noisy count of records in each shell from `top` downwards, `beyond` counting how many exceed each length; the
        outermost holds all that is farther out, the innermost all that is nearer: about the middle of the two neighboring
        ones that hold most, and the radius in which a mean is expected to err least, if the noise to come is r·worth/n long
        in a ball of radius r."""
        lengths = top * self.ratio ** -np.arange(self.number, dtype=np.float64)
        counts = np.diff(beyond(lengths)[1:], prepend=0.0, append=float(n))
        noisy, _ = stages.ask("shells", share, np.sqrt(2), counts, summed=2.0)
        noise = stages.told[-1]["noise"]
        stages.counts.append((about, lengths[1:], np.cumsum(noisy)[:-1], noise))
        best = int(np.argmax(noisy[:-1] + noisy[1:]))
        more, both = noisy[best] - noisy[best + 1], noisy[best] + noisy[best + 1]
        typical = lengths[best + 1] * self.ratio ** (
            float(np.clip(more / both, -1, 1)) / 2 if both > 0 else 0.0
        )
        return float(typical), top * least_loss(noisy, noise, n, worth, self)


def least_loss(
    noisy: np.ndarray, noise: float, n: int, worth: float, shells: Shells
) -> float:
    """The radius, over the first length, of least expected loss: noise in proportion to it, and what it cuts off, for laws
    of the distance that are as likely as the noisy counts say, all the same before."""
    misfits = np.sum(np.abs(noisy - n * laws(shells)[0]), axis=-1) / noise
    return float(least_losses(misfits[None], n, np.array([worth]), shells)[0])


def least_losses(
    misfits: np.ndarray, n: int, worth: np.ndarray, shells: Shells
) -> np.ndarray:
    """The same of many rows: what the counts of each are from those of every law, in scales of their noise."""
    best, radii = (
        np.argmin(misfits.min(axis=1), axis=-1),
        shells.ratio ** -(np.arange(misfits.shape[2]) / _FINE),
    )
    reach, found = int(_FINE * log(WIDER) / log(shells.ratio)), np.empty(len(misfits))
    for middle in np.unique(best):
        # What is farther than WIDER from the likeliest median would count for its length alone.
        rows, near = best == middle, slice(max(middle - reach, 0), middle + reach + 1)
        likely = misfits[rows, :, near].reshape(int(rows.sum()), -1)
        likely = np.exp(likely.min(axis=1, keepdims=True) - likely)
        cut = (
            likely
            @ laws(shells)[1][:, near].reshape(-1, len(radii))
            / likely.sum(axis=1, keepdims=True)
        )
        found[rows] = radii[
            np.argmin(worth[rows, None] * radii + _ONE_WAY * n * cut, axis=1)
        ]
    return found


@lru_cache(maxsize=32)
@np.errstate(over="ignore")
def laws(shells: Shells) -> tuple[np.ndarray, np.ndarray]:
    """Of every law with its median at each radius: the share of records in each shell, and the mean of (x − r)₊ at each
    radius r; both in units of the first length."""
    shape, order, size = (
        (_POWER / _ORDER)[:, None],
        _ORDER[:, None],
        _FINE * shells.number,
    )
    x = shells.ratio ** (np.arange(-size, size) / _FINE)  # over the median
    s, at = gammaincinv(shape, 0.5) * x**order, np.arange(size)
    mean = (
        poch(shape, 1 / order)
        * gammaincinv(shape, 0.5) ** (-1 / order)
        * gammaincc(shape + 1 / order, s)
    )
    edges = at[:, None] - _FINE * np.arange(1, shells.number) + size
    inside = -np.diff(gammainc(shape, s)[:, edges], prepend=1.0, append=0.0, axis=-1)
    excess = (mean - x * gammaincc(shape, s))[:, at[:, None] - at + size]
    return inside, excess * shells.ratio ** -(at[:, None] / _FINE)
