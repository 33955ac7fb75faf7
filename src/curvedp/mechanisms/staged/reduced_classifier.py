"""Private classifiers of large covariance matrices: reduce first, then learn few numbers.

All of it is one release in stages: a quantile of norms, a noisy second moment whose
leading eigenvectors are the reduction, a quantile of feature lengths, and a linear
classifier of the features. Labels are private. docs/high-dimension.md says what each
stage releases, how far it moves and why, for records and for people. Shares, steps and
rate are those of a measured prototype.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import ceil, log2, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp.core.capabilities import NeedsManyRecords, PredictsError
from curvedp.core.mechanism import MechanismInfo
from curvedp.core.statistic import Statistic
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.spd_common import pack, unpack
from curvedp.mechanisms.staged.budget import (
    StageBudget,
    StagedMechanism,
    StagedResult,
)
from curvedp.mechanisms.staged.quantile_search import DEFAULT_QUERIES, BinarySearch
from curvedp.mechanisms.staged.queries import Answer, mean_sensitivity
from curvedp.mechanisms.vector import AddNoise
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.privacy import Guarantee
from curvedp.statistics.reduced_classes import (
    FEATURES,
    LabeledMatrices,
    LinearClassifier,
    ReducedClasses,
    Reduction,
    longest_features,
    normalize_matrices,
)
from curvedp.statistics.second_moment import clip_rows

# Shares of the budget.
_NORM_SHARE = 0.04
_MOMENT_SHARE = 0.30
_RADIUS_SHARE = 0.06
_COUNT_SHARE = 0.03

# Of the softmax: gradient steps, their rate, and the constant feature beside those of
# length at most 1.
_SOFTMAX_STEPS = 10
_SOFTMAX_RATE = 8.0
_INTERCEPT = 0.3

# nμ from which on the measured prototype is of use.
_ENOUGH_N_MU = 100

# Numbers of components that `plan` compares where nobody has chosen.
_COMPARED_COMPONENTS = (6, 8, 12)

# Of a simulated study: records at most, new records it is tried on, and releases.
_SIMULATED_RECORDS = 1000
_NEW_RECORDS = 200
_SIMULATED_RELEASES = 4


class WeightsAndBias(NamedTuple):
    """A linear classifier: weights, shape (classes, features), and bias, shape (classes,)."""

    weights: np.ndarray
    bias: np.ndarray


class ClassifierQueries(NamedTuple):
    """Questions about n labeled matrices; without data every answer is zero.

    Attributes
    ----------
    n : int
        The number of records, or of people.
    data : LabeledMatrices, optional
    """

    n: int
    data: LabeledMatrices | None = None

    def mean(self, terms: Callable[..., np.ndarray], bound: float, size: int) -> Answer:
        """Return the mean of rows of length at most `bound`, and its sensitivity.

        Parameters
        ----------
        terms : function of (matrices, class_index)
            Makes the rows.
        bound : float
        size : int
            The length of a row.
        """
        grid = FixedPoint(2 * bound)
        mean = np.zeros(size)
        if self.data is not None:
            with np.errstate(all="ignore"):  # a data-dependent warning is a release
                rows = terms(self.data.matrices, self.data.class_index)
                rows = _average_by_person(rows, self.data.person_index)
            mean = grid.mean(grid.sums(rows), self.n)
        return Answer(mean, mean_sensitivity(bound, grid, size, self.n))

    def count_beyond(
        self, length_of: Callable[[np.ndarray], np.ndarray], radii: np.ndarray
    ) -> np.ndarray:
        """Return how many records (people: their means) are longer than each radius."""
        if self.data is None:
            return np.zeros(len(radii))
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            lengths = length_of(self.data.matrices)[:, None]
            lengths = _average_by_person(lengths, self.data.person_index)[:, 0]
        ordered = np.sort(lengths)
        n_within = np.searchsorted(ordered, radii, side="right")
        return np.asarray(len(ordered) - n_within, dtype=np.float64)


def _average_by_person(rows: np.ndarray, person_index: np.ndarray | None) -> np.ndarray:
    """Return one row for each person: the average of their own, in the order of indices."""
    if person_index is None:
        return rows
    order = np.argsort(person_index, kind="stable")
    starts = np.flatnonzero(np.diff(person_index[order], prepend=-1))
    counts = np.diff([*starts, len(rows)])[:, None]
    return np.asarray(np.add.reduceat(rows[order], starts) / counts)


class ReducedMechanism(StagedMechanism, PredictsError, NeedsManyRecords):
    """A private reduction, then what a subclass learns of the features.

    The guarantee is μ-GDP with μ = 1/`scale` for replacing a record together with its
    label, for ANY records.
    """

    statistic: ReducedClasses

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        return isinstance(statistic, ReducedClasses)

    @property
    def has_enough_records(self) -> bool:
        """Whether nμ is large enough for the classifier to be of use."""
        return bool(self.statistic.n / self.scale >= _ENOUGH_N_MU)

    def prepare_data(self, data: Any) -> LabeledMatrices:
        """Return normalized matrices with their classes and people.

        Parameters
        ----------
        data : (records, class_index) or (records, class_index, person_index)
        """
        records, class_index, *person_index = data
        matrices = normalize_matrices(np.asarray(records, dtype=np.float64))
        return LabeledMatrices(matrices, np.asarray(class_index), *person_index)

    def queries(self, data: LabeledMatrices | None = None) -> ClassifierQueries:
        return ClassifierQueries(self.statistic.n, data)

    def run(self, queries: ClassifierQueries, add_noise: AddNoise) -> StagedResult:
        """Find the reduction and the features' length, then learn the classifier."""
        budget = StageBudget(self.scale, add_noise)
        reduction = self._reduce(queries, budget)

        def feature_length(matrices: np.ndarray) -> np.ndarray:
            return np.asarray(np.linalg.norm(reduction.features_of(matrices), axis=-1))

        radius = self._largest_length(
            queries, budget, feature_length, self.statistic.radius, _RADIUS_SHARE
        )
        learned = self._learn(budget, queries, reduction, radius)
        classifier = LinearClassifier(reduction, radius, learned.weights, learned.bias)
        return StagedResult(classifier, budget)

    def _reduce(self, queries: ClassifierQueries, budget: StageBudget) -> Reduction:
        """Return the leading eigenvectors of a noisy mean matrix, and their eigenvalues."""
        statistic = self.statistic
        channels = statistic.manifold.point_shape[0]

        def matrix_norm(matrices: np.ndarray) -> np.ndarray:
            return np.asarray(np.linalg.norm(matrices, axis=(-2, -1)))

        largest_norm = self._largest_length(
            queries, budget, matrix_norm, 1.0, _NORM_SHARE
        )

        def clipped_entries(matrices: np.ndarray, _: np.ndarray) -> np.ndarray:
            return clip_rows(np.asarray(pack(matrices)), largest_norm)

        size = channels * (channels + 1) // 2
        answer = queries.mean(clipped_entries, largest_norm, size)
        # Matrices have nonnegative products, so two of length L differ by at most √2·L.
        sensitivity = answer.sensitivity / sqrt(2)
        moment, noise_std = budget.release(
            "moment", _MOMENT_SHARE, sensitivity, answer.values
        )
        eigenvalues, eigenvectors = np.linalg.eigh(np.asarray(unpack(moment, channels)))
        leading = slice(None, -statistic.components - 1, -1)
        scales = np.maximum(eigenvalues[leading], noise_std)
        return Reduction(eigenvectors[:, leading].T, scales, statistic.features)

    def _largest_length(
        self,
        queries: ClassifierQueries,
        budget: StageBudget,
        length_of: Callable[[np.ndarray], np.ndarray],
        largest: float,
        share: float,
    ) -> float:
        """Return a length that few records exceed: twice the noise of their count."""
        count_noise = self.scale * sqrt(DEFAULT_QUERIES / share)
        allowed_outside = min(queries.n / 2, 2 * count_noise)

        def count_beyond(radii: np.ndarray) -> np.ndarray:
            return queries.count_beyond(length_of, radii)

        return BinarySearch().find(
            budget, count_beyond, largest, allowed_outside, share
        )

    @abstractmethod
    def _learn(
        self,
        budget: StageBudget,
        queries: ClassifierQueries,
        reduction: Reduction,
        radius: float,
    ) -> WeightsAndBias:
        """Learn a linear classifier of the features with everything that is left."""

    def predict_error(self) -> float:
        """Return the share of new records that simulated releases misclassify.

        What is learned depends on nμ, so a smaller study with less noise stands for a
        large one.
        """
        statistic = self.statistic
        n = min(statistic.n, _SIMULATED_RECORDS)
        small = type(self)(
            statistic=replace(statistic, n=n), scale=self.scale * n / statistic.n
        )
        channels = statistic.manifold.point_shape[0]
        matrices, labels = _simulated_trials(
            channels, statistic.classes, n + _NEW_RECORDS
        )
        queries = ClassifierQueries(n, LabeledMatrices(matrices[:n], labels[:n]))
        new_matrices = matrices[n:]
        new_labels = labels[n:]

        rng = np.random.default_rng(20231116)
        error_rates = []
        for _ in range(_SIMULATED_RELEASES):
            classifier = small.run(queries, small.simulated_noise(rng)).value
            features = classifier.reduction.features_of(new_matrices)
            clipped = clip_rows(features, classifier.radius)
            scores = clipped @ classifier.weights.T + classifier.bias
            error_rates.append(np.mean(np.argmax(scores, axis=1) != new_labels))
        return float(np.mean(error_rates))


class ReducedMeans(ReducedMechanism):
    """The nearest class mean of the features.

    |f − m|² is linear in f up to |f|², which is the same for all classes.
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "reduced-means", reads="array", is_staged=True
    )

    def _learn(
        self,
        budget: StageBudget,
        queries: ClassifierQueries,
        reduction: Reduction,
        radius: float,
    ) -> WeightsAndBias:
        """Release noisy sums of features by class, and return the nearest-mean rule."""
        n_classes = self.statistic.classes
        n_features = self.statistic.feature_size
        class_shares = self._release_class_shares(budget, queries)

        def features_by_class(
            matrices: np.ndarray, class_index: np.ndarray
        ) -> np.ndarray:
            """Return each record's features in the columns of its class, zeros elsewhere."""
            rows = clip_rows(reduction.features_of(matrices), radius)
            one_hot = np.eye(n_classes)[class_index]
            return np.asarray(
                (one_hot[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            )

        # A public power of two, so that the grid is fine in any unit of the features.
        unit = 2.0 ** ceil(log2(radius))
        answer = queries.mean(features_by_class, radius, n_classes * n_features)
        sums, noise_std = budget.release(
            "sums", 1.0, answer.sensitivity / unit, answer.values / unit
        )
        means = unit * sums.reshape(n_classes, n_features) / class_shares[:, None]
        # The noise has a known share in |m|².
        noise_square = n_features * (unit * noise_std / class_shares) ** 2
        squared_lengths = (means**2).sum(axis=1) - noise_square
        return WeightsAndBias(2 * means, -squared_lengths)

    def _release_class_shares(
        self, budget: StageBudget, queries: ClassifierQueries
    ) -> np.ndarray:
        """Release the share of records in each class; none is next to nothing."""
        n_classes = self.statistic.classes

        def one_hot(_: np.ndarray, class_index: np.ndarray) -> np.ndarray:
            return np.asarray(np.eye(n_classes)[class_index])

        answer = queries.mean(one_hot, 1.0, n_classes)
        sensitivity = answer.sensitivity / sqrt(2)
        shares = budget.release(
            "counts", _COUNT_SHARE, sensitivity, answer.values
        ).values
        # Noise may have nearly removed a class.
        return np.asarray(np.maximum(shares, 1 / (4 * n_classes)))


class ReducedSoftmax(ReducedMechanism):
    """Multinomial logistic regression on the features by full noisy gradient steps."""

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "reduced-softmax", reads="array", is_staged=True
    )

    def _learn(
        self,
        budget: StageBudget,
        queries: ClassifierQueries,
        reduction: Reduction,
        radius: float,
    ) -> WeightsAndBias:
        """Return the coefficients after noisy gradient steps from zero."""
        n_classes = self.statistic.classes
        coefficients = np.zeros((n_classes, self.statistic.feature_size + 1))
        step_share = budget.share_left / _SOFTMAX_STEPS
        for step in range(_SOFTMAX_STEPS):
            is_last = step == _SOFTMAX_STEPS - 1
            share = budget.share_left if is_last else step_share
            gradients = _softmax_gradients(reduction, radius, coefficients)
            answer = queries.mean(gradients, 1.0, coefficients.size)
            noisy = budget.release(
                "gradient", share, answer.sensitivity, answer.values
            ).values
            coefficients = coefficients - _SOFTMAX_RATE * noisy.reshape(
                coefficients.shape
            )
        weights = coefficients[:, :-1] / radius
        return WeightsAndBias(weights, _INTERCEPT * coefficients[:, -1])


def _softmax_gradients(
    reduction: Reduction, radius: float, coefficients: np.ndarray
) -> Callable[..., np.ndarray]:
    """Return the function that makes each record's gradient of the softmax loss.

    Rows are clipped to length 1.
    """

    def gradients(matrices: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Return one row per record: (probabilities − one-hot) ⊗ features, clipped."""
        features = clip_rows(reduction.features_of(matrices), radius) / radius
        intercepts = np.full((len(features), 1), _INTERCEPT)
        rows = np.concatenate([features, intercepts], axis=1)
        scores = rows @ coefficients.T
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        residuals = probabilities - np.eye(len(coefficients))[class_index]
        outer_products = residuals[:, :, None] * rows[:, None, :]
        return clip_rows(outer_products.reshape(len(rows), -1), 1.0)

    return gradients


def candidate_classifiers(
    manifold: Manifold, n: int, classes: int, guarantee: Guarantee
) -> dict[str, ReducedMechanism]:
    """Return the classifiers that `plan` compares, by the call that makes them."""
    mechanism_of_call: dict[str, type[ReducedMechanism]] = {
        "PrivateMDM": ReducedMeans,
        "PrivateSoftmax": ReducedSoftmax,
    }
    channels = manifold.point_shape[0]
    candidates: dict[str, ReducedMechanism] = {}
    for call, features, compared in product(
        mechanism_of_call, FEATURES, _COMPARED_COMPONENTS
    ):
        components = min(compared, channels)
        radius = longest_features(features, components)
        statistic = ReducedClasses(manifold, components, features, radius, classes, n)
        name = f"{call}(reduce={components}, features={features!r})"
        candidates[name] = mechanism_of_call[call].calibrate(statistic, guarantee)
    return candidates


@lru_cache(maxsize=2)
def _simulated_trials(
    channels: int, classes: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return public matrices of trace 1 and their classes, for predicted errors.

    A record is the covariance of 200 samples of a background, whose components fall by
    a fifth each and vary between records, and of a source that depends on the class,
    twice as strong, in the span of the six leading components.
    """
    rng = np.random.default_rng(7)
    n_leading = min(channels, max(6, classes))
    directions = np.linalg.qr(rng.normal(size=(channels, channels)))[0]
    mixing = directions * 0.8 ** np.arange(channels)
    rotation = np.linalg.qr(rng.normal(size=(n_leading, n_leading)))[0]
    sources = mixing[:, :n_leading] @ rotation
    labels = rng.integers(classes, size=n)
    strength = (
        2 * np.exp(0.25 * rng.normal(size=(n, 1, 1))) * rng.normal(size=(n, 1, 200))
    )
    background = np.exp(0.5 * rng.normal(size=(n, channels, 1))) * rng.normal(
        size=(n, channels, 200)
    )
    source_of_record = sources.T[labels % n_leading][:, :, None]
    signals = mixing @ background + source_of_record * strength
    return normalize_matrices(signals @ signals.mT), labels
