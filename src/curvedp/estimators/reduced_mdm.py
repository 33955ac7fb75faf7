"""Minimum distance to private class means of reduced covariance matrices.
One release serves all classes: a private reduction to few components, then the means of
the classes in the reduced features. Labels are private.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

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

# An average power below this part of the largest one counts as this part.
_SMALLEST_POWER = 1e-3


class ClassPatterns(NamedTuple):
    """The sources in which each class differs from the average of all classes.

    Attributes
    ----------
    classes : array
        The labels.
    power_ratios : array, shape (classes, k)
        The power of each source in the class, relative to that in the average of all
        classes; the largest first.
    channels : array, shape (classes, k, m)
        The pattern of each source in the channels. The largest entry is positive,
        because the sign of a source is arbitrary.
    """

    classes: np.ndarray
    power_ratios: np.ndarray
    channels: np.ndarray


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
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
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
    mean_matrices_ : ndarray, shape (classes, reduce, reduce)
        The class means as matrices in the components.
    classifier_ : LinearClassifier
        The released reduction and means.
    certificate_ : Certificate
        The certificate of the release.

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
        """Return the private mean of the features of each class.

        The shape is (classes, features). The released score of a class is linear in the
        features, and its weights are twice the class mean.
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
        return self._warn_after_release()

    @property
    def mean_matrices_(self) -> np.ndarray:
        """Return the mean of each class as a reduced matrix, shape (classes, k, k).

        It is the matrix that has the class's mean features: the power mean of the
        reduced matrices with exponent 1/2, or with `features="log"` their log-Euclidean
        mean. Records were divided by their trace before. This is post-processing.
        """
        check_is_fitted(self)
        return self.classifier_.reduction.from_features(self.means_)

    def channel_means(self) -> np.ndarray:
        """Return the class means in the channels of the records, of rank k.

        With U the m channels by k released components and B a mean matrix, the mean is
        U·B·Uᵀ: the part of the covariance that the components carry, as a fraction of
        the whole trace.

        Returns
        -------
        array of shape (classes, m, m)
            One symmetric matrix for each class.
        """
        directions = self.classifier_.reduction.directions
        return np.asarray(directions.T @ self.mean_matrices_ @ directions)

    def patterns(self) -> ClassPatterns:
        """Return how strongly each class's sources appear in each channel.

        For each class the reduced mean B of the class is compared with the average Ā
        over all classes: B·v = λ·Ā·v (common spatial patterns; Blankertz et al. 2008).
        The filter v has the pattern Ā·v, which says where the source is seen (Haufe et
        al. 2014); U·Ā·v is in channels. This is post-processing of the release.

        Returns
        -------
        ClassPatterns
            For each class the sources, from the one whose power differs most.

        Examples
        --------
        >>> import numpy as np
        >>> from curvedp.geometry import SPDAffineInvariant
        >>> y = np.arange(900) % 2
        >>> scales = (1 + 2 * np.eye(8)[y])[:, :, None]
        >>> signals = np.random.default_rng(0).normal(size=(900, 8, 50)) * scales
        >>> X = signals @ signals.mT / 50
        >>> patterns = PrivateReducedMDM(SPDAffineInvariant(8), reduce=3).fit(X, y).patterns()
        >>> [int(channel) for channel in np.abs(patterns.channels[:, 0]).argmax(axis=1)]
        [0, 1]
        """
        means = self.mean_matrices_
        average_root, average_inverse_root = _roots_of_average(means.mean(axis=0))

        # With w = Ā^(1/2)·v the equation is Ā^(-1/2)·B·Ā^(-1/2)·w = λ·w.
        whitened_means = average_inverse_root @ means @ average_inverse_root
        ratios, sources = np.linalg.eigh(whitened_means)
        order = np.argsort(-ratios, axis=1)  # the largest ratio of each class first
        ratios = np.take_along_axis(ratios, order, axis=1)
        sources = np.take_along_axis(sources, order[:, np.newaxis, :], axis=2)

        # The pattern Ā·v of v = Ā^(-1/2)·w is Ā^(1/2)·w.
        reduced_patterns = (average_root @ sources).mT
        patterns = reduced_patterns @ self.classifier_.reduction.directions

        # An eigenvector has no sign: make the largest entry of each pattern positive.
        largest = np.argmax(np.abs(patterns), axis=2)[..., np.newaxis]
        signs = np.sign(np.take_along_axis(patterns, largest, axis=2))
        return ClassPatterns(self.classes_, ratios, signs * patterns)

    def transform(self, X: Any) -> Any:
        """Return the distances of the records' features to the class means.

        Parameters
        ----------
        X : array of shape (n, m, m)
            Covariance matrices.

        Returns
        -------
        array of shape (n, classes)
            Euclidean distances in the space of features.
        """
        check_is_fitted(self)
        return self._apply(self._feature_distances, X, (len(self.classes_),))

    def _feature_distances(self, records: np.ndarray) -> np.ndarray:
        """Return the distance of each record's features to each class mean.

        Parameters
        ----------
        records : array of shape (n, m, m)
            Covariance matrices.

        Returns
        -------
        array of shape (n, classes)
            Euclidean distances in the space of features.
        """
        features = self.classifier_.features(records)
        return np.asarray(
            np.linalg.norm(self.means_ - features[:, np.newaxis], axis=-1)
        )


def _roots_of_average(average: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the roots Ā^(1/2) and Ā^(-1/2) of an average Ā of reduced matrices.

    Parameters
    ----------
    average : array, shape (k, k)
        The average Ā, a symmetric matrix with noise.

    Returns
    -------
    root, inverse_root : arrays of shape (k, k)
        The symmetric roots. Tiny eigenvalues, which are noise, are raised first, so
        that nothing is divided by them.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(average)
    smallest = _SMALLEST_POWER * max(float(eigenvalues[-1]), 1e-300)
    roots = np.sqrt(np.maximum(eigenvalues, smallest))
    root = (eigenvectors * roots) @ eigenvectors.T
    inverse_root = (eigenvectors / roots) @ eigenvectors.T
    return root, inverse_root
