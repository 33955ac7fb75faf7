"""Classifiers of large covariance matrices with private labels, in one release each.
A private reduction to few components comes first, then a linear classifier of the
reduced matrices. `ReducedClassifier` fits and predicts for all of them.
`PrivateSoftmax` is logistic regression; `PrivateReducedMDM`, in its own file, predicts
the nearest class mean.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

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
from curvedp.records.base import Records, open_records
from curvedp.records.chunked import map_records
from curvedp.records.labels import ChunkedLabels, Labels
from curvedp.records.persons import encode_persons
from curvedp.statistics.reduced_classes import (
    LinearClassifier,
    ReducedClasses,
    default_feature_bound,
)


class LabeledRecords(NamedTuple):
    """Records with private labels, as a classifier of all classes at once reads them.

    Attributes
    ----------
    records : Records
        The records.
    labels : Labels
        The class of each record, and the public set of classes.
    person_index : array of int, or None
        The person of each record, if people are protected.
    n : int
        The number of records, or of people if these are protected.
    privacy_unit : ProtectedUnit
        A record with its label, or a person with all their records and labels.
    """

    records: Records
    labels: Labels | ChunkedLabels
    person_index: np.ndarray | None
    n: int
    privacy_unit: ProtectedUnit


class ScoringClassifier(ClassifierMixin, PrivateEstimator):
    """The base of classifiers that compute a score for each class.

    `predict` returns the class with the largest score.
    """

    manifold_: Manifold
    classes_: np.ndarray

    def predict(self, X: Any) -> Any:
        """Return the class with the largest score for each record.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n,)
            The predicted labels; a lazy dask array if X is a dask array.
        """

        def best_class(records: np.ndarray) -> np.ndarray:
            """Return the label with the largest score for each record."""
            best_code = np.argmax(self._scores(records), axis=1)
            return np.asarray(self.classes_[best_code])

        return self._apply(best_class, X, ())

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class: the softmax of a record's scores.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, classes)
            Rows that add up to 1; a lazy dask array if X is a dask array. They are as
            private as the records.
        """
        check_is_fitted(self)

        def probabilities(records: np.ndarray) -> np.ndarray:
            """Return the softmax of the scores of each record."""
            return np.asarray(softmax(self._scores(records), axis=-1))

        return self._apply(probabilities, X, (len(self.classes_),))

    @staticmethod
    def _load_labeled_records(
        manifold: Manifold,
        X: Any,
        y: Any,
        groups: Any,
        classes: Any,
        min_records: int = 2,
    ) -> LabeledRecords:
        """Return records with private labels, after checking that they fit together.

        Parameters
        ----------
        manifold : Manifold
            The manifold of the records.
        X : array of shape (n, *point_shape)
            The records.
        y : sequence of n labels
            The class of each record.
        groups : sequence of n ids, or None
            The person to whom each record belongs.
        classes : sequence of labels, or None
            The public set of classes; None takes the classes that occur.
        min_records : int
            The smallest number of records, and of people, that is accepted.

        Returns
        -------
        LabeledRecords
            The data, and whom the release protects.

        Raises
        ------
        ParameterError
            If shapes or types do not fit, or there are fewer than two classes.
        """
        point_shape = check_manifold(manifold).point_shape
        records = open_records(X, point_shape, min_records=min_records)
        labels = records.labels(y, classes)
        if len(labels.classes) < 2:
            raise ParameterError("there is one class; at least 2 are needed")
        if groups is None:
            unit = ProtectedUnit.LABELED_RECORD
            return LabeledRecords(
                records, labels, person_index=None, n=records.n, privacy_unit=unit
            )

        person_index = encode_persons(groups, records.n, min_persons=min_records)
        n_persons = int(person_index.max(initial=-1)) + 1
        return LabeledRecords(
            records, labels, person_index, n_persons, ProtectedUnit.LABELED_PERSON
        )

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return the score of each class for each record; subclasses define it.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, classes)
            The scores. A record belongs to the class with the largest one.
        """
        raise NotImplementedError

    def _apply(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        X: Any,
        row_shape: tuple[int, ...],
    ) -> Any:
        """Apply a function to all records of X; to a dask array lazily, chunk by chunk.

        Parameters
        ----------
        function : callable
            Maps records of shape (n, *point_shape) to an array of shape (n,
            *row_shape).
        X : array or dask array
            The records.
        row_shape : tuple of int
            The shape of the result for one record. It is empty if and only if the
            function returns labels.

        Returns
        -------
        array or dask array of shape (n, *row_shape)
            The results, in the order of the records.
        """
        check_is_fitted(self)
        dtype = np.dtype(np.float64) if row_shape else self.classes_.dtype
        return map_records(function, X, self.manifold_.point_shape, row_shape, dtype)


class ReducedClassifier(ScoringClassifier):
    """The base of estimators that release a `LinearClassifier` of reduced matrices.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in order: a public set.
    classifier_ : LinearClassifier
        The released reduction and weights.
    certificate_ : Certificate
        The certificate of the release.
    certificates_ : list of Certificate
        A list with the one certificate, because other classifiers have several.
    """

    manifold: Manifold
    reduce: int
    features: str
    classes: Any
    classifier_: LinearClassifier

    def _few_records_text(self, n: int, n_classes: int, *, has_persons: bool) -> str:
        """Return the warning that there are too few records for a useful classifier.

        Parameters
        ----------
        n : int
            The number of records, or of people.
        n_classes : int
            The number of classes.
        has_persons : bool
            Whether people are protected, who may be few with many trials each.
        """
        alternative = ""
        if has_persons:
            alternative = "; for trials of few people, take neuro.PrivateStarterKit"
        return (
            f"n = {n} at {self.guarantee} is small for {n_classes} classes: expect "
            f"chance level{alternative}"
        )

    def _fit_reduced(
        self,
        mechanism_type: type[ReducedMechanism],
        X: Any,
        y: Any,
        groups: Any,
        max_feature_length: float | None = None,
    ) -> None:
        """Charge the ledger, release a reduction with a linear classifier, and keep both.

        Sets `manifold_`, `classes_`, `classifier_`, `certificate_` and `certificates_`.
        Issues a `ReleaseWarning` before paying if there are too few records.

        Parameters
        ----------
        mechanism_type : type of ReducedMechanism
            Which classifier is released.
        X : array of shape (n, m, m)
            Covariance matrices.
        y : sequence of n labels
            Private labels; only the set of classes is public.
        groups : sequence of n ids, or None
            The person to whom each record belongs.
        max_feature_length : float, optional
            A public bound on the length of a record's features; by default the largest
            possible length.
        """
        loaded = self._load_labeled_records(self.manifold, X, y, groups, self.classes)
        classes = loaded.labels.classes
        n = loaded.n

        if max_feature_length is None:
            max_feature_length = default_feature_bound(self.features, self.reduce)
        statistic = ReducedClasses(
            self.manifold,
            self.reduce,
            self.features,
            max_feature_length,
            len(classes),
            n,
        )
        mechanism = mechanism_type.calibrate(statistic, self.guarantee)
        if not mechanism.has_enough_records:
            text = self._few_records_text(
                n, len(classes), has_persons=groups is not None
            )
            warnings.warn(text, ReleaseWarning, stacklevel=3)

        # `array` refuses a dask array.
        data = (loaded.records.array(), loaded.labels.codes, loaded.person_index)
        choice = Choice(ChoiceRule.ONLY_ONE)
        pending = PendingRelease(mechanism, data, choice, "weights of the classes")
        (release,) = self._pay_and_release([pending], loaded.privacy_unit)

        self.manifold_ = statistic.manifold
        self.classes_ = classes
        self.classifier_ = release.value
        self.certificate_ = release.certificate
        self.certificates_ = [release.certificate]

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the released weights of the classes, as the only release."""
        (published,) = super().releases
        return [published._replace(value=self.classifier_.weights)]

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return the linear scores of the classes: weights @ features + bias.

        Parameters
        ----------
        records : array of shape (n, m, m)
            Covariance matrices, which the released reduction maps to features.

        Returns
        -------
        array of shape (n, classes)
            The scores.
        """
        return self.classifier_.scores(records)


@dataclass(eq=False, repr=False)
class PrivateSoftmax(ReducedClassifier):
    """Multinomial logistic regression on privately reduced covariance matrices.

    Use it for many channels and few records (20 to 60 channels, a few hundred trials),
    where a mean matrix would have too many coordinates. A private second moment first
    reduces the records to `reduce` components. Ten noisy gradient steps then fit the
    weights. There is one guarantee, one charge, and one certificate that lists the
    stages. Labels are private. Neither a ball nor a unit of measurement is needed,
    because every record is divided by its trace.

    Parameters
    ----------
    manifold : Manifold
        A space of covariance matrices, whose metric is not used.
    reduce : int
        How many components are kept.
    features : {"power", "log"}
        Whether the features are the square roots or the logarithms of the reduced
        matrices. A public choice.
    classes : sequence of labels, optional
        The public set of classes. Any other label is replaced by the first class, in
        sorted order. By default it is the set of labels in `y`, which must be public
        then: it would reveal a class that has only one record.
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in order: a public set.
    classifier_ : LinearClassifier
        The released reduction and weights.
    certificate_ : Certificate
        The certificate of the release.

    Notes
    -----
    Accuracy depends mainly on nμ, the number of records times the GDP parameter
    (docs/howto/high-dimensional-covariances.md). Below nμ = 100 a `ReleaseWarning` is
    issued before anything is spent.

    Guarantees

    - errors are because of parameters, shapes and types, never of a record's values,
      and nothing is spent then;
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
        """Release the classifier, and charge it to the ledger.

        Parameters
        ----------
        X : array of shape (n, m, m)
            Covariance matrices, in any unit.
        y : sequence of n labels
            Private labels; only the set of classes is public.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person with all their records
            and labels is the unit of privacy.

        Returns
        -------
        self
            With `classes_`, `classifier_`, `certificate_` and `manifold_` set.
        """
        self._validate_params()
        self._fit_reduced(ReducedSoftmax, X, y, groups)
        return self._warn_after_release()
