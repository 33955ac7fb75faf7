"""Private classifiers of large covariance matrices, in one release. A released
*reduction* maps each matrix to a small one of few components. Its *features*, the
entries of the small matrix's square root or logarithm, are clipped to a released
*radius*. A linear classifier learns from them.

Labels are private, too. All of it is one release in stages: a quantile of matrix norms,
a noisy second moment whose leading eigenvectors are the reduction, a quantile of
feature lengths, and the classifier. docs/howto/high-dimensional-covariances.md says
what each stage releases, what its sensitivity is and why, for records and for people.
The fractions of the budget, the number of steps and their rate are those of a measured
prototype.
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
    REMAINING_BUDGET,
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
    default_feature_bound,
    normalize_matrices,
)
from curvedp.statistics.second_moment import clip_rows

# Fractions of the privacy budget, by stage. The classifier has what is left.
_NORM_SHARE = 0.04
_MOMENT_SHARE = 0.30
_RADIUS_SHARE = 0.06
_COUNT_SHARE = 0.03

# The number of gradient steps of the softmax, and their rate.
_SOFTMAX_STEPS = 10
_SOFTMAX_RATE = 8.0
# The value of a constant feature, whose coefficient acts as a bias. The vector of the
# other features has length at most 1.
_INTERCEPT = 0.3

# The smallest product nμ for which a measured prototype was better than guessing.
_ENOUGH_N_MU = 100

# The numbers of components that `plan` compares if the user has chosen none.
_COMPARED_COMPONENTS = (6, 8, 12)

# A simulated study has at most this many records, is tried on this many new records,
# and is released this many times, with a public seed.
_SIMULATED_RECORDS = 1000
_NEW_RECORDS = 200
_SIMULATED_RELEASES = 4
_SIMULATION_SEED = 20231116

# Simulated trials for predicted errors (`_simulated_trials`): their public seed, the
# samples of a trial, the amplitude of each background component over the previous one,
# and the number of leading components that hold the sources.
_TRIALS_SEED = 7
_SAMPLES_PER_TRIAL = 200
_AMPLITUDE_RATIO = 0.8
_LEADING_COMPONENTS = 6


class WeightsAndBias(NamedTuple):
    """The parameters of a linear classifier, whose scores are weights @ features + bias.

    Attributes
    ----------
    weights : array of shape (classes, features)
        One row of weights for each class.
    bias : array of shape (classes,)
        The bias of each class.
    """

    weights: np.ndarray
    bias: np.ndarray


class ClassifierQueries(NamedTuple):
    """Exact counts and means of labeled matrices. NOT private.

    Attributes
    ----------
    n : int
        The public number of records, or of people if records belong to people.
    data : LabeledMatrices, optional
        The records. If they are None, as in a replay, all answers are zero.
    """

    n: int
    data: LabeledMatrices | None = None

    def mean(self, terms: Callable[..., np.ndarray], bound: float, size: int) -> Answer:
        """Return the mean over all records, or people, of a vector-valued function.

        A person's vector is the average over their records.

        Parameters
        ----------
        terms : function of (matrices, class_index)
            Returns one row for each record. No row is longer than `bound`.
        bound : float
            The largest length of a row.
        size : int
            The number of entries of a row.

        Returns
        -------
        Answer
            The mean, shape (size,), and its sensitivity.
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
        self, length_function: Callable[[np.ndarray], np.ndarray], radii: np.ndarray
    ) -> np.ndarray:
        """Return how many records, or people, have a length above each of several radii.

        Each count has sensitivity 1.

        Parameters
        ----------
        length_function : function of matrices
            Returns the length of each matrix. A person's length is the average over
            their records.
        radii : array
            The public radii.

        Returns
        -------
        array
            One count for each radius.
        """
        if self.data is None:
            return np.zeros(len(radii))
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            lengths = length_function(self.data.matrices)[:, None]
            lengths = _average_by_person(lengths, self.data.person_index)[:, 0]
        ordered = np.sort(lengths)
        n_within = np.searchsorted(ordered, radii, side="right")
        return np.asarray(len(ordered) - n_within, dtype=np.float64)


def _average_by_person(rows: np.ndarray, person_index: np.ndarray | None) -> np.ndarray:
    """Return the average of each person's rows.

    Parameters
    ----------
    rows : array of shape (records, size)
        One row for each record.
    person_index : array of int, shape (records,), or None
        The index, from 0, of the person to whom each row belongs. If it is None, each
        person has one row, and the rows are returned unchanged.

    Returns
    -------
    array of shape (people, size)
        The averages, in the order of the people's indices.
    """
    if person_index is None:
        return rows
    order = np.argsort(person_index, kind="stable")
    # After sorting, a person's rows begin where the index changes.
    starts = np.flatnonzero(np.diff(person_index[order], prepend=-1))
    rows_per_person = np.diff([*starts, len(rows)])[:, None]
    return np.asarray(np.add.reduceat(rows[order], starts) / rows_per_person)


class ReducedMechanism(StagedMechanism, PredictsError, NeedsManyRecords):
    """Base class: reduce matrices to a few private components, then learn a classifier.

    Subclasses say how the classifier is learned. The guarantee is μ-GDP with
    μ = 1/`scale` for replacing a record together with its label, for ANY records.
    """

    statistic: ReducedClasses

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a classifier of reduced matrices."""
        return isinstance(statistic, ReducedClasses)

    @property
    def has_enough_records(self) -> bool:
        """Whether nμ is large enough for a classifier that is better than guessing.

        Here n is the number of records or people, and μ = 1/`scale` the parameter of
        Gaussian DP. The threshold was measured.
        """
        return bool(self.statistic.n / self.scale >= _ENOUGH_N_MU)

    def prepare_data(self, data: Any) -> LabeledMatrices:
        """Return the records as matrices of trace 1, with their classes and people.

        Parameters
        ----------
        data : (records, class_index) or (records, class_index, person_index)
            The records have shape (k, channels, channels); the indices have shape (k,).

        Returns
        -------
        LabeledMatrices
            The matrices and their indices, as the stages read them.
        """
        records, class_index, *person_index = data
        matrices = normalize_matrices(np.asarray(records, dtype=np.float64))
        return LabeledMatrices(matrices, np.asarray(class_index), *person_index)

    def queries(self, data: LabeledMatrices | None = None) -> ClassifierQueries:
        """Return an object that computes counts and means of matrices, without noise.

        Parameters
        ----------
        data : LabeledMatrices, optional
            The matrices as `prepare_data` returns them. None in a replay, where all
            answers are zeros.
        """
        return ClassifierQueries(self.statistic.n, data)

    def run(self, queries: ClassifierQueries, add_noise: AddNoise) -> StagedResult:
        """Release the reduction, a bound on the length of features, and the classifier.

        Parameters
        ----------
        queries : ClassifierQueries
            Computes counts and means of the private records, before noise is added. In
            a replay all answers are zeros.
        add_noise : function of (values, scales)
            Returns the values plus noise. In a replay it ignores the values and returns
            the recorded draws.

        Returns
        -------
        StagedResult
            Its value is a `LinearClassifier`.
        """
        budget = StageBudget(self.scale, add_noise)
        reduction = self._release_reduction(queries, budget)

        def feature_length(matrices: np.ndarray) -> np.ndarray:
            """Return the length of the feature vector of each matrix."""
            return np.asarray(np.linalg.norm(reduction.to_features(matrices), axis=-1))

        radius = self._largest_length(
            queries, budget, feature_length, self.statistic.radius, _RADIUS_SHARE
        )
        learned = self._learn_classifier(budget, queries, reduction, radius)
        classifier = LinearClassifier(reduction, radius, learned.weights, learned.bias)
        return StagedResult(classifier, budget)

    def _release_reduction(
        self, queries: ClassifierQueries, budget: StageBudget
    ) -> Reduction:
        """Release the leading eigenvectors of the noisy mean matrix.

        Matrices are first clipped to a norm that few of them exceed. This norm is
        released, too.

        Parameters
        ----------
        queries : ClassifierQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The budget, which is charged for the norm and for the mean matrix.

        Returns
        -------
        Reduction
            The eigenvectors and their eigenvalues. Eigenvalues below the standard
            deviation of the noise are raised to it.
        """
        statistic = self.statistic
        channels = statistic.manifold.point_shape[0]

        def matrix_norm(matrices: np.ndarray) -> np.ndarray:
            """Return the Frobenius norm of each matrix."""
            return np.asarray(np.linalg.norm(matrices, axis=(-2, -1)))

        largest_norm = self._largest_length(
            queries, budget, matrix_norm, 1.0, _NORM_SHARE
        )

        def clipped_entries(matrices: np.ndarray, _: np.ndarray) -> np.ndarray:
            """Return the entries of each matrix as a row, clipped to the largest norm."""
            return clip_rows(np.asarray(pack(matrices)), largest_norm)

        n_entries = channels * (channels + 1) // 2
        mean_matrix = queries.mean(clipped_entries, largest_norm, n_entries)
        # Positive semidefinite matrices have nonnegative inner products, so two of norm
        # L differ by at most √2·L instead of 2L.
        sensitivity = mean_matrix.sensitivity / sqrt(2)
        moment, noise_std = budget.release(
            "moment", _MOMENT_SHARE, sensitivity, mean_matrix.values
        )

        # eigh sorts eigenvalues in ascending order.
        eigenvalues, eigenvectors = np.linalg.eigh(np.asarray(unpack(moment, channels)))
        leading = slice(None, -statistic.components - 1, -1)
        scales = np.maximum(eigenvalues[leading], noise_std)
        return Reduction(eigenvectors[:, leading].T, scales, statistic.features)

    def _largest_length(
        self,
        queries: ClassifierQueries,
        budget: StageBudget,
        length_function: Callable[[np.ndarray], np.ndarray],
        largest: float,
        share: float,
    ) -> float:
        """Find a length that few records exceed, by a private binary search.

        The number of records that may exceed it is two standard deviations of a noisy
        count, but at most half of all records.

        Parameters
        ----------
        queries : ClassifierQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The budget, which is charged `share`.
        length_function : function of matrices
            Returns the length of each matrix.
        largest : float
            The largest length that can be returned.
        share : float
            The fraction of the privacy budget for the search.

        Returns
        -------
        float
            The released length. Later stages clip to it.
        """
        count_std = self.scale * sqrt(DEFAULT_QUERIES / share)
        allowed_outside = min(queries.n / 2, 2 * count_std)

        def count_beyond(radii: np.ndarray) -> np.ndarray:
            """Return how many records have a length above each radius."""
            return queries.count_beyond(length_function, radii)

        return BinarySearch().find(
            budget, count_beyond, largest, allowed_outside, share
        )

    @abstractmethod
    def _learn_classifier(
        self,
        budget: StageBudget,
        queries: ClassifierQueries,
        reduction: Reduction,
        radius: float,
    ) -> WeightsAndBias:
        """Learn a linear classifier of the features with the rest of the budget.

        Parameters
        ----------
        budget : StageBudget
            The budget, of which the remaining part is spent.
        queries : ClassifierQueries
            Computes counts and means of the private records, before noise is added.
        reduction : Reduction
            The released reduction, which maps matrices to features.
        radius : float
            The released length to which features are clipped.

        Returns
        -------
        WeightsAndBias
            The parameters of the classifier.
        """

    def predict_error(self) -> float:
        """Predict the fraction of new records that the classifier gets wrong.

        It is the average over simulated releases of public records. The error depends
        on n and μ = 1/`scale` only through their product, so a large study is simulated
        by a smaller one with less noise.

        Returns
        -------
        float
            The predicted error rate, between 0 and 1.
        """
        statistic = self.statistic

        # Of a large study fewer records are simulated, and noise is reduced in proportion.
        n = min(statistic.n, _SIMULATED_RECORDS)
        small_study = type(self)(
            statistic=replace(statistic, n=n), scale=self.scale * n / statistic.n
        )

        # Records for the release, and new records on which errors are counted.
        channels = statistic.manifold.point_shape[0]
        matrices, labels = _simulated_trials(
            channels, statistic.classes, n + _NEW_RECORDS
        )
        queries = ClassifierQueries(n, LabeledMatrices(matrices[:n], labels[:n]))
        new_matrices = matrices[n:]
        new_labels = labels[n:]

        rng = np.random.default_rng(_SIMULATION_SEED)
        error_rates = []
        for _ in range(_SIMULATED_RELEASES):
            add_noise = small_study.simulated_noise(rng)
            classifier = small_study.run(queries, add_noise).value
            features = classifier.reduction.to_features(new_matrices)
            clipped = clip_rows(features, classifier.radius)
            scores = clipped @ classifier.weights.T + classifier.bias
            error_rates.append(np.mean(np.argmax(scores, axis=1) != new_labels))
        return float(np.mean(error_rates))


def _place_in_class_columns(
    features: np.ndarray, class_index: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return rows with one block of columns per class, zero but for the record's class.

    The sum of these rows has the sum of the features of each class.

    Parameters
    ----------
    features : array of shape (n, features)
        The features of the records.
    class_index : array of int, shape (n,)
        The class of each record.
    n_classes : int
        The number of classes.

    Returns
    -------
    array of shape (n, n_classes·features)
        The rows.
    """
    is_of_class = np.eye(n_classes)[class_index]
    blocks = is_of_class[:, :, np.newaxis] * features[:, np.newaxis, :]
    return np.asarray(blocks.reshape(len(features), -1))


class ReducedMeans(ReducedMechanism):
    """A classifier that chooses the class whose mean feature vector is nearest.

    For features f and a class mean m, |f − m|² = |f|² − 2⟨m, f⟩ + |m|². The first term
    is the same for all classes, so the rule is linear in f.
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "reduced-means", reads="array", is_staged=True
    )

    def _learn_classifier(
        self,
        budget: StageBudget,
        queries: ClassifierQueries,
        reduction: Reduction,
        radius: float,
    ) -> WeightsAndBias:
        """Release the sum of features of each class, and return the nearest-mean rule.

        Parameters
        ----------
        budget : StageBudget
            The budget, of which the remaining part is spent.
        queries : ClassifierQueries
            Computes counts and means of the private records, before noise is added.
        reduction : Reduction
            The released eigenvectors.
        radius : float
            The length to which features are clipped.

        Returns
        -------
        WeightsAndBias
            2m and −|m|² for each class mean m.
        """
        n_classes = self.statistic.classes
        n_features = self.statistic.feature_size
        class_shares = self._release_class_shares(budget, queries)

        def features_by_class(
            matrices: np.ndarray, class_index: np.ndarray
        ) -> np.ndarray:
            """Return each record's features in the columns of its class, else zeros.

            Parameters
            ----------
            matrices : array of shape (n, channels, channels)
                The records.
            class_index : array of int, shape (n,)
                Their classes.
            """
            features = clip_rows(reduction.to_features(matrices), radius)
            return _place_in_class_columns(features, class_index, n_classes)

        # A public power of two, so that the grid is fine in any unit of the features.
        unit = 2.0 ** ceil(log2(radius))
        exact_sums = queries.mean(features_by_class, radius, n_classes * n_features)
        sums, noise_std = budget.release(
            "sums",
            REMAINING_BUDGET,
            exact_sums.sensitivity / unit,
            exact_sums.values / unit,
        )
        sums_by_class = unit * sums.reshape(n_classes, n_features)
        means = sums_by_class / class_shares[:, np.newaxis]
        # On average the noise adds this number to |m|², so it is subtracted.
        noise_square = n_features * (unit * noise_std / class_shares) ** 2
        squared_lengths = (means**2).sum(axis=1) - noise_square
        return WeightsAndBias(2 * means, -squared_lengths)

    def _release_class_shares(
        self, budget: StageBudget, queries: ClassifierQueries
    ) -> np.ndarray:
        """Release the fraction of records in each class.

        The sums of features are divided by these shares, which gives the class means.

        Parameters
        ----------
        budget : StageBudget
            The budget, which is charged.
        queries : ClassifierQueries
            Computes counts and means of the private records, before noise is added.

        Returns
        -------
        array of shape (classes,)
            The noisy fractions. Fractions below 1/(4·classes) are raised to it, because
            the sums of features are divided by them.
        """
        n_classes = self.statistic.classes

        def one_hot(_matrices: np.ndarray, class_index: np.ndarray) -> np.ndarray:
            """Return a row for each record: 1 in the column of its class, else 0.

            Queries pass the matrices, too, but the shares depend on the classes alone.
            """
            return np.asarray(np.eye(n_classes)[class_index])

        # The mean of these rows, each of length 1, is the share of each class.
        exact_shares = queries.mean(one_hot, bound=1.0, size=n_classes)
        # Two unit vectors with nonnegative entries differ by at most √2 instead of 2.
        sensitivity = exact_shares.sensitivity / sqrt(2)
        shares = budget.release(
            "counts", _COUNT_SHARE, sensitivity, exact_shares.values
        ).values
        return np.asarray(np.maximum(shares, 1 / (4 * n_classes)))


class ReducedSoftmax(ReducedMechanism):
    """Multinomial logistic regression on the features by full noisy gradient steps."""

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "reduced-softmax", reads="array", is_staged=True
    )

    def _learn_classifier(
        self,
        budget: StageBudget,
        queries: ClassifierQueries,
        reduction: Reduction,
        radius: float,
    ) -> WeightsAndBias:
        """Learn the coefficients by ten noisy gradient steps from zero.

        The gradient is that of the mean softmax loss; each record's part is clipped to
        length 1. The steps have equal shares of the budget that is left.

        Parameters
        ----------
        budget : StageBudget
            The budget, of which the remaining part is spent.
        queries : ClassifierQueries
            Computes counts and means of the private records, before noise is added.
        reduction : Reduction
            The released eigenvectors.
        radius : float
            The length to which features are clipped.

        Returns
        -------
        WeightsAndBias
            The learned weights, for features that are not divided by `radius`.
        """
        n_classes = self.statistic.classes
        coefficients = np.zeros((n_classes, self.statistic.feature_size + 1))
        step_share = budget.share_left / _SOFTMAX_STEPS
        for step in range(_SOFTMAX_STEPS):
            # The last step takes what rounding has left.
            is_last = step == _SOFTMAX_STEPS - 1
            share = budget.share_left if is_last else step_share
            gradients = _softmax_gradients(reduction, radius, coefficients)
            # Each record's gradient is clipped to length 1.
            mean_gradient = queries.mean(gradients, bound=1.0, size=coefficients.size)
            noisy = budget.release(
                "gradient", share, mean_gradient.sensitivity, mean_gradient.values
            ).values
            coefficients = coefficients - _SOFTMAX_RATE * noisy.reshape(
                coefficients.shape
            )
        weights = coefficients[:, :-1] / radius
        return WeightsAndBias(weights, _INTERCEPT * coefficients[:, -1])


def _softmax_gradients(
    reduction: Reduction, radius: float, coefficients: np.ndarray
) -> Callable[..., np.ndarray]:
    """Return a function that computes each record's gradient of the softmax loss.

    Each noisy step of the logistic regression takes the mean of these gradients.

    Parameters
    ----------
    reduction : Reduction
        Maps matrices to features.
    radius : float
        Features are clipped to this length, and divided by it.
    coefficients : array of shape (classes, features + 1)
        The coefficients at which the gradient is taken. The last column belongs to the
        constant feature.

    Returns
    -------
    function of (matrices, class_index)
        Returns one row for each record, clipped to length 1, for
        `ClassifierQueries.mean`.
    """

    def gradients(matrices: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Return the gradient of each record as a row, clipped to length 1.

        It is (p − e) ⊗ f, where p are the predicted probabilities of the classes, e is
        1 at the record's class and f are its features with the constant one.

        Parameters
        ----------
        matrices : array of shape (n, channels, channels)
            The records.
        class_index : array of int, shape (n,)
            Their classes.
        """
        features = clip_rows(reduction.to_features(matrices), radius) / radius
        intercepts = np.full((len(features), 1), _INTERCEPT)
        rows = np.concatenate([features, intercepts], axis=1)

        is_of_class = np.eye(len(coefficients))[class_index]
        residuals = _softmax(rows @ coefficients.T) - is_of_class
        outer_products = residuals[:, :, np.newaxis] * rows[:, np.newaxis, :]
        return clip_rows(outer_products.reshape(len(rows), -1), 1.0)

    return gradients


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of classes, in proportion to e^score.

    Parameters
    ----------
    scores : array of shape (n, classes)
        The score of each class, for each record.
    """
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def candidate_classifiers(
    manifold: Manifold, n: int, classes: int, guarantee: Guarantee
) -> dict[str, ReducedMechanism]:
    """Return the classifiers that `plan` compares.

    Parameters
    ----------
    manifold : Manifold
        The space of covariance matrices.
    n : int
        The number of records, or of people.
    classes : int
        The number of classes.
    guarantee : Guarantee
        The guarantee to which every classifier is calibrated.

    Returns
    -------
    dict
        The mechanisms. The keys are the calls that make the classifiers, such as
        "PrivateMDM(reduce=6, features='power')".
    """
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
        radius = default_feature_bound(features, components)
        statistic = ReducedClasses(manifold, components, features, radius, classes, n)
        name = f"{call}(reduce={components}, features={features!r})"
        candidates[name] = mechanism_of_call[call].calibrate(statistic, guarantee)
    return candidates


@lru_cache(maxsize=2)
def _simulated_trials(
    channels: int, classes: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate public records of several classes, for predicted errors.

    A record is the covariance matrix of 200 samples. Each sample is the sum of a
    background and a source. Each component of the background has 0.8 times the
    amplitude of the previous one, and its strength varies between records. The source
    depends on the class, is twice as strong, and lies in the span of the leading
    components (six, or as many as there are classes).

    Parameters
    ----------
    channels : int
        The number of rows of a matrix.
    classes : int
        The number of classes.
    n : int
        The number of records.

    Returns
    -------
    matrices : array of shape (n, channels, channels)
        The covariance matrices, scaled to trace 1.
    labels : array of int, shape (n,)
        The class of each record.
    """
    rng = np.random.default_rng(_TRIALS_SEED)
    n_leading = min(channels, max(_LEADING_COMPONENTS, classes))
    directions = np.linalg.qr(rng.normal(size=(channels, channels)))[0]
    mixing = directions * _AMPLITUDE_RATIO ** np.arange(channels)
    rotation = np.linalg.qr(rng.normal(size=(n_leading, n_leading)))[0]
    sources = mixing[:, :n_leading] @ rotation
    labels = rng.integers(classes, size=n)

    # The order of these draws is fixed: predictions are reproducible.
    source_strength = 2 * np.exp(0.25 * rng.normal(size=(n, 1, 1)))
    source_signal = source_strength * rng.normal(size=(n, 1, _SAMPLES_PER_TRIAL))
    background_strength = np.exp(0.5 * rng.normal(size=(n, channels, 1)))
    background = background_strength * rng.normal(
        size=(n, channels, _SAMPLES_PER_TRIAL)
    )

    source_of_record = sources.T[labels % n_leading][:, :, None]
    samples = mixing @ background + source_of_record * source_signal
    return normalize_matrices(samples @ samples.mT), labels
