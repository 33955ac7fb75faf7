"""Classification of large covariance matrices with private labels: a reduction and a linear classifier, one release."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.entropy import Source
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import PendingRelease, PrivateEstimator
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.staged.reduced_classifier import ReducedSoftmax
from curvedp.privacy import GDP, Guarantee
from curvedp.records.base import open_records
from curvedp.records.chunked import by_chunks
from curvedp.records.persons import person_codes
from curvedp.statistics.reduced_classes import (
    LinearClassifier,
    ReducedClasses,
    longest_features,
)


class ReducedClassifier(ClassifierMixin, PrivateEstimator):
    """Fitting and predicting for every estimator whose release is a `LinearClassifier` of reduced matrices."""

    manifold: Manifold
    reduce: int | None
    features: str
    classes: Any
    manifold_: Manifold  # of the records, as it was when they were fitted
    classes_: np.ndarray
    classifier_: LinearClassifier

    def _fit_reduced(
        self, kind: Any, X: Any, y: Any, groups: Any, radius: Any = None
    ) -> None:
        records = open_records(X, check_manifold(self.manifold).point_shape)
        labels = records.labels(y, self.classes)
        if len(labels.classes) < 2:
            raise ParameterError("there is one class; at least 2 are needed")
        persons = None if groups is None else person_codes(groups, records.n)
        n = records.n if persons is None else int(persons.max()) + 1
        radius = (
            longest_features(self.features, self.reduce) if radius is None else radius
        )
        statistic = ReducedClasses(
            self.manifold,
            self.reduce,  # type: ignore[arg-type]  # None is refused there
            self.features,
            radius,
            len(labels.classes),
            n,
        )
        mechanism = kind.calibrate(statistic, self.guarantee)
        if not mechanism.has_enough_records:
            text = f"n = {n} at {self.guarantee} is small for {len(labels.classes)} classes: expect chance level"
            warnings.warn(text, ReleaseWarning, stacklevel=3)
        data = (records.array(), labels.codes, persons)  # chunks are refused by `array`
        privacy_unit = ProtectedUnit.LABELED_RECORD
        if persons is not None:
            privacy_unit = ProtectedUnit.LABELED_PERSON
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

    def predict(self, X: Any) -> Any:
        """The class with the largest score."""
        return self._applied(
            lambda records: self.classes_[np.argmax(self._scores(records), axis=1)],
            X,
            (),
        )

    def predict_proba(self, X: Any) -> Any:
        """Softmax of the scores, shape (n, classes)."""
        check_is_fitted(self)
        return self._applied(
            lambda records: softmax(self._scores(records), axis=-1),
            X,
            (len(self.classes_),),
        )

    def _scores(self, records: np.ndarray) -> np.ndarray:
        return self.classifier_.scores(records)

    def _applied(self, function: Any, X: Any, rest: tuple[int, ...]) -> Any:
        """A function of records, of a dask array by its chunks."""
        check_is_fitted(self)
        kind = np.dtype(np.float64) if rest else self.classes_.dtype
        return by_chunks(function, X, self.manifold_.point_shape, rest, kind)


@dataclass(eq=False, repr=False)
class PrivateSoftmax(ReducedClassifier):
    """Multinomial logistic regression on privately reduced covariance matrices. Labels are private.

    For many channels and few records (20 to 60 channels, some hundred trials), where the coordinates of a mean are too many.
    The records are reduced to `reduce` components by a private second moment before any logarithm is taken; ten noisy
    gradient steps follow. One guarantee, one charge, one certificate with its stages. No ball and no unit are asked for:
    every record is divided by its trace.

    Parameters
    ----------
    manifold, reduce : Manifold and int
        A space of covariance matrices, whose metric is not used, and how many components are kept.
    features, classes
        As in `PrivateMDM`, where labels are private.
    guarantee, ledger, label, source
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in order: a public set.
    classifier_, certificate_ : LinearClassifier and Certificate
        The released reduction and weights, and why they may be published.

    Notes
    -----
    Accuracy is nearly a function of nμ (docs/high-dimension.md). Below nμ = 100 a `ReleaseWarning` says so before anything is
    spent.

    Guarantees
    - errors are because of parameters, shapes and types, never of a record's values, and nothing is spent then;
    - `fit` meets `guarantee` for replacing one record together with its label, for ANY data; the set of classes is public;
    - with `groups`, for replacing one person with all their records and labels.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> y = np.arange(800) % 2
    >>> signals = np.random.default_rng(0).normal(size=(800, 8, 50)) * (1 + 2 * np.eye(8)[y])[:, :, None]
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
        """Release the classifier of covariance matrices X, shape (n, m, m), in any unit, by n labels y: private, but for the
        set of them. With `groups`, n ids that say whose record each is, a person with all records and labels is the unit."""
        self._validate_params()
        self._fit_reduced(ReducedSoftmax, X, y, groups)
        return self._warn_of_oddities()
