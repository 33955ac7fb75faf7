"""The public terms of one release that several sites compute together (a `Plan`).
The sites (hospitals, say) add up noisy vectors in a few rounds. The vectors are rounded
to a grid, so that sums are exact integers. Server and sites compute sensitivities,
noise scales, grids and, from the released sums, the value itself from the same plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from importlib.metadata import version
from math import frexp, inf, nextafter, sqrt
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.core.certificate_form import (
    is_64_hex_digits,
    is_version,
    public_version,
    read_time,
)
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import assign
from curvedp.core.mechanism import check_guarantee
from curvedp.core.statistic import Statistic, statistic_from_dict
from curvedp.errors import ParameterError
from curvedp.federated.kernels import BallKernel, Kernel, kernel_from_dict
from curvedp.federated.noise import (
    layer_variances,
    noise_slack,
    total_variance_for,
)
from curvedp.federated.questions import Question
from curvedp.federated.schedule import Round, Schedule
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

# By how much a site's clock may differ from the plan's times, or from the server's.
_CLOCK_TOLERANCE = timedelta(minutes=5)

# The longest time that a plan is open, in hours: its end must be a representable date.
_MAX_HOURS = 1e6

# The largest dimension of a manifold.
_MAX_DIMENSIONS = 1024

# A bound on the relative error of a computed term's length, 2·(dim + 8)·2^-53.
_FLOAT_ERROR = 2.0**-40

# How many bits of a record's term the grid resolves.
_TERM_BITS = 44

# A sum with its noise stays below 2 to this power, so that it fits in 64 bits.
_SUM_BITS = 61

# What a plan with several classes protects, by what it names.
_UNITS_WITHIN_A_CLASS = {
    "record": ProtectedUnit.RECORD_IN_CLASS,
    "person": ProtectedUnit.PERSON_IN_CLASS,
}

# How many records a site reads at a time: it bounds memory.
_BLOCK_SIZE = 1 << 14

# The grid leaves room for noise of this many standard deviations.
_NOISE_DEVIATIONS = 64

# Grids are not finer than 2 to minus this power, which is a normal float.
_MAX_EXPONENT = 1000

# Relative margins above the error of the few float operations of a bound.
_SUM_MARGIN = 1.001
_MU_MARGIN = 1 + 1e-12
_SENSITIVITY_MARGIN = 1 + 1e-15

# A plan's year lies in this range, so that its end is a representable date.
_FIRST_YEAR = 2000
_END_YEAR = 9000


@dataclass(frozen=True, eq=False)
class Plan(Statistic):
    """Which sites add up what, under which guarantee (experimental).

    Sites agree on a plan beforehand, and refuse another one. The masking protocol has
    not been reviewed by outside cryptographers.

    Parameters
    ----------
    kernel : Kernel
        The statistic that the sums compute.
    sites : sequence of str
        The sites' Ed25519 public keys, in hexadecimal.
    counts : sequence
        How many records (or persons) each site has: an integer for each site, or a list
        of integers, one for each class.
    guarantee : Guarantee
        The guarantee of the whole release, for replace-one adjacency, against the
        public and against the server together with `collusion` of the sites.
    dropouts : int
        How many sites may be lost. With one more the run stops and nothing is released.
    collusion : int
        How many sites may tell the server all that they know.
    rounds : int, optional
        The largest number of sums; the kernel's own number by default.
    protects : {"record", "person"}
        The privacy unit: one record, or one person with all their records at one site;
        with several classes, within their class.
    created : str, optional
        When the plan was made (ISO 8601); now by default.
    hours : float, optional
        How long sites answer.
    software : str, optional
        The version of curvedp that the sites run; the installed one by default.
    exponents : sequence of int, optional
        The grid of each round: terms are multiples of 2^-k. It follows from the other
        terms; a plan that states another grid is refused.

    Raises
    ------
    ParameterError
        If a term is not usable: too few sites, duplicate keys, counts that do not fit.

    Examples
    --------
    >>> from curvedp.federated import MeanKernel, Plan, new_identity, key_of
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> from curvedp.privacy import GDP
    >>> keys = [key_of(new_identity()) for _ in range(3)]
    >>> kernel = MeanKernel(SPDAffineInvariant(3), 1.0)
    >>> plan = Plan(kernel, keys, [200, 150, 50], GDP(1.0), dropouts=1)
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
    software: str = field(default_factory=lambda: public_version(version("curvedp")))
    exponents: Sequence[int] = ()

    name: ClassVar[str] = "federated sum"

    def __post_init__(self) -> None:
        """Check all terms and bring them to their standard form.

        Raises
        ------
        ParameterError
            If a term is unusable, also because of its type.
        """
        try:
            self._read_objects()
            self._check_terms()
            self._normalize_numbers()
            self._fix_grid()
        except (AttributeError, KeyError, TypeError):
            raise ParameterError("this is not a federated plan") from None

    def _read_objects(self) -> None:
        """Replace a kernel and a guarantee given as JSON values by their objects.

        The kernel says which statistic is released.
        """
        if isinstance(self.kernel, Mapping):
            assign(self, kernel=kernel_from_dict(self.kernel))
        if isinstance(self.guarantee, Mapping):
            assign(self, guarantee=guarantee_from_dict(self.guarantee))

    def _check_terms(self) -> None:
        """Refuse a term of the plan that is unusable by itself.

        Raises
        ------
        ParameterError
            If the unit, the version, a key, the kernel, the dimension or the adjacency
            is wrong.
        """
        _validate.choice("protects", self.protects, ("record", "person"))
        if not is_version(self.software):
            raise ParameterError("software must be a version of curvedp")
        if not all(is_64_hex_digits(key) for key in self.sites):
            raise ParameterError("a site's key has 64 hexadecimal digits in lower case")
        if not isinstance(self.kernel, Kernel):
            raise ParameterError(
                "kernel must be a kernel, such as MeanKernel(manifold, radius)"
            )
        dim = self.kernel.manifold.dim
        if dim > _MAX_DIMENSIONS:
            raise ParameterError(
                f"a space of {dim} dimensions is too large; at most "
                f"{_MAX_DIMENSIONS} are supported"
            )
        if check_guarantee(self.guarantee).adjacency != "replace-one":
            raise ParameterError(
                "the sites' counts are public: the guarantee is for replace-one "
                "adjacency"
            )

    def _normalize_numbers(self) -> None:
        """Check the numbers of the plan, and store them as JSON would give them.

        Two copies of a plan are compared by their JSON values, so that lists must be
        lists and integers integers.

        Raises
        ------
        ParameterError
            If a number is out of range, or sites and counts differ in number.
        """
        rounds = self.kernel.default_rounds if self.rounds is None else self.rounds
        rounds = _validate.integer("rounds", rounds, self.kernel.min_rounds)
        if rounds > self.kernel.max_rounds:
            raise ParameterError(
                f"is more than {self.kernel.max_rounds}",
                parameter="rounds",
                value=rounds,
            )
        assign(
            self,
            sites=list(self.sites),
            counts=self._read_counts(),
            rounds=rounds,
            dropouts=_validate.integer("dropouts", self.dropouts, 0),
            collusion=_validate.integer("collusion", self.collusion, 0),
            hours=_validate.within("hours", self.hours, 0, _MAX_HOURS, open_low=True),
        )
        if len(self.counts) != len(self.sites):
            raise ParameterError(
                f"there are {len(self.sites)} sites and {len(self.counts)} counts"
            )

    def _read_counts(self) -> list[list[int]]:
        """Return the counts as one list for each site, with an integer for each class.

        Returns
        -------
        list of lists of int
            One list for each site.

        Raises
        ------
        ParameterError
            If a site does not have one count for each class, or a count is not a
            nonnegative integer.
        """
        counts = []
        for site_counts in self.counts:
            has_classes = isinstance(site_counts, list | tuple | np.ndarray)
            counts.append(list(site_counts) if has_classes else [site_counts])
        if any(len(site_counts) != self.kernel.n_classes for site_counts in counts):
            raise ParameterError(
                f"a site needs {self.kernel.n_classes} counts, one for each class"
            )

        def as_integer(count: Any) -> int:
            """Return a count as an integer, or refuse it."""
            return _validate.integer("counts", count, 0)

        return [[as_integer(count) for count in site_counts] for site_counts in counts]

    def _fix_grid(self) -> None:
        """Compute and store the grid to which the numbers of each round are rounded.

        Raises
        ------
        ParameterError
            If the plan states another grid, or if sites, time or noise are not usable,
            so that a round would fail.
        """
        exponents = self.schedule.exponents
        if self.exponents not in ((), exponents):
            raise ParameterError("the plan was made for another grid")
        assign(self, exponents=exponents)

        # These raise ParameterError if sites, time or noise are not usable.
        _ = self.session
        _ = self._created
        self.schedule.check()

    @cached_property
    def schedule(self) -> Schedule:
        """What the rounds ask, one after the other."""
        return self.kernel.schedule(self)

    @property
    def ball_kernel(self) -> BallKernel:
        """The kernel, if its questions are known in advance.

        Raises
        ------
        ParameterError
            If the kernel is of another kind.
        """
        if not isinstance(self.kernel, BallKernel):
            raise ParameterError("the questions of this plan follow from its sums")
        return self.kernel

    @property
    def privacy_units(self) -> tuple[ProtectedUnit, ...]:  # type: ignore[override]
        """The privacy unit that the plan names, and no other.

        With several classes it is a record, or a person, within its class: the classes
        of a plan, and how many records of each a site has, are public.
        """
        if self.kernel.n_classes > 1:
            return (_UNITS_WITHIN_A_CLASS[self.protects],)
        return (ProtectedUnit(self.protects),)

    @property
    def public_count(self) -> int:
        """The number of records, or persons, of all sites."""
        return sum(map(sum, self.counts))

    @property
    def value_space(self) -> Manifold:
        """The manifold on which the released value, or each part of it, lives."""
        return self.kernel.value_space

    @property
    def sensitivity(self) -> float:
        """The ℓ₂ sensitivity of the first round's sum, in units of its grid."""
        first_sum = self.schedule.next_sum([])
        assert first_sum is not None  # every plan has a round
        return first_sum.sensitivity

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """How the value is made from the noisy sums, as a code."""
        return (PostProcessing.FEDERATED_ESTIMATE,)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values, for `from_dict`."""
        return {
            **super().to_dict(),
            "kernel": self.kernel.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        }

    @staticmethod
    def from_dict(record: Any) -> "Plan":
        """Rebuild a plan from the JSON values that `to_dict` returns.

        Parameters
        ----------
        record : object
            The JSON values.

        Returns
        -------
        Plan
            The plan, whose constructor has checked every term.

        Raises
        ------
        ParameterError
            If the fields do not make a plan.
        """
        plan = statistic_from_dict(record)
        if not isinstance(plan, Plan):
            raise ParameterError("this is not a federated plan")
        return plan

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """Return the names of the terms in which another plan differs from this one.

        Parameters
        ----------
        other : mapping
            The other plan as JSON values, perhaps from a server.

        Returns
        -------
        list of str
            Empty if the plans are the same.
        """
        own_terms = self.to_dict()
        names = {*own_terms, *other}
        return sorted(name for name in names if own_terms.get(name) != other.get(name))

    @cached_property
    def id(self) -> str:
        """SHA-256 of all terms, in hexadecimal."""
        return digest(self.to_dict()).hex()

    @cached_property
    def session(self) -> Session:
        """The terms of the secure sums, which depend on all terms of the plan."""
        return Session(
            self.sites, self.dropouts, self.collusion, self.rounds or 0, self.id
        )

    @cached_property
    def _created(self) -> datetime:
        """The time at which the plan was made.

        Raises
        ------
        ParameterError
            If `created` is not a time in ISO 8601 with a time zone, or its year is out
            of range.
        """
        created = read_time(self.created)
        if created is None:
            raise ParameterError(
                "must be a time in ISO 8601 with its time zone, such as "
                "2026-01-31T12:00:00+00:00",
                parameter="created",
                value=self.created,
            )
        if not _FIRST_YEAR <= created.year < _END_YEAR:
            raise ParameterError(
                f"created needs a year from {_FIRST_YEAR} to {_END_YEAR - 1}"
            )
        return created

    def is_open(self, now: datetime, server: datetime) -> bool:
        """Return whether a site may answer a request now.

        Parameters
        ----------
        now : datetime
            The site's clock. It must be between the plan's creation and its end.
        server : datetime
            The server's clock. It must agree with the site's up to a tolerance.

        Returns
        -------
        bool
            Whether both conditions hold, up to five minutes.
        """
        start = self._created - _CLOCK_TOLERANCE
        end = self._created + timedelta(hours=self.hours) + _CLOCK_TOLERANCE
        return start <= now <= end and abs(server - now) <= _CLOCK_TOLERANCE

    def is_within_hours(self, time: str) -> bool:
        """Return whether a time is in the plan's hours, and not in the future.

        Parameters
        ----------
        time : str
            A time in ISO 8601 with its time zone, such as that of a certificate.
        """
        moment = read_time(time)
        if moment is None or moment > datetime.now(UTC) + _CLOCK_TOLERANCE:
            return False
        return self.is_open(moment, moment)

    @cached_property
    def scale(self) -> float:
        """The standard deviation 1/μ of Gaussian noise that meets the plan's guarantee.

        It is for a statistic of sensitivity 1 that is released once. The rounds divide
        the budget μ² among them.
        """

        def profile_at(scale: float) -> PrivacyProfile:
            """Return the privacy profile of noise with this standard deviation.

            Parameters
            ----------
            scale : float
                The standard deviation, for a statistic of sensitivity 1.
            """
            return gaussian_profile(0.0, 1, scale, 1.0)

        return float(smallest_scale(profile_at, self.guarantee, 1.0))

    @cached_property
    def profile(self) -> PrivacyProfile:
        """The privacy profile ε ↦ δ(ε) of the whole release.

        It is that of one Gaussian release with sensitivity 1 and noise `scale`, because
        the squares of the rounds' parameters μ add up to the μ² of that release.
        """
        return gaussian_profile(0.0, 1, self.scale, 1.0)

    @cached_property
    def questions(self) -> list[Question]:
        """The question of each round: what the sites are asked."""
        smallest_class = min(self.class_counts(range(len(self.sites))))
        return self.ball_kernel.questions(self.rounds or 0, self.scale, smallest_class)

    def round_mu(self, round: int) -> float:
        """Return the GDP parameter μ of one round.

        A round has a share w of the budget, and the shares of all rounds add up to 1.
        The parameter is √w times that of the whole release. It is rounded down, so that
        the squares of all rounds do not add up to more than the budget.

        Parameters
        ----------
        round : int
            The number of the round.

        Returns
        -------
        float
            μ of the round's sum.
        """
        return self.mu_of(self.questions[round].budget_share)

    def mu_of(self, budget_share: float) -> float:
        """Return the GDP parameter μ of a share of the budget, rounded down.

        Parameters
        ----------
        budget_share : float
            The fraction of μ².
        """
        return sqrt(budget_share) / (self.scale * _MU_MARGIN)

    def grid_exponent(self, round: int) -> int:
        """Return the exponent k of a round's grid of multiples of 2^-k.

        The contribution of a record is rounded to the grid. The grid resolves `_TERM_BITS`
        bits of it, unless sums with 64 standard deviations of noise could then reach
        2^`_SUM_BITS` and overflow. Then the grid is coarser.

        Parameters
        ----------
        round : int
            The number of the round.

        Returns
        -------
        int
            The exponent k, which all sites compute in the same way.
        """
        diameter = self.questions[round].row_diameter
        records = max(1, self.public_count)
        largest_noise = (
            _NOISE_DEVIATIONS * len(self.sites) * diameter / self.round_mu(round)
        )
        largest_sum = _SUM_MARGIN * records * diameter + largest_noise

        # frexp gives the binary exponent of a number.
        sufficient_exponent = _TERM_BITS - frexp(diameter)[1]
        overflow_exponent = _SUM_BITS - frexp(largest_sum)[1]
        return int(min(sufficient_exponent, overflow_exponent, _MAX_EXPONENT))

    def sum_length(self, round: int) -> int:
        """Return the number of entries of a round's vectors, over all classes.

        Parameters
        ----------
        round : int
            The number of the round.
        """
        return self.questions[round].length * self.kernel.n_classes

    def grid_unit(self, round: int) -> float:
        """Return 2^-k, the unit in which the integers of a round count.

        Parameters
        ----------
        round : int
            The number of the round.
        """
        return 2.0 ** -self.exponents[round]

    def sensitivity_of(self, round: int) -> float:
        """Return the ℓ₂ sensitivity of a round's sum, in units of its grid.

        Each record contributes a row of numbers. When a record or person is replaced,
        the exact sum moves by at most the largest distance of two rows. The bound also
        covers floating-point errors and the rounding to the grid: at most √length/2 for
        each row of the old and of the new data.

        Parameters
        ----------
        round : int
            The number of the round.

        Returns
        -------
        float
            The bound, rounded up.
        """
        diameter = self.questions[round].row_diameter * (1 + _FLOAT_ERROR)
        rows = 1
        if self.protects == "person":
            rows = self.ball_kernel.max_rows_per_person
        rounding = rows * sqrt(self.sum_length(round))
        bound = diameter / self.grid_unit(round) + rounding
        return nextafter(bound * _SENSITIVITY_MARGIN, inf)

    def noise_variance(self, round: int) -> int:
        """Return the variance of the honest sites' noise together, in units of the grid.

        Parameters
        ----------
        round : int
            The number of the round.

        Returns
        -------
        int
            ⌈(Δ/μ)²⌉ + 8 for the round's sensitivity Δ and its μ.
        """
        return total_variance_for(self.sensitivity_of(round), self.round_mu(round))

    def noise_layers(self, round: int) -> list[Fraction]:
        """Return the variances of the layers in which a site draws a round's noise.

        Layers above the number of lost sites turn out unnecessary and are subtracted.

        Parameters
        ----------
        round : int
            The number of the round.

        Returns
        -------
        list of Fraction
            One variance for each possible number of lost sites, from 0 to `dropouts`.
        """
        return self.layers_of(self.noise_variance(round))

    def layers_of(self, variance: int) -> list[Fraction]:
        """Return the variances of the layers in which a site draws noise.

        Parameters
        ----------
        variance : int
            The variance of the honest sites' noise together.

        Raises
        ------
        ParameterError
            If a layer would have a variance that is too small for discrete noise.
        """
        return layer_variances(variance, len(self.sites), self.dropouts, self.collusion)

    @property
    def tau(self) -> float:
        """A bound on the total variation between the release and an ideal one.

        The ideal release is computed from real Gaussian noise instead of the discrete
        noise of the sites.
        """
        return self.schedule.slack

    def slack_of(self, length: int) -> float:
        """Return a bound on the total variation between a sum's noise and ideal noise.

        Parameters
        ----------
        length : int
            The number of entries of the sum.
        """
        n_shares = len(self.sites) * (1 + self.dropouts)
        return noise_slack(n_shares, length)

    def noise_std(self, round: int, surviving_sites: Sequence[int]) -> float:
        """Return the standard deviation of the noise in a coordinate of a round's sum.

        The plan fixes the variance of the noise of the honest sites. The other
        `collusion` sites add noise too, although privacy does not rely on it.

        Parameters
        ----------
        round : int
            The number of the round.
        surviving_sites : sequence of int
            The sites in the sum.

        Returns
        -------
        float
            In the unit of the rows, not of the grid.
        """
        honest_sites = len(surviving_sites) - self.collusion
        total_variance = (
            float(self.noise_variance(round)) * len(surviving_sites) / honest_sites
        )
        return sqrt(total_variance) * self.grid_unit(round)

    def rounded_sum(
        self, round: int, state_rows: np.ndarray, records: np.ndarray, label: int
    ) -> np.ndarray:
        """Return a site's sum of what its records of one class contribute to a round.

        Each contribution is rounded to the grid first. The sum is not private: nobody
        sees it without noise and masks.

        Parameters
        ----------
        round : int
            The number of the round.
        state_rows : array
            The public state before the round, such as the current estimate; one row for
            each class.
        records : array of shape (records, *point_shape)
            The site's records of the class.
        label : int
            The class; the sums of the other classes are 0.

        Returns
        -------
        array of int64, of shape (sum_length(round),)
            The sums of all classes, one after the other, in units of the grid.
        """
        classes = self.kernel.n_classes
        total = np.zeros((classes, self.sum_length(round) // classes), dtype=np.int64)
        for block in blocks(len(records), _BLOCK_SIZE):
            terms = self.ball_kernel.bounded_rows(
                self.questions[round], state_rows, records[block], label
            )
            rounded_terms = np.round(terms / self.grid_unit(round)).astype(np.int64)
            total[label] += rounded_terms.sum(axis=0)
        return total.ravel()

    def replay(self, rounds: Sequence[Round]) -> list[np.ndarray]:
        """Recompute what is public before the first round and after each round.

        The public state, such as the current estimate of the mean, follows from the
        released sums alone. So server, sites and verifiers can all compute it, and
        doing so costs no privacy.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of the rounds so far.

        Returns
        -------
        list of arrays
            The public state at each of these times, one more than there are rounds.
            Each array has a row for each class.
        """
        states = [self.ball_kernel.initial_state_rows()]
        for index, (total, surviving_sites) in enumerate(rounds):
            in_grid_units = np.array([float(int(number)) for number in total])
            next_state = self.ball_kernel.update(
                self.questions[index],
                states[-1],
                in_grid_units * self.grid_unit(index),
                counts=self.class_counts(surviving_sites),
                noise=self.noise_std(index, surviving_sites),
                averaging_weight=self._averaging_weight(index),
            )
            states.append(next_state)
        return states

    def _averaging_weight(self, round: int) -> float:
        """Return the weight of a round's answer in the average with earlier rounds.

        It is the round's part of the budget of all rounds that are averaged.

        Parameters
        ----------
        round : int
            The number of the round.
        """
        averaged_shares = [
            self.questions[index].budget_share
            for index in self.rounds_averaged_with(round)
        ]
        return self.questions[round].budget_share / sum(averaged_shares)

    def rounds_averaged_with(self, round: int) -> list[int]:
        """Return the rounds whose answers are averaged with that of a given round.

        They are the given round and the rounds directly before it that ask the same
        kind of question.

        Parameters
        ----------
        round : int
            The number of the last of these rounds.

        Returns
        -------
        list of int
            Consecutive numbers of rounds, which end with the given one.
        """
        kind = type(self.questions[round])
        first = round
        while first > 0 and type(self.questions[first - 1]) is kind:
            first -= 1
        return list(range(first, round + 1))

    def value(self, rounds: Sequence[Round]) -> Any:
        """Return the released value, computed from the noisy sums of all rounds.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds.

        Returns
        -------
        array or Clustering
            The value that is published.
        """
        return self.schedule.value(rounds)

    def class_counts(self, surviving_sites: Sequence[int]) -> list[int]:
        """Return the number of records (or persons) of each class at some sites.

        These numbers are public terms of the plan.

        Parameters
        ----------
        surviving_sites : sequence of int
            The indices of the sites.

        Returns
        -------
        list of int
            One number for each class.
        """
        counts = []
        for label in range(self.kernel.n_classes):
            counts.append(sum(self.counts[site][label] for site in surviving_sites))
        return counts
