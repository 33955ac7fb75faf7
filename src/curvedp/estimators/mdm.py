"""Minimum distance to private class means: classification of manifold-valued records.
The estimator releases one private Fréchet mean for each class. A record is predicted to
be of the class whose mean is nearest. Labels and class sizes are public.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice, check_guarantee
from curvedp.core.released import ReleasedValue
from curvedp.core.statistic import public_ball
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import (
    BallEstimator,
    PendingRelease,
    PrivateTransformer,
    delete_fitted_attributes,
    zero_for_block,
)
from curvedp.estimators.prototypes import PrivatePrototypes
from curvedp.estimators.reduced_mdm import ClassPatterns, PrivateReducedMDM
from curvedp.estimators.softmax import ScoringClassifier
from curvedp.geometry import Sphere
from curvedp.inference.region import simultaneous
from curvedp.inference.shapes import Region
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.ball_search import class_mean_statistic
from curvedp.mechanisms.staged.median import MedianMechanism
from curvedp.mechanisms.staged.reduced_classifier import ReducedMeans
from curvedp.records.base import Records, is_chunked, open_records
from curvedp.records.labels import ChunkedLabels, Labels
from curvedp.records.persons import encode_persons
from curvedp.release.choose import ChosenMechanism
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.geometric_median import GeometricMedian
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.reduced_classes import FEATURES
from curvedp.statistics.searched_ball import (
    CONCENTRATION_DIM,
    ClassData,
    SearchedClassMean,
    SearchedMean,
    SharedSearch,
)

# What represents a class.
METRICS = ("mean", "median")

# Distances are cut here before they are squared, so that squares stay finite.
_MAX_DISTANCE = 1e150

# The score of every class for a record that is not on the manifold: all are equally
# far.
_NO_POINT_SCORE = -1e300


@dataclass(eq=False, repr=False)
class PrivateMDM(PrivateTransformer, ScoringClassifier, BallEstimator):
    """A classifier that releases a private Fréchet mean per class and predicts the nearest.

    Labels and class sizes are public: neighboring data sets differ in one record, which
    is replaced by another of the same class. Each record is read for one class only, so
    all means together cost as much as one, and the certificates say so. With add-remove
    adjacency the labels are private as well. So they are with `ball="prototypes"`,
    which "auto" takes for embeddings: on spheres of 32 dimensions or more, where
    `radius="private"` and the records are in memory.

    The same argument needs people who are in one class only. With `groups=`, a person
    whose records belong to several classes would be read once for each of these
    classes, and the guarantee would not hold. `fit` refuses such data with a
    `ParameterError` before anything is paid. `reduce=` and `PrivateSoftmax` accept
    them: there a person contributes once to one release for all classes.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float or "private"
        The radius of the public ball into which records are clipped. "private" finds a
        ball privately, inside the public outer ball.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of all class means together.
    mechanism : str
        "auto" takes the smallest predicted error. By name: "gaussian", "laplace",
        "tangent-gaussian", "tangent-laplace", "newton" (on spheres and hyperbolic
        spaces), "gradient" (any ball), "kng" (up to dimension 4, drawn in floats).
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    reduce : int, optional
        For covariance matrices of many channels: the number of components to which
        `PrivateReducedMDM`, which then does all the work, reduces them. Labels are
        private then. No ball is needed; `radius` may bound the length of the features.
    features : {"power", "log"}
        With `reduce`: whether the features are the square roots or the logarithms of
        the reduced matrices. A public choice.
    ball : {"auto", "shared", "each", "prototypes"}
        With `radius="private"`: "shared" finds one ball from the records of all
        classes, "each" finds one ball per class from the records of that class. On
        spheres "prototypes" leaves all to `PrivatePrototypes`, which releases all
        classes at once, with private labels and one certificate; its means are of
        clipped logarithms, and have no confidence regions. "auto" takes it on spheres
        of 32 dimensions or more. Elsewhere it takes one ball per class if every class
        is large enough (nμ >= 40, or 50 for matrices, with n the size of the class and
        μ the GDP parameter): the means are more accurate then. With fewer records one
        shared ball separates classes better.
    metric : {"mean", "median"}
        Whether a class is represented by its Fréchet mean, or by its geometric median
        as `PrivateFrechetMedian` releases it ("minimum distance to median"): artifacts
        among the records of a class move the median little. The median needs
        replace-one adjacency, and neither `reduce` nor `ball`.
    classes : sequence of labels, optional
        If labels are private: the public set of classes. Any other label is replaced by
        the first class, in sorted order. By default it is the set of labels in `y`,
        which must be public then: it would reveal a class that has only one record.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in sorted order.
    means_ : ndarray
        One private mean per class; with `reduce`, the mean of the features; with
        metric="median", one private median.
    certificates_ : list of Certificate
        One certificate per class; with `reduce` or prototypes, one for all classes.
    classifier_ : LinearClassifier or Prototypes
        With `reduce`: the released reduction and means. With prototypes: the released
        numbers.

    Notes
    -----
    X may be a dask array, which is streamed: every pass serves all classes, and the
    means do not depend on the chunks. Then y may be a dask array too. For a dask array
    `transform` and `predict` return lazy dask arrays. `reduce` and `groups` need
    records in memory.

    Guarantees

    - errors are because of parameters, shapes, types and labels, never of a record's
      values, and nothing is spent then;
    - all means together meet `guarantee` for replacing one record within its class;
    - with `reduce` or prototypes, for replacing one record together with its label; the
      set of classes is public;
    - with adjacency="add-remove", for adding or removing one record with its label; n
      is private, the set of classes public;
    - with `groups`, for replacing one person with all their records, within the class
      that all records of the person must share; with `reduce` or prototypes, for
      replacing one person with all their records and labels, which may be of several
      classes.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["up", "down"], 200)
    >>> shift = np.where(y == "up", 1, -1)[:, None] * [0, 0, 1]
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.4, (400, 3)) + shift)
    >>> PrivateMDM(Sphere(2), radius=0.8).fit(X, y).score(X, y) > 0.9
    True
    """

    _name = "class means"
    _column = "mdm"
    _adjacencies = ("replace-one", ADD_REMOVE)
    # The name of one public part of the records, and what is protected within it.
    _part_name: ClassVar[str] = "class"
    _record_in_part: ClassVar[ProtectedUnit] = ProtectedUnit.RECORD_IN_CLASS
    _person_in_part: ClassVar[ProtectedUnit] = ProtectedUnit.PERSON_IN_CLASS
    # The estimator to which the last call of `fit` delegated, if it did.
    _joint_model: PrivateReducedMDM | PrivatePrototypes | None = field(
        default=None, init=False, repr=False
    )

    reduce: int | None = None
    features: str = "power"
    ball: str = "auto"
    classes: Any = None
    metric: str = "mean"

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """Return how many columns `transform` makes: one for each class."""
        return len(self.classes_)

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the class means, and charge them to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records: an array, a dask array, or an array on a device.
        y : sequence of n labels
            Public labels. With `reduce`, prototypes or add-remove adjacency they are
            private, except for the set of classes.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person with all their records
            is the unit of privacy. Without `reduce` or prototypes, all records of a
            person must be of one class.

        Returns
        -------
        self
            With `classes_`, `means_`, `certificates_` and `manifold_` set.

        Raises
        ------
        ParameterError
            Before anything is paid, for wrong parameters, and if a person has records
            in several classes without `reduce`.
        """
        self._validate_params()
        self._validate_mdm_params()
        if self.reduce is not None:
            reduced = self._make_reduced_model(self.reduce)
            reduced._fit_reduced(ReducedMeans, X, y, groups, reduced.radius)
            self._copy_fit(reduced)
        elif self._uses_prototypes(X):
            prototypes = self._make_prototype_model()
            prototypes._fit_prototypes(X, y, groups)
            self._copy_fit(prototypes)
        else:
            self._fit_means(X, y, groups)
            self._joint_model = None
        return self._warn_after_release()

    def _uses_prototypes(self, X: Any) -> bool:
        """Return whether `fit` delegates to `PrivatePrototypes`, one release of all classes.

        The answer depends on public parameters and on where the records are stored, never
        on a record.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        bool
            Whether `fit` delegates to `PrivatePrototypes`.
        """
        if self.metric != "mean":
            return False
        if self.ball != "auto" or not self._searches_ball:
            return self.ball == "prototypes"
        if self._record_in_part is not ProtectedUnit.RECORD_IN_CLASS:
            return False  # the parts of a subclass, such as domains, are not classes
        if self._has_ball_parameters or self.guarantee.requires_bounded_loss:
            return False
        if is_chunked(X) or not isinstance(self.manifold, Sphere):
            return False
        return self.manifold.dim >= CONCENTRATION_DIM

    @property
    def _has_ball_parameters(self) -> bool:
        """Whether the caller chose a center, an outer radius or a mechanism."""
        return (
            self.center is not None
            or self.outer_radius is not None
            or str(self.mechanism) != "auto"
        )

    def _make_prototype_model(self) -> PrivatePrototypes:
        """Return the unfitted estimator of prototypes to which `fit` delegates.

        Prototypes are class means that are released together, with private labels.

        Returns
        -------
        PrivatePrototypes
            With the guarantee, ledger, label, source and classes of this estimator.

        Raises
        ------
        ParameterError
            For parameters that it does not have: center, outer_radius and mechanism.
        """
        if self._has_ball_parameters:
            raise ParameterError(
                "prototypes have a center and a mechanism of their own: leave center, "
                "outer_radius and mechanism out",
                parameter="ball",
                value=self.ball,
            )
        return PrivatePrototypes(
            manifold=self.manifold,
            radius="private",
            guarantee=self.guarantee,
            ledger=self.ledger,
            label=self.label,
            source=self.source,
            classes=self.classes,
        )

    def _validate_mdm_params(self) -> None:
        """Refuse unknown parameters, and parameters that cannot be used together.

        It looks at the parameters only, never at the records. Two rules connect them:

        - `features` says what is computed from matrices that were reduced to a few
          components, so it may be chosen only if `reduce` is given.
        - `ball` says how balls are found privately, so it may be chosen only if
          `radius` is "private" and the matrices are not reduced.

        Raises
        ------
        ParameterError
            For an unknown `ball`, `features` or `metric`, or one that breaks a rule.
        """
        _validate.choice("ball", self.ball, ("auto", "shared", "each", "prototypes"))
        _validate.choice("features", self.features, FEATURES)
        _validate.choice("metric", self.metric, METRICS)
        if self.metric == "median":
            self._validate_median_params()
        default_features = FEATURES[0]
        if self.reduce is None and self.features != default_features:
            raise ParameterError(
                "is for reduced matrices (reduce)",
                parameter="features",
                value=self.features,
            )
        searches_full_matrices = self._searches_ball and self.reduce is None
        if self.ball != "auto" and not searches_full_matrices:
            raise ParameterError(
                "is for a private radius, without reduction",
                parameter="ball",
                value=self.ball,
            )

    def _validate_median_params(self) -> None:
        """Refuse parameters with which no class medians can be released.

        Raises
        ------
        ParameterError
            With `reduce`, `ball`, add-remove adjacency or another mechanism, and
            without a radius.
        """
        if self.reduce is not None or self.ball != "auto" or self._n_is_private:
            raise ParameterError(
                "has no reduce and no ball, and needs replace-one adjacency",
                parameter="metric",
                value=self.metric,
            )
        _validate.choice("mechanism", self.mechanism, ("auto", "median"))
        if self.radius is None:
            raise ParameterError(
                "is missing: a public ball must hold the records; it may be generous",
                parameter="radius",
            )

    def _make_reduced_model(self, reduce: int) -> PrivateReducedMDM:
        """Return the unfitted estimator to which `fit` delegates if `reduce` is given.

        Parameters
        ----------
        reduce : int
            The number of components to which covariance matrices are reduced.

        Returns
        -------
        PrivateReducedMDM
            With the guarantee, ledger, label, source and classes of this estimator.

        Raises
        ------
        ParameterError
            For parameters that the reduced estimator does not have: center,
            outer_radius and mechanism.
        """
        check_guarantee(self.guarantee)
        if self._has_ball_parameters:
            raise ParameterError(
                "a reduction finds its own center and mechanism: leave center, outer_radius "
                "and mechanism out"
            )
        radius: Any = None if self._searches_ball else self.radius
        return PrivateReducedMDM(
            manifold=self.manifold,
            reduce=reduce,
            features=self.features,
            radius=radius,
            guarantee=self.guarantee,
            ledger=self.ledger,
            label=self.label,
            source=self.source,
            classes=self.classes,
        )

    def _copy_fit(self, model: PrivateReducedMDM | PrivatePrototypes) -> None:
        """Replace the fitted attributes of this estimator by those of another model.

        `fit` delegates some releases to another estimator, and then calls this.

        Parameters
        ----------
        model : PrivateReducedMDM or PrivatePrototypes
            The fitted estimator to which `fit` has delegated.
        """
        delete_fitted_attributes(self)
        self._joint_model = model
        self._published = model._published
        self._warnings_before_paying = model._warnings_before_paying
        self.manifold_ = model.manifold_
        self.classes_ = model.classes_
        self.means_ = model.means_
        self.classifier_ = model.classifier_
        self.certificate_ = model.certificate_
        self.certificates_ = model.certificates_

    def _fit_means(self, X: Any, y: Any, groups: Any) -> None:
        """Charge the ledger, release one mean per class, and set the fitted attributes.

        Everything that can be refused is refused before the charge, also a person with
        records in several classes.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        y : sequence of n labels
            The class of each record.
        groups : sequence of n ids, or None
            The person to whom each record belongs.
        """
        if groups is not None:
            y = self._check_labels_of_persons(X, y, groups)
        records, _ = self._load_records(X, groups)
        if records.location != "memory" and self._has_public_ball:
            # One pass over the records serves all classes.
            center = public_ball(self.manifold, self.center, self.radius).center
            with quiet_about_records():
                records = records.to_canonical_frame(self.manifold, center)
        labels = records.labels(y, self.classes)
        chosen = self._choose_mechanisms(labels.sizes.tolist(), labels.classes, records)

        if self._n_is_private:
            privacy_unit = ProtectedUnit.LABELED_RECORD
        elif groups is None:
            privacy_unit = self._record_in_part
        else:
            privacy_unit = self._person_in_part
        with quiet_about_records():
            pending = self._pending_means(chosen, records, labels)
        manifold = self.manifold
        releases = self._pay_and_release(pending, privacy_unit)

        self.manifold_ = manifold
        self.classes_ = labels.classes
        self.means_ = np.stack([release.value for release in releases])
        self.certificates_ = [release.certificate for release in releases]

    def _check_labels_of_persons(self, X: Any, y: Any, groups: Any) -> np.ndarray:
        """Return one label for each person, after checking that they have only one.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records; only their number is used.
        y : sequence of n labels
            The class of each record.
        groups : sequence of n ids
            The person to whom each record belongs.

        Returns
        -------
        array of shape (number of people,)
            The label of each person, in the order of their numbers.

        Raises
        ------
        ParameterError
            If the number of records is private, or a person has records in several
            classes.
        """
        if self._n_is_private:
            raise ParameterError(
                "requires replace-one adjacency here: people may be in several classes",
                parameter="groups",
            )
        n_records = open_records(X, self.manifold.point_shape).n
        return _labels_of_persons(y, encode_persons(groups, n_records))

    @property
    def _has_public_ball(self) -> bool:
        """Return whether ball and n are public, so that one pass computes all means.

        It is False for medians, which read the records more than once.
        """
        is_mean = self.metric == "mean"
        return is_mean and not (self._searches_ball or self._n_is_private)

    def _choose_mechanisms(
        self, sizes: list[int], classes: np.ndarray, records: Records
    ) -> list[ChosenMechanism]:
        """Return one calibrated mechanism for each class; nothing is spent yet.

        Parameters
        ----------
        sizes : list of int
            The number of records of each class.
        classes : array
            The labels of the classes, for messages.
        records : Records
            The records of all classes.

        Returns
        -------
        list of ChosenMechanism
            One for each class; classes of the same size share one mechanism.

        Raises
        ------
        ParameterError
            If there is no class, or a class has fewer than 2 records.
        """
        if not sizes:
            raise ParameterError(
                "y has no labels; the set of classes is public, and there must be one"
            )
        if self._n_is_private:
            return [self._choose_sum_mechanism(ClippedSum)] * len(sizes)

        self._check_class_sizes(sizes, classes)
        if self.metric == "median":
            chosen_for_size = {size: self._choose_median(size) for size in set(sizes)}
        else:
            chosen_for_size = self._choose_mean_for_sizes(sizes, records)
        return [chosen_for_size[size] for size in sizes]

    def _check_class_sizes(self, sizes: list[int], classes: np.ndarray) -> None:
        """Refuse classes with fewer than 2 records.

        Parameters
        ----------
        sizes : list of int
            The public number of records of each class.
        classes : array
            The labels of the classes, for the error message.
        """
        smallest_size = min(sizes)
        if smallest_size < 2:
            small_class = classes[sizes.index(smallest_size)]
            count = "one record" if smallest_size else "no records"
            raise ParameterError(
                f"{self._part_name} {small_class} has {count}; "
                f"each {self._part_name} needs at least 2"
            )

    def _choose_mean_for_sizes(
        self, sizes: list[int], records: Records
    ) -> dict[int, ChosenMechanism]:
        """Return one calibrated mechanism for the mean of a class of each size.

        Parameters
        ----------
        sizes : list of int
            The public number of records of each class.
        records : Records
            All records, of which only the number and the location are read.
        """
        smallest_size = min(sizes)

        def searched_class_mean(
            manifold: Any, center: Any, outer_radius: Any, size: int
        ) -> SearchedMean:
            """Return the mean of a class of this size in a ball found privately.

            Whether all classes share one search depends on the size of the smallest.
            """
            mean_of_all_records = SearchedMean(
                manifold, center, outer_radius, records.n
            )
            return class_mean_statistic(
                mean_of_all_records, size, smallest_size, self.guarantee, self.ball
            )

        return {
            size: self._choose_mechanism(
                FrechetMean, searched_class_mean, ClippedSum, records, size
            )
            for size in set(sizes)
        }

    def _choose_median(self, size: int) -> ChosenMechanism:
        """Return the mechanism for the median of a class, and warn of too few records.

        Parameters
        ----------
        size : int
            The number of records of the class.

        Returns
        -------
        ChosenMechanism
            The calibrated mechanism; there is only one for a median.
        """
        outer_radius = self.outer_radius if self._searches_ball else self.radius
        statistic = GeometricMedian(self.manifold, self.center, outer_radius, size)
        mechanism = MedianMechanism.calibrate(statistic, self.guarantee)
        if not mechanism.has_enough_records:
            warnings.warn(
                f"n = {size} at {self.guarantee} is small for the median of a class: "
                "the noise exceeds the spread of the records",
                ReleaseWarning,
                stacklevel=5,
            )
        return ChosenMechanism(mechanism, Choice(ChoiceRule.ONLY_ONE))

    def _pending_means(
        self,
        chosen: Sequence[ChosenMechanism],
        records: Records,
        labels: Labels | ChunkedLabels,
    ) -> list[PendingRelease]:
        """Return one pending release per class, with the data that its mechanism reads.

        `fit` charges the ledger once for all of them, and then makes the releases.

        Parameters
        ----------
        chosen : sequence of ChosenMechanism
            One for each class.
        records : Records
            The records of all classes.
        labels : Labels or ChunkedLabels
            The class of each record.

        Returns
        -------
        list of PendingRelease
            Releases of disjoint sets of records, which cost as much as one.
        """
        titles = [
            f"{self.metric} of {self._part_name} {_printable_label(label)}"
            for label in labels.classes
        ]
        statistic: Any = chosen[0].mechanism.statistic
        if isinstance(statistic, SearchedClassMean):
            return self._pending_shared_search(chosen, records, labels, titles)

        needs_one_pass = records.location != "memory" and self._has_public_ball
        if needs_one_pass:
            # The ball is the same for all classes, so that one pass gives their means.
            moments = records.class_moments(statistic.domain, labels)
            pending = []
            for code, (mean, _) in enumerate(moments):
                mechanism, choice = chosen[code]
                pending.append(PendingRelease(mechanism, mean, choice, titles[code]))
            return pending

        pending = []
        for code, title in enumerate(titles):
            class_records = records.select_class(labels, code)
            pending.append(self._pending_release(chosen[code], class_records, title))
        return pending

    @staticmethod
    def _pending_shared_search(
        chosen: Sequence[ChosenMechanism],
        records: Records,
        labels: Labels | ChunkedLabels,
        titles: Sequence[str],
    ) -> list[PendingRelease]:
        """Return one pending release per class; all share one private search for a ball.

        The search reads the records of all classes. Each mean reads the records of its
        own class only.

        Parameters
        ----------
        chosen : sequence of ChosenMechanism
            One for each class.
        records : Records
            The records of all classes.
        labels : Labels or ChunkedLabels
            The class of each record.
        titles : sequence of str
            A description of the released value of each class.

        Returns
        -------
        list of PendingRelease
            Whichever is drawn first makes the search; the others use its results.
        """
        statistic: Any = chosen[0].mechanism.statistic
        search = SharedSearch()
        all_records = statistic.collect_records(records)
        # Records that cannot be read fail here, before anything is paid.
        all_records.sums(zero_for_block)
        pending = []
        for code, title in enumerate(titles):
            mechanism, choice = chosen[code]
            class_records = all_records.select_class(labels, code)
            data = ClassData(all_records, class_records, search)
            pending.append(PendingRelease(mechanism, data, choice, title))
        return pending

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return one mean per class; with `reduce`, the weights of all classes.

        Prototypes are one release of all means.
        """
        if self._joint_model is not None:
            return self._joint_model.releases
        return super().releases

    def released_array(self) -> np.ndarray:
        """Return the class means, stacked along the first axis.

        One class also gives an array with this axis, unlike in other estimators.
        """
        if self._joint_model is not None:
            return self._joint_model.released_array()
        return np.stack([np.asarray(release.value) for release in self.releases])

    def confidence_region(  # type: ignore[override]  # one for each class
        self, level: float = 0.95, of: str = "records"
    ) -> dict[Any, Region]:
        """Return a region for each class, with simultaneous coverage.

        With probability `level`, all regions contain the mean of their class.

        Parameters
        ----------
        level : float
            The coverage: the probability that all regions contain their targets.
        of : {"records", "population"}
            Whether the target of a region is the mean of the class's clipped records,
            or that of the population from which they were drawn independently.

        Returns
        -------
        dict
            From the label of a class to its region.

        Raises
        ------
        ParameterError
            Before `fit`, and if no theorem gives regions for this release.
        """
        if not self.__sklearn_is_fitted__():
            raise ParameterError(
                "PrivateMDM is not fitted: call fit before confidence_region"
            )
        if self._joint_model is not None:
            raise ParameterError(
                "no theorem gives regions for classes that were released together; with a "
                "public ball, or one private ball per class or for all, there are regions"
            )
        regions = simultaneous(self.certificates_, level, of)
        return dict(zip(self.classes_.tolist(), regions, strict=True))

    def channel_means(self) -> np.ndarray:
        """Return, with `reduce`, the class means in the channels of the records.

        See `PrivateReducedMDM.channel_means`. Without `reduce` the class means are
        matrices of the channels already: `means_`.

        Returns
        -------
        array of shape (classes, m, m)
            One symmetric matrix of rank `reduce` for each class.
        """
        return self._reduced_model().channel_means()

    def patterns(self) -> ClassPatterns:
        """Return, with `reduce`, how strongly each class's sources are in each channel.

        See `PrivateReducedMDM.patterns`.

        Returns
        -------
        ClassPatterns
            For each class the sources, from the one whose power differs most.
        """
        return self._reduced_model().patterns()

    def _reduced_model(self) -> PrivateReducedMDM:
        """Return the fitted model of reduced matrices.

        Raises
        ------
        ParameterError
            If matrices were not reduced.
        """
        check_is_fitted(self)
        if not isinstance(self._joint_model, PrivateReducedMDM):
            raise ParameterError(
                "is None: there are patterns of reduced matrices only",
                parameter="reduce",
            )
        return self._joint_model

    def transform(self, X: Any) -> Any:
        """Return the distances of the records to the class means.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, number of classes)
            With `reduce`, the distances of the records' features to the means; with
            prototypes, those of `PrivatePrototypes.transform`.
        """
        check_is_fitted(self)
        if self._joint_model is not None:
            return self._joint_model.transform(X)
        return self._apply(self._distances, X, (len(self.means_),))

    def _distances(self, records: np.ndarray) -> np.ndarray:
        """Return the distance of each record to each class mean.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records. Each is replaced by the nearest point of the manifold.

        Returns
        -------
        array of shape (n, classes)
            Geodesic distances; NaN for a record that is not a point.
        """
        points = self.manifold_.from_record(records)
        return np.asarray(
            self.manifold_.dist(self.means_[np.newaxis], points[:, np.newaxis])
        )

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return the score of each class for each record: −(distance to its mean)².

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records. One that is not a point of the manifold has no distance, and
            all its scores are equal.

        Returns
        -------
        array of shape (n, classes)
            The scores.
        """
        if self._joint_model is not None:
            return self._joint_model._scores(records)
        # NaN stays NaN under `minimum`.
        distances = np.minimum(self._distances(records), _MAX_DISTANCE)
        return np.asarray(np.nan_to_num(-(distances**2), nan=_NO_POINT_SCORE))


def _labels_of_persons(y: Any, person_index: np.ndarray) -> np.ndarray:
    """Return the public label of each person, which all their records must share.

    With `groups` the records of a person become one record, which has one label.

    Parameters
    ----------
    y : sequence of labels
        One label for each record.
    person_index : array of integers
        The number of the person to whom each record belongs, counted from 0.

    Returns
    -------
    array of shape (number of people,)
        The label of each person, in the order of their numbers.

    Raises
    ------
    ParameterError
        If a person has records in several classes. Such a person would be read for the
        mean of each of these classes, and the guarantee holds for one of them only.
    """
    labels = Labels(y, len(person_index))
    _, first_record = np.unique(person_index, return_index=True)
    class_of_person = labels.codes[first_record]
    if (class_of_person[person_index] != labels.codes).any():
        raise ParameterError(
            "groups has a person with records of several classes, whom the guarantee "
            "would not protect; neuro.PrivateStarterKit (few people), "
            "PrivateJointMeans, a reduction (reduce) and PrivateSoftmax do"
        )
    return np.asarray(labels.classes[class_of_person])


def _printable_label(label: Any) -> str:
    """Return a label as one line of text; characters that cannot be printed become "?".

    Titles of releases contain labels.

    Parameters
    ----------
    label : Any
        A label of a class.
    """
    letters = (letter if letter.isprintable() else "?" for letter in str(label))
    return "".join(letters)
