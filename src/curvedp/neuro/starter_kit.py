"""Starter kits: private class means with which a new user calibrates without anyone's trials.
A lab recenters the trials of its source subjects, and publishes the mean covariance of
each class. A new user recenters their own trials, which needs no labels, and takes the
nearest class mean. Nobody's trials change hands.
"""

import warnings
from collections.abc import Sequence
from math import log, sqrt
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate
from curvedp.core.codes import ProtectedUnit
from curvedp.core.mechanism import check_guarantee
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators import PrivateMDM, PrivateRecenter
from curvedp.estimators.published_file import read_published, write_published
from curvedp.estimators.recentering import own_mean, recenter
from curvedp.estimators.shares import (
    check_divisible,
    check_ledger_can_pay,
    collect_release_warnings,
    issue_warnings,
    share_of_guarantee,
)
from curvedp.geometry import SPDAffineInvariant
from curvedp.ledger import Ledger
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.neuro.class_centers import (
    LARGEST_FACTOR,
    KitPrediction,
    ShrunkCenters,
    calibrate_kit,
    largest_length,
    predict_kit,
    shrink_centers,
)
from curvedp.neuro.vectors import noisy_mean_in, release_mean_vector
from curvedp.privacy import GDP, Guarantee
from curvedp.privacy.unit import PrivacyUnit
from curvedp.randomness import Source
from curvedp.records.base import open_records
from curvedp.records.labels import Labels
from curvedp.records.persons import encode_persons
from curvedp.release.pay import remark_on_charge
from curvedp.release.warnings import (
    WarningKind,
    estimator_warnings,
    warnings_before_paying,
)
from curvedp.statistics.searched_ball import SearchedMean

# The name and version of the files that `PrivateStarterKit.save` writes.
SCHEMA = "curvedp-starter-kit/2"

UNITS = ("subject", "trial")

# Entries of recentered matrices are bounded by this, far beyond the eigenvalues' bound.
_LARGEST_ENTRY = 1e9

# A kit is of little use if it errs at least this often, relative to guessing. `plan`
# uses the same share.
USELESS_SHARE_OF_GUESSING = 0.8

# Warnings about the mean of vectors that also concern a kit. Others are about lengths:
# clipping and shrinkage change those, but what classifies trials is a direction.
_KINDS_FOR_KITS = (WarningKind.ON_OUTER_EDGE, WarningKind.AS_IF_MISREAD)

_CENTERS_ARE_NOISE = (
    "the released class centers differ in all by no more than noise alone would make "
    "them, so the release does not show that its classifier works: try it on people "
    "outside of the study; more people, fewer channels or a larger budget would help"
)

# With trials as the unit: the fraction of μ² that the references of subjects take.
_REFERENCE_SHARE = 0.5

# What error messages call the release in two parts.
_TWO_PARTS = "starter kit for trials"

# A ledger accepts labels of at most this many characters.
_LONGEST_LABEL = 200

# A saved class mean may differ by rounding from the one that its release implies.
_ROUNDING = 1e-9


class PrivateStarterKit(ClassifierMixin, BaseEstimator):
    """A classifier for a new subject, from private class means of other subjects.

    Parameters
    ----------
    unit : {"subject", "trial"}
        The privacy unit. "subject": one person with all their trials and labels. The
        trials of each subject are recentered at their own mean, which is not released,
        and contribute one mean for each class. The average over subjects is released.
        "trial": one trial, which may be replaced by another one of the same subject and
        class. The reference mean of each subject is released as by `PrivateRecenter`,
        and then the class means of the recentered trials as by `PrivateMDM`. This is
        for few subjects with many trials.
    classes : sequence of labels, optional
        With subjects: the public set of classes. Any other label is replaced by the
        first class in sorted order. By default it is the set of labels in `y`, which
        must be public then: it would reveal a class that only one subject has.
    radius : float or "private"
        With subjects: how far the class means of a subject may be from the identity,
        over all classes together, in the log-Euclidean metric. "private" finds it. For
        fewer than 20 subjects choose 0.5: a small ball shortens the class means of each
        subject, which costs nothing, because their direction classifies trials. With
        trials it must be "private".
    guarantee : Guarantee
        The guarantee of all releases together. For trials it must be GDP, and half of
        its μ² is spent on the references.
    ledger, label, source
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in sorted order.
    means_ : ndarray of shape (classes, channels, channels)
        One private mean of recentered covariance matrices for each class. With subjects
        they are shrunk to the identity by a factor that noise determines, but never all
        the way, so that their directions remain.
    n_subjects_ : int
        The public number of subjects.
    certificates_ : list of Certificate
        The certificates of the releases, which prove their privacy.

    Notes
    -----
    Guarantees

    - for subjects: `guarantee` for replacing one person with all their trials and
      labels, for ANY data. The recentering releases nothing: it is a function of one
      person's own trials, and the average reads one vector of each person;
    - for trials: `guarantee` for replacing one trial within its subject and class. The
      class means depend on the references through released numbers only, so the two
      parts compose (docs/theory/accounting.md);
    - `predict` and `transform` release nothing. They use the user's own trials.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.tile(["left", "right"], 1500)
    >>> subject = np.repeat(np.arange(150), 20)
    >>> power = np.where(y == "left", 3.0, 1 / 3.0)[:, None] ** [[0.5, -0.5]]
    >>> mixing = np.eye(2) + 0.4 * rng.normal(size=(150, 2, 2))[subject]
    >>> signals = mixing @ (power[:, :, None] * rng.normal(size=(3000, 2, 50)))
    >>> X = signals @ signals.mT / 50
    >>> old = subject < 149
    >>> kit = PrivateStarterKit().fit(X[old], y[old], subject[old])
    >>> kit.score(X[~old], y[~old]) > 0.8
    True
    """

    _name: ClassVar[str] = "starter kit"

    def __init__(
        self,
        *,
        unit: str = "subject",
        classes: Sequence[Any] | None = None,
        radius: float | str = "private",
        guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value
        ledger: Ledger | None = None,
        label: str | None = None,
        source: Source | None = None,
    ) -> None:
        self.unit = unit
        self.classes = classes
        self.radius = radius
        self.guarantee = guarantee
        self.ledger = ledger
        self.label = label
        self.source = source

    def fit(self, X: Any, y: Any, subjects: Any) -> Self:
        """Release the class means of the source subjects, and charge the ledger.

        Parameters
        ----------
        X : array of shape (n, channels, channels)
            The covariance matrix of each trial.
        y : sequence of n labels
            The class of each trial.
        subjects : sequence of n ids
            Whose trial it is.

        Raises
        ------
        ParameterError
            Before anything is paid, because of parameters, shapes, labels and ids.

        Warns
        -----
        ReleaseWarning
            Before anything is paid, if a kit of these public numbers is predicted to be
            hardly better than guessing. After the release, if the released class means
            differ in all by no more than noise alone would make them.
        """
        shape = _validate.public_shape("X", X)
        if len(shape) != 3 or shape[1] != shape[2]:
            raise ParameterError(
                f"must have shape (n, channels, channels), not {shape}", parameter="X"
            )
        self._validate()

        # Read the trials, their classes and their subjects.
        manifold = SPDAffineInvariant(shape[1])
        matrices = open_records(X, manifold.point_shape, min_records=2).array()
        labels = Labels(y, len(matrices), self.classes)
        if len(labels.classes) < 2:
            raise ParameterError("must name two classes or more", parameter="y")
        subject_index = encode_persons(
            subjects, len(matrices), min_persons=1, parameter="subjects"
        )
        n_subjects = int(subject_index.max()) + 1
        if n_subjects < 2 and self.unit == "subject":
            raise ParameterError(
                "must be two subjects or more, or trials the unit", parameter="subjects"
            )
        if self.unit == "trial":
            self._check_sizes(labels.sizes, np.bincount(subject_index))

        # Warn of a useless release before anything is paid.
        texts_before_paying = self._warnings_before_paying(
            manifold, len(labels.classes), np.bincount(subject_index)
        )
        for text in texts_before_paying:
            warnings.warn(text, ReleaseWarning, stacklevel=2)

        with collect_release_warnings() as warning_texts:
            if self.unit == "subject":
                self._fit_subjects(manifold, matrices, labels, subject_index)
            else:
                self._fit_trials(manifold, matrices, labels, subject_index)

        self.n_subjects_ = n_subjects
        self.unit_ = self.unit
        if self.unit == "subject":
            warning_texts = self._warnings_after_release()
        issue_warnings(
            text for text in warning_texts if text not in texts_before_paying
        )
        return self

    def _warnings_before_paying(
        self, manifold: SPDAffineInvariant, n_classes: int, subject_sizes: np.ndarray
    ) -> list[str]:
        """Return the warnings to issue before anything is paid, from public numbers alone.

        Parameters
        ----------
        manifold : SPDAffineInvariant
            The space of covariance matrices.
        n_classes : int
            The number of classes.
        subject_sizes : array of int
            The number of trials of each subject. It is read for trials only, where it
            is public.
        """
        if self.unit == "trial":
            guarantee = check_divisible(self.guarantee, _TWO_PARTS)
            # The subject with the fewest trials has the least certain reference.
            smallest_reference = SearchedMean(
                manifold, center=None, outer_radius=None, n=int(subject_sizes.min())
            )
            mechanism = PrivateBallMechanism.calibrate(
                smallest_reference, share_of_guarantee(guarantee, _REFERENCE_SHARE)
            )
            return [warning.text for warning in warnings_before_paying(mechanism)]

        public_numbers = (
            manifold.point_shape[0],
            n_classes,
            len(subject_sizes),
            self.radius,
            self.guarantee,
        )
        texts = []
        prediction = predict_kit(*public_numbers)
        guessing_error = 1 - 1 / n_classes
        if prediction.error >= USELESS_SHARE_OF_GUESSING * guessing_error:
            people = (
                f"{len(subject_sizes)} people with {manifold.point_shape[0]} channels "
                f"and {n_classes} classes at {self.guarantee}"
            )
            texts.append(_useless_kit_warning(people, prediction, guessing_error))
        remark = remark_on_charge(
            [calibrate_kit(*public_numbers)], self.guarantee, self.ledger
        )
        if remark is not None:
            texts.append(remark)
        return texts

    def _warnings_after_release(self) -> list[str]:
        """Return the warnings that follow from the released class means of subjects."""
        texts = [
            warning.text
            for warning in estimator_warnings(self.mean_)
            if warning.kind in _KINDS_FOR_KITS
        ]
        [release] = self._published
        if _centers_in(release, len(self.classes_)).are_noise:
            texts.append(_CENTERS_ARE_NOISE)
        return texts

    def _check_sizes(self, class_sizes: np.ndarray, subject_sizes: np.ndarray) -> None:
        """Raise `ParameterError` if a class or a subject has fewer than two trials.

        `fit` calls this before anything is paid for.

        Parameters
        ----------
        class_sizes, subject_sizes : arrays of int
            The public number of trials of each class and of each subject.
        """
        for parameter, sizes in (("y", class_sizes), ("subjects", subject_sizes)):
            if min(sizes) < 2:
                raise ParameterError(
                    "must have two trials or more of each", parameter=parameter
                )

    def _validate(self) -> None:
        """Raise `ParameterError` for parameters that do not fit each other."""
        check_guarantee(self.guarantee, "replace-one")
        _validate.choice("unit", self.unit, UNITS)
        if isinstance(self.radius, str):
            _validate.private_radius(self.radius)
        else:
            _validate.length("radius", self.radius)
            if self.unit == "trial":
                raise ParameterError(
                    "is for subjects; the balls of trials are found privately",
                    parameter="radius",
                    value=self.radius,
                )
        if self.unit == "trial" and self.classes is not None:
            raise ParameterError(
                "is for subjects; the class of a trial is public if trials are the unit",
                parameter="classes",
            )

    def _fit_subjects(
        self,
        manifold: SPDAffineInvariant,
        matrices: np.ndarray,
        labels: Labels,
        subject_index: np.ndarray,
    ) -> None:
        """Release the average over subjects of their own class means.

        Parameters
        ----------
        manifold : SPDAffineInvariant
            The space of covariance matrices.
        matrices : array
            The trials.
        labels : Labels
            The class of each trial.
        subject_index : array of int
            The subject of each trial, counted from 0.
        """
        classes = labels.classes

        # Each subject contributes one vector: the logarithms of their own class means.
        vectors = []
        for subject in range(int(subject_index.max()) + 1):
            own = subject_index == subject
            vectors.append(
                _class_vector(manifold, matrices[own], labels.codes[own], len(classes))
            )

        self.mean_ = release_mean_vector(
            np.stack(vectors),
            np.arange(len(vectors)),
            radius=self.radius,
            center=np.zeros_like(vectors[0]),
            outer_radius=largest_length(manifold.point_shape[0], len(classes)),
            guarantee=self.guarantee,
            ledger=self.ledger,
            label=self.label or self._name,
            source=self.source,
        )

        # The released mean vector is turned into class means.
        [mean_release] = self.mean_.releases
        release = ReleasedValue(
            "class means", mean_release.value, mean_release.certificate
        )
        self.classes_ = classes
        self.means_ = _means_of_logs(_centers_in(release, len(classes)).logs)
        self._set_releases([release])

    def _fit_trials(
        self,
        manifold: SPDAffineInvariant,
        matrices: np.ndarray,
        labels: Labels,
        subject_index: np.ndarray,
    ) -> None:
        """Fit with trials as the unit: release references, and then class means.

        The reference of a subject is the private mean of all their trials. Recentering
        carries it to the identity, so that trials of different subjects are comparable.
        The class means of the recentered trials are released second. Both releases
        together satisfy the guarantee.

        Parameters
        ----------
        manifold : SPDAffineInvariant
            The space of covariance matrices.
        matrices : array
            The trials.
        labels : Labels
            The class of each trial.
        subject_index : array of int
            The subject of each trial, counted from 0.
        """
        guarantee = check_divisible(self.guarantee, _TWO_PARTS)
        # Otherwise the references could be paid for, and the class means not.
        check_ledger_can_pay(
            self.ledger, guarantee, PrivacyUnit.RECORD_IN_CLASS, _TWO_PARTS
        )

        # First part: move the trials of each subject so that their private mean is the
        # identity.
        name = self.label or self._name
        references = PrivateRecenter(
            manifold,
            guarantee=share_of_guarantee(guarantee, _REFERENCE_SHARE),
            ledger=self.ledger,
            label=f"{name}: references"[:_LONGEST_LABEL],
            source=self.source,
        )
        recentered = references.fit_transform(matrices, domains=subject_index)

        # Second part: the private mean of each class.
        model = PrivateMDM(
            manifold,
            radius="private",
            guarantee=share_of_guarantee(guarantee, 1 - _REFERENCE_SHARE),
            ledger=self.ledger,
            label=f"{name}: class means"[:_LONGEST_LABEL],
            source=self.source,
        )
        model.fit(recentered, labels.classes[labels.codes])

        self.classes_ = model.classes_
        self.means_ = model.means_
        self._set_releases([*references.releases, *model.releases])

    def _set_releases(self, releases: list[ReleasedValue]) -> None:
        """Store the released values with their certificates.

        Parameters
        ----------
        releases : list of ReleasedValue
            The class means; with trials, the references of the subjects before them.
        """
        self._published = releases
        self.certificates_: list[Certificate] = [
            release.certificate for release in releases
        ]

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return all that was released: with trials, also the references of subjects."""
        check_is_fitted(self, "means_")
        return list(self._published)

    def calibration_set(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the class means and their labels, as trials to fit a classifier to.

        Give them, for example, to pyRiemann's `MDM().fit(*kit.calibration_set())`.
        """
        check_is_fitted(self, "means_")
        return self.means_.copy(), np.asarray(self.classes_)

    def recenter(self, X: Any, own_trials: Any = None) -> np.ndarray:
        """Return a new user's trials, recentered at the mean of their own trials.

        Parameters
        ----------
        X : array of shape (n, channels, channels)
            The covariance matrices to recenter.
        own_trials : array of shape (m, channels, channels), optional
            Trials of the same user from which the mean is taken, without labels; by
            default X itself.
        """
        check_is_fitted(self, "means_")
        manifold = SPDAffineInvariant(self.means_.shape[1])
        matrices = open_records(X, manifold.point_shape, min_records=1).array()
        own = matrices
        if own_trials is not None:
            own = open_records(own_trials, manifold.point_shape, min_records=1).array()
        with quiet_about_records():
            return recenter(manifold, own_mean(manifold, own), 1.0, matrices)

    def decision_distances(self, X: Any, own_trials: Any = None) -> np.ndarray:
        """Return the distance of each recentered trial to each class mean.

        Parameters
        ----------
        X : array of shape (n, channels, channels)
            The covariance matrices of one new user's trials.
        own_trials : array of shape (m, channels, channels), optional
            Trials of the same user at whose mean X is recentered; by default X itself.

        Returns
        -------
        array of shape (n, classes)
            Affine-invariant distances.
        """
        points = self.recenter(X, own_trials)
        manifold = SPDAffineInvariant(self.means_.shape[1])
        # One row for each trial, one column for each class.
        means_as_row = self.means_[np.newaxis]
        points_as_column = points[:, np.newaxis]
        with quiet_about_records():
            return np.asarray(manifold.dist(means_as_row, points_as_column))

    def predict(self, X: Any, own_trials: Any = None) -> np.ndarray:
        """Return the nearest class of each trial of one new user.

        Parameters
        ----------
        X : array of shape (n, channels, channels)
            The covariance matrices of the user's trials.
        own_trials : array of shape (m, channels, channels), optional
            Trials of the same user at whose mean X is recentered; by default X itself.

        Returns
        -------
        array of shape (n,)
            The label of the nearest class mean for each trial.
        """
        distances = self.decision_distances(X, own_trials)
        nearest = np.argmin(np.nan_to_num(distances, nan=np.inf), axis=1)
        return np.asarray(self.classes_[nearest])

    def save(self, path: str | Path) -> None:
        """Write the kit to a file that may be published, with its certificates.

        Parameters
        ----------
        path : str or Path
            A JSON file. `PrivateStarterKit.load` reads it.
        """
        check_is_fitted(self, "means_")
        parameters = {
            "unit": self.unit_,
            "classes": self.classes_.tolist(),
            "means": self.means_.tolist(),
            "n_subjects": self.n_subjects_,
        }
        write_published(path, SCHEMA, parameters, self.releases)

    @classmethod
    def load(cls, path: str | Path) -> "PrivateStarterKit":
        """Read a fitted kit from a file that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Raises
        ------
        ParameterError
            If the file does not contain a kit, or its class means differ from those of
            its certificates. `curvedp verify` checks the certificates themselves.
        """
        parameters, releases = read_published(path, SCHEMA)
        try:
            unit = _validate.choice("unit", parameters["unit"], UNITS)
            classes = np.asarray(parameters["classes"])
            n_subjects = _validate.integer("n_subjects", parameters["n_subjects"], 1)
            stated = np.asarray(parameters["means"], dtype=float)
            _check_units(unit, len(classes), n_subjects, releases)
            means = _released_means(unit, len(classes), releases)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise ParameterError(f"{path} does not hold a starter kit") from None
        is_stated = stated.shape == means.shape and np.allclose(
            stated, means, rtol=_ROUNDING, atol=0.0
        )
        has_classes = classes.ndim == 1 and classes.dtype.kind in "biufU"
        if not (is_stated and has_classes and len(set(classes.tolist())) == len(means)):
            raise ParameterError(
                f"{path}: the class means are not those of its certificates"
            )
        kit = cls(unit=unit, guarantee=_guarantee_of(unit, releases))
        kit.unit_ = unit
        kit.classes_ = classes
        kit.means_ = means
        kit.n_subjects_ = n_subjects
        kit._set_releases(releases)
        return kit


def _useless_kit_warning(
    people: str, prediction: KitPrediction, guessing_error: float
) -> str:
    """Return the warning that a kit is predicted to be hardly better than guessing.

    Parameters
    ----------
    people : str
        A description of the people, classes and guarantee.
    prediction : KitPrediction
        How often the kit errs, and how often exact class centers do.
    guessing_error : float
        How often guessing errs.
    """
    return (
        f"{people}: the kit is predicted to "
        f"be right for {1 - prediction.error:.0%} of the trials of a new "
        f"person, where guessing is right for {1 - guessing_error:.0%} and "
        f"exact class centers for {1 - prediction.exact_error:.0%}. More "
        "people, fewer channels, a larger budget or radius=0.5 would help: "
        'see plan(..., statistic="starter-kit")'
    )


def _check_units(
    unit: str, n_classes: int, n_subjects: int, releases: list[ReleasedValue]
) -> None:
    """Raise `ValueError` if certificates do not protect the unit that a file states.

    Parameters
    ----------
    unit : {"subject", "trial"}
        The unit that the file states: a subject or a trial.
    n_classes, n_subjects : int
        The numbers of classes and of subjects.
    releases : list of ReleasedValue
        The released values of the file with their certificates.
    """
    expected = [ProtectedUnit.PERSON]
    if unit == "trial":
        references = [ProtectedUnit.RECORD_IN_DOMAIN] * n_subjects
        expected = [*references, *[ProtectedUnit.RECORD_IN_CLASS] * n_classes]
    if [release.certificate.privacy_unit for release in releases] != expected:
        raise ValueError
    if unit == "subject" and releases[0].certificate.statistic["n"] != n_subjects:
        raise ValueError


def _guarantee_of(unit: str, releases: list[ReleasedValue]) -> Guarantee:
    """Return the guarantee of all releases of a kit together.

    In a kit for trials each reference is computed from other trials, and so is each
    class mean. By parallel composition each of these two groups costs as much as one
    release. The two are composed by adding their μ².

    Parameters
    ----------
    unit : {"subject", "trial"}
        The unit that the kit protects: a subject or a trial.
    releases : list of ReleasedValue
        The one release, or references and class means.
    """
    first = releases[0].certificate.guarantee
    last = releases[-1].certificate.guarantee
    if unit == "subject" or not (isinstance(first, GDP) and isinstance(last, GDP)):
        return first
    return GDP(sqrt(first.mu**2 + last.mu**2))


def _released_means(
    unit: str, n_classes: int, releases: list[ReleasedValue]
) -> np.ndarray:
    """Return the class means in the released values of a kit.

    Parameters
    ----------
    unit : {"subject", "trial"}
        The unit that the kit protects: a subject or a trial.
    n_classes : int
        The number of classes.
    releases : list of ReleasedValue
        One vector for all classes, or a matrix for each at the end.
    """
    if unit == "subject":
        [release] = releases
        return _means_of_logs(_centers_in(release, n_classes).logs)
    return np.stack([np.asarray(release.value) for release in releases[-n_classes:]])


def _class_vector(
    manifold: SPDAffineInvariant,
    matrices: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
) -> np.ndarray:
    """Return one vector of a subject: the mean logarithm of each class, recentered.

    It depends on the trials and labels of this subject alone. A class without trials is
    0, the logarithm of the identity. Eigenvalues are bounded.

    Parameters
    ----------
    manifold : SPDAffineInvariant
        The space of covariance matrices.
    matrices : array of shape (trials, channels, channels)
        The subject's trials.
    codes : array of shape (trials,)
        The class of each, counted from 0.
    n_classes : int
        The number of classes.
    """
    with quiet_about_records():
        logs = _recentered_logs(manifold, matrices)
    means = np.zeros((n_classes, *manifold.point_shape))
    for code in range(n_classes):
        in_class = codes == code
        if in_class.any():
            means[code] = logs[in_class].mean(axis=0)
    rows, columns = np.tril_indices(manifold.point_shape[0])
    weights = np.where(rows == columns, 1.0, sqrt(2.0))
    return np.asarray((means[:, rows, columns] * weights).ravel())


def _recentered_logs(manifold: SPDAffineInvariant, matrices: np.ndarray) -> np.ndarray:
    """Return the logarithms of one subject's trials, recentered and bounded.

    Where they cannot be computed they are 0: an error that is raised by the trials of
    one subject would tell something about that subject.

    Parameters
    ----------
    manifold : SPDAffineInvariant
        The space of covariance matrices.
    matrices : array of shape (trials, channels, channels)
        The subject's trials.
    """
    try:
        moved = recenter(manifold, own_mean(manifold, matrices), 1.0, matrices)
        # Entries far beyond the bound would make the decomposition overflow.
        limited = np.clip(moved, -_LARGEST_ENTRY, _LARGEST_ENTRY)
        eigenvalues, vectors = np.linalg.eigh(limited)
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return np.zeros_like(matrices)
    bounded = np.clip(eigenvalues, 1 / LARGEST_FACTOR, LARGEST_FACTOR)
    scaled_vectors = vectors * np.log(bounded)[:, np.newaxis, :]
    return np.asarray(scaled_vectors @ np.swapaxes(vectors, 1, 2))


def _centers_in(release: ReleasedValue, n_classes: int) -> ShrunkCenters:
    """Return the class centers that follow from the release of a kit for subjects.

    They are computed from the noisy vector in the certificate. The released value is
    the same vector after one shrinkage for all entries, which may set it to 0. It takes
    the place of the noisy vector where a certificate is too small to list that.

    Parameters
    ----------
    release : ReleasedValue
        The released vector with its certificate.
    n_classes : int
        The number of classes.
    """
    if release.certificate.release["integers"] is None:
        return shrink_centers(np.asarray(release.value), 0.0, n_classes)
    noisy = noisy_mean_in(release.certificate)
    return shrink_centers(noisy.value, noisy.noise_std, n_classes)


def _means_of_logs(entries: np.ndarray) -> np.ndarray:
    """Return the class means whose logarithms are given as vectors.

    No subject's eigenvalues are beyond their bound, so what noise put there is cut.

    Parameters
    ----------
    entries : array of shape (classes, d)
        For each class the lower triangle of a symmetric matrix, the logarithm of its
        mean; entries off the diagonal are multiplied by √2.
    """
    n_classes = len(entries)
    # c channels have c(c + 1)/2 entries.
    channels = round((sqrt(8 * entries.shape[1] + 1) - 1) / 2)
    rows, columns = np.tril_indices(channels)
    weights = np.where(rows == columns, 1.0, sqrt(2.0))
    logs = np.zeros((n_classes, channels, channels))
    logs[:, rows, columns] = entries / weights
    logs[:, columns, rows] = entries / weights
    eigenvalues, vectors = np.linalg.eigh(logs)
    limit = log(LARGEST_FACTOR)
    values = np.exp(np.clip(eigenvalues, -limit, limit))
    scaled_vectors = vectors * values[:, np.newaxis, :]
    return np.asarray(scaled_vectors @ np.swapaxes(vectors, 1, 2))
