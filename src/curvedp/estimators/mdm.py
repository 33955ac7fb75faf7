"""Minimum distance to private class means: classification of manifold-valued records."""

from dataclasses import dataclass
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
from curvedp.estimators.softmax import ReducedClassifier
from curvedp.inference.region import simultaneous
from curvedp.inference.shapes import Region
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.ball_search import class_mean_statistic
from curvedp.mechanisms.staged.reduced_classifier import ReducedMeans
from curvedp.records.base import Records, open_records
from curvedp.records.labels import Labels
from curvedp.records.persons import person_codes
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


@dataclass(eq=False, repr=False)
class PrivateMDM(PrivateTransformer, ReducedClassifier, BallEstimator):
    """A classifier that keeps one private Fréchet mean a class and predicts the nearest.

    Labels and class sizes are public (a record may be replaced by any other of its class); the classes are disjoint, so
    the guarantee of all means together is that of one. Certificates say so. With `reduce`, labels are private as well; and
    where a record may be added or removed, since it is in one class alone, whichever that is.

    Parameters
    ----------
    manifold, radius, center, guarantee, mechanism, ledger, label, source, outer_radius
        As in `PrivateFrechetMean`.
    reduce : int, optional
        For covariance matrices of many channels: how many components are kept by a private reduction, which comes first.
        Then one release serves all classes, labels are private, each record is divided by its trace, the class means are
        those of `features`, and no ball is needed (`radius` may bound the features' length).
    features : {"power", "log"}
        With `reduce`, what is taken of the reduced matrices: square roots or logarithms. A public choice.
    ball : {"auto", "shared", "each"}
        With `radius="private"`: one ball for the records of all classes, found once; or one for each class, found from its
        own records alone. By default one for each where every class is large enough for that (nμ >= 40, 50 for matrices):
        its means err less then, while few records tell classes apart better in one ball.
    classes : sequence of labels, optional
        Where labels are private: the public set of classes; any other label is taken for the first of them, in order. Left
        out, it is the set of `y`, which has to be public then: it tells of a class that one record alone has.

    Attributes
    ----------
    classes_, means_ : ndarray
        The labels, in order, and one private mean a class; with `reduce`, of the features.
    certificates_ : list of Certificate
        One a class; with `reduce` one for all.
    classifier_ : LinearClassifier
        With `reduce`: the released reduction and means.

    Notes
    -----
    X may be a dask array, which is streamed: every pass serves all classes, and the means do not depend on the chunks. Then y
    may be one too, and `transform` and `predict` of a dask array are dask arrays, computed by chunks when they are asked for.
    `reduce` and `groups` want records in memory.

    Guarantees
    - errors are because of parameters, shapes, types and labels, never of a record's values, and nothing is spent then;
    - all means together meet `guarantee` for replacing one record within its class;
    - with `reduce`, for replacing one record together with its label; the set of classes is public;
    - with adjacency="add-remove", for adding or removing one record with its label; n is private, the set of classes public;
    - with `groups`, the same for one person with all their records.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["up", "down"], 200)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.4, (400, 3)) + np.where(y == "up", 1, -1)[:, None] * [0, 0, 1])
    >>> PrivateMDM(Sphere(2), radius=0.8).fit(X, y).score(X, y) > 0.9
    True
    """

    _name = "class means"
    _column = "mdm"
    _n_features_out = property(lambda self: len(self.classes_))
    _adjacencies = ("replace-one", ADD_REMOVE)

    reduce: int | None = None
    features: str = "power"
    ball: str = "auto"
    classes: Any = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the class means of X, as of `PrivateFrechetMean.fit`, by n labels y: public, but private with `reduce`.

        With `groups`, n ids that say whose record each is, a person with all their records is the unit of privacy. Without
        `reduce` each person must be of one class.
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
            return self._warn_of_oddities()
        check_guarantee(self.guarantee)
        if (
            self.center is not None
            or self.outer_radius is not None
            or str(self.mechanism) != "auto"
        ):
            own = "reduce= finds its own center and mechanism"
            raise ParameterError(f"{own}: leave center, outer_radius and mechanism out")
        self._fit_reduced(
            ReducedMeans, X, y, groups, None if self._searches_ball else self.radius
        )
        self.means_ = self.classifier_.weights / 2
        return self._warn_of_oddities()

    def _fit_means(self, X: Any, y: Any, groups: Any) -> None:
        if groups is not None and self._n_is_private:
            raise ParameterError(
                "is for the adjacency replace-one here: persons may be of several "
                "classes",
                parameter="groups",
            )
        if groups is not None:  # one public label a person
            codes = person_codes(groups, open_records(X, self.manifold.point_shape).n)
            held, first = Labels(y, len(codes)), np.unique(codes, return_index=True)[1]
            if (held.codes[first][codes] != held.codes).any():
                several = "groups has a person with records of several classes"
                raise ParameterError(f"{several}; reduce= or PrivateSoftmax take them")
            y = np.asarray(held.classes[held.codes[first]])
        records, _ = self._load_records(X, groups)
        if records.where != "memory" and not (
            self._searches_ball or self._n_is_private
        ):  # one pass serves all classes
            center = public_ball(self.manifold, self.center, self.radius).center
            with quiet_about_records():
                records = records.carried(self.manifold, center)
        labels = records.labels(y, self.classes)
        choices = self._choices(labels.sizes.tolist(), labels.classes, records)
        if self._n_is_private:
            privacy_unit = ProtectedUnit.LABELED_RECORD
        elif groups is None:
            privacy_unit = ProtectedUnit.RECORD_IN_CLASS
        else:
            privacy_unit = ProtectedUnit.PERSON_IN_CLASS
        with quiet_about_records():
            jobs = self._jobs(choices, records, labels)
        manifold = self.manifold
        releases = self._pay_and_release(jobs, privacy_unit)
        self.manifold_ = manifold
        self.classes_ = labels.classes
        self.means_ = np.stack([release.value for release in releases])
        self.certificates_ = [release.certificate for release in releases]

    def _choices(
        self, sizes: list[int], classes: np.ndarray, records: Records
    ) -> list[ChosenMechanism]:
        """A mechanism for each class, one for each size, all chosen before anything is spent."""
        if not sizes:
            raise ParameterError(
                "y has no labels; the set of classes is public, and there must be one"
            )
        if self._n_is_private:
            return [self._choose_sum_mechanism(ClippedSum)] * len(sizes)
        if min(sizes) < 2:
            lonely = classes[sizes.index(min(sizes))]
            few = "one record" if min(sizes) else "no records"
            raise ParameterError(
                f"class {lonely} has {few}; each class needs at least 2"
            )

        def of_class(
            manifold: Any, center: Any, outer_radius: Any, size: int
        ) -> SearchedMean:
            everyone = SearchedMean(manifold, center, outer_radius, records.n)
            return class_mean_statistic(
                everyone, size, min(sizes), self.guarantee, self.ball
            )

        made = {
            size: self._choose_mechanism(
                FrechetMean, of_class, ClippedSum, records, size
            )
            for size in set(sizes)
        }
        return [made[size] for size in sizes]

    def _jobs(
        self, choices: list[ChosenMechanism], records: Records, labels: Any
    ) -> list[PendingRelease]:
        titles = [f"mean of class {_printable(label)}" for label in labels.classes]
        shared: Any = choices[0].mechanism.statistic
        if isinstance(shared, SearchedClassMean):
            search = SharedSearch()
            everyone = shared.collect_records(records)
            everyone.sums(
                read_nothing
            )  # what cannot be read is so before anything is paid
            together = [
                ClassData(everyone, everyone.of_class(labels, code), search)
                for code in range(len(choices))
            ]
            return [
                PendingRelease(choice.mechanism, data, choice.choice, title)
                for choice, data, title in zip(choices, together, titles, strict=True)
            ]
        if records.where == "memory" or self._searches_ball or self._n_is_private:
            groups = (records.of_class(labels, code) for code in range(len(choices)))
            return [
                self._pending_release(choice, group, title)
                for choice, group, title in zip(choices, groups, titles, strict=True)
            ]
        means = (
            mean for mean, _ in records.class_moments(shared.domain, labels)
        )  # the ball is the same for all
        return [
            PendingRelease(choice.mechanism, mean, choice.choice, title)
            for choice, mean, title in zip(choices, means, titles, strict=True)
        ]

    @property
    def _is_reduced(self) -> bool:
        """Whether `fit` has released one reduction instead of one mean a class."""
        return "classifier_" in vars(self)

    @property
    def releases(self) -> list[ReleasedValue]:
        """One mean a class; with `reduce`, the weights of all classes."""
        if self._is_reduced:
            return super().releases
        return super(ReducedClassifier, self).releases

    def released_array(self) -> np.ndarray:
        """Return the means, one after the other, also where there is one class."""
        if self._is_reduced:
            return super().released_array()
        return np.stack([np.asarray(release.value) for release in self.releases])

    def confidence_region(  # type: ignore[override]  # one a class
        self, level: float = 0.95, of: str = "records"
    ) -> dict[Any, Region]:
        """Regions by class, which ALL hold their means with probability `level`; else as in `PrivateFrechetMean`."""
        if not self.__sklearn_is_fitted__():
            raise ParameterError(
                "PrivateMDM is not fitted: call fit before confidence_region"
            )
        return dict(
            zip(
                self.classes_.tolist(),
                simultaneous(self.certificates_, level, of),
                strict=True,
            )
        )

    def transform(self, X: Any) -> Any:
        """Distances to the class means, shape (n, classes)."""
        check_is_fitted(self)
        return self._applied(self._distances, X, (len(self.means_),))

    def _distances(self, records: np.ndarray) -> np.ndarray:
        means = self.means_
        if self._is_reduced:
            features = self.classifier_.features(records)
            return np.asarray(np.linalg.norm(means - features[:, None], axis=-1))
        points = self.manifold_.from_record(records)  # what they stand for, as in `fit`
        return np.asarray(self.manifold_.dist(means[None], points[:, None]))

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Minus the squared distances. What is not on the manifold has none; all classes are as far from it."""
        if self._is_reduced:
            return super()._scores(records)
        distances = np.minimum(self._distances(records), 1e150)  # NaN stays NaN
        return np.asarray(np.nan_to_num(-(distances**2), nan=-1e300))


def _printable(label: Any) -> str:
    """Return a label as a text that can be shown in one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(label))
