"""The base classes of all estimators. An estimator checks its parameters, chooses a
mechanism, computes the statistic, charges the ledger, releases, and warns. With
`groups`, the records of each person are averaged to one record, so that the guarantee
protects people.

Everything that can be refused is refused before the ledger is charged. Everything is
charged before any noise is drawn.
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
from curvedp.estimators.lost_groups import LOST_GROUPS_TEXT, splitter_has_groups
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.inference.region import region_of
from curvedp.inference.shapes import Region
from curvedp.ledger import Ledger
from curvedp.mechanisms.noisy_sum import ADD_REMOVE, SumMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.privacy import GDP, Guarantee
from curvedp.privacy.unit import PrivacyUnit
from curvedp.randomness import Source
from curvedp.records.base import Records, open_records
from curvedp.records.persons import encode_persons, person_means
from curvedp.release.choose import ChosenMechanism, choose_mechanism
from curvedp.release.pay import check_payer, pay, remark_on_charge
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
        The calibrated mechanism.
    data : Any
        The data that the mechanism reads: the statistic's value, or the records.
    choice : Choice
        Why this mechanism was taken, for the certificate.
    title : str
        A description of the released value; empty for the estimator's own name.
    """

    mechanism: Mechanism
    data: Any
    choice: Choice
    title: str = ""


class PrivateEstimator(BaseEstimator):
    """The base of every estimator that releases something under a guarantee.

    It validates the public parameters, charges the ledger, draws the releases and
    issues warnings. A subclass chooses the mechanism and sets the fitted attributes.
    """

    # What the ledger's entry is called unless `label` says otherwise.
    _name: ClassVar[str]
    # The neighboring relations for which the estimator can be private.
    _adjacencies: ClassVar[tuple[str, ...]] = ("replace-one",)
    # How many principal directions were released; None for every other statistic.
    _components: int | None = None
    certificate_: Certificate
    manifold_: Manifold
    # What the last call of `fit` released, and the warnings it issued before it paid.
    _published: list[ReleasedValue]
    _warnings_before_paying: list[str]

    guarantee: Guarantee
    ledger: Ledger | None
    label: str | None
    source: Source | None
    radius: Any = None
    outer_radius: Any = None

    @property
    def n_features_in_(self) -> int:
        """Return how many numbers one record consists of: scikit-learn's attribute.

        An estimator without a manifold overrides this.
        """
        check_is_fitted(self)
        return int(np.prod(self.manifold_.point_shape))

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return everything that `fit` released: the title, value and certificate of each.

        By default these are the values drawn by the mechanisms. An estimator that
        derives something else from them (such as principal directions from a noisy
        matrix) overrides this property and lists the derived value instead.

        Raises
        ------
        ParameterError
            Before `fit`.
        """
        if not self.__sklearn_is_fitted__():
            raise ParameterError(f"{type(self).__name__} is not fitted: call fit first")
        return list(self._published)

    def released_array(self) -> np.ndarray:
        """Return all released values as one array.

        Returns
        -------
        array
            The value itself if there is one release. Several values are concatenated
            along the first axis, in the order of `releases`.
        """
        values = [np.asarray(release.value) for release in self.releases]
        if len(values) == 1:
            return values[0]
        value_shape = values[0].shape
        return np.concatenate([value.reshape(-1, *value_shape) for value in values])

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` has released anything; scikit-learn calls this method."""
        return "_published" in vars(self)

    def _validate_params(self) -> None:
        """Check the public parameters that every estimator has.

        Raises
        ------
        ParameterError
            If the guarantee, its adjacency, the source, the ledger, the label or
            `outer_radius` cannot be used. The records are not looked at.
        """
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
        """Return whether the ball is to be found privately (`radius="private"`).

        Raises
        ------
        ParameterError
            If `radius` is any other text.
        """
        if isinstance(self.radius, str):
            _validate.private_radius(self.radius)
            return True
        return False

    @property
    def _n_is_private(self) -> bool:
        """Return whether the number of records n is private (add-remove adjacency)."""
        return self.guarantee.adjacency == ADD_REMOVE

    def _pay_and_release(
        self,
        pending: Sequence[PendingRelease],
        privacy_unit: ProtectedUnit | None = None,
    ) -> list[Release]:
        """Charge the ledger once for all pending releases, then draw them.

        The releases must read disjoint sets of records, so that together they cost as
        much as one. Everything that can be refused is refused before the charge.
        Afterwards the fitted attributes of an earlier `fit` are deleted, and `releases`
        lists what was drawn.

        Parameters
        ----------
        pending : sequence of PendingRelease
            The releases that are about to be drawn.
        privacy_unit : ProtectedUnit, optional
            Whose data are protected. By default each statistic says it.

        Returns
        -------
        list of Release
            One for each pending release, in the same order.
        """
        titles = [pending_release.title or self._name for pending_release in pending]
        mechanisms = [pending_release.mechanism for pending_release in pending]
        _check_titles(titles)
        prepared = _prepare_data(pending)
        source = check_source(self.source)
        self._warn_before_paying(mechanisms)
        if _protects_records(mechanisms, privacy_unit) and splitter_has_groups():
            warnings.warn(LOST_GROUPS_TEXT, ReleaseWarning, stacklevel=4)

        ledger_entry = pay(
            self.ledger,
            self.label or self._name,
            self.guarantee,
            mechanisms,
            privacy_unit,
        )

        for mechanism in mechanisms:
            _log.info("drawing exact noise: %s", mechanism.info.name)
        releases = []
        for pending_release, data in zip(pending, prepared, strict=True):
            terms = ReleaseTerms(
                self.guarantee, privacy_unit, pending_release.choice, ledger_entry
            )
            release = pending_release.mechanism.release(
                data, source=source, terms=terms, is_prepared=True
            )
            releases.append(release)

        # An earlier fit may have set attributes that this one does not set.
        delete_fitted_attributes(self)
        self._published = [
            ReleasedValue(title, release.value, release.certificate)
            for title, release in zip(titles, releases, strict=True)
        ]
        return releases

    def _warn_before_paying(self, mechanisms: Sequence[Mechanism]) -> None:
        """Issue a `ReleaseWarning` for each release predicted to be of little use.

        Another one says that the same promise could be had for a smaller charge. All
        follow from public numbers alone, and nothing has been spent yet. The texts are
        stored in `_warnings_before_paying`, so that they are not repeated after the
        release.

        Parameters
        ----------
        mechanisms : sequence of Mechanism
            The calibrated mechanisms of all pending releases.
        """
        texts = [
            warning.text
            for mechanism in mechanisms
            for warning in warnings_before_paying(mechanism)
        ]
        remark = remark_on_charge(mechanisms, self.guarantee, self.ledger)
        if remark is not None:
            texts.append(remark)
        self._warnings_before_paying = list(dict.fromkeys(texts))
        for text in self._warnings_before_paying:
            warnings.warn(text, ReleaseWarning, stacklevel=5)

    def _warn_after_release(self) -> Self:
        """Issue a `ReleaseWarning` for each oddity of the releases.

        Every `fit` calls this last, when all fitted attributes are set: even if
        warnings are turned into errors, the user keeps what was paid for. The check
        itself never raises. If `releases` of a third-party estimator fails, a warning
        says so instead. Warnings that were already issued before paying are not
        repeated.

        Returns
        -------
        self
            The estimator, which `fit` returns.
        """
        with quiet_about_records():
            try:
                new_warnings = [
                    warning
                    for warning in estimator_warnings(self)
                    if warning.kind is not WarningKind.FEW_RECORDS
                ]
                texts = [
                    warning.text
                    for warning in new_warnings
                    if warning.text not in self._warnings_before_paying
                ]
            except Exception as error:  # `releases` of a third party may raise anything
                reason = f"{type(error).__name__} in its `releases`"
                texts = [f"the release could not be checked for oddities: {reason}"]
        for text in texts:
            warnings.warn(text, ReleaseWarning, stacklevel=3)
        return self

    def confidence_region(self, level: float = 0.95, of: str = "records") -> Region:
        """Return the confidence region that `certificate_` implies; it costs no budget.

        Parameters
        ----------
        level : float
            The coverage: the probability that the region contains its target.
        of : {"records", "population"}
            The target of the region: the statistic of the clipped records, or that of
            the population from which they were drawn independently.

        Returns
        -------
        Region
            The region, with its center, radius and the theorem that it follows from.

        Raises
        ------
        ParameterError
            Before `fit`, if `level` is not a probability, or if no theorem gives a
            region for this release.
        """
        if not self.__sklearn_is_fitted__():
            raise ParameterError(
                f"{type(self).__name__} is not fitted: call fit before confidence_region"
            )
        return region_of(self.certificate_, level, of, self._components)


class PrivateTransformer(TransformerMixin, PrivateEstimator):
    """The base of estimators with `transform`: it names the columns of the output.

    With these names scikit-learn's `set_output` can return data frames.
    """

    _column: ClassVar[str]
    _n_features_out: int

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns, such as pca0 and pca1.

        Parameters
        ----------
        input_features : ignored
            scikit-learn passes the names of the input columns.
        """
        check_is_fitted(self)
        names = [f"{self._column}{k}" for k in range(self._n_features_out)]
        return np.asarray(names, dtype=object)


@dataclass(eq=False, repr=False)
class BallEstimator(PrivateEstimator):
    """The base of estimators whose records are clipped into a ball.

    It declares their public parameters, which `PrivateFrechetMean` documents.
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
        """Return the records and the unit of privacy.

        `fit` reads its data through it.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        groups : sequence of n ids, or None
            The person to whom each record belongs.

        Returns
        -------
        records : Records
            The records of X. With `groups` there is one record for each person instead:
            the Fréchet mean of the person's own clipped records.
        privacy_unit : ProtectedUnit
            A record, or with `groups` a person.
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
        """Return the public ball into which the records of one person are clipped.

        Each person's clipped records are then averaged to one record. The ball is the
        one that the user gave. If the release finds a ball privately, it is the public
        outer ball, in which that search takes place.
        """
        radius = self.radius
        if self._searches_ball:
            radius = default_outer_radius(self.manifold, self.outer_radius)
        return public_ball(self.manifold, self.center, radius)

    def _choose_sum_mechanism(self, statistic: type[ClippedSum]) -> ChosenMechanism:
        """Return a calibrated mechanism of noisy sums, for a private number of records.

        `fit` calls it if the guarantee is for adding or removing a record: then n is
        private, and a mean is a noisy sum divided by a noisy count.

        Parameters
        ----------
        statistic : type of ClippedSum
            Which sum over the records in the given public ball is released.

        Returns
        -------
        ChosenMechanism
            The mechanism, whose guarantee is for adding or removing a record.

        Raises
        ------
        ParameterError
            If the ball is to be found privately, or `mechanism` names another
            mechanism.
        """
        if self._searches_ball:
            raise ParameterError(
                "requires replace-one adjacency; give a radius to use add-remove",
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
        """Return the calibrated mechanism for a statistic, and why it was chosen.

        Which form of the statistic is used depends on the public parameters.

        Parameters
        ----------
        in_given_ball : type of Statistic
            The statistic of records in the public ball of the given radius.
        in_searched_ball : type of Statistic, or function that returns one
            The statistic of records in a ball that is found privately.
        as_sum : type of ClippedSum
            The statistic as a sum, for a private number of records.
        records : Records
            Only their location (in memory or in chunks) is used.
        n : int
            The number of records of which the statistic is computed.

        Returns
        -------
        ChosenMechanism
            The mechanism and the rule by which it was chosen.
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
        """Charge the ledger, release one statistic, and return its released value.

        Sets `manifold_`, `certificate_` and `ball_`. The ball is the given one, or the
        one that was found privately, in the coordinates of the records.

        Parameters
        ----------
        chosen : ChosenMechanism
            The calibrated mechanism, and why it was chosen.
        records : Records
            The records from which the statistic is computed.
        title : str
            A description of the released value.
        privacy_unit : ProtectedUnit
            Whose data are protected.

        Returns
        -------
        array or object
            The released value, such as a point of the manifold.
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
        """Return a pending release with the data that its mechanism reads.

        Parameters
        ----------
        chosen : ChosenMechanism
            The calibrated mechanism, and why it was chosen.
        records : Records
            The records from which the statistic is computed.
        title : str
            A description of the released value.
        """
        return make_pending_release(chosen, records, title)


def make_pending_release(
    chosen: ChosenMechanism, records: Records, title: str
) -> PendingRelease:
    """Return a pending release with the data that its mechanism reads.

    A mechanism declares (`info.reads`) whether it reads the value of the statistic, the
    records as a `Records` object, or the records as one array.

    Parameters
    ----------
    chosen : ChosenMechanism
        The calibrated mechanism, and why it was chosen.
    records : Records
        The records from which the statistic is computed.
    title : str
        A description of the released value.

    Returns
    -------
    PendingRelease
        The release, which is still to be paid for.
    """
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
    """Refuse a title that a certificate or a report could not print on one line.

    Parameters
    ----------
    titles : list of str
        A description of each released value.

    Raises
    ------
    ParameterError
        If a title is not a nonempty printable text.
    """
    for title in titles:
        if not (isinstance(title, str) and title and title.isprintable()):
            raise ParameterError(
                "must be a text that says what is released",
                parameter="title",
                value=title,
            )


def _protects_records(
    mechanisms: Sequence[Mechanism], privacy_unit: ProtectedUnit | None
) -> bool:
    """Return whether a release protects single records, not people.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        The mechanisms that are about to draw.
    privacy_unit : ProtectedUnit or None
        The privacy unit of the estimator; None if the statistics state it.
    """
    units = [
        privacy_unit or mechanism.statistic.privacy_units[0] for mechanism in mechanisms
    ]
    return any(unit.privacy_unit is PrivacyUnit.RECORD for unit in units)


def _prepare_data(pending: Sequence[PendingRelease]) -> list[Any]:
    """Return the data of each pending release in the form in which it is drawn.

    Chunked records are read once, so that a failing cluster or file raises here, before
    anything is paid.

    Parameters
    ----------
    pending : sequence of PendingRelease
        The releases that are about to be drawn.

    Returns
    -------
    list
        The data that the `draw` of each mechanism takes. NOT private.
    """
    with quiet_about_records():
        prepared = [item.mechanism.prepare_data(item.data) for item in pending]
        for data in prepared:
            if isinstance(data, Records) and data.location == "chunks":
                data.sums(zero_for_block)
    return prepared


def delete_fitted_attributes(estimator: PrivateEstimator) -> None:
    """Delete the attributes that an earlier `fit` has set: their names end with "_".

    A new `fit` may not set all of them, and an old value beside a new certificate
    would be wrong.

    Parameters
    ----------
    estimator : PrivateEstimator
        The estimator, which is changed.
    """
    fitted_names = [name for name in vars(estimator) if name.endswith("_")]
    for name in fitted_names:
        delattr(estimator, name)


def zero_for_block(block: np.ndarray) -> np.ndarray:
    """Return a zero for a block of records, whatever they are.

    Summed over all blocks it checks, before anything is paid, that each block can be
    read.

    Parameters
    ----------
    block : array of shape (k, *point_shape)
        A block of records, which is not used.
    """
    return np.zeros(1, dtype=np.int64)


def choose_private_ball(
    statistic: BallSearchStatistic, guarantee: Guarantee, *, in_memory: bool = True
) -> ChosenMechanism:
    """Return the staged mechanism that finds a ball and releases the statistic in it.

    Issues a `ReleaseWarning` if there are too few records for a reliable ball. Nothing
    has been spent then.

    Parameters
    ----------
    statistic : BallSearchStatistic
        The statistic, together with the public outer ball of the search.
    guarantee : Guarantee
        The guarantee of search and release together.
    in_memory : bool
        Whether the records are in memory; chunked records are streamed.

    Returns
    -------
    ChosenMechanism
        The calibrated mechanism, and the rule that a private ball asks for it.
    """
    mechanism = PrivateBallMechanism.calibrate(
        statistic, guarantee, in_memory=in_memory
    )
    if not mechanism.has_enough_records:
        warnings.warn(
            f"n = {statistic.n} at {guarantee} is small for a private ball: the release "
            "may be far off, and no error bar covers that",
            ReleaseWarning,
            stacklevel=4,
        )
    return ChosenMechanism(mechanism, Choice(ChoiceRule.PRIVATE_BALL))
