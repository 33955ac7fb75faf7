"""The statistics that can be released without writing Python. Each is an `Offer`: a
name, an estimator and its options, from which the command line and the studio (a web
page) build a release. A *rehearsal* makes the release of simulated records, to predict
its error.

Each statistic declares its options once, in an `Offer`: for the command line, the
studio, their messages and the generated scripts. A new statistic is an estimator in its
own file, an `Offer` here, and a line in `OFFERS`.

Another package adds statistics of its own by entry points in its `pyproject.toml`:

    [project.entry-points."curvedp.offers"]
    mean-distance = "my_package.mean_distance:OFFER"

docs/project/extending.md, "From Python to the command line", follows one to the end.
"""

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from importlib.metadata import entry_points
from math import pi
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from curvedp._files import write_atomically
from curvedp.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from curvedp.core.certificate import Certificate
    from curvedp.core.released import ReleasedValue
    from curvedp.core.statistic import Statistic
    from curvedp.estimators.base import PrivateEstimator
    from curvedp.geometry import Manifold
    from curvedp.planning import OwnStatistic


# Reads a public point that somebody typed, such as the center of a ball. The command
# line also accepts the name of a file here; the studio does not.
PointReader = Callable[[str], Any]

# Turns what somebody typed for an option into the value that the estimator takes.
OptionParser = Callable[[Any, PointReader], Any]


@dataclass(frozen=True)
class Option:
    """One public parameter of an estimator, as people set it who write no Python.

    Attributes
    ----------
    name : str
        The parameter of the estimator, such as "n_components".
    flags : tuple of str
        What is typed for it on the command line, such as ("--radius", "-r").
    kind : {str, int, float}
        The type of the value. With a `parse`, the command line takes it as text.
    help : str
        The help text on the command line.
    label : str
        What the page of the studio calls it. Without a label it is not on the page.
    note : str
        What the page says after the label.
    placeholder : str
        What the page shows in the empty field: the default in words, or an example.
    hint : str
        What the page shows when the pointer rests on the field.
    suggestion : str
        What the field on the page contains at first.
    default : object
        The value if nothing is typed; None leaves the choice to the estimator.
    parse : callable, optional
        Turns the typed value into the estimator's; takes the value and a `PointReader`.
        What it cannot read it refuses by a `ParameterError` or a `ValueError`.
    why_required : str
        Why a value must be given, for the message that it is missing. An option without
        such a reason may be left out.
    used_with : {"any ball", "public ball", "private ball"}
        Whether the option has a meaning only if the ball is public or is private.
    """

    name: str
    flags: tuple[str, ...]
    kind: type[str] | type[int] | type[float]
    help: str
    label: str = ""
    note: str = ""
    placeholder: str = ""
    hint: str = ""
    suggestion: str = ""
    default: Any = None
    parse: OptionParser | None = None
    why_required: str = ""
    used_with: Literal["any ball", "public ball", "private ball"] = "any ball"

    @property
    def command_line_type(self) -> type[str] | type[int] | type[float]:
        """The type that the command line reads: text, if a parser follows."""
        return self.kind if self.parse is None else str

    def accepts_type(self, value: Any) -> bool:
        """Return whether a value that the web page sent has the right type.

        This is checked before the value is parsed.

        Parameters
        ----------
        value : object
            A JSON value: a text, a number or a boolean.

        Returns
        -------
        bool
            False for a boolean: no option is one.
        """
        if isinstance(value, str):
            return self.kind is str or self.parse is not None
        if isinstance(value, bool):
            return False
        if self.kind is float:
            return isinstance(value, float | int)
        return isinstance(value, self.kind)

    def parse_value(self, value: Any, read_point: PointReader) -> Any:
        """Convert what a user typed into the value that the estimator takes.

        Parameters
        ----------
        value : object
            What was typed; None if nothing was.
        read_point : callable
            A function that reads a public point, such as a center, from text.

        Returns
        -------
        object
            The value; None if the estimator shall use its default.

        Raises
        ------
        ParameterError
            If the option is required and `value` is None, or if it cannot be parsed.
        """
        if value is None:
            value = self.default
        if value is None:
            if self.why_required:
                raise ParameterError(
                    f"is missing: {self.why_required}", parameter=self.name
                )
            return None
        if self.parse is None:
            return value
        try:
            return self.parse(value, read_point)
        except ParameterError:
            raise
        except ValueError:
            raise ParameterError(
                f"cannot be read; it is {self.help}", parameter=self.name, value=value
            ) from None


@dataclass(frozen=True)
class Column:
    """A column of the file that a statistic needs beside the records.

    Attributes
    ----------
    name : str
        The argument of `fit`, such as "labels".
    flags : tuple of str
        What is typed for it on the command line.
    help : str
        The help text on the command line.
    label, note : str
        What the page of the studio calls it, and what the page says after that.
    description : str
        What the column contains, for the message that it is missing.
    holds_numbers : bool
        Whether its cells are numbers, so that the decimal sign of the file matters.
    holds_classes : bool
        Whether it says the class of each record.
    classes_are_private : bool
        Whether all classes are released together, so that only their set is public.
    """

    name: str
    flags: tuple[str, ...]
    help: str
    label: str
    description: str
    note: str = ""
    holds_numbers: bool = False
    holds_classes: bool = False
    classes_are_private: bool = False


@dataclass(frozen=True)
class PlannedError:
    """How the error of a statistic is predicted: by `curvedp.plan`.

    Attributes
    ----------
    statistic : str
        What `plan` calls the statistic, such as "mean"; or where the class of the
        statistic in a public ball is imported from, such as
        "my_package.mean_distance:MeanDistance".
    error_description : str
        What the error is, such as "distance to the mean".
    """

    statistic: str
    error_description: str

    def load_statistic(
        self, options: Mapping[str, Any] | None = None
    ) -> "str | OwnStatistic":
        """Return what `plan` takes as `statistic`: a name, or an imported class.

        The class is imported here, when it is needed, so that the command line starts
        fast.

        Parameters
        ----------
        options : mapping, optional
            The parsed options by name. Those that are fields of the class, besides the
            public ball, go with it.

        Returns
        -------
        str, type of Statistic, or functools.partial of one
            What `plan` takes.
        """
        if ":" not in self.statistic:
            return self.statistic
        statistic_class: type[Statistic] = resolve_name(self.statistic)
        own_parameters = {
            field.name: options[field.name]
            for field in fields(statistic_class)
            if options is not None
            and field.name in options
            and field.name not in ("manifold", "center", "radius", "n")
        }
        if not own_parameters:
            return statistic_class
        return partial(statistic_class, **own_parameters)


@dataclass(frozen=True)
class Rehearsal:
    """How the error of a statistic is predicted: by releases of simulated records.

    Attributes
    ----------
    max_records : int
        The most records to simulate. Of a larger study, fewer records are simulated
        with a guarantee that is weaker in proportion.
    error : callable
        Takes the manifold, the fitted estimator and the simulated records in normal
        coordinates (shape (n, d)), and returns the error of the release.
    error_description : str
        What the error is, such as "distance to the median".
    baseline : callable
        Takes the radius of the ball, and returns the largest error that the
        public center can have.
    """

    max_records: int
    error: Callable[["Manifold", "PrivateEstimator", "np.ndarray"], float]
    error_description: str
    baseline: Callable[[float], float]


@dataclass(frozen=True)
class Offer:
    """A statistic, as it is offered to people who write no Python.

    Attributes
    ----------
    estimator : str
        Where its estimator is imported from, such as "curvedp:PrivateFrechetMean".
    title : str
        What is released, in a word or two.
    description : str
        What is released, in a sentence.
    options : tuple of Option
        The public parameters of the estimator, besides those that every estimator has.
    column : Column, optional
        The column that `fit` takes beside the records.
    fit_arguments : tuple of str
        What `fit` takes, in this order: "records", and possibly the column's name.
    takes_manifold : bool
        Whether the estimator has a parameter `manifold`.
    takes_vectors : bool
        Whether records must be vectors.
    prediction : PlannedError, Rehearsal or None
        How the error is predicted before the release: by `curvedp.plan`, by a
        rehearsal, or not at all.
    has_command : bool
        Whether `curvedp release` has a command for it.
    make_files : callable, optional
        Takes the fitted estimator and the form of the records, and returns the contents
        of further files by name, which are made of released numbers alone.
    private_picture : callable, optional
        Takes the fitted estimator and the records, and returns a figure of the records
        beside what was released. NOT private.
    """

    estimator: str
    title: str
    description: str
    options: tuple[Option, ...]
    column: Column | None = None
    fit_arguments: tuple[str, ...] = ("records",)
    takes_manifold: bool = True
    takes_vectors: bool = False
    prediction: PlannedError | Rehearsal | None = None
    has_command: bool = True
    make_files: Callable[[Any, str | None], dict[str, bytes]] | None = None
    private_picture: Callable[[Any, "np.ndarray"], "Figure"] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the estimator's parameters that are chosen for it."""
        names = tuple(option.name for option in self.options)
        return ("manifold", *names) if self.takes_manifold else names

    @property
    def has_classes(self) -> bool:
        """Whether the statistic is released for each class of records."""
        return self.column is not None and self.column.holds_classes

    @property
    def import_names(self) -> tuple[str, str]:
        """The module and the name of the estimator's class."""
        module, _, class_name = self.estimator.partition(":")
        return module, class_name

    def parse_options(
        self, typed: Mapping[str, Any], read_point: PointReader
    ) -> dict[str, Any]:
        """Convert what a user typed into the options of the estimator.

        Parameters
        ----------
        typed : mapping
            What was typed, by the name of the option. Other names are ignored.
        read_point : callable
            A function that reads a public point, such as a center, from text.

        Returns
        -------
        dict
            The values by the name of the option, without options that are left out.

        Raises
        ------
        ParameterError
            If a required option is missing, or a value cannot be parsed.
        """
        values = {}
        for option in self.options:
            value = option.parse_value(typed.get(option.name), read_point)
            if value is not None:
                values[option.name] = value
        return values

    def build(self, options: Mapping[str, Any], **payment: Any) -> "PrivateEstimator":
        """Make the estimator with some options; it is not yet fitted.

        Parameters
        ----------
        options : mapping
            Parsed options by name, and the manifold as "manifold". An option is ignored
            if it is None, or if the estimator does not have it.
        **payment
            The arguments that every estimator takes: `guarantee`, `ledger`, `label` and
            `source`.

        Returns
        -------
        PrivateEstimator
            The estimator, which has checked its parameters.
        """
        estimator_class = resolve_name(self.estimator)
        estimator: PrivateEstimator = estimator_class(
            **self.select_options(options), **payment
        )
        return estimator

    def select_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return those options that the estimator has and that are not None.

        Parameters
        ----------
        options : mapping
            Parsed options by name, perhaps also of other statistics.

        Returns
        -------
        dict
            Keyword arguments of the estimator.
        """
        selected = {}
        for name in self.parameters:
            if options.get(name) is not None:
                selected[name] = options[name]
        return selected

    def fit(self, estimator: Any, columns: Mapping[str, Any]) -> "PrivateEstimator":
        """Fit the estimator, which spends the budget, and return it.

        Parameters
        ----------
        estimator : PrivateEstimator
            The estimator that `build` made, not yet fitted.
        columns : mapping
            The records as "records", the column beside them by its name, and possibly
            the person of each record as "groups".

        Returns
        -------
        PrivateEstimator
            The same object, with the released values.
        """
        self.check_columns(columns)
        arguments = [columns[name] for name in self.fit_arguments]
        # Each estimator has a `fit` of its own signature, which `fit_arguments` says.
        fitted_estimator: PrivateEstimator = estimator.fit(
            *arguments, groups=columns.get("groups")
        )
        return fitted_estimator

    def check_columns(self, columns: Mapping[str, Any]) -> None:
        """Refuse columns among which the statistic's own one is missing.

        Parameters
        ----------
        columns : mapping
            What was read beside the records, by name; None for what was not.

        Raises
        ------
        ParameterError
            If the column beside the records is missing.
        """
        if self.column is not None and columns.get(self.column.name) is None:
            raise ParameterError(
                f"is missing: {self.column.description}", parameter=self.column.name
            )


def parse_radius(value: Any, read_point: PointReader | None = None) -> float | str:
    """Convert a typed radius into a number, or leave a word such as "private".

    Parameters
    ----------
    value : str or number
        What was typed.
    read_point : callable, optional
        Not used; every parser is called with it.
    """
    try:
        return float(value)
    except ValueError:
        return str(value)


def _parse_point(text: str, read_point: PointReader) -> Any:
    """Read a public point from text; an empty text gives None.

    Parameters
    ----------
    text : str
        What was typed.
    read_point : callable
        Reads a point in the form of the records.
    """
    return read_point(text) if text else None


def parse_range(
    text: Any, read_point: PointReader | None = None
) -> tuple[float, float]:
    """Convert a typed public range, such as "20,90", into two numbers.

    Parameters
    ----------
    text : str
        What was typed.
    read_point : callable, optional
        Not used; every parser is called with it.

    Returns
    -------
    (float, float)
        The two ends as they were typed.

    Raises
    ------
    ParameterError
        If it is no pair of numbers.
    """
    low, _, high = str(text).partition(",")
    try:
        return float(low), float(high)
    except ValueError:
        raise ParameterError(
            "must be two numbers with a comma between, such as 20,90",
            parameter="x_range",
            value=text,
        ) from None


def parse_number_of_clusters(
    value: Any, read_point: PointReader | None = None
) -> int | str:
    """Convert a typed number of clusters into a number, or leave the word "private".

    Parameters
    ----------
    value : str or number
        What was typed.
    read_point : callable, optional
        Not used; every parser is called with it.
    """
    try:
        return int(value)
    except ValueError:
        return str(value)


def _parse_labels(text: Any, read_point: PointReader) -> list[str]:
    """Split a typed set of classes, such as "rest,task", into its labels.

    Parameters
    ----------
    text : str
        What was typed, with commas between the labels.
    read_point : callable
        Not used; every parser is called with it.
    """
    return [label.strip() for label in str(text).split(",")]


def _distance_from_origin(
    manifold: "Manifold",
    fitted_estimator: "PrivateEstimator",
    coordinates: "np.ndarray",
) -> float:
    """Return the error of a simulated release of a point: its distance to the origin.

    Simulated records are centered at the origin, so that their mean and median are
    there.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    coordinates : array, shape (n, d)
        The simulated records. Not used.
    """
    return float(manifold.dist(manifold.origin, fitted_estimator.releases[0].value))


def _variance_error(
    manifold: "Manifold",
    fitted_estimator: "PrivateEstimator",
    coordinates: "np.ndarray",
) -> float:
    """Return the error of a simulated release of a variance.

    It is the absolute difference to the mean squared length of the simulated records,
    whose center is the origin.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records. Not used.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    coordinates : array, shape (n, d)
        The simulated records in normal coordinates at the origin.

    Returns
    -------
    float
        In squared units of distance.
    """
    released_variance = float(fitted_estimator.releases[0].value[0])
    true_variance = float((coordinates**2).sum(axis=1).mean())
    return abs(released_variance - true_variance)


def _largest_principal_angle(
    manifold: "Manifold",
    fitted_estimator: "PrivateEstimator",
    coordinates: "np.ndarray",
) -> float:
    """Return the error of released principal directions: an angle in radians.

    It is the largest principal angle between the spaces that the released and the true
    directions span. The true ones are those of the simulated records.

    Parameters
    ----------
    manifold : Manifold
        Not used: the records are vectors.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    coordinates : array, shape (n, d)
        The simulated records.

    Returns
    -------
    float
        From 0 to π/2.
    """
    import numpy as np

    released_directions = np.asarray(fitted_estimator.releases[0].value)
    # `eigh` sorts eigenvalues upward; the principal directions come last.
    eigenvectors = np.linalg.eigh(coordinates.T @ coordinates)[1]
    true_directions = eigenvectors[:, ::-1][:, : len(released_directions)]
    cosines = np.linalg.svd(released_directions @ true_directions, compute_uv=False)
    return float(np.arccos(min(1.0, cosines[-1])))


def _synthetic_files(fitted_estimator: Any, form: str | None) -> dict[str, bytes]:
    """Return a csv file of synthetic records, as many as there are real records.

    Parameters
    ----------
    fitted_estimator : PrivateSynthesizer
        After `fit`.
    form : str or None
        The form in which the records were read.

    Returns
    -------
    dict
        The content of each file by its name.
    """
    from curvedp.records.writing import csv_content

    n = fitted_estimator.population_.statistic.n
    points = fitted_estimator.sample(n, rng=0)
    return {"synthetic.csv": csv_content(points, fitted_estimator.manifold_, form)}


def _picture_beside_records(fitted_estimator: Any, records: "np.ndarray") -> "Figure":
    """Return a picture of real and synthetic records side by side. NOT private.

    Parameters
    ----------
    fitted_estimator : PrivateSynthesizer
        After `fit`.
    records : array
        The real records.
    """
    figure: Figure = fitted_estimator.plot(records)
    return figure


def _same_radius(radius: float) -> float:
    """Return the radius: the error of a point about which nothing is known.

    Parameters
    ----------
    radius : float
        The radius of the public ball.
    """
    return radius


def _squared_radius(radius: float) -> float:
    """Return the squared radius: the error of an unknown variance.

    Parameters
    ----------
    radius : float
        The radius of the public ball.
    """
    return radius**2


def _right_angle(radius: float) -> float:
    """Return π/2, the largest angle between two directions.

    Parameters
    ----------
    radius : float
        The radius of the public ball. Not used.
    """
    return pi / 2


RADIUS = Option(
    name="radius",
    flags=("--radius", "-r"),
    kind=float,
    help="radius of the public ball that contains the records",
    label="radius",
    note="of a public ball that contains the records",
    suggestion="1",
    parse=parse_radius,
    why_required=(
        "a public ball must contain the records; "
        "choose it from domain knowledge, not from the data"
    ),
    used_with="public ball",
)
CENTER = Option(
    name="center",
    flags=("--center",),
    kind=str,
    help="center of the ball: a file, a list of numbers, or one number that scales the origin",
    label="its center",
    placeholder="the space's origin",
    hint=("written like a record; one number, such as 0.001, scales the origin"),
    parse=_parse_point,
)
MECHANISM = Option(
    name="mechanism",
    flags=("--mechanism",),
    kind=str,
    help="auto, or a name that `curvedp plan` lists",
)
OUTER_RADIUS = Option(
    name="outer_radius",
    flags=("--outer-radius",),
    kind=float,
    help="with -r private: radius of the outer ball; may be generous",
    label="outer radius",
    note="may be generous",
    placeholder="by the space",
    used_with="private ball",
)
_METHOD = Option(
    name="method",
    flags=("--method",),
    kind=str,
    help="auto, kng or dp-rgd",
)

# The options of a statistic of records in a public or private ball.
_BALL_OPTIONS = (RADIUS, CENTER, MECHANISM, OUTER_RADIUS)

# The options of classifiers of covariance matrices of many channels.
_FEATURES = Option(
    name="features",
    flags=("--features",),
    kind=str,
    help="of reduced matrices: power or log",
)
_CLASSES = Option(
    name="classes",
    flags=("--classes",),
    kind=str,
    help="the public set of classes, separated by commas; otherwise those in the file",
    label="the public set of classes",
    placeholder="those in the file",
    parse=_parse_labels,
)

_ERROR_OF_MEAN = PlannedError("mean", "distance to the mean")

_MEAN = Offer(
    estimator="curvedp:PrivateFrechetMean",
    title="Fréchet mean",
    description="The private Fréchet mean; with -r private no radius is needed.",
    options=_BALL_OPTIONS,
    prediction=_ERROR_OF_MEAN,
)

_MEDIAN = Offer(
    estimator="curvedp:PrivateFrechetMedian",
    title="median",
    description="The private geometric median.",
    options=_BALL_OPTIONS,
    prediction=Rehearsal(
        max_records=300,
        error=_distance_from_origin,
        error_description="distance to the median",
        baseline=_same_radius,
    ),
)

_DISPERSION = Offer(
    estimator="curvedp:PrivateDispersion",
    title="dispersion",
    description="The private Fréchet variance.",
    options=_BALL_OPTIONS,
    prediction=Rehearsal(
        max_records=20_000,
        error=_variance_error,
        error_description="of the variance, a squared distance",
        baseline=_squared_radius,
    ),
)

_PCA = Offer(
    estimator="curvedp:PrivatePCA",
    title="principal directions",
    description="Private principal directions of vectors.",
    options=(
        Option(
            name="n_components",
            flags=("--components",),
            kind=int,
            help="how many directions; one otherwise",
            label="how many directions",
            placeholder="1",
        ),
        Option(
            name="radius",
            flags=("--radius", "-r"),
            kind=float,
            help="radius of the public ball that contains the records",
            label="longest record",
            note="a public bound",
            suggestion="1",
            parse=parse_radius,
            why_required=RADIUS.why_required,
        ),
        _METHOD,
    ),
    takes_manifold=False,
    takes_vectors=True,
    prediction=Rehearsal(
        max_records=20_000,
        error=_largest_principal_angle,
        error_description=(
            "angle to the directions in radians, where one is twice as long as others"
        ),
        baseline=_right_angle,
    ),
)

_TANGENT_PCA = Offer(
    estimator="curvedp:PrivateTangentPCA",
    title="principal geodesics",
    description="A private mean, and the geodesics along which records vary most.",
    options=(
        *_BALL_OPTIONS,
        Option(
            name="n_components",
            flags=("--components",),
            kind=int,
            help="how many geodesics; those that stand out of the noise otherwise",
            label="how many geodesics",
            placeholder="those above the noise",
        ),
    ),
    prediction=PlannedError(
        "tangent-pca",
        "angle of the first direction in radians, where variances fall as 1, 1/2, 1/3",
    ),
)

_SYNTHETIC = Offer(
    estimator="curvedp:PrivateSynthesizer",
    title="synthetic records",
    description="A private law on the manifold, from which synthetic records are drawn.",
    options=(
        RADIUS,
        CENTER,
        OUTER_RADIUS,
        Option(
            name="model",
            flags=("--model",),
            kind=str,
            help="auto, wrapped-gaussian, mixture or tree",
            label="model",
            note="wrapped-gaussian, mixture or tree",
            placeholder="the one with the smallest predicted error",
        ),
    ),
    prediction=PlannedError(
        "synthetic",
        "energy distance of synthetic to real records, the root of a length",
    ),
    has_command=False,  # `curvedp synthesize` has labels, predictors and more formats
    make_files=_synthetic_files,
    private_picture=_picture_beside_records,
)

_MDM = Offer(
    estimator="curvedp:PrivateMDM",
    title="class means",
    description="Private class means, to classify by the nearest.",
    options=(
        # Reduced matrices need no ball; without `reduce`, `PrivateMDM` asks for it.
        replace(RADIUS, why_required=""),
        CENTER,
        MECHANISM,
        OUTER_RADIUS,
        Option(
            name="ball",
            flags=("--ball",),
            kind=str,
            help="with -r private: shared by all classes, each, or prototypes",
        ),
        Option(
            name="reduce",
            flags=("--reduce",),
            kind=int,
            help="for many channels: how many components matrices are reduced to",
        ),
        _FEATURES,
        _CLASSES,
    ),
    column=Column(
        name="labels",
        flags=("--labels",),
        help="column with the public classes",
        label="column with the classes",
        note="which are public",
        description="the column with the class of each record, which is public",
        holds_classes=True,
    ),
    fit_arguments=("records", "labels"),
    prediction=_ERROR_OF_MEAN,
)

_CLASSIFIER = Offer(
    estimator="curvedp:PrivateSoftmax",
    title="classifier",
    description="A private classifier of covariance matrices of many channels.",
    options=(
        Option(
            name="reduce",
            flags=("--reduce",),
            kind=int,
            help="how many components matrices are reduced to; 8 otherwise",
            label="components",
            note="to which matrices are reduced",
            placeholder="8",
        ),
        _FEATURES,
        _CLASSES,
    ),
    column=Column(
        name="labels",
        flags=("--labels",),
        help="column with the classes, which are private",
        label="column with the classes",
        note="which are private, except for their set",
        description="the column with the class of each record",
        holds_classes=True,
        classes_are_private=True,
    ),
    fit_arguments=("records", "labels"),
    prediction=PlannedError("classifier", "share of new records that it gets wrong"),
)

_REGRESSION = Offer(
    estimator="curvedp:PrivateGeodesicRegression",
    title="geodesic",
    description="A private geodesic through the records, by a predictor.",
    options=(
        Option(
            name="x_range",
            flags=("--x-range",),
            kind=str,
            help="its public range, such as 20,90",
            label="its public range",
            placeholder="20, 90",
            parse=parse_range,
            why_required="choose it from domain knowledge, not from the data",
        ),
        RADIUS,
        Option(
            name="speed",
            flags=("--speed",),
            kind=float,
            help="public bound on the geodesic's length",
            label="longest geodesic",
            note="a public bound",
            used_with="public ball",
        ),
        Option(
            name="clip",
            flags=("--clip",),
            kind=float,
            help="public bound on one residual",
            label="longest residual",
            note="a public bound",
            used_with="public ball",
        ),
        _METHOD,
        CENTER,
        OUTER_RADIUS,
    ),
    column=Column(
        name="x",
        flags=("--x",),
        help="column with the predictor",
        label="column with the predictor",
        description="the column with the predictor",
        holds_numbers=True,
    ),
    fit_arguments=("x", "records"),
    prediction=Rehearsal(
        max_records=100,
        error=_distance_from_origin,
        error_description="distance to the start of the geodesic",
        baseline=_same_radius,
    ),
)

_KMEANS = Offer(
    estimator="curvedp:PrivateKMeans",
    title="clusters",
    description="Private centers of clusters, with sizes and spreads.",
    options=(
        Option(
            name="n_clusters",
            flags=("--clusters", "-k"),
            kind=int,
            help="how many, or private to choose the number from what is released",
            label="how many clusters",
            note="or: private",
            suggestion="8",
            parse=parse_number_of_clusters,
            why_required='say how many, or "private" to have it chosen',
        ),
        CENTER,
        Option(
            name="outer_radius",
            flags=("--outer-radius",),
            kind=float,
            help="not on spheres: how far from the center records may be; may be generous",
            label="outer radius",
            note="may be generous; not for spheres",
            placeholder="by the space",
        ),
    ),
    prediction=PlannedError(
        "kmeans", "of a center, in units of the spread of its cluster"
    ),
)

# The statistics of this package that can be released, by the name that is typed.
OFFERS = {
    "mean": _MEAN,
    "median": _MEDIAN,
    "dispersion": _DISPERSION,
    "pca": _PCA,
    "tangent-pca": _TANGENT_PCA,
    "synthetic": _SYNTHETIC,
    "mdm": _MDM,
    "classifier": _CLASSIFIER,
    "regression": _REGRESSION,
    "kmeans": _KMEANS,
}

# Where other packages list offers of theirs.
_ENTRY_POINT_GROUP = "curvedp.offers"


def all_offers() -> dict[str, Offer]:
    """Return the offers of this package and of others, by the name that is typed.

    Raises
    ------
    ParameterError
        If another package takes a name that is in the table, or lists something that
        is not an `Offer`.
    """
    return OFFERS | _offers_of_other_packages()


@cache  # what is installed does not change while the program runs
def _offers_of_other_packages() -> dict[str, Offer]:
    """Return the offers that other packages list as entry points, by name.

    The command line and the studio offer them beside `OFFERS`.

    Returns
    -------
    dict
        Declarations of statistics, besides those of this package.

    Raises
    ------
    ParameterError
        If a name is taken, or an entry point is no `Offer`.
    """
    offers: dict[str, Offer] = {}
    for entry_point in entry_points(group=_ENTRY_POINT_GROUP):
        name = entry_point.name
        if name in OFFERS or name in offers:
            raise ParameterError(
                f"the entry point {entry_point.value} offers a statistic under the "
                f"name {name!r}, which is taken: remove that package"
            )
        offer = entry_point.load()
        if not isinstance(offer, Offer):
            raise ParameterError(
                f"the entry point {name} = {entry_point.value} is no Offer: "
                "see docs/project/extending.md"
            )
        offers[name] = offer
    return offers


def find_offer(name: str) -> Offer:
    """Return the statistic that is offered under a name, such as "mean".

    The command line and the studio look up statistics here.

    Parameters
    ----------
    name : str
        The name, as it is typed or sent by a page.

    Returns
    -------
    Offer
        The declaration of the statistic.

    Raises
    ------
    ParameterError
        If the name is unknown. The message lists all names.
    """
    offers = all_offers()
    if name not in offers:
        raise ParameterError(
            f"{str(name)[:40]!r} is not a statistic; choose one of {', '.join(offers)}"
        )
    return offers[name]


def statistic_to_plan(name: str) -> "str | OwnStatistic":
    """Return what `plan` takes as its `statistic` for a name that was typed.

    A name that is not in the table is returned as it is: `plan` has names of its own
    ("classifier"), and refuses what it does not know.

    Parameters
    ----------
    name : str
        The name of a statistic, as it is typed.

    Returns
    -------
    str, type of Statistic, or functools.partial of one
        What `plan` takes.

    Raises
    ------
    ParameterError
        If the error of the statistic is not predicted by `plan`.
    """
    offer = _offers_of_other_packages().get(name)
    if offer is None:
        return name
    if not isinstance(offer.prediction, PlannedError):
        raise ParameterError(
            f"the error of the {offer.title} is not predicted before its release",
            parameter="statistic",
            value=name,
        )
    return offer.prediction.load_statistic()


def parse_column(text: str) -> str | int:
    """Convert a typed column into its number, counted from 0, or leave its name.

    Only ASCII digits make a number. Python also calls characters such as ² digits, but
    does not read them as numbers.

    Parameters
    ----------
    text : str
        What was typed.

    Returns
    -------
    str or int
        The name of a column, or its place.
    """
    is_number = text.isascii() and text.isdigit()
    return int(text) if is_number else text


def write(
    fitted_estimator: "PrivateEstimator",
    out: Path | None,
    certificate: Path | None,
    report: Path | None,
    form: str | None = None,
) -> list[Path]:
    """Write the files of a release: the value, its certificates and a report.

    Each is written only if it has a path.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    out : path, optional
        The file of the released values as one array, .npy or .csv.
    certificate : path, optional
        The file of the certificate; several certificates are numbered.
    report : path, optional
        The file of the page that explains the release.
    form : str, optional
        The form in which records were read; a csv file and the report have released
        points in it.

    Returns
    -------
    list of path
        The files that were written.
    """
    written = []
    if out is not None:
        write_atomically(out, value_content(fitted_estimator, out.suffix, form))
        written.append(out)
    if certificate is not None:
        contents = certificate_contents(fitted_estimator, certificate.name)
        for name, content in contents.items():
            write_atomically(certificate.with_name(name), content)
            written.append(certificate.with_name(name))
    if report is not None:
        # The report needs an extra that others do not have to install.
        from curvedp.report import write_report

        write_report(report, fitted_estimator, form=form)
        written.append(report)
    return written


def value_content(
    fitted_estimator: "PrivateEstimator", suffix: str, form: str | None = None
) -> bytes:
    """Return the content of the file in which all released values are saved.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    suffix : str
        ".csv" for text with all digits; any other suffix for numpy's own format.
    form : str, optional
        The form in which records were read, such as latitude and longitude in degrees.
        A csv file has released points in the same form, below a line that names the
        columns. It also has such a line if several points were released; the first
        column then says what each row is.

    Returns
    -------
    bytes
        The content of the file.
    """
    import numpy as np

    if suffix == ".csv" and all(
        is_point(release) for release in fitted_estimator.releases
    ):
        if form is not None or len(fitted_estimator.releases) > 1:
            return _table_of_points(fitted_estimator, form)
    value = fitted_estimator.released_array()
    buffer = io.BytesIO()
    if suffix == ".csv":
        n_rows = len(value) if value.ndim > 1 else 1
        rows = value.reshape(n_rows, -1)
        np.savetxt(buffer, rows, delimiter=",", fmt="%.17g")
    else:
        np.save(buffer, value)
    return buffer.getvalue()


def is_point(release: "ReleasedValue") -> bool:
    """Return whether a released value is a single point of its manifold.

    A velocity or a variance, for example, is not.

    Parameters
    ----------
    release : ReleasedValue
        A value with its certificate, which names the manifold.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.records.output_forms import is_point_of

    return is_point_of(parse_manifold(release.certificate.manifold), release.value)


def _table_of_points(fitted_estimator: "PrivateEstimator", form: str | None) -> bytes:
    """Return the content of a csv file with a row for each released point.

    Points are written in the same form as the records, below a line of column names.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    form : str or None
        The form in which the records were written.

    Returns
    -------
    bytes
        The content of the file in UTF-8.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.records.output_forms import align_to_center, output_form

    rows: list[list[str]] = []
    for release in fitted_estimator.releases:
        manifold = parse_manifold(release.certificate.manifold)
        point_form = output_form(form, manifold)
        point = align_to_center(
            manifold, release.value, public_center(fitted_estimator)
        )
        numbers = [f"{number:.17g}" for number in point_form.numbers(point)]
        rows.append([release.title, *numbers])
    header = ["released", *point_form.columns]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


def public_center(fitted_estimator: "PrivateEstimator") -> Any:
    """Return the public center that was given for an estimator's ball, or None.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    """
    return fitted_estimator.get_params(deep=False).get("center")


def certificate_contents(
    fitted_estimator: "PrivateEstimator", name: str
) -> dict[str, bytes]:
    """Return the contents of the certificate files of a release, by file name.

    The command line and the studio write these files beside the released values.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    name : str
        The file name if there is one certificate, such as "certificate.json". With
        several they are numbered and say what they are of, such as
        "certificate-1-mean-of-class-left.json".

    Returns
    -------
    dict
        The JSON text of each certificate, by the name of its file.
    """
    certificates = certificates_of(fitted_estimator)
    title_by_id = {
        id(release.certificate): release.title
        for release in reversed(fitted_estimator.releases)
    }
    titles = [title_by_id[id(certificate)] for certificate in certificates]
    return {
        file_name: (certificate.to_json() + "\n").encode()
        for file_name, certificate in zip(
            numbered_names(name, titles), certificates, strict=True
        )
    }


def numbered_names(name: str, titles: list[str]) -> list[str]:
    """Return the names of the files for one or several contents.

    Parameters
    ----------
    name : str
        The file name for one content, such as "certificate.json".
    titles : list of str
        What each content is of.

    Returns
    -------
    list of str
        One name for each title.

    Examples
    --------
    >>> numbered_names("c.json", ["test"])
    ['c.json']
    >>> numbered_names("c.json", ["test", "mean of class left"])
    ['c-1-test.json', 'c-2-mean-of-class-left.json']
    """
    if len(titles) == 1:
        return [name]
    path = Path(name)
    return [
        f"{path.stem}-{number}-{_file_name_of(title)}{path.suffix}"
        for number, title in enumerate(titles, 1)
    ]


def _file_name_of(title: str) -> str:
    """Return a title as part of a file name: letters, digits and hyphens.

    Parameters
    ----------
    title : str
        What a certificate is of, such as "mean of class left".
    """
    return re.sub(r"\W+", "-", title)[:60].strip("-") or "value"


def certificates_of(fitted_estimator: "PrivateEstimator") -> list["Certificate"]:
    """Return the certificates of a fitted estimator's releases, each of them once.

    Several released values may share one certificate object.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.

    Returns
    -------
    list of Certificate
        In the order of the releases.
    """
    certificate_by_id = {
        id(release.certificate): release.certificate
        for release in fitted_estimator.releases
    }
    return list(certificate_by_id.values())
