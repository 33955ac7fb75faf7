"""Classifiers of large covariance matrices with private labels, in one release each.

A private reduction to few components comes first, then a linear classifier of the
reduced matrices. `ReducedClassifier` fits and predicts for all of them;
`PrivateSoftmax` is logistic regression, and `PrivateReducedMDM` (in its own file) takes
the nearest class mean.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import PendingRelease, PrivateEstimator
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.staged.reduced_classifier import (
    ReducedMechanism,
    ReducedSoftmax,
)
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import open_records
from curvedp.records.chunked import map_records
from curvedp.records.persons import encode_persons
from curvedp.statistics.reduced_classes import (
    LinearClassifier,
    ReducedClasses,
    longest_features,
)


class ScoringClassifier(ClassifierMixin, PrivateEstimator):
    """Predictions for every classifier that scores each class; the largest score wins."""

    manifold_: Manifold
    classes_: np.ndarray

    def predict(self, X: Any) -> Any:
        """Return the class with the largest score for each record.

        Parameters
        ----------
        X : array of shape (n, *point_shape)

        Returns
        -------
        array of shape (n,)
            Labels; a dask array for a dask array.
        """

        def best_class(records: np.ndarray) -> np.ndarray:
            best = np.argmax(self._scores(records), axis=1)
            return np.asarray(self.classes_[best])

        return self._apply(best_class, X, ())

    def predict_proba(self, X: Any) -> Any:
        """Return the softmax of the scores.

        Parameters
        ----------
        X : array of shape (n, *point_shape)

        Returns
        -------
        array of shape (n, classes)
        """
        check_is_fitted(self)

        def probabilities(records: np.ndarray) -> np.ndarray:
            return np.asarray(softmax(self._scores(records), axis=-1))

        return self._apply(probabilities, X, (len(self.classes_),))

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return the score of each class for each record, shape (n, classes)."""
        raise NotImplementedError

    def _apply(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        X: Any,
        row_shape: tuple[int, ...],
    ) -> Any:
        """Apply a function of records; to a dask array chunk by chunk.

        Parameters
        ----------
        function : callable
            From records, shape (n, *point_shape), to an array of shape (n, *row_shape).
        X : array or dask array
        row_shape : tuple
            Empty where the function returns labels.
        """
        check_is_fitted(self)
        dtype = np.dtype(np.float64) if row_shape else self.classes_.dtype
        return map_records(function, X, self.manifold_.point_shape, row_shape, dtype)


class ReducedClassifier(ScoringClassifier):
    """Fitting for every estimator whose release is a `LinearClassifier` of reduced matrices.

    Attributes
    ----------
    classes_ : ndarray
    classifier_ : LinearClassifier
    certificate_ : Certificate
    certificates_ : list of Certificate
        The one certificate, as other classifiers have several.
    """

    manifold: Manifold
    reduce: int
    features: str
    classes: Any
    classifier_: LinearClassifier

    def _fit_reduced(
        self,
        mechanism_type: type[ReducedMechanism],
        X: Any,
        y: Any,
        groups: Any,
        max_feature_length: float | None = None,
    ) -> None:
        """Release a reduction and a linear classifier, and set the fitted attributes.

        Parameters
        ----------
        mechanism_type : type
            Which classifier is released.
        X : array of shape (n, m, m)
            Covariance matrices.
        y : sequence of n labels
            Private, but for the set of them.
        groups : sequence of n ids, or None
            Whose record each is.
        max_feature_length : float, optional
            A public bound on the length of a record's features; by default the largest
            that is possible.
        """
        records = open_records(X, check_manifold(self.manifold).point_shape)
        labels = records.labels(y, self.classes)
        n_classes = len(labels.classes)
        if n_classes < 2:
            raise ParameterError("there is one class; at least 2 are needed")
        n = records.n
        person_index = None
        privacy_unit = ProtectedUnit.LABELED_RECORD
        if groups is not None:
            person_index = encode_persons(groups, records.n)
            n = int(person_index.max()) + 1
            privacy_unit = ProtectedUnit.LABELED_PERSON
        if max_feature_length is None:
            max_feature_length = longest_features(self.features, self.reduce)

        statistic = ReducedClasses(
            self.manifold, self.reduce, self.features, max_feature_length, n_classes, n
        )
        mechanism = mechanism_type.calibrate(statistic, self.guarantee)
        if not mechanism.has_enough_records:
            warnings.warn(
                f"n = {n} at {self.guarantee} is small for {n_classes} classes: expect "
                "chance level",
                ReleaseWarning,
                stacklevel=3,
            )
        # A dask array is refused here, by `array`.
        data = (records.array(), labels.codes, person_index)
        choice = Choice(ChoiceRule.ONLY_ONE)
        pending = PendingRelease(mechanism, data, choice, "weights of the classes")
        (release,) = self._pay_and_release([pending], privacy_unit)
        self.manifold_ = statistic.manifold
        self.classes_ = labels.classes
        self.classifier_ = release.value
        self.certificate_ = release.certificate
        self.certificates_ = [release.certificate]

    @property
    def releases(self) -> list[ReleasedValue]:
        """The weights of the classes, which belong to the released reduction."""
        (published,) = super().releases
        return [published._replace(value=self.classifier_.weights)]

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return the linear scores of the classes, shape (n, classes)."""
        return self.classifier_.scores(records)


@dataclass(eq=False, repr=False)
class PrivateSoftmax(ReducedClassifier):
    """Multinomial logistic regression on privately reduced covariance matrices.

    It is for many channels and few records (20 to 60 channels, some hundred trials),
    where the coordinates of a mean are too many. The records are reduced to `reduce`
    components by a private second moment before any logarithm is taken; ten noisy
    gradient steps follow. There is one guarantee, one charge, and one certificate with
    its stages. Labels are private. Neither a ball nor a unit of measurement is needed:
    every record is divided by its trace.

    Parameters
    ----------
    manifold : Manifold
        A space of covariance matrices, whose metric is not used.
    reduce : int
        How many components are kept.
    features, classes
        As in `PrivateMDM`, where labels are private.
    guarantee, ledger, label, source
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in order: a public set.
    classifier_ : LinearClassifier
        The released reduction and weights.
    certificate_ : Certificate
        Why they may be published.

    Notes
    -----
    Accuracy is nearly a function of nμ (docs/high-dimension.md). Below nμ = 100 a
    `ReleaseWarning` says so before anything is spent.

    Guarantees

    - errors are because of parameters, shapes and types, never of a record's values, and
      nothing is spent then;
    - `fit` meets `guarantee` for replacing one record together with its label, for ANY
      data; the set of classes is public;
    - with `groups`, for replacing one person with all their records and labels.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> y = np.arange(800) % 2
    >>> scales = (1 + 2 * np.eye(8)[y])[:, :, None]
    >>> signals = np.random.default_rng(0).normal(size=(800, 8, 50)) * scales
    >>> X = signals @ signals.mT / 50
    >>> PrivateSoftmax(SPDAffineInvariant(8), reduce=3).fit(X, y).score(X, y) > 0.9
    True
    """

    _name = "softmax classifier"

    manifold: Manifold
    reduce: int = 8
    features: str = "power"
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    classes: Any = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the classifier.

        Parameters
        ----------
        X : array of shape (n, m, m)
            Covariance matrices, in any unit.
        y : sequence of n labels
            Private, but for the set of them.
        groups : sequence of n ids, optional
            Whose record each is. Then a person with all their records and labels is the
            unit of privacy.
        """
        self._validate_params()
        self._fit_reduced(ReducedSoftmax, X, y, groups)
        return self._warn_of_oddities()
