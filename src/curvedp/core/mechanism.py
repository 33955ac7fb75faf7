"""How a statistic is released: a *mechanism* is a frozen value that holds both its
sampler and its privacy profile, so that the two cannot drift apart. A *draw* is its
noisy result. Public parameters are fields; private data are arguments of calls.

The life of a release:

1. `calibrate` finds the least noise that meets a guarantee, from public numbers alone.
2. `prepare_data` brings the data into the form that `draw` takes. Only shapes and types
   can be refused, and they are refused here, before the ledger is charged.
3. The ledger is charged (`curvedp.release.pay`).
4. `draw` adds the noise, `post_process` moves the draw to where the value can be, and
   `release` writes the certificate. Nothing after the charge may fail.

To verify, `mechanism_from_parameters` builds the mechanism again from its certificate,
every claim is recomputed from `privacy_profile` and `sensitivity`, and
`reconstruct_value` makes the released value again from the released integers.

What only some mechanisms can do is in `curvedp.core.capabilities`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, final

import numpy as np

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.capabilities import PostProcessesItself, RefusesRelease
from curvedp.core.certificate import (
    Certificate,
    Claims,
    Provenance,
    Release,
    exact_integers,
    hash_integers,
    seal,
)
from curvedp.core.certificate_form import check_plain_text
from curvedp.core.chart import grid_of
from curvedp.core.codes import (
    ChoiceRule,
    PostProcessing,
    ProfileKind,
    ProtectedUnit,
    SamplingPath,
    TrustModel,
)
from curvedp.core.fields import check_fields
from curvedp.core.registry import mechanisms
from curvedp.core.statistic import UNIT_FIELD, Statistic
from curvedp.errors import ParameterError
from curvedp.geometry.names import manifold_name
from curvedp.privacy import GDP, Guarantee, PrivacyCurve, PrivacyProfile, PureDP
from curvedp.randomness import SecureSource, Source

# A certificate lists the integers of a draw up to this many; of more it has the hash
# alone.
MAX_LISTED_INTEGERS = 1 << 14


AnyMechanism = TypeVar("AnyMechanism", bound="Mechanism")


@dataclass(frozen=True)
class MechanismInfo:
    """What is true of every instance of a mechanism.

    Attributes
    ----------
    name : str
        What certificates call it.
    option : str or None
        What users ask for it by (`mechanism=`); None where an estimator has only one.
    reads : {"value", "array", "records"}
        Whether `release` takes the statistic's value, the records as one NumPy array,
        or `Records` wherever they are stored.
    sampling : SamplingPath
        How it draws.
    trust : TrustModel
        Who sees the records before noise is added.
    is_staged : bool
        Whether its certificate lists stages, and all integers, from which they follow.
    similar_to : str or None
        The option of a mechanism that errs by about as much and is calibrated at once.
    """

    name: str
    option: str | None = None
    reads: Literal["value", "array", "records"] = "value"
    sampling: SamplingPath = SamplingPath.EXACT_THEN_ROUND
    trust: TrustModel = TrustModel.CENTRAL
    is_staged: bool = False
    similar_to: str | None = None


class Draw(NamedTuple):
    """One draw of a mechanism, before post-processing.

    Attributes
    ----------
    value
        The drawn value, before post-processing.
    integers : sequence of arrays
        The grid integers it is made of, in the order of the draws.
    slack : float or None
        A public bound τ on the total variation distance from the ideal distribution;
        None where the mechanism draws in floats, and no bound is known.
    stages : sequence of mappings
        What was released on the way, for the certificate.
    """

    value: Any
    integers: Sequence[np.ndarray]
    slack: float | None
    stages: Sequence[Mapping[str, Any]] = ()


class Choice(NamedTuple):
    """Why a mechanism was taken, in public terms.

    Attributes
    ----------
    rule : ChoiceRule
        Why the mechanism was taken, as a code.
    predicted_errors : dict
        Of each candidate by its option, best first; empty unless errors were compared.
    excluded : dict
        Why other candidates were not considered, by option.
    """

    rule: ChoiceRule = ChoiceRule.NAMED
    predicted_errors: Mapping[str, float] = {}
    excluded: Mapping[str, str] = {}


class ReleaseTerms(NamedTuple):
    """The caller's part of a certificate: guarantee, unit, choice and payment.

    Attributes
    ----------
    guarantee : Guarantee or None
        What was asked for; None takes what the mechanism gives.
    privacy_unit : ProtectedUnit or None
        Whose data are protected; None takes the statistic's default.
    choice : Choice
        Why this mechanism was taken.
    ledger_entry : mapping or None
        Number and hash of the ledger's entry that paid for the release.
    """

    guarantee: Guarantee | None = None
    privacy_unit: ProtectedUnit | None = None
    choice: Choice = Choice()
    ledger_entry: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)  # a statistic may hold arrays
class Mechanism(ABC):
    """A way to release a statistic with noise, at a stated privacy guarantee.

    A subclass is a frozen dataclass. Its fields are its public parameters; each is
    checked by its type and goes into the certificate unless it has its default value.

    The noise is added to the value of the statistic, or to what is read of the records
    on the way to it.

    Attributes
    ----------
    statistic : Statistic
        What is released.
    info : MechanismInfo
        What is true of every instance; a subclass with its own is registered by its
        name.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> from curvedp.statistics.frechet_mean import FrechetMean
    >>> mean_of_100 = FrechetMean(Sphere(2), None, 0.5, 100)
    >>> mechanism = LogGaussianMechanism.calibrate(mean_of_100, GDP(1.0))
    >>> round(mechanism.scale, 4), mechanism.info.reads
    (0.0109, 'value')
    """

    statistic: Statistic = field(kw_only=True, repr=False)

    info: ClassVar[MechanismInfo]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "info" in cls.__dict__:
            mechanisms.add(cls.info.name, cls)

    def __post_init__(self) -> None:
        """Check the statistic, and every field by its type."""
        check_supported(type(self), self.statistic)
        check_fields(self)

    # ---- what a subclass implements ----

    @classmethod
    @abstractmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether the mechanism is made for statistics of this kind.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released, with its public parameters.

        Returns
        -------
        bool
            The class of the statistic decides, and its manifold. `calibrate` may still
            refuse its public numbers.
        """

    @classmethod
    @abstractmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets the guarantee.

        Calibration reads public numbers alone: n, the ball, the sensitivity. It is
        free.

        Parameters
        ----------
        statistic : Statistic
            What is released.
        guarantee : Guarantee
            What the release has to meet, such as `GDP(1.0)`.

        Raises
        ------
        ParameterError
            Where the statistic is of another kind, or its public numbers are not
            usable.
        UnattainableGuarantee
            Where no noise of this kind meets the guarantee.
        """

    @property
    @abstractmethod
    def privacy_profile(self) -> PrivacyCurve:
        """What ideal noise guarantees: its profile, or pure ε if nothing finer is known.

        The ideal distribution is the distribution of the noise before it is rounded to
        a grid. The profile δ(ε) is the largest over all neighboring data sets.
        """

    @abstractmethod
    def draw(self, data: Any, source: Source) -> Draw:
        """Draw one release, before post-processing, from prepared data.

        Parameters
        ----------
        data : object
            The value of the statistic or the records, in the form that `prepare_data`
            gives them.
        source : Source
            The source of random bits.

        Returns
        -------
        Draw
            The noisy value, the integers on the public grid that it is made of, and a
            bound on the distance of their distribution from the ideal distribution.
        """

    @abstractmethod
    def reconstruct_value(self, certificate: Certificate) -> Any:
        """Compute the released value again from the certificate's integers alone.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release by this mechanism.

        Returns
        -------
        array
            The value after post-processing, equal to the released one bit for bit.
            `verify` rests on it.

        Raises
        ------
        ParameterError
            If the integers are not those of a draw of this mechanism.
        """

    @abstractmethod
    def prepare_data(self, data: Any) -> Any:
        """Return the data in the form that `draw` takes.

        Parameters
        ----------
        data : object
            What `info.reads` says: the value of the statistic, an array of records, or
            `Records`.

        Raises
        ------
        ParameterError
            For a wrong shape or type, never for what a record holds.
        """

    # ---- what a subclass may refine ----

    @property
    def sensitivity(self) -> float:
        """The largest move of the noised quantity between neighboring data sets."""
        return float(self.statistic.sensitivity)

    @property
    def parameters(self) -> dict[str, Any]:
        """The mechanism's own public numbers as JSON values, without defaults.

        A certificate lists them, and `mechanism_from_parameters` builds the mechanism
        from them again.
        """
        values = _validate.field_values(self)
        return {
            entry.name: values[entry.name]
            for entry in fields(self)
            if entry.name != "statistic" and values[entry.name] != entry.default
        }

    def post_process(self, value: Any) -> Any:
        """Move a drawn value to where the statistic can be, such as the public ball.

        It uses the draw and public parameters only, so it costs no privacy.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        value : array
            The drawn value in the canonical frame.
        """
        return self.statistic.project(value[None])[0]

    # ---- what all share ----

    @final
    @quiet_about_records()  # it is paid for: no warning may end it
    def release(
        self,
        data: Any,
        *,
        source: Source | None = None,
        terms: ReleaseTerms = ReleaseTerms(),  # noqa: B008 - immutable
        is_prepared: bool = False,
    ) -> Release:
        """Release the statistic once, with its certificate.

        Parameters
        ----------
        data : array
            The statistic's value or the records, by `info.reads`. A value or record
            that is not finite or not on the manifold is data, not an argument: it is
            clipped into the public ball, and the guarantee holds. Only a wrong shape
            raises.
        source : Source, optional
            Where random bits come from: the operating system by default. Any other
            source is for simulation, and the certificate says so.
        terms : ReleaseTerms, optional
            What the certificate says beside what the mechanism knows.
        is_prepared : bool
            Whether `data` are what `prepare_data` has returned. Who charges a ledger
            prepares the data before, so that nothing is refused afterwards.

        Returns
        -------
        Release
            `value` and `certificate`.
        """
        prepared = data if is_prepared else self.prepare_data(data)
        source = check_source(source)
        # Wrong terms are refused here, before any draw.
        description = describe_mechanism(self)
        privacy_unit = _check_privacy_unit(self.statistic, terms.privacy_unit)
        if len(self.statistic.privacy_units) > 1:
            description["statistic"][UNIT_FIELD] = privacy_unit.value
        choice = _choice_record(terms.choice)
        source.refresh()  # clones of a virtual machine must not share their noise

        draw = self.draw(prepared, source)

        certificate = Certificate(
            **description,
            guarantee=terms.guarantee or strongest_guarantee(self.privacy_profile),
            claims=Claims.from_profile(self.privacy_profile, draw.slack or 0.0),
            privacy_unit=privacy_unit,
            release=_release_record(self, draw, choice),
            provenance=_provenance(self, draw, source, terms.ledger_entry),
        )
        return Release(self.post_process(draw.value), seal(certificate))


def _release_record(
    mechanism: Mechanism, draw: Draw, choice: dict[str, Any]
) -> dict[str, Any]:
    """Return what a certificate says about a draw and how it became the value.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that made the draw.
    draw : Draw
        The noisy result.
    choice : dict
        How the mechanism was chosen.
    """
    post_processing = [code.value for code in post_processing_of(mechanism)]
    return {
        "integers": _listed_integers(draw.integers, mechanism.info.is_staged),
        "sha256": hash_integers(draw.integers),
        "stages": [dict(stage) for stage in draw.stages],
        "post_processing": post_processing,
        "choice": choice,
    }


def _provenance(
    mechanism: Mechanism,
    draw: Draw,
    source: Source,
    ledger_entry: Mapping[str, Any] | None,
) -> Provenance:
    """Return what a certificate records about trust, sampling, random bits and payment.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that made the draw.
    draw : Draw
        The noisy result, with the slack of its sampler.
    source : Source
        Where the random bits came from.
    ledger_entry : mapping or None
        The entry of the ledger that paid, if there is one.
    """
    return Provenance(
        trust=mechanism.info.trust,
        numerics={
            "path": mechanism.info.sampling.value,
            "slack": draw.slack,
            "profile": profile_kind(mechanism.privacy_profile).value,
        },
        entropy={"source": source.name, "cryptographic": source.is_cryptographic},
        ledger=None if ledger_entry is None else dict(ledger_entry),
    )


def describe_mechanism(mechanism: Mechanism) -> dict[str, Any]:
    """Return what a certificate says of a mechanism and its statistic.

    `mechanism_from_parameters` builds the mechanism again from it.

    Parameters
    ----------
    mechanism : Mechanism
        A calibrated mechanism.

    Returns
    -------
    dict
        The certificate's fields "mechanism", "manifold", "parameters", "statistic" and
        "sensitivity", as JSON values.

    Raises
    ------
    ParameterError
        If the manifold is a user's own and has no name that could be written down, or
        the mechanism refuses to release with its public numbers.
    """
    if isinstance(mechanism, RefusesRelease):
        mechanism.check_releasable()
    return {
        "mechanism": mechanism.info.name,
        "manifold": manifold_name(mechanism.statistic.value_space),
        "parameters": mechanism.parameters,
        "statistic": mechanism.statistic.to_dict(),
        "sensitivity": mechanism.sensitivity,
    }


def profile_kind(promise: PrivacyCurve) -> ProfileKind:
    """Return whether a privacy profile is exact or a proved upper bound.

    Parameters
    ----------
    promise : PrivacyCurve
        A privacy profile or a guarantee.
    """
    return ProfileKind.EXACT if promise.is_exact else ProfileKind.PROVED_BOUND


def _check_privacy_unit(
    statistic: Statistic, privacy_unit: ProtectedUnit | None
) -> ProtectedUnit:
    """Return one of the units of privacy that a statistic allows.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is released.
    privacy_unit : ProtectedUnit or None
        The unit that the caller names; None stands for the statistic's first one.

    Returns
    -------
    ProtectedUnit
        The unit that the certificate will name.

    Raises
    ------
    ParameterError
        If the statistic does not allow the unit.
    """
    if privacy_unit is None:
        return statistic.privacy_units[0]
    if privacy_unit not in statistic.privacy_units:
        raise ParameterError(
            f"is no unit of a {statistic.name}",
            parameter="privacy_unit",
            value=privacy_unit,
        )
    return privacy_unit


def _choice_record(choice: Choice) -> dict[str, Any]:
    """Return why a mechanism was chosen, as JSON values for the certificate.

    Parameters
    ----------
    choice : Choice
        The rule, the predicted errors and the excluded mechanisms. An infinite
        predicted error, which JSON does not have, is left out.

    Returns
    -------
    dict
        "rule" (a code), "predicted_errors" (finite ones, by mechanism) and "excluded"
        (names of mechanisms).

    Raises
    ------
    ParameterError
        If the name of a mechanism is no text that a certificate may hold.
    """
    for option in (*choice.predicted_errors, *choice.excluded):
        check_plain_text("the option of a mechanism", option)
    return {
        "rule": choice.rule.value,
        "predicted_errors": {
            option: float(error)
            for option, error in choice.predicted_errors.items()
            if np.isfinite(error)
        },
        "excluded": list(choice.excluded),
    }


def mechanism_from_parameters(
    mechanism_class: type[AnyMechanism],
    statistic: Statistic,
    parameters: Mapping[str, Any],
) -> AnyMechanism:
    """Build the mechanism that a certificate describes, validated again.

    Parameters
    ----------
    mechanism_class : type of Mechanism
        The class of the mechanism, found by its name in the registry.
    statistic : Statistic
        The statistic that the mechanism releases.
    parameters : mapping
        The public numbers of a certificate, by the names of the mechanism's fields.
        Other names are ignored; `curvedp.release.rebuild` refuses them.

    Returns
    -------
    Mechanism
        An instance whose constructor has checked every field, as for a user's call.
    """
    values = {}
    for entry in fields(mechanism_class):
        is_needed = entry.name in parameters or entry.default is MISSING
        if entry.name != "statistic" and is_needed:
            values[entry.name] = parameters[entry.name]
    return mechanism_class(statistic=statistic, **values)


def post_processing_of(mechanism: Mechanism) -> tuple[PostProcessing, ...]:
    """Return what a mechanism's `post_process` does, as codes for the certificate.

    The statistic says it, unless the mechanism post-processes in a way of its own.

    Parameters
    ----------
    mechanism : Mechanism
        A calibrated mechanism.
    """
    if isinstance(mechanism, PostProcessesItself):
        return mechanism.post_processing
    return mechanism.statistic.post_processing


def strongest_guarantee(promise: PrivacyCurve) -> Guarantee:
    """Return the strongest guarantee of a profile: pure ε if finite, else μ-GDP.

    A certificate states it if the caller requested no guarantee.

    Parameters
    ----------
    promise : Guarantee
        A guarantee. One that is not a privacy profile is returned unchanged.

    Returns
    -------
    Guarantee
        `PureDP` or `GDP` for the same adjacency as the profile's.
    """
    if not isinstance(promise, PrivacyProfile):
        return promise.guarantee
    if np.isfinite(promise.pure_epsilon):
        return PureDP(promise.pure_epsilon, adjacency=promise.adjacency)
    return GDP(promise.mu, adjacency=promise.adjacency)


def replay_draws(integers: Any) -> Callable[..., np.ndarray]:
    """Return a function that gives back recorded draws, one after the other.

    To verify a certificate, a mechanism calls this function in place of the one that
    adds noise.

    Parameters
    ----------
    integers : list of lists of int
        A certificate's grid integers, one list for each draw.

    Returns
    -------
    function of (values, scales)
        Returns the next recorded draw in the shape of `values`, whose entries it does
        not read. Row i of `values` has the noise scale `scales[i]`.
    """
    is_list = isinstance(integers, list)
    if not is_list or not all(isinstance(draw, list) for draw in integers):
        raise ParameterError("the certificate does not list its integers")
    remaining_draws = iter(integers)

    def next_draw(values: np.ndarray, scales: Any = (1.0,)) -> np.ndarray:
        """Return the next recorded draw, in the shape of `values`.

        Parameters
        ----------
        values : array
            Stands for the quantity that noise was added to. Its entries are not read.
        scales : sequence of float
            The noise scale of each row.

        Returns
        -------
        array of the shape of `values`
            The coordinates that were released.

        Raises
        ------
        ParameterError
            If no draw is left, or it has another number of integers.
        """
        draw = next(remaining_draws, None)
        if draw is None or not _are_integers(draw, values.size):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        return _coordinates_on_grid(draw, scales).reshape(values.shape)

    return next_draw


def _are_integers(draw: list[Any], size: int) -> bool:
    """Return whether a recorded draw is a list of this many integers.

    Parameters
    ----------
    draw : list
        A draw from a certificate, which someone else may have written.
    size : int
        The number of integers that the mechanism draws.
    """
    return len(draw) == size and all(type(number) is int for number in draw)


def _coordinates_on_grid(integers: list[int], scales: Any) -> np.ndarray:
    """Return the coordinates that the integers of a draw stand for.

    In a row of noise scale s the integer k stands for the coordinate k·2^-g with
    g = grid_of(s).

    Parameters
    ----------
    integers : list of int
        The integers of all rows, one row after the other.
    scales : sequence of float
        The noise scale of each row.

    Returns
    -------
    array of shape (number of integers,)
        The coordinates.
    """
    grid_of_row = [grid_of(float(scale)) for scale in scales]
    row_length = len(integers) // len(grid_of_row)
    grids = np.repeat(grid_of_row, row_length).tolist()
    pairs = zip(integers, grids, strict=True)
    return np.array([integer / (1 << grid) for integer, grid in pairs])


def check_supported(mechanism_class: type[Mechanism], statistic: Any) -> None:
    """Refuse a statistic that a mechanism does not release.

    Parameters
    ----------
    mechanism_class : type
        The class of the mechanism.
    statistic : object
        What the caller passes as the statistic.

    Raises
    ------
    ParameterError
        If `mechanism_class.supports` denies it, or it is no statistic.
    """
    if isinstance(statistic, Statistic) and mechanism_class.supports(statistic):
        return
    is_statistic = isinstance(statistic, Statistic)
    raise ParameterError(
        f"is not what {mechanism_class.__name__} releases",
        parameter="statistic",
        value=statistic.name if is_statistic else statistic,
    )


def check_guarantee(guarantee: Any, *adjacencies: str) -> Guarantee:
    """Return a guarantee after checking that it is for an adjacency of the release.

    Parameters
    ----------
    guarantee : object
        What the caller passes.
    *adjacencies : str
        The adjacencies that the release can protect, "replace-one" by default.

    Returns
    -------
    Guarantee
        The same guarantee.

    Raises
    ------
    ParameterError
        If it is no guarantee, or one for another adjacency.
    """
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "must be a guarantee, such as GDP(1.0) or ApproxDP(1.0, 1e-6)",
            parameter="guarantee",
            value=guarantee,
        )
    allowed = adjacencies or ("replace-one",)
    if guarantee.adjacency in allowed:
        return guarantee
    if guarantee.adjacency == "replace-one":
        raise ParameterError(
            f"{guarantee} is for replacing a record; this release is for "
            "adjacency='add-remove'"
        )
    raise ParameterError(
        f"{guarantee} is for adding or removing a record, where the number of records is "
        "private; this release uses and states n. Use the same guarantee with "
        "adjacency='replace-one'"
    )


def check_source(source: Any) -> Source:
    """Return the source of random bits for a release, after checking it.

    Parameters
    ----------
    source : Source or None
        What the caller passes; None stands for the operating system's source.

    Returns
    -------
    Source
        A `SecureSource` if None was passed.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    if source is None:
        return SecureSource()
    if not isinstance(source, Source):
        raise ParameterError(
            "must be a curvedp.randomness.Source, or None",
            parameter="source",
            value=source,
        )
    return source


def check_can_be_listed(n_numbers: int) -> None:
    """Refuse a draw so large that its certificate would only have its hash.

    Used by estimators that compute error bars from the listed integers, which they could
    not do after the release is paid for.

    Parameters
    ----------
    n_numbers : int
        How many numbers the draw has.

    Raises
    ------
    ParameterError
        If there are more than `MAX_LISTED_INTEGERS`.
    """
    if n_numbers > MAX_LISTED_INTEGERS:
        raise ParameterError(
            f"{n_numbers} numbers in one release: in a public ball a certificate lists "
            f"at most {MAX_LISTED_INTEGERS}, from which error bars follow"
        )


def _listed_integers(
    integers: Sequence[np.ndarray], is_staged: bool
) -> list[list[int]] | None:
    """Return the integers that a certificate lists, or None if they are too many.

    Parameters
    ----------
    integers : sequence of arrays
        The integers of each draw.
    is_staged : bool
        Whether the mechanism has stages. Its integers are always listed, because each
        stage depends on those before it.

    Returns
    -------
    list of lists of int, or None
        The integers of each draw in row-major order. None above `MAX_LISTED_INTEGERS`
        (a certificate then has only their hash).
    """
    total = sum(np.size(draw) for draw in integers)
    if total > MAX_LISTED_INTEGERS and not is_staged:
        return None
    return [exact_integers(draw) for draw in integers]
