"""The public terms of one federated release, from which every number that is not data follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from importlib.metadata import version
from math import frexp, inf, nextafter, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.certificate_form import is_lower_hex, is_version, read_time
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import assign
from curvedp.core.mechanism import check_guarantee
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.federated.kernels import Kernel, kernel_from_dict
from curvedp.federated.noise import layers, noise_slack, variance
from curvedp.federated.questions import Question
from curvedp.federated.session import Session
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.threads import blocks
from curvedp.privacy import (
    Guarantee,
    PrivacyProfile,
    gaussian_profile,
    smallest_scale,
)
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.signing import digest

MOST_ROUNDS = 6
_SKEW = timedelta(
    minutes=5
)  # between a site's clock and the plan's times, or the server's
_LONGEST = 1e6  # hours, so that a plan's end is a date
_LARGEST = 1024  # dimensions
_FLOAT = (
    2.0**-40
)  # relative; a computed term's length is off by less: by 2·(dim + 8)·2^-53
_PRECISE = 44  # bits of a term
_ROOM = 61  # bits of a sum
_BLOCK = 1 << 14  # records at once


class Round(NamedTuple):
    """What a round has released: the noisy sum in whole units, and the sites in it."""

    total: Sequence[int]
    alive: Sequence[int]


@dataclass(frozen=True, eq=False)
class Plan(Statistic):
    """Who adds up what, under which guarantee.

    Sites agree on it beforehand; one that has another plan refuses.

    Experimental: the masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    kernel : Kernel
        What is added up.
    sites : sequence of str
        The sites' Ed25519 public keys, in hexadecimal.
    counts : sequence
        How many records (or persons) each site has: a whole number a site, or one for each class.
    guarantee : Guarantee
        Of the whole release, for replace-one adjacency, against the public and the server with `collusion` of the sites.
    dropouts, collusion : int
        How many sites may be lost (with one more the run stops and nothing is released), and tell the server all they know.
    rounds : int, optional
        Sums formed, at most 6; the kernel's own number by default.
    protects : {"record", "person"}
        Whose data may change: one record, or one person with all their records at one site.
    created, hours : str and float, optional
        When the plan was made (ISO 8601), now by default; how long sites answer.

    Raises
    ------
    ParameterError
        Where a term is not usable: too few sites, duplicate keys, counts that do not fit.

    Examples
    --------
    >>> from curvedp.federated import MeanKernel, Plan, new_identity, key_of
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> from curvedp.privacy import GDP
    >>> keys = [key_of(new_identity()) for _ in range(3)]
    >>> plan = Plan(MeanKernel(SPDAffineInvariant(3), 1.0), keys, [200, 150, 50], GDP(1.0), dropouts=1)
    >>> Plan.from_dict(plan.to_dict()).id == plan.id
    True
    """

    kernel: Kernel
    sites: Sequence[str]
    counts: Sequence[Any]
    guarantee: Guarantee
    dropouts: int = 0
    collusion: int = 0
    rounds: int | None = None
    protects: str = "record"
    created: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    hours: float = 24.0
    software: str = field(default_factory=lambda: version("curvedp"))
    exponents: Sequence[int] = ()  # by round, k: terms are whole multiples of 2^-k

    name: ClassVar[str] = "federated sum"

    def __post_init__(self) -> None:
        try:
            self._settle()
        except (AttributeError, KeyError, TypeError):
            raise ParameterError("this is not a federated plan") from None

    def _settle(self) -> None:
        """Terms from JSON or from objects, made alike; refused here, not in a round."""
        if isinstance(self.kernel, Mapping):
            assign(self, kernel=kernel_from_dict(self.kernel))
        if isinstance(self.guarantee, Mapping):
            assign(self, guarantee=guarantee_from_dict(self.guarantee))
        _validate.choice("protects", self.protects, ("record", "person"))
        if not is_version(self.software):
            raise ParameterError("software must be a version of curvedp")
        if not all(is_lower_hex(key) for key in self.sites):
            raise ParameterError("a site's key has 64 hexadecimal digits in lower case")
        if not isinstance(self.kernel, Kernel):
            raise ParameterError(
                "kernel must be a kernel, such as MeanKernel(manifold, radius)"
            )
        if (dim := self.kernel.manifold.dim) > _LARGEST:
            raise ParameterError(
                f"a space of {dim} dimensions is too large; {_LARGEST} is the most"
            )
        if check_guarantee(self.guarantee).adjacency != "replace-one":
            raise ParameterError(
                "the sites' counts are public: the guarantee is for replace-one adjacency"
            )
        rounds = self.kernel.rounds if self.rounds is None else self.rounds
        if (
            rounds := _validate.integer("rounds", rounds, self.kernel.least_rounds)
        ) > MOST_ROUNDS:
            raise ParameterError(
                f"is more than {MOST_ROUNDS}", parameter="rounds", value=rounds
            )
        counts = [
            list(count) if isinstance(count, list | tuple | np.ndarray) else [count]
            for count in self.counts
        ]
        if any(len(each) != self.kernel.classes for each in counts):
            raise ParameterError(
                f"a site needs {self.kernel.classes} counts, one for each class"
            )
        counts = [[_validate.integer("counts", n, 0) for n in each] for each in counts]
        lost = {
            name: _validate.integer(name, getattr(self, name), 0)
            for name in ("dropouts", "collusion")
        }
        hours = _validate.within("hours", self.hours, 0, _LONGEST, open_low=True)
        assign(
            self,
            sites=list(self.sites),
            counts=counts,
            rounds=rounds,
            hours=hours,
            **lost,
        )
        if len(self.counts) != len(self.sites):
            raise ParameterError(
                f"there are {len(self.sites)} sites and {len(self.counts)} counts"
            )
        if self.exponents not in (
            (),
            exponents := [self._exponent(r) for r in range(rounds)],
        ):
            raise ParameterError("the plan was made for another grid")
        assign(self, exponents=exponents)
        _ = self.session, self._created, [self.layers(r) for r in range(rounds)]

    @property
    def privacy_units(self) -> tuple[ProtectedUnit, ...]:  # type: ignore[override]
        """The unit that the plan names, and no other."""
        return (ProtectedUnit(self.protects),)

    @property
    def public_count(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def value_space(self) -> Manifold:
        return self.kernel.space

    @property
    def sensitivity(self) -> float:
        """Of the first round's sum, in whole units."""
        return self.sensitivity_of(0)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return (PostProcessing.FEDERATED_ESTIMATE,)

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "kernel": self.kernel.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        }

    @staticmethod
    def from_dict(record: Any) -> "Plan":
        """The inverse of `to_dict`; raises `ParameterError` where the fields do not make a plan."""
        plan = Statistic.from_dict(record)
        if not isinstance(plan, Plan):
            raise ParameterError("this is not a federated plan")
        return plan

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """Names of the terms in which another plan's dictionary differs."""
        mine = self.to_dict()
        return sorted(key for key in {*mine, *other} if mine.get(key) != other.get(key))

    @cached_property
    def id(self) -> str:
        """SHA-256 of all terms."""
        return digest(self.to_dict()).hex()

    @cached_property
    def session(self) -> Session:
        """The terms of the masked sums."""
        return Session(
            self.sites, self.dropouts, self.collusion, self.rounds or 0, self.id
        )

    @cached_property
    def _created(self) -> datetime:
        created = read_time(self.created)
        if created is None:
            raise ParameterError(
                "must be a time in ISO 8601 with its time zone, such as "
                "2026-01-31T12:00:00+00:00",
                parameter="created",
                value=self.created,
            )
        if not 2000 <= created.year < 9000:
            raise ParameterError("created needs a year from 2000 on")
        return created

    def is_open(self, now: datetime, server: datetime) -> bool:
        """Whether a site's clock is between the plan's making and its end, and close to the server's."""
        end = self._created + timedelta(hours=self.hours)
        return (
            self._created - _SKEW <= now <= end + _SKEW and abs(server - now) <= _SKEW
        )

    def covers(self, time: str) -> bool:
        """Whether a time lies within the plan's hours, and not in the future."""
        moment = read_time(time)
        if moment is None or moment > datetime.now(UTC) + _SKEW:
            return False
        return self.is_open(moment, moment)

    @cached_property
    def scale(self) -> float:
        """Noise for each unit of sensitivity over the whole release: 1/μ."""
        return float(
            smallest_scale(
                lambda s: gaussian_profile(0.0, 1, s, 1.0), self.guarantee, 1.0
            )
        )

    @cached_property
    def profile(self) -> PrivacyProfile:
        """That of one Gaussian release of sensitivity 1: the rounds' μ² add up to its."""
        return gaussian_profile(0.0, 1, self.scale, 1.0)

    @cached_property
    def questions(self) -> list[Question]:
        """One a round."""
        return self.kernel.questions(
            self.rounds or 0, self.scale, min(self.present(range(len(self.sites))))
        )

    def mu(self, round: int) -> float:
        """What a round may cost, rounded down so that the squares do not add up to more than the whole."""
        return sqrt(self.questions[round].weight) / (self.scale * (1 + 1e-12))

    def _exponent(self, round: int) -> int:
        """k, such that sums with 64 standard deviations of noise stay below 2^61."""
        diameter = self.questions[round].change
        records = max(1, sum(map(sum, self.counts)))
        most = 1.001 * records * diameter + 64 * len(self.sites) * diameter / self.mu(
            round
        )
        return int(min(_PRECISE - frexp(diameter)[1], _ROOM - frexp(most)[1], 1000))

    def length(self, round: int) -> int:
        """Numbers in a round's sum."""
        return self.questions[round].length * self.kernel.classes

    def unit_of(self, round: int) -> float:
        """2^-k: what the whole numbers of a round count."""
        return 2.0 ** -self.exponents[round]

    def sensitivity_of(self, round: int) -> float:
        """Of a round's sum when one record or person is replaced: diameter, floats, and rounding (√dim/2 a row, twice)."""
        size = self.questions[round].change * (1 + _FLOAT) / self.unit_of(round)
        rows = self.kernel.rows_of_a_person if self.protects == "person" else 1
        return nextafter((size + rows * sqrt(self.length(round))) * (1 + 1e-15), inf)

    def variance(self, round: int) -> int:
        """Of the noise that the honest sites keep, in whole units."""
        return variance(self.sensitivity_of(round), self.mu(round))

    def layers(self, round: int) -> list[Fraction]:
        """The variances of one site's layers of noise."""
        return layers(
            self.variance(round), len(self.sites), self.dropouts, self.collusion
        )

    @property
    def tau(self) -> float:
        """Total variation between the release and the ideal Gaussian one."""
        shares = len(self.sites) * (1 + self.dropouts)
        return sum(
            noise_slack(shares, self.length(r)) for r in range(self.session.rounds)
        )

    def noise(self, round: int, alive: Sequence[int]) -> float:
        """Standard deviation of the noise in a coordinate of the sum over these sites, as the public sees it."""
        kept = float(self.variance(round)) * len(alive) / (len(alive) - self.collusion)
        return sqrt(kept) * self.unit_of(round)

    def integers(
        self, round: int, at: np.ndarray, records: np.ndarray, label: int
    ) -> np.ndarray:
        """Σ round(2^k·row): what a site holds before noise and masks, and nobody is shown."""
        total = np.zeros(
            (self.kernel.classes, self.length(round) // self.kernel.classes),
            dtype=np.int64,
        )
        for part in blocks(len(records), _BLOCK):
            rows = self.kernel.terms(self.questions[round], at, records[part], label)
            total[label] += (
                np.round(rows / self.unit_of(round)).astype(np.int64).sum(axis=0)
            )
        return total.ravel()

    def points(self, rounds: Sequence[Round]) -> list[np.ndarray]:
        """The public numbers before the first round and after each, from the sums that were released."""
        seen = [self.kernel.start()]
        for r, (total, alive) in enumerate(rounds):
            sums = np.array([float(int(x)) for x in total]) * self.unit_of(r)
            part = self.questions[r].weight / sum(
                self.questions[k].weight for k in self._together(r)
            )
            rest = self.present(alive), self.noise(r, alive), part
            seen.append(self.kernel.moved(self.questions[r], seen[-1], sums, *rest))
        return seen

    def _together(self, round: int) -> list[int]:
        """The rounds up to this one that have asked the same in the same ball."""
        before = [
            k
            for k in range(round)
            if type(self.questions[k]) is not type(self.questions[round])
        ]
        return list(range(max(before, default=-1) + 1, round + 1))

    def value(self, rounds: Sequence[Round]) -> np.ndarray:
        """What is released, from the sums of all rounds."""
        last = self._together(len(rounds) - 1)
        scales = [
            self.noise(r, rounds[r].alive) / max(min(self.present(rounds[r].alive)), 1)
            for r in last
        ]
        return self.kernel.finished(
            self.points(rounds)[-1], sum(scale**-2.0 for scale in scales) ** -0.5
        )

    def present(self, alive: Sequence[int]) -> list[int]:
        """How many records, or persons, of each class the sites have together."""
        return [
            sum(self.counts[i][label] for i in alive)
            for label in range(self.kernel.classes)
        ]
