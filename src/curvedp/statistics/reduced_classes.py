"""A linear classifier of large covariance matrices after a private reduction. A matrix
divided by its trace is reduced to few released components. Its *features* are the
entries of the small matrix's square root or logarithm, clipped in length. Labels are
private.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import AtLeastTwo, Length, assign
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.spd_common import SPD, pack, unpack
from curvedp.numerics.eigen import eigh
from curvedp.statistics.second_moment import clip_rows

FEATURES = ("power", "log")

# Smallest eigenvalue of a matrix of trace 1 before its logarithm is taken.
_SMALLEST_EIGENVALUE = 1e-12


@dataclass(frozen=True, eq=False)
class ReducedClasses(Statistic):
    """A linear classifier of n labeled covariance matrices in a few components.

    Attributes
    ----------
    manifold : Manifold
        Of positive definite matrices; its metric is not used.
    components : int
        How many components the reduction keeps.
    features : {"power", "log"}
        The square root or the logarithm of the reduced matrix.
    radius : float
        A public bound on the length of the features.
    classes, n : int
        The number of classes, and of records or people.
    """

    manifold: Manifold
    components: int
    features: Annotated[str, partial(_validate.choice, options=FEATURES)]
    radius: Length
    classes: AtLeastTwo
    n: AtLeastTwo

    name: ClassVar[str] = "linear classifier of reduced matrices"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.LABELED_RECORD,
        ProtectedUnit.LABELED_PERSON,
    )

    def __post_init__(self) -> None:
        """Check every field, and that the records are covariance matrices.

        Raises
        ------
        ParameterError
            If the manifold is none of positive definite matrices, or more components
            are kept than the matrices have rows.
        """
        if not isinstance(check_manifold(self.manifold), SPD):
            raise ParameterError(
                "a reduction is for covariance matrices, that is SPD spaces, and not for "
                f"{self.manifold!r}"
            )
        components = _validate.integer("reduce", self.components, 1)
        channels = self.manifold.point_shape[0]
        if components > channels:
            raise ParameterError(
                f"is more than the {channels} channels",
                parameter="reduce",
                value=components,
            )
        assign(self, components=components)
        super().__post_init__()

    @property
    def value_space(self) -> Manifold:
        """The space of the covariance matrices."""
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """2/n, the sensitivity of a mean of n vectors of length at most 1.

        Every stage of the mechanism multiplies it by the bound on its own vectors.
        """
        return 2 / self.n

    @property
    def public_count(self) -> int:
        """The number n of records or people, which is public."""
        return self.n

    @property
    def feature_size(self) -> int:
        """The number k(k + 1)/2 of features of a record that is reduced to k components."""
        return self.components * (self.components + 1) // 2

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """The reduction is by leading eigenvectors of a noisy moment."""
        return (PostProcessing.LEADING_EIGENVECTORS,)


def default_feature_bound(features: Any, components: Any) -> float:
    """Return the default bound to which the features of a record are clipped.

    It is large enough to clip no useful features. With a matrix A of trace 1, the
    released directions U and their scales w (noisy eigenvalues of the mean matrix), the
    features are the entries of g(UAUᵀ) − g(diag w), g the square root or the logarithm,
    so that their length is at most ‖g(UAUᵀ)‖ + ‖g(diag w)‖. Unless w is all noise, that
    is below 3 for the square root, and below 60·√k for logarithms of eigenvalues
    between 1e-12 and 1.

    Parameters
    ----------
    features : object
        "power" for the square root or "log" for the logarithm.
    components : object
        The number k of components that are kept.

    Returns
    -------
    float
        The bound, to which the noise of the classifier is proportional.

    Raises
    ------
    ParameterError
        If either is something else.
    """
    root = sqrt(_validate.integer("reduce", components, 1))
    if _validate.choice("features", features, FEATURES) == "power":
        return 3.0
    return 60 * root


class LabeledMatrices(NamedTuple):
    """Prepared matrices with class labels, and perhaps with persons. NOT private.

    Attributes
    ----------
    matrices : array, shape (records, m, m)
        Positive semidefinite matrices of trace 1.
    class_index : array of int, shape (records,)
        The class of each record, from 0.
    person_index : array of int, shape (records,), or None
        The person of each record; None if each has their own.
    """

    matrices: np.ndarray
    class_index: np.ndarray
    person_index: np.ndarray | None = None


class Reduction(NamedTuple):
    """The released reduction: k directions, in rows, and their scales.

    Attributes
    ----------
    directions : array, shape (k, m)
        The leading eigenvectors of the noisy mean matrix, in rows.
    scales : array, shape (k,)
        Their noisy eigenvalues, at least as large as the noise. A matrix whose
        reduction is diag(scales) has features of 0.
    features : {"power", "log"}
        Whether features are those of the square root or of the logarithm.
    """

    directions: np.ndarray
    scales: np.ndarray
    features: str

    def to_features(self, matrices: np.ndarray) -> np.ndarray:
        """Return features of matrices of trace 1, shape (n, k(k+1)/2).

        With the directions U in rows, B = UAUᵀ, and g the square root or the logarithm,
        the features of A are the entries of g(B) − g(diag(scales)). Each row depends on
        its own matrix alone.

        Parameters
        ----------
        matrices : array of shape (n, m, m)
            Positive semidefinite matrices of trace 1.

        Returns
        -------
        array of shape (n, k(k+1)/2)
            The upper triangles, those off the diagonal times √2, so that the length of
            a row is the Frobenius norm.
        """
        reduced = self.directions @ matrices @ self.directions.T
        eigenvalues, eigenvectors = eigh((reduced + reduced.mT) / 2)
        function = np.sqrt if self.features == "power" else np.log
        mapped_values = function(np.maximum(eigenvalues, _SMALLEST_EIGENVALUE))
        mapped = (eigenvectors * mapped_values[..., None, :]) @ eigenvectors.mT
        origin = np.diag(function(self.scales))
        return np.asarray(pack((mapped + mapped.mT) / 2) - pack(origin))

    def from_features(self, features: np.ndarray) -> np.ndarray:
        """Return the reduced matrices that have given features: `to_features` reversed.

        It shows released means of features as matrices.

        Parameters
        ----------
        features : array of shape (n, k(k+1)/2)
            Such as the mean features of classes.

        Returns
        -------
        array of shape (n, k, k)
            Positive semidefinite matrices: the square, or the exponential, of the
            symmetric matrices with these entries. Noise may have made an eigenvalue of
            a square root negative; it counts as 0.
        """
        components = len(self.scales)
        function = np.sqrt if self.features == "power" else np.log
        origin = np.diag(function(self.scales))
        mapped = np.asarray(unpack(features, components)) + origin
        eigenvalues, eigenvectors = eigh((mapped + mapped.mT) / 2)
        if self.features == "power":
            values = np.maximum(eigenvalues, 0.0) ** 2
        else:
            values = np.exp(eigenvalues)
        return np.asarray((eigenvectors * values[..., None, :]) @ eigenvectors.mT)


class LinearClassifier(NamedTuple):
    """A released classifier: scores are features·weights + bias.

    Attributes
    ----------
    reduction : Reduction
        The released directions, by which a record is reduced to features.
    radius : float
        Features are clipped to this length.
    weights : array, shape (classes, features)
        The weight of each feature for each class.
    bias : array, shape (classes,)
        The score of each class for features of 0.
    """

    reduction: Reduction
    radius: float
    weights: np.ndarray
    bias: np.ndarray

    def features(self, records: np.ndarray) -> np.ndarray:
        """Return the clipped features of records, by which classes are told apart.

        Records are divided by their trace first, so their unit of measurement does not
        matter.

        Parameters
        ----------
        records : array of shape (n, m, m)
            Covariance matrices. Entries may be anything.

        Returns
        -------
        array of shape (n, features)
            Rows of length at most `radius`.
        """
        with np.errstate(all="ignore"):  # a record that is no matrix is no warning
            features = self.reduction.to_features(normalize_matrices(records))
            return clip_rows(features, self.radius)

    def scores(self, records: np.ndarray) -> np.ndarray:
        """Return the score of each class for each record: the larger, the likelier.

        Parameters
        ----------
        records : array of shape (n, m, m)
            Covariance matrices. Entries may be anything.

        Returns
        -------
        array of shape (n, classes)
            features·weightsᵀ + bias.
        """
        return np.asarray(self.features(records) @ self.weights.T + self.bias)


def normalize_matrices(records: np.ndarray) -> np.ndarray:
    """Return positive semidefinite matrices of trace 1, whatever the records are.

    A record from which no such matrix can be made becomes I/m.

    Parameters
    ----------
    records : array of shape (n, m, m)
        The records; entries may be anything.

    Returns
    -------
    array of shape (n, m, m)
        Negative eigenvalues, from noise or rounding, have become 0.
    """
    size = records.shape[-1]
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        largest = np.abs(records).max(axis=(-2, -1), keepdims=True)
        unit = records / np.where(largest > 0, largest, 1.0)
        eigenvalues, eigenvectors = eigh((unit + unit.mT) / 2)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        trace = eigenvalues.sum(axis=-1, keepdims=True)
        matrices = (
            eigenvectors * (eigenvalues / trace)[..., None, :]
        ) @ eigenvectors.mT
        is_finite = np.isfinite(matrices).all(axis=(-2, -1), keepdims=True)
        symmetric = (matrices + matrices.mT) / 2
        return np.asarray(np.where(is_finite, symmetric, np.eye(size) / size))
