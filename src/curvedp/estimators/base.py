"""What every estimator does around its statistic: check, choose, compute, pay, release.

Everything that can refuse has refused before anything is paid; everything is paid for before anything is drawn.
"""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.alarms import ReleasedValue, alarms
from curvedp.entropy import Source
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.inference.region import region_of
from curvedp.inference.shapes import Region
from curvedp.ledger import Ledger
from curvedp.mechanisms.alarms import FEW, too_noisy
from curvedp.mechanisms.base import Mechanism, check_guarantee, check_source
from curvedp.mechanisms.certificate import Certificate, Release
from curvedp.mechanisms.choose import Choice, choose_mechanism
from curvedp.mechanisms.in_private_ball import InPrivateBall
from curvedp.mechanisms.measured import outer_radius_of
from curvedp.mechanisms.payment import check_payer, pay
from curvedp.mechanisms.private_ball import PrivateBallMechanism
from curvedp.mechanisms.statistic import PERSON_UNIT, Ball, public_ball
from curvedp.mechanisms.sums import ADDED, PERSON_ADDED, ClippedSum, SumMechanism
from curvedp.privacy import GDP, Guarantee, PrivacyUnit
from curvedp.records.base import Records, open_records
from curvedp.records.persons import person_codes, person_means

# What takes long is logged here, from public numbers alone; nothing is printed.
_log = logging.getLogger("curvedp")

Mechanism.registry.fill()  # a fit asks for all of them


class Job(NamedTuple):
    """One release that is still to be paid for."""

    mechanism: Mechanism
    data: Any  # what the mechanism reads: the statistic's value, or the records
    reason: str  # why this mechanism was chosen, for the certificate
    title: str = ""  # what is released, in words; the estimator's own name otherwise


class PrivateEstimator(BaseEstimator):
    """Paying and releasing, for every estimator with `guarantee`, `ledger`, `label` and `source`."""

    _name: ClassVar[
        str
    ]  # what the ledger's entry is called unless `label` says otherwise
    _adjacencies: ClassVar[tuple[str, ...]] = ("replace-one",)
    _components: int | None = (
        None  # how many directions, where these are what a region is about
    )
    certificate_: Certificate
    _published: list[ReleasedValue]  # by the last call of `fit`
    _warned_before: list[str]  # by the last call of `fit`, before it paid

    guarantee: Guarantee
    ledger: Ledger | None
    label: str | None
    source: Source | None

    @property
    def n_features_in_(self) -> int:
        """The numbers of a record, as scikit-learn counts them."""
        check_is_fitted(self)
        # An estimator without a manifold overrides this.
        return int(np.prod(self.manifold_.point_shape))

    @property
    def releases(self) -> list[ReleasedValue]:
        """Everything that `fit` has released: title, value and certificate of each.

        By default these are the values that the mechanisms have released. An estimator
        that makes something else of them (principal directions of a matrix, say)
        overrides this property and lists that instead.
        """
        if not self.__sklearn_is_fitted__():
            raise ParameterError(f"{type(self).__name__} is not fitted: call fit first")
        return list(self._published)

    def released_array(self) -> np.ndarray:
        """Return all released values as one array: the only one, or one after the other."""
        values = [np.asarray(release.value) for release in self.releases]
        if len(values) == 1:
            return values[0]
        shape = values[0].shape
        return np.concatenate([value.reshape(-1, *shape) for value in values])

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has released anything: scikit-learn asks by this name."""
        return "_published" in vars(self)

    def _check_common(self) -> None:
        """Refuse wrong public arguments that have nothing to do with the records."""
        check_guarantee(self.guarantee, *self._adjacencies)
        if self.source is not None:
            check_source(self.source)
        check_payer(self.ledger, self.label)
        if getattr(self, "outer_radius", None) is not None and not self._is_private:
            raise ParameterError(
                "is for a private radius",
                parameter="outer_radius",
                value=self.outer_radius,
            )

    @property
    def _is_private(self) -> bool:
        """Whether a ball is to be found privately."""
        radius = getattr(self, "radius", None)
        if isinstance(radius, str):
            _validate.private_radius(radius)
        return isinstance(radius, str)

    @property
    def _adding(self) -> bool:
        """Whether a record may be added or removed, so that the number of records is private."""
        return self.guarantee.adjacency == ADDED

    def _publish(
        self,
        jobs: Sequence[Job],
        unit: str | None = None,
        protects: PrivacyUnit | None = None,
    ) -> list[Release]:
        """Pay once for all jobs, which serve disjoint groups of records, then draw each.

        `unit` says in words whose data are protected, `protects` says it to the ledger; None
        is what the jobs' statistics say. Everything that can be refused is refused first,
        also a title that cannot be shown. Afterwards nothing is left of an earlier fit, and
        `releases` has what was drawn.
        """
        jobs = [Job(*job) for job in jobs]
        titles = _checked_titles([job.title or self._name for job in jobs])
        with quiet_about_records():
            accepted = [mechanism.accepted(data) for mechanism, data, _, _ in jobs]
            for data in accepted:
                if getattr(data, "where", "memory") == "chunks":
                    # A cluster or a file that fails does so before anything is paid.
                    data.sums(readable)
        source = check_source(self.source)
        self._warn_before_paying([job.mechanism for job in jobs])
        entry = pay(
            self.ledger,
            self.label or self._name,
            self.guarantee,
            [job.mechanism for job in jobs],
            protects,
        )
        for job in jobs:
            _log.info("drawing exact noise: %s", job.mechanism.name)
        told: Any = {
            "source": source,
            "guarantee": self.guarantee,
            "unit": unit,
            "entry": entry,
            "ready": True,
        }
        releases = [
            job.mechanism.release(data, reason=job.reason, **told)
            for job, data in zip(jobs, accepted, strict=True)
        ]
        # An earlier fit may have had other attributes.
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._published = [
            ReleasedValue(title, release.value, release.certificate)
            for title, release in zip(titles, releases, strict=True)
        ]
        return releases

    def _warn_before_paying(self, mechanisms: Sequence[Mechanism]) -> None:
        """Warn of releases of little use, which public numbers tell: nothing is spent yet."""
        texts = [text for mechanism in mechanisms for text in too_noisy(mechanism)]
        self._warned_before = list(dict.fromkeys(texts))
        for text in self._warned_before:
            warnings.warn(text, ReleaseWarning, stacklevel=5)

    def _told(self) -> Self:
        """Return the fitted estimator, after a `ReleaseWarning` for each of its alarms.

        This comes last of all, so that what was paid for is kept where warnings are
        errors. It never raises by itself: an estimator whose `releases` do not work
        has been paid for like any other. Few records were warned of before paying.
        """
        with quiet_about_records():
            try:
                said = {FEW, *self._warned_before}
                texts = [text for text in alarms(self) if text not in said]
            except Exception as error:  # whatever a stranger's `releases` may raise
                reason = f"{type(error).__name__} in its `releases`"
                texts = [f"the release could not be checked for oddities: {reason}"]
        for text in texts:
            warnings.warn(text, ReleaseWarning, stacklevel=3)
        return self

    def confidence_region(self, level: float = 0.95, of: str = "records") -> Region:
        """The region that `certificate_` implies for the released statistic; costs no budget (`inference.region_of`).

        It is of the "records" as they were moved into the ball, or of the "population" they are independent draws of. Refused
        before `fit`, for a level that is no probability, and where no theorem gives a region.
        """
        if not self.__sklearn_is_fitted__():
            raise ParameterError(
                f"{type(self).__name__} is not fitted: call fit before confidence_region"
            )
        return region_of(self.certificate_, level, of, self._components)


class PrivateTransformer(TransformerMixin, PrivateEstimator):
    """Names for the columns that `transform` makes, with which `set_output` gives frames."""

    _column: ClassVar[str]
    _n_features_out: int

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """pca0, pca1, …, as scikit-learn's; tangent0, …; mdm0, …. The input's own names say nothing of these columns."""
        check_is_fitted(self)
        return np.asarray(
            [f"{self._column}{k}" for k in range(self._n_features_out)], dtype=object
        )


@dataclass(eq=False, repr=False)
class BallEstimator(PrivateEstimator):
    """The public parameters of every estimator of records in a ball; `PrivateFrechetMean` says what each means."""

    manifold: Manifold
    radius: float | str | None = None
    center: Any = None
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    mechanism: str = "auto"
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    outer_radius: float | None = None

    def _opened(self, X: Any, groups: Any) -> tuple[Records, str | None]:
        """The records and None; or one record a person, the mean of their own, so that any of them may change, and whose
        data are protected then, in words."""
        least = 0 if self._adding else 2
        records = open_records(
            X, check_manifold(self.manifold).point_shape, least=least
        )
        if groups is None:
            return records, None
        codes = person_codes(groups, records.n, least=least)
        radius = (
            outer_radius_of(self.manifold, self.outer_radius)
            if self._is_private
            else self.radius
        )
        ball = public_ball(self.manifold, self.center, radius)
        with quiet_about_records():
            means = person_means(self.manifold, ball, records.array(), codes)
        held = open_records(means, self.manifold.point_shape, least=0)
        return held, PERSON_ADDED if self._adding else PERSON_UNIT

    def _summed(self, statistic: type[ClippedSum]) -> Choice:
        """Noisy sums in the given ball: the number of records is private."""
        if self._is_private:
            raise ParameterError(
                "counts records: ask for the adjacency replace-one, or give a radius",
                parameter="radius",
                value="private",
            )
        _validate.choice("mechanism", self.mechanism, ("auto", "sum"))
        ball = public_ball(self.manifold, self.center, self.radius)
        mechanism = SumMechanism.for_statistic(
            statistic(self.manifold, *ball), self.guarantee
        )
        return Choice(mechanism, "noisy sums: the number of records is private", {}, {})

    def _choice(
        self,
        given: Any,
        private: Any,
        summed: type[ClippedSum],
        records: Records,
        n: int,
    ) -> Choice:
        """The mechanism for a statistic of n records in the given ball, or in one found privately, or with n private."""
        if self._adding:
            return self._summed(summed)
        in_memory = records.where == "memory"
        if self._is_private:
            _validate.choice("mechanism", self.mechanism, ("auto", "private-ball"))
            statistic = private(self.manifold, self.center, self.outer_radius, n)
            return private_ball_choice(statistic, self.guarantee, in_memory=in_memory)
        statistic = given(self.manifold, self.center, self.radius, n)
        return choose_mechanism(
            self.mechanism, statistic, self.guarantee, in_memory=in_memory
        )

    def _released(
        self,
        choice: Choice,
        records: Records,
        title: str,
        unit: str | None,
        protects: PrivacyUnit,
    ) -> Any:
        """Return the released value, and keep manifold, certificate and ball.

        The ball is the one that was found, or the given one, in the records' frame.
        """
        manifold = self.manifold
        job = self._job(choice, records, title)
        (release,) = self._publish([job], unit, protects)
        statistic = release.certificate.ending.statistic
        self.manifold_ = manifold
        self.certificate_ = release.certificate
        self.ball_ = Ball(statistic.center, statistic.radius)
        return release.value

    @staticmethod
    def _job(choice: Choice, records: Records, title: str) -> Job:
        """Give the mechanism what it reads: the statistic's value, or the records."""
        mechanism = choice.mechanism
        with quiet_about_records():
            if mechanism.reads == "value":
                data: Any = mechanism.statistic.of(records)
            elif mechanism.streams:
                data = records
            else:
                data = records.array()
        return Job(mechanism, data, choice.reason, title)


def _checked_titles(titles: list[str]) -> list[str]:
    """Refuse titles that cannot be shown."""
    for title in titles:
        if not (isinstance(title, str) and title and title.isprintable()):
            raise ParameterError(
                "must be a text that says what is released",
                parameter="title",
                value=title,
            )
    return titles


def protected_unit(groups: Any) -> PrivacyUnit:
    """The privacy unit of a fit: a person where `groups` says whose record each is."""
    return PrivacyUnit.RECORD if groups is None else PrivacyUnit.PERSON


def readable(block: np.ndarray) -> np.ndarray:
    """A pass that asks nothing of the records but that they are there."""
    return np.zeros(1, dtype=np.int64)


def private_ball_choice(
    statistic: InPrivateBall, guarantee: Guarantee, *, in_memory: bool = True
) -> Choice:
    """The stages that find a ball and release the statistic in it; warns, before anything is spent, of too few records."""
    mechanism = PrivateBallMechanism.for_statistic(
        statistic, guarantee, in_memory=in_memory
    )
    if not mechanism.enough:
        few = f"n = {statistic.n} at {guarantee} is small for a private ball"
        warnings.warn(
            f"{few}: it may be far off, which no error bar covers",
            ReleaseWarning,
            stacklevel=4,
        )
    return Choice(mechanism, "a private ball was asked for", {}, {})
