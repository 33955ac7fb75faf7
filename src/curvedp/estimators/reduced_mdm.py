"""Minimum distance to private class means of reduced covariance matrices.

One release serves all classes: a private reduction to few components, then the means of
the classes in the reduced features. Labels are private.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp.estimators.base import PrivateTransformer
from curvedp.estimators.softmax import ReducedClassifier
from curvedp.geometry.manifold import Manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.staged.reduced_classifier import ReducedMeans
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.statistics.reduced_classes import FEATURES


@dataclass(eq=False, repr=False)
class PrivateReducedMDM(PrivateTransformer, ReducedClassifier):
    """A classifier of large covariance matrices by the nearest private class mean.

    The records are reduced to `reduce` components by a private second moment, and each
    reduced record is divided by its trace. The released class means are means of the
    records' `features`. There is one guarantee, one charge and one certificate.
    `PrivateMDM(reduce=…)` is the same estimator under another name.

    Parameters
    ----------
    manifold : Manifold
        A space of covariance matrices, whose metric is not used.
    reduce : int
        How many components are kept.
    features : {"power", "log"}
        Whether the features are the square roots or the logarithms of the reduced
        matrices. A public choice.
    radius : float, optional
        A public bound on the length of the features; by default the largest possible.
    guarantee, ledger, label, source
        As in `PrivateFrechetMean`.
    classes : sequence of labels, optional
        The public set of classes. Any other label is replaced by the first class. By
        default it is the set of labels in `y`, which must be public then: it would
        reveal a class that has only one record.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in order: a public set.
    means_ : ndarray
        The private mean of the features of each class.
    classifier_ : LinearClassifier
        The released reduction and means.
    certificate_ : Certificate
        Why they may be published.

    Notes
    -----
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
    >>> PrivateReducedMDM(SPDAffineInvariant(8), reduce=3).fit(X, y).score(X, y) > 0.8
    True
    """

    _name = "class means"
    _column = "mdm"

    manifold: Manifold
    reduce: int = 8
    features: str = "power"
    radius: float | None = None
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    classes: Any = None

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """Return how many columns `transform` makes: one for each class."""
        return len(self.classes_)

    @property
    def means_(self) -> np.ndarray:
        """Return the private mean of the features of each class, shape (classes, features).

        The released score of a class is linear in the features, and its weights are
        twice the class mean. Half the weights are therefore the mean.
        """
        check_is_fitted(self)
        return np.asarray(self.classifier_.weights / 2)

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the reduction and the class means, and charge them to the ledger.

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
        _validate.choice("features", self.features, FEATURES)
        self._fit_reduced(ReducedMeans, X, y, groups, self.radius)
        return self._warn_of_oddities()

    def transform(self, X: Any) -> Any:
        """Return the distances of the records' features to the class means.

        Parameters
        ----------
        X : array of shape (n, m, m)
            Covariance matrices.

        Returns
        -------
        array of shape (n, classes)
        """
        check_is_fitted(self)
        return self._apply(self._feature_distances, X, (len(self.classes_),))

    def _feature_distances(self, records: np.ndarray) -> np.ndarray:
        """Return the distance of each record's features to each class mean."""
        features = self.classifier_.features(records)
        return np.asarray(np.linalg.norm(self.means_ - features[:, None], axis=-1))
