"""What every estimator does around its statistic: check, choose, compute, pay, release.

Everything that can be refused is refused before the ledger is charged; everything is
charged before anything is drawn.
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
from curvedp.core.certificate import Certificate, Release
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import (
    Choice,
    Mechanism,
    ReleaseTerms,
    check_guarantee,
    check_source,
)
from curvedp.core.released import ReleasedValue
from curvedp.core.statistic import Ball, public_ball
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.inference.region import region_of
from curvedp.inference.shapes import Region
from curvedp.ledger import Ledger
from curvedp.mechanisms.noisy_sum import ADD_REMOVE, SumMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records, open_records
from curvedp.records.persons import encode_persons, person_means
from curvedp.release.choose import ChosenMechanism, choose_mechanism
from curvedp.release.pay import check_payer, pay
from curvedp.release.rebuild import final_mechanism_of
from curvedp.release.warnings import (
    WarningKind,
    estimator_warnings,
    warnings_before_paying,
)
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.searched_ball import (
    BallSearchStatistic,
    default_outer_radius,
)

_log = logging.getLogger("curvedp")


class PendingRelease(NamedTuple):
    """One release that is still to be paid for.

    Attributes
    ----------
    mechanism : Mechanism
    data : Any
        What the mechanism reads: the statistic's value, or the records.
    choice : Choice
        Why this mechanism was taken, for the certificate.
    title : str
        What is released, in words; empty for the estimator's own name.
    """

    mechanism: Mechanism
    data: Any
    choice: Choice
    title: str = ""


class PrivateEstimator(BaseEstimator):
    """Paying and releasing, for every estimator with a guarantee and a ledger."""

    # What the ledger's entry is called unless `label` says otherwise.
    _name: ClassVar[str]
    _adjacencies: ClassVar[tuple[str, ...]] = ("replace-one",)
    # How many directions a region is about, where directions are released.
    _components: int | None = None
    certificate_: Certificate
    manifold_: Manifold
    # What the last call of `fit` has released, and of what it warned before it paid.
    _published: list[ReleasedValue]
    _texts_before_paying: list[str]

    guarantee: Guarantee
    ledger: Ledger | None
    label: str | None
    source: Source | None
    radius: Any = None
    outer_radius: Any = None

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

    def _validate_params(self) -> None:
        """Refuse wrong public arguments that have nothing to do with the records."""
        check_guarantee(self.guarantee, *self._adjacencies)
        if self.source is not None:
            check_source(self.source)
        check_payer(self.ledger, self.label)
        if self.outer_radius is not None and not self._searches_ball:
            raise ParameterError(
                "is for a private radius",
                parameter="outer_radius",
                value=self.outer_radius,
            )

    @property
    def _searches_ball(self) -> bool:
        """Whether a ball is to be found privately."""
        if isinstance(self.radius, str):
            _validate.private_radius(self.radius)
            return True
        return False

    @property
    def _n_is_private(self) -> bool:
        """Whether a record may be added or removed, so that n is private."""
        return self.guarantee.adjacency == ADD_REMOVE

    def _pay_and_release(
        self,
        pending: Sequence[PendingRelease],
        privacy_unit: ProtectedUnit | None = None,
    ) -> list[Release]:
        """Pay once for releases that serve disjoint groups of records, then draw each.

        Everything that can be refused is refused first, also a title that cannot be
        shown. Afterwards nothing is left of an earlier fit, and `releases` has what was
        drawn.

        Parameters
        ----------
        pending : sequence of PendingRelease
        privacy_unit : ProtectedUnit, optional
            Whose data are protected; by default what the statistics say.
        """
        titles = [each.title or self._name for each in pending]
        _check_titles(titles)
        with quiet_about_records():
            prepared = [each.mechanism.prepare_data(each.data) for each in pending]
            for data in prepared:
                if isinstance(data, Records) and data.location == "chunks":
                    # A cluster or a file that fails does so before anything is paid.
                    data.sums(read_nothing)
        source = check_source(self.source)
        self._warn_before_paying([each.mechanism for each in pending])
        ledger_entry = pay(
            self.ledger,
            self.label or self._name,
            self.guarantee,
            [each.mechanism for each in pending],
            privacy_unit,
        )
        for each in pending:
            _log.info("drawing exact noise: %s", each.mechanism.info.name)
        releases = []
        for each, data in zip(pending, prepared, strict=True):
            terms = ReleaseTerms(
                self.guarantee, privacy_unit, each.choice, ledger_entry
            )
            releases.append(
                each.mechanism.release(
                    data, source=source, terms=terms, is_prepared=True
                )
            )
        # An earlier fit may have had other attributes.
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._published = [
            ReleasedValue(title, release.value, release.certificate)
            for title, release in zip(titles, releases, strict=True)
        ]
        return releases

    def _warn_before_paying(self, mechanisms: Sequence[Mechanism]) -> None:
        """Warn of releases of little use, by public numbers: nothing is spent yet."""
        texts = [
            warning.text
            for mechanism in mechanisms
            for warning in warnings_before_paying(mechanism)
        ]
        self._texts_before_paying = list(dict.fromkeys(texts))
        for text in self._texts_before_paying:
            warnings.warn(text, ReleaseWarning, stacklevel=5)

    def _warn_of_oddities(self) -> Self:
        """Return the fitted estimator, after a `ReleaseWarning` for each oddity.

        This comes last of all, so that what was paid for is kept where warnings are
        errors. It never raises by itself: an estimator whose `releases` do not work
        has been paid for like any other. Few records were warned of before paying.
        """
        with quiet_about_records():
            try:
                texts = [
                    warning.text
                    for warning in estimator_warnings(self)
                    if warning.kind is not WarningKind.FEW_RECORDS
                    and warning.text not in self._texts_before_paying
                ]
            except Exception as error:  # whatever a stranger's `releases` may raise
                reason = f"{type(error).__name__} in its `releases`"
                texts = [f"the release could not be checked for oddities: {reason}"]
        for text in texts:
            warnings.warn(text, ReleaseWarning, stacklevel=3)
        return self

    def confidence_region(self, level: float = 0.95, of: str = "records") -> Region:
        """Return the region that `certificate_` implies; it costs no budget.

        Parameters
        ----------
        level : float
            The probability with which the region holds what it is about.
        of : {"records", "population"}
            Whether it is about the statistic of the clipped records, or of the
            population that they are independent draws of.

        Raises
        ------
        ParameterError
            Before `fit`, for a level that is no probability, and where no theorem gives
            a region.
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
        """Return pca0, pca1, …, or tangent0, …: the input's names say nothing of these."""
        check_is_fitted(self)
        names = [f"{self._column}{k}" for k in range(self._n_features_out)]
        return np.asarray(names, dtype=object)


@dataclass(eq=False, repr=False)
class BallEstimator(PrivateEstimator):
    """The public parameters of every estimator of records in a ball.

    `PrivateFrechetMean` says what each means.
    """

    manifold: Manifold
    radius: float | str | None = None
    center: Any = None
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    mechanism: str = "auto"
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    outer_radius: float | None = None

    def _load_records(self, X: Any, groups: Any) -> tuple[Records, ProtectedUnit]:
        """Return the records and whose data are protected.

        With `groups`, there is one record a person: the mean of their own, so that any
        of them may change.
        """
        min_records = 0 if self._n_is_private else 2
        point_shape = check_manifold(self.manifold).point_shape
        records = open_records(X, point_shape, min_records=min_records)
        if groups is None:
            return records, ProtectedUnit.RECORD
        person_index = encode_persons(groups, records.n, min_persons=min_records)
        with quiet_about_records():
            means = person_means(
                self.manifold, self._clipping_ball(), records.array(), person_index
            )
        person_records = open_records(means, point_shape, min_records=0)
        return person_records, ProtectedUnit.PERSON

    def _clipping_ball(self) -> Ball:
        """Return the public ball into which a person's records are clipped."""
        radius = self.radius
        if self._searches_ball:
            radius = default_outer_radius(self.manifold, self.outer_radius)
        return public_ball(self.manifold, self.center, radius)

    def _choose_sum_mechanism(self, statistic: type[ClippedSum]) -> ChosenMechanism:
        """Return noisy sums in the given ball: the number of records is private."""
        if self._searches_ball:
            raise ParameterError(
                "counts records: ask for the adjacency replace-one, or give a radius",
                parameter="radius",
                value="private",
            )
        _validate.choice("mechanism", self.mechanism, ("auto", "sum"))
        ball = public_ball(self.manifold, self.center, self.radius)
        mechanism = SumMechanism.calibrate(
            statistic(self.manifold, *ball), self.guarantee
        )
        return ChosenMechanism(mechanism, Choice(ChoiceRule.PRIVATE_COUNT))

    def _choose_mechanism(
        self,
        in_given_ball: Any,
        in_searched_ball: Any,
        as_sum: type[ClippedSum],
        records: Records,
        n: int,
    ) -> ChosenMechanism:
        """Return the mechanism for a statistic of n records.

        Parameters
        ----------
        in_given_ball, in_searched_ball, as_sum : types of Statistic
            The statistic in the given ball, in one that is found privately, and with n
            private.
        records : Records
        n : int
        """
        if self._n_is_private:
            return self._choose_sum_mechanism(as_sum)
        in_memory = records.location == "memory"
        if self._searches_ball:
            _validate.choice("mechanism", self.mechanism, ("auto", "private-ball"))
            searched = in_searched_ball(
                self.manifold, self.center, self.outer_radius, n
            )
            return choose_private_ball(searched, self.guarantee, in_memory=in_memory)
        statistic = in_given_ball(self.manifold, self.center, self.radius, n)
        return choose_mechanism(
            self.mechanism, statistic, self.guarantee, in_memory=in_memory
        )

    def _release_one(
        self,
        chosen: ChosenMechanism,
        records: Records,
        title: str,
        privacy_unit: ProtectedUnit,
    ) -> Any:
        """Return the released value, and keep manifold, certificate and ball.

        The ball is the one that was found, or the given one, in the frame of the
        records.
        """
        manifold = self.manifold
        pending = self._pending_release(chosen, records, title)
        (release,) = self._pay_and_release([pending], privacy_unit)
        statistic: Any = final_mechanism_of(release.certificate).statistic
        self.manifold_ = manifold
        self.certificate_ = release.certificate
        self.ball_ = Ball(statistic.center, statistic.radius)
        return release.value

    @staticmethod
    def _pending_release(
        chosen: ChosenMechanism, records: Records, title: str
    ) -> PendingRelease:
        """Give the mechanism what it reads: the statistic's value, or the records."""
        mechanism, choice = chosen
        with quiet_about_records():
            if mechanism.info.reads == "value":
                data: Any = mechanism.statistic.compute(records)
            elif mechanism.info.reads == "records":
                data = records
            else:
                data = records.array()
        return PendingRelease(mechanism, data, choice, title)


def _check_titles(titles: list[str]) -> None:
    """Refuse titles that cannot be shown."""
    for title in titles:
        if not (isinstance(title, str) and title and title.isprintable()):
            raise ParameterError(
                "must be a text that says what is released",
                parameter="title",
                value=title,
            )


def read_nothing(block: np.ndarray) -> np.ndarray:
    """Return zero: a pass that asks nothing of the records but that they are there."""
    return np.zeros(1, dtype=np.int64)


def choose_private_ball(
    statistic: BallSearchStatistic, guarantee: Guarantee, *, in_memory: bool = True
) -> ChosenMechanism:
    """Return the stages that find a ball and release the statistic in it.

    Warns, before anything is spent, of too few records.
    """
    mechanism = PrivateBallMechanism.calibrate(
        statistic, guarantee, in_memory=in_memory
    )
    if not mechanism.has_enough_records:
        warnings.warn(
            f"n = {statistic.n} at {guarantee} is small for a private ball: it may be far "
            "off, which no error bar covers",
            ReleaseWarning,
            stacklevel=4,
        )
    return ChosenMechanism(mechanism, Choice(ChoiceRule.PRIVATE_BALL))
