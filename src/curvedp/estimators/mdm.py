"""Minimum distance to private class means: classification of manifold-valued records."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.codes import ProtectedUnit
from curvedp.core.mechanism import check_guarantee
from curvedp.core.released import ReleasedValue
from curvedp.core.statistic import public_ball
from curvedp.errors import ParameterError
from curvedp.estimators.base import (
    BallEstimator,
    PendingRelease,
    PrivateTransformer,
    read_nothing,
)
from curvedp.estimators.reduced_mdm import PrivateReducedMDM
from curvedp.estimators.softmax import ScoringClassifier
from curvedp.inference.region import simultaneous
from curvedp.inference.shapes import Region
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.ball_search import class_mean_statistic
from curvedp.mechanisms.staged.reduced_classifier import ReducedMeans
from curvedp.records.base import Records, open_records
from curvedp.records.labels import ChunkedLabels, Labels
from curvedp.records.persons import encode_persons
from curvedp.release.choose import ChosenMechanism
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.reduced_classes import FEATURES
from curvedp.statistics.searched_ball import (
    ClassData,
    SearchedClassMean,
    SearchedMean,
    SharedSearch,
)

# Distances are cut here before they are squared, so that squares stay finite.
_MAX_DISTANCE = 1e150

# The score of every class for a record that is not on the manifold: all are equally
# far.
_NO_POINT_SCORE = -1e300


@dataclass(eq=False, repr=False)
class PrivateMDM(PrivateTransformer, ScoringClassifier, BallEstimator):
    """A classifier that keeps one private Fréchet mean a class and predicts the nearest.

    Labels and class sizes are public (a record may be replaced by any other of its
    class); the classes are disjoint, so the guarantee of all means together is that of
    one. Certificates say so. Where a record may be added or removed, labels are private
    as well, since a record is in one class alone, whichever that is.

    Parameters
    ----------
    manifold, radius, center, guarantee, mechanism, ledger, label, source, outer_radius
        As in `PrivateFrechetMean`.
    reduce : int, optional
        For covariance matrices of many channels: `PrivateReducedMDM` with so many
        components does everything, and labels are private. No ball is needed; `radius`
        may bound the features' length.
    features : {"power", "log"}
        With `reduce`, what is taken of the reduced matrices: square roots or
        logarithms. A public choice.
    ball : {"auto", "shared", "each"}
        With `radius="private"`: one ball for the records of all classes, found once; or
        one for each class, found from its own records alone. By default one for each
        where every class is large enough for that (nμ >= 40, 50 for matrices): its
        means err less then, while few records tell classes apart better in one ball.
    classes : sequence of labels, optional
        Where labels are private: the public set of classes; any other label is taken
        for the first of them, in order. By default it is the set of `y`, which has to
        be public then: it tells of a class that one record alone has.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in order.
    means_ : ndarray
        One private mean a class; with `reduce`, of the features.
    certificates_ : list of Certificate
        One a class; with `reduce` one for all.
    classifier_ : LinearClassifier
        With `reduce`: the released reduction and means.

    Notes
    -----
    X may be a dask array, which is streamed: every pass serves all classes, and the
    means do not depend on the chunks. Then y may be one too, and `transform` and
    `predict` of a dask array are dask arrays, computed by chunks when they are asked
    for. `reduce` and `groups` need records in memory.

    Guarantees

    - errors are because of parameters, shapes, types and labels, never of a record's values,
      and nothing is spent then;
    - all means together meet `guarantee` for replacing one record within its class;
    - with `reduce`, for replacing one record together with its label; the set of classes is
      public;
    - with adjacency="add-remove", for adding or removing one record with its label; n is
      private, the set of classes public;
    - with `groups`, the same for one person with all their records.

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
    # The estimator to which the last call of `fit` delegated, with `reduce`.
    _reduced_model: PrivateReducedMDM | None = field(
        default=None, init=False, repr=False
    )

    reduce: int | None = None
    features: str = "power"
    ball: str = "auto"
    classes: Any = None

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """How many columns `transform` makes: one for each class."""
        return len(self.classes_)

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the class means.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            Records, as of `PrivateFrechetMean.fit`.
        y : sequence of n labels
            Public; with `reduce` private, but for the set of them.
        groups : sequence of n ids, optional
            Whose record each is. Then a person with all their records is the unit of
            privacy. Without `reduce` each person must be of one class.
        """
        self._validate_params()
        _validate.choice("ball", self.ball, ("auto", "shared", "each"))
        _validate.choice("features", self.features, FEATURES)
        if self.reduce is None and self.features != FEATURES[0]:
            raise ParameterError(
                "is for reduced matrices (reduce)",
                parameter="features",
                value=self.features,
            )
        if self.ball != "auto" and not (self._searches_ball and self.reduce is None):
            raise ParameterError(
                "is for a private radius, without reduction",
                parameter="ball",
                value=self.ball,
            )
        if self.reduce is None:
            self._fit_means(X, y, groups)
            self._reduced_model = None
            return self._warn_of_oddities()

        model = self._make_reduced_model(self.reduce)
        model._fit_reduced(ReducedMeans, X, y, groups, model.radius)
        self._copy_fit(model)
        return self._warn_of_oddities()

    def _make_reduced_model(self, reduce: int) -> PrivateReducedMDM:
        """Return the estimator that does everything where matrices are reduced.

        Refuses parameters that it does not have.
        """
        check_guarantee(self.guarantee)
        has_ball_parameters = (
            self.center is not None
            or self.outer_radius is not None
            or str(self.mechanism) != "auto"
        )
        if has_ball_parameters:
            raise ParameterError(
                "reduce= finds its own center and mechanism: leave center, outer_radius "
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

    def _copy_fit(self, model: PrivateReducedMDM) -> None:
        """Take over what a reduced model has released, in place of an earlier fit."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._reduced_model = model
        self._published = model._published
        self._texts_before_paying = model._texts_before_paying
        self.manifold_ = model.manifold_
        self.classes_ = model.classes_
        self.means_ = model.means_
        self.classifier_ = model.classifier_
        self.certificate_ = model.certificate_
        self.certificates_ = model.certificates_

    def _fit_means(self, X: Any, y: Any, groups: Any) -> None:
        """Release one mean for each class, and set the fitted attributes.

        The arguments are those of `fit`.
        """
        if groups is not None and self._n_is_private:
            raise ParameterError(
                "is for the adjacency replace-one here: persons may be of several "
                "classes",
                parameter="groups",
            )
        if groups is not None:
            n_records = open_records(X, self.manifold.point_shape).n
            y = _labels_of_persons(y, encode_persons(groups, n_records))
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
            privacy_unit = ProtectedUnit.RECORD_IN_CLASS
        else:
            privacy_unit = ProtectedUnit.PERSON_IN_CLASS
        with quiet_about_records():
            pending = self._pending_means(chosen, records, labels)
        manifold = self.manifold
        releases = self._pay_and_release(pending, privacy_unit)
        self.manifold_ = manifold
        self.classes_ = labels.classes
        self.means_ = np.stack([release.value for release in releases])
        self.certificates_ = [release.certificate for release in releases]

    @property
    def _has_public_ball(self) -> bool:
        """Whether the ball is given and n is public, so that one pass gives all means."""
        return not (self._searches_ball or self._n_is_private)

    def _choose_mechanisms(
        self, sizes: list[int], classes: np.ndarray, records: Records
    ) -> list[ChosenMechanism]:
        """Return a mechanism for each class, all chosen before anything is spent.

        Parameters
        ----------
        sizes : list of int
            The number of records of each class.
        classes : array
            The labels of the classes, for messages.
        records : Records
            Of all classes.
        """
        if not sizes:
            raise ParameterError(
                "y has no labels; the set of classes is public, and there must be one"
            )
        if self._n_is_private:
            return [self._choose_sum_mechanism(ClippedSum)] * len(sizes)
        smallest = min(sizes)
        if smallest < 2:
            small_class = classes[sizes.index(smallest)]
            count = "one record" if smallest else "no records"
            raise ParameterError(
                f"class {small_class} has {count}; each class needs at least 2"
            )

        def searched_class_mean(
            manifold: Any, center: Any, outer_radius: Any, size: int
        ) -> SearchedMean:
            """Return the mean of a class in a ball that is found privately."""
            everyone = SearchedMean(manifold, center, outer_radius, records.n)
            return class_mean_statistic(
                everyone, size, smallest, self.guarantee, self.ball
            )

        # Classes of one size share a mechanism, which is chosen once.
        chosen_for_size = {
            size: self._choose_mechanism(
                FrechetMean, searched_class_mean, ClippedSum, records, size
            )
            for size in set(sizes)
        }
        return [chosen_for_size[size] for size in sizes]

    def _pending_means(
        self,
        chosen: Sequence[ChosenMechanism],
        records: Records,
        labels: Labels | ChunkedLabels,
    ) -> list[PendingRelease]:
        """Return one pending release for each class, with what its mechanism reads.

        Parameters
        ----------
        chosen : sequence of ChosenMechanism
            One for each class.
        records : Records
            Of all classes.
        labels : Labels
        """
        codes = range(len(chosen))
        titles = [f"mean of class {_printable(label)}" for label in labels.classes]
        statistic: Any = chosen[0].mechanism.statistic
        if isinstance(statistic, SearchedClassMean):
            return self._pending_shared_search(chosen, records, labels, titles)

        is_one_pass = records.location != "memory" and self._has_public_ball
        if is_one_pass:
            # The ball is the same for all classes, so that one pass gives their means.
            moments = records.class_moments(statistic.domain, labels)
            means = [mean for mean, _ in moments]
            return [
                PendingRelease(choice.mechanism, mean, choice.choice, title)
                for choice, mean, title in zip(chosen, means, titles, strict=True)
            ]
        return [
            self._pending_release(
                chosen[code], records.select_class(labels, code), titles[code]
            )
            for code in codes
        ]

    @staticmethod
    def _pending_shared_search(
        chosen: Sequence[ChosenMechanism],
        records: Records,
        labels: Labels | ChunkedLabels,
        titles: Sequence[str],
    ) -> list[PendingRelease]:
        """Return pending releases that share one private search for a ball.

        The search reads the records of all classes, the means those of their own class.
        The arguments are those of `_pending_means`.
        """
        statistic: Any = chosen[0].mechanism.statistic
        search = SharedSearch()
        everyone = statistic.collect_records(records)
        # Records that cannot be read fail here, before anything is paid.
        everyone.sums(read_nothing)
        pending = []
        for code, (choice, title) in enumerate(zip(chosen, titles, strict=True)):
            data = ClassData(everyone, everyone.select_class(labels, code), search)
            pending.append(PendingRelease(choice.mechanism, data, choice.choice, title))
        return pending

    @property
    def releases(self) -> list[ReleasedValue]:
        """One mean a class; with `reduce`, the weights of all classes."""
        if self._reduced_model is not None:
            return self._reduced_model.releases
        return super().releases

    def released_array(self) -> np.ndarray:
        """Return the means, one after the other, also where there is one class."""
        if self._reduced_model is not None:
            return self._reduced_model.released_array()
        return np.stack([np.asarray(release.value) for release in self.releases])

    def confidence_region(  # type: ignore[override]  # one for each class
        self, level: float = 0.95, of: str = "records"
    ) -> dict[Any, Region]:
        """Return a region for each class; ALL hold their means with probability `level`.

        Parameters
        ----------
        level, of
            As in `PrivateFrechetMean.confidence_region`.
        """
        if not self.__sklearn_is_fitted__():
            raise ParameterError(
                "PrivateMDM is not fitted: call fit before confidence_region"
            )
        regions = simultaneous(self.certificates_, level, of)
        return dict(zip(self.classes_.tolist(), regions, strict=True))

    def transform(self, X: Any) -> Any:
        """Return the distances of the records to the class means.

        Parameters
        ----------
        X : array of shape (n, *point_shape)

        Returns
        -------
        array of shape (n, classes)
        """
        check_is_fitted(self)
        if self._reduced_model is not None:
            return self._reduced_model.transform(X)
        return self._apply(self._distances, X, (len(self.means_),))

    def _distances(self, records: np.ndarray) -> np.ndarray:
        """Return the distance of each record to each class mean.

        As in `fit`, a record stands for the point nearest to it.
        """
        points = self.manifold_.from_record(records)
        return np.asarray(self.manifold_.dist(self.means_[None], points[:, None]))

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return minus the squared distances to the class means.

        A record that is not on the manifold has none; all classes are equally far from
        it.
        """
        if self._reduced_model is not None:
            return self._reduced_model._scores(records)
        # NaN stays NaN under `minimum`.
        distances = np.minimum(self._distances(records), _MAX_DISTANCE)
        return np.asarray(np.nan_to_num(-(distances**2), nan=_NO_POINT_SCORE))


def _labels_of_persons(y: Any, person_index: np.ndarray) -> np.ndarray:
    """Return one public label for each person, or refuse a person of several classes.

    Parameters
    ----------
    y : sequence of labels
        One for each record.
    person_index : array of integers
        Whose record each is, from 0 on.
    """
    labels = Labels(y, len(person_index))
    _, first_record = np.unique(person_index, return_index=True)
    class_of_person = labels.codes[first_record]
    if (class_of_person[person_index] != labels.codes).any():
        raise ParameterError(
            "groups has a person with records of several classes; reduce= or "
            "PrivateSoftmax take them"
        )
    return np.asarray(labels.classes[class_of_person])


def _printable(label: Any) -> str:
    """Return a label as a text that can be shown in one line."""
    letters = (letter if letter.isprintable() else "?" for letter in str(label))
    return "".join(letters)
