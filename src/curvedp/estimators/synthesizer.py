"""Synthetic records on a manifold, drawn from one private release. The release is a
distribution on the manifold (`ReleasedPopulation`). Drawing from it costs no privacy,
however many records are drawn; docs/howto/synthetic-records.md says what such a file is
good for.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate
from curvedp.core.codes import ProtectedUnit
from curvedp.core.released import ReleasedValue
from curvedp.core.statistic import Ball
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import (
    PendingRelease,
    PrivateEstimator,
    choose_private_ball,
)
from curvedp.geometry.capabilities import move_from_origin
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.staged.population import PopulationMechanism
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import is_chunked, open_records
from curvedp.records.persons import encode_persons
from curvedp.release.choose import ChosenMechanism, choose_mechanism, rank_mechanisms
from curvedp.release.predict import predicted_error
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.statistics.population import (
    MODELS,
    PopulationData,
    ReleasedPopulation,
    SearchedPopulation,
    SyntheticPopulation,
    check_range,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(eq=False, repr=False)
class PrivateSynthesizer(PrivateEstimator):
    """A generator of synthetic records that follow a privately released distribution.

    `fit` makes one release under one guarantee, with one certificate. `sample` draws as
    many records as wanted from it; they lie on the manifold, in the ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    model : {"auto", "wrapped-gaussian", "mixture", "tree"}
        "wrapped-gaussian" is one normal distribution of logarithms at a private base
        point, for each class; "mixture" several of them, in private clusters; "tree"
        corrects a normal distribution by noisy counts in cells that are halved where
        records are, for dimension up to about six. "auto" takes the model with the
        smallest predicted error.
    radius : float or "private"
        The radius of the public ball that holds the records; with "private" a ball is
        found privately.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of the release, for replacing a record.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    classes : sequence of labels, optional
        The public set of classes. Then labels are private, and any other label counts
        as the first class. Without it the labels in `y` are public: a record is
        protected within its class.
    x_range : pair of float, optional
        The public range of the predictor; needed with `column`.

    Attributes
    ----------
    population_ : ReleasedPopulation
        The released distribution.
    model_ : str
        The model that was taken.
    classes_ : ndarray or None
        The classes, with labels.
    certificate_ : Certificate
        The certificate of the release.
    ball_ : Ball
        The ball that holds the synthetic records.

    Notes
    -----
    Guarantees

    - errors are because of parameters, shapes, types and public labels, never of a
      record's values, and come before anything is spent;
    - `fit` meets `guarantee` for replacing one record together with its label and
      predictor, for ANY data; with public labels, within its class; with `groups`, for
      replacing one person with all their records.

    An analysis of a synthetic file does not know of the noise of the release. Use
    `curvedp.inference.combine_synthetic`, or publish the certificate with the file.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([2.0, 0, 0], 0.5, (800, 3)))
    >>> synthesizer = PrivateSynthesizer(Sphere(2), center=[1.0, 0, 0], radius=1.0).fit(X)
    >>> synthesizer.sample(1000, rng=7).shape
    (1000, 3)
    """

    _name: ClassVar[str] = "synthetic records"

    manifold: Manifold
    model: str = "auto"
    radius: float | str | None = None
    center: Any = None
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    outer_radius: float | None = None
    classes: Any = None
    x_range: Any = None

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, column: Any = None
    ) -> Self:
        """Release a distribution of the records, and charge it to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records: an array, a dask array, or an array on a device.
        y : sequence of n labels, optional
            The class of each record. Synthetic records then have one too.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person with all their records
            is the unit of privacy, and counts as much as any other person.
        column : array of n numbers, optional
            A predictor. Synthetic records then have one too. A number that is not
            finite is replaced by the middle of `x_range`, and others are clipped to
            this range.

        Returns
        -------
        self
            With `population_`, `model_`, `classes_`, `certificate_`, `ball_` and
            `manifold_` set.
        """
        self._validate_params()
        _validate.choice("model", self.model, ("auto", *MODELS))
        data, classes = self._load_data(X, y, groups, column)
        n = data.records.n
        if data.person_index is not None:
            n = int(data.person_index.max()) + 1
        n_classes = 1 if classes is None else len(classes)
        chosen = self._calibrated_mechanism(
            n, n_classes, has_predictor=column is not None
        )
        unit = self._privacy_unit(y, groups, column)
        pending = PendingRelease(
            chosen.mechanism, data, chosen.choice, "synthetic population"
        )
        (release,) = self._pay_and_release([pending], unit)

        self.manifold_ = self.manifold
        self.certificate_: Certificate = release.certificate
        # From the certificate, so that it repeats bit for bit from the file of it.
        self.population_: ReleasedPopulation = release.value
        if release.certificate.release["integers"] is not None:
            self.population_ = population_from_certificate(release.certificate)
        self.classes_ = classes
        final: Any = final_mechanism_of(release.certificate)
        self.model_: str = final.info.option
        self.ball_ = Ball(final.statistic.center, final.statistic.radius)
        return self._warn_after_release()

    def _load_data(
        self, X: Any, y: Any, groups: Any, column: Any
    ) -> tuple[PopulationData, np.ndarray | None]:
        """Return the records with their columns, and the classes if there are labels.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        y : sequence of n labels, or None
            The class of each record.
        groups : sequence of n ids, or None
            The person to whom each record belongs.
        column : array of n numbers, or None
            A predictor of each record.

        Returns
        -------
        data : PopulationData
            The records with arrays of their classes, predictors and people, each of
            which may be absent.
        classes : array, or None
            The labels of the classes.

        Raises
        ------
        ParameterError
            If `classes` or `x_range` are given without labels or a column, or if people
            or a column come with a dask array.
        """
        records = open_records(X, check_manifold(self.manifold).point_shape)
        class_index = None
        classes = None
        if y is not None:
            labels = records.labels(y, self.classes)
            class_index = labels.codes
            classes = labels.classes
        elif self.classes is not None:
            raise ParameterError("needs labels y", parameter="classes")

        predictor = None
        if column is not None:
            predictor = self._load_predictor(column, records.n)
            if is_chunked(X):
                raise ParameterError("is for records in memory", parameter="column")
        elif self.x_range is not None:
            raise ParameterError("needs a column", parameter="x_range")

        person_index = None
        if groups is not None:
            if is_chunked(X):
                raise ParameterError("is for records in memory", parameter="groups")
            person_index = encode_persons(groups, records.n)
            # Ids are numbered without gaps, so that each number is a person.
            person_index = np.unique(person_index, return_inverse=True)[1]

        data = PopulationData(records, class_index, predictor, person_index)
        return data, classes

    def _load_predictor(self, column: Any, n: int) -> np.ndarray:
        """Return the predictor of each record as a number in [-1, 1].

        The public range `x_range` is mapped to this interval. Values outside become its
        ends, and values that are not finite become 0.

        Parameters
        ----------
        column : array of n numbers
            The predictor of each record, in its own unit.
        n : int
            The number of records.

        Returns
        -------
        array of shape (n,)
            The predictors. NOT private.
        """
        x_range = check_range(self.x_range)
        if x_range is None:
            raise ParameterError(
                "is missing: the public range of the predictor, such as (20, 90) for "
                "ages; choose it from domain knowledge, not from the data",
                parameter="x_range",
            )
        values = open_records(column, (), "column", min_records=1).array()
        if len(values) != n:
            raise ParameterError(f"column has {len(values)} numbers for {n} records")
        low, high = x_range
        with quiet_about_records():
            positions = 2 * (values - low) / (high - low) - 1
            clipped = np.clip(positions, -1.0, 1.0)
            return np.asarray(np.where(np.isfinite(values), clipped, 0.0))

    def _privacy_unit(self, y: Any, groups: Any, column: Any) -> ProtectedUnit:
        """Return the protected unit: a record or a person, with or without its label.

        Only whether an argument is None matters.

        Parameters
        ----------
        y : sequence of labels, or None
            The class of each record. Labels are public if `classes` is not given.
        groups : sequence of ids, or None
            The person to whom each record belongs; then a person is protected.
        column : array of numbers, or None
            The predictor of each record, which is protected with it.

        Returns
        -------
        ProtectedUnit
            The privacy unit that the certificate states.
        """
        is_person = groups is not None
        has_public_labels = y is not None and self.classes is None
        if has_public_labels:
            return (
                ProtectedUnit.PERSON_IN_CLASS
                if is_person
                else ProtectedUnit.RECORD_IN_CLASS
            )
        has_private_labels = y is not None
        if has_private_labels:
            return (
                ProtectedUnit.LABELED_PERSON
                if is_person
                else ProtectedUnit.LABELED_RECORD
            )
        if is_person:
            return ProtectedUnit.PERSON
        if column is not None:
            return ProtectedUnit.PREDICTOR_AND_RESPONSE
        return ProtectedUnit.RECORD

    def _calibrated_mechanism(
        self, n: int, n_classes: int, *, has_predictor: bool
    ) -> ChosenMechanism:
        """Return the calibrated mechanism, and why it was chosen.

        Issues a `ReleaseWarning` if there are too few records. Nothing has been spent
        then.

        Parameters
        ----------
        n : int
            The number of records, or of people.
        n_classes : int
            The number of classes; 1 without labels.
        has_predictor : bool
            Whether records have a predictor.

        Returns
        -------
        ChosenMechanism
            The mechanism of the parameter `model`. If this is "auto", it is that of the
            model with the smallest predicted error.
        """
        x_range = self.x_range if has_predictor else None
        if self._searches_ball:
            model = self.model
            if model == "auto":
                model = self._best_model_in_reference_ball(n, n_classes, x_range)
            searched = SearchedPopulation(
                self.manifold,
                self.center,
                self.outer_radius,
                n,
                model,
                n_classes,
                x_range,
            )
            return choose_private_ball(searched, self.guarantee)

        # The ball is public: every model that fits it may be chosen.
        radius: Any = self.radius
        statistic = SyntheticPopulation(
            self.manifold, self.center, radius, n, n_classes, x_range
        )
        chosen = choose_mechanism(self.model, statistic, self.guarantee)
        mechanism = chosen.mechanism
        assert isinstance(mechanism, PopulationMechanism)
        if not mechanism.has_enough_records:
            warnings.warn(
                f"n = {n} at {self.guarantee} is small: expect synthetic records that "
                "say little about the real ones",
                ReleaseWarning,
                stacklevel=3,
            )
        return chosen

    def _best_model_in_reference_ball(
        self, n: int, n_classes: int, x_range: Any
    ) -> str:
        """Return the model with the smallest predicted error in a typical private ball.

        The errors are predicted before the ball is released. So they are predicted for
        a public ball of typical size instead.

        Parameters
        ----------
        n : int
            The number of records, or of people.
        n_classes : int
            The number of classes; 1 without labels.
        x_range : pair of float, or None
            The public range of the predictor.

        Returns
        -------
        str
            "wrapped-gaussian", "mixture" or "tree".
        """
        searched = SearchedPopulation(
            self.manifold, self.center, self.outer_radius, n, MODELS[0]
        )
        statistic = SyntheticPopulation(
            self.manifold, *searched.reference_ball, n, n_classes, x_range
        )
        return next(iter(rank_mechanisms(statistic, self.guarantee).candidates))

    @property
    def predicted_error_(self) -> float:
        """Return the expected energy distance between synthetic and real records.

        It is computed from public numbers alone, on public populations that fill half
        of the ball. The unit is the square root of a length.
        """
        check_is_fitted(self)
        return predicted_error(final_mechanism_of(self.certificate_))

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the released distribution as a table with a row for each cell.

        The columns are the share of the records, the class, and the lower and upper
        corner of the cell.
        """
        (published,) = super().releases
        return [published._replace(value=self.population_.table())]

    def sample(self, n: int, rng: Any = 0) -> Any:
        """Draw synthetic records. This is post-processing: it costs no privacy.

        Parameters
        ----------
        n : int
            How many.
        rng : int or numpy.random.Generator
            A public seed, or a generator. The same seed and certificate draw the same
            records.

        Returns
        -------
        array of shape (n, *point_shape)
            The synthetic records. With labels, or a predictor, a tuple of the records,
            their labels (if there are labels) and their predictors (if there are any).
        """
        check_is_fitted(self)
        n = _validate.integer("n", n, 1)
        synthetic = self.population_.sample(n, np.random.default_rng(rng))
        parts: list[Any] = [synthetic.points]
        if self.classes_ is not None:
            parts.append(self.classes_[synthetic.class_index])
        if self.population_.chart.has_predictor:
            parts.append(synthetic.predictor)
        if len(parts) == 1:
            return synthetic.points
        return tuple(parts)

    @property
    def public_base_(self) -> np.ndarray:
        """Return the released point at which logarithms of records are taken."""
        check_is_fitted(self)
        return base_of(self.population_)

    def plot(self, real: Any = None, n: int = 1000, rng: Any = 0) -> "Figure":
        """Draw synthetic records, and real records beside them (extra: report).

        Parameters
        ----------
        real : array of shape (m, *point_shape), optional
            The real records. Then the picture is NOT private: look at it, and do not
            publish it.
        n : int
            How many synthetic records are drawn.
        rng : int or numpy.random.Generator
            A public seed, or a generator, for the synthetic records.

        Returns
        -------
        matplotlib.figure.Figure
            Private only if `real` is not given.
        """
        from curvedp.report.synthetic import synthetic_figure

        check_is_fitted(self)
        n = _validate.integer("n", n, 2)
        synthetic = self.population_.sample(n, np.random.default_rng(rng))
        manifold = self.manifold_
        if real is not None:
            real = open_records(real, manifold.point_shape, "real").array()
        return synthetic_figure(
            manifold, self.public_base_, synthetic.points, synthetic.class_index, real
        )


def base_of(population: ReleasedPopulation) -> np.ndarray:
    """Return the released point at which a distribution's logarithms are taken.

    Parameters
    ----------
    population : ReleasedPopulation
        The released distribution.

    Returns
    -------
    array of shape point_shape
        In the frame of the records.
    """
    chart = population.chart
    center = population.statistic.center
    return np.asarray(move_from_origin(chart.manifold, center, chart.base))


def population_from_certificate(certificate: Certificate) -> ReleasedPopulation:
    """Return the released distribution that a certificate's integers lead to.

    Parameters
    ----------
    certificate : Certificate
        Of a `PrivateSynthesizer`.

    Raises
    ------
    ParameterError
        If the certificate is of another release.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import PrivateSynthesizer
    >>> from curvedp.geometry import Euclidean
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> fitted = PrivateSynthesizer(Euclidean(2), radius=5.0).fit(X)
    >>> points = population_from_certificate(fitted.certificate_).sample(9, np.random.default_rng(1))
    >>> bool(np.all(points.points == fitted.sample(9, rng=1)))
    True
    """
    value = mechanism_of(certificate).reconstruct_value(certificate)
    if not isinstance(value, ReleasedPopulation):
        raise ParameterError("the certificate is not that of a synthetic population")
    return value
