"""A mechanism: the sampler and its privacy map in one frozen value, so that they cannot drift apart.

Public parameters are fields; private data are arguments of calls. Every release goes through `Mechanism.release`, the only
builder of a certificate, and is paid for by what `Mechanism.bill` says, the only way to pay.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple, Self, final

import numpy as np

from curvedp import _lazy
from curvedp._silence import quiet_about_records
from curvedp.entropy import SecureSource, Source
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.names import manifold_name
from curvedp.mechanisms.certificate import (
    Certificate,
    Check,
    Claims,
    Release,
    digest_of_integers,
    exact_integers,
)
from curvedp.mechanisms.certificate_fields import check_plain_text
from curvedp.mechanisms.chart import GRID, grid_of
from curvedp.mechanisms.statistic import UNIT_FIELD, Statistic, check_fields
from curvedp.mechanisms.statistic import assign as assign
from curvedp.privacy import Guarantee, convert

Law = Literal["gaussian", "laplace"]  # of noise about vectors
EXACT = "exact-then-round"
FLOAT = "float64"
DISCRETE = "whole numbers with discrete noise"
TRUST = "a curator holds the records and is trusted with them"
_MOST_KEPT = (
    1 << 14
)  # integers of one draw that a certificate lists; of more it has the hash alone


def replay(integers: Any) -> Callable[..., np.ndarray]:
    """What was drawn, one after the other, from a certificate's grid integers: whatever the values, by rows of one scale."""
    if not isinstance(integers, list) or not all(
        isinstance(part, list) for part in integers
    ):
        raise ParameterError("the certificate does not list its integers")
    left = iter(integers)

    def next_draw(values: np.ndarray, scales: Any = (1.0,)) -> np.ndarray:
        part = next(left, None)
        if (
            part is None
            or len(part) != values.size
            or not all(type(k) is int for k in part)
        ):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        grids = np.repeat(
            [grid_of(float(scale)) for scale in scales], values.size // len(scales)
        ).tolist()
        return np.array(
            [k / (1 << grid) for k, grid in zip(part, grids, strict=True)]
        ).reshape(values.shape)

    return next_draw


class Reading(NamedTuple):
    """What a certificate says of the truth before shrinkage and projection, in the frame of the statistic.

    `drawn` was drawn by `law` about: the statistic itself ("point"); its coordinates in the chart at `base`, shortened to
    `reach` ("chart"); the mean logarithm of the records at `base`, whose length is at most `reach` ("gradient"); or how many
    records are farther from `base` than `radii` ("counts"); or the `Neighborhood` of a geodesic, (p, V) stacked in `base`
    ("line"). `frame` is the statistic in whose frame all this is, where it is not the mechanism's; `cell` is the grid's."""

    kind: Literal["point", "chart", "gradient", "counts", "line"]
    law: Any
    drawn: np.ndarray
    base: np.ndarray | None = None
    reach: float = inf
    radii: np.ndarray | None = None
    frame: Statistic | None = None
    cell: float = 2.0**-GRID


class Draw(NamedTuple):
    """What a mechanism has drawn: the value, the grid integers it is made of (in the order of the draws), the public bound
    τ on the distance from the ideal law (None in floats), and what was released on the way."""

    value: Any
    integers: Sequence[np.ndarray]
    tau: float | None
    stages: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(
        cls, value: Any, draws: Sequence[Any], stages: Sequence[Mapping[str, Any]] = ()
    ) -> Self:
        """A value that was made of these exact draws."""
        return cls(
            value,
            [each.integers for each in draws],
            sum(each.tau for each in draws),
            stages,
        )


@dataclass(frozen=True, eq=False)  # a statistic may hold arrays
class Mechanism(ABC):
    """Noise about a statistic, or about what is read of the records on the way to it. A subclass is a frozen dataclass; its
    fields are its public numbers, each checked by its type, and go into the certificate unless they are as by default.

    Attributes
    ----------
    name : str
        What certificates call it.
    of : type of Statistic
        What it releases.
    option : str or None
        What users ask for it by; None where an estimator has only one.
    reads : {"value", "records"}
        Whether `release` takes the statistic's value or the records themselves.
    path : str
        How it draws: exactly, then rounded to the public grid; or in floats.

    Examples
    --------
    >>> Mechanism.registry["riemannian-laplace"].__name__
    'LaplaceMechanism'
    """

    statistic: Any = field(kw_only=True, repr=False)  # of the kind that it `serves`

    name: ClassVar[str]
    of: ClassVar[Any] = Statistic
    option: ClassVar[str | None] = None
    reads: ClassVar[Literal["value", "records"]] = "value"
    path: ClassVar[str] = EXACT
    staged: ClassVar[bool] = (
        False  # whether its certificate lists stages, and all integers, which they follow from
    )
    streams: ClassVar[bool] = False  # whether it takes `Records` wherever they lie
    like: ClassVar[str | None] = (
        None  # one that errs by about as much, and is calibrated in no time
    )
    most_simulated: ClassVar[int] = (
        2048  # draws for each population of a predicted error
    )
    together: ClassVar[bool] = (
        False  # whether those of all populations can be asked for at once
    )
    registry: ClassVar[_lazy.Registry[type["Mechanism"]]] = _lazy.Registry(
        "curvedp.mechanisms"
    )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            Mechanism.registry[cls.name] = cls
        if "for_statistic" in cls.__dict__:  # none has to check what it is given
            cls.for_statistic = _served(cls.__dict__["for_statistic"].__func__)  # type: ignore[method-assign]  # the same method, checked

    def __post_init__(self) -> None:
        """Whatever was given is checked: the statistic, and every field by its type."""
        self.check_served(self.statistic)
        check_fields(self)

    @classmethod
    def check_served(cls, statistic: Any) -> None:
        """Refuse a statistic of another kind."""
        if not isinstance(statistic, Statistic) or not cls.serves(statistic):
            is_statistic = isinstance(statistic, Statistic)
            raise ParameterError(
                f"is not what {cls.__name__} releases",
                parameter="statistic",
                value=statistic.name if is_statistic else statistic,
            )

    # ---- what a subclass says ----

    @classmethod
    @abstractmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The least noise that meets the guarantee; refuses what it cannot meet, and a statistic that it is not for."""

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """The mechanism that a certificate describes, validated anew."""
        told = (
            each.name
            for each in fields(cls)
            if each.name in parameters or each.default is MISSING
        )
        return cls(
            statistic=statistic,
            **{name: parameters[name] for name in told if name != "statistic"},
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Its own public numbers as JSON values; what is as by default goes without saying."""
        own = [each for each in fields(self) if each.name != "statistic"]
        return {
            each.name: getattr(self, each.name)
            for each in own
            if getattr(self, each.name) != each.default
        }

    @property
    @abstractmethod
    def profile(self) -> Guarantee:
        """What the ideal law promises: its privacy profile, or pure ε where nothing finer is claimed."""

    @property
    def sensitivity(self) -> float:
        """How far what is noised can move: the statistic, unless it says otherwise."""
        return float(self.statistic.sensitivity)

    @abstractmethod
    def draw(self, data: Any, source: Source) -> Draw:
        """One release, before post-processing."""

    def accepted(self, data: Any) -> Any:
        """The data as `draw` takes them, as the statistic says; only shape and type can be refused."""
        return self.statistic.accepted(data)

    def finished(self, points: np.ndarray) -> np.ndarray:
        """Post-processing of drawn points, along the first axis: moved to where the value can be."""
        return np.asarray(self.statistic.inside(points))

    def finish(self, value: Any) -> Any:
        """`finished` for what one release has drawn, in the frame of the records."""
        return self.statistic.placed(self.finished(value[None]))[0]

    afterwards = property(
        lambda self: self.statistic.afterwards
    )  # what `finish` does, in words
    trust = property(lambda self: TRUST)  # who is trusted with the records, in words
    grid = property(lambda self: GRID)  # k: what is drawn are whole multiples of 2^-k

    @property
    def manifold(self) -> Manifold:
        """Where the released value lives."""
        return self.statistic.space  # type: ignore[no-any-return]  # of a statistic

    @property
    def guarantee(self) -> Guarantee:
        """The strongest statement in one definition."""
        return self.profile

    @abstractmethod
    def value_of(self, certificate: Certificate) -> Any:
        """The released value, made again from the certificate's grid integers alone; refuses any others."""

    def ending(self, certificate: Certificate) -> "Mechanism":
        """The mechanism of the last draw, from which errors follow: this one, except where it ends in another."""
        return self

    def reading(self, integers: Any) -> Reading:
        """What was drawn, from a certificate's grid integers alone, for regions about it: where a theorem leads to them."""
        raise ParameterError(
            f"no region follows from {self.name}: no theorem leads from its draws to the truth"
        )

    def checks(self, certificate: Certificate) -> list[Check]:
        """What `verify` recomputes beside what every certificate claims."""
        return []

    @classmethod
    def serves(cls, statistic: Statistic) -> bool:
        """Whether it is made for statistics of this kind."""
        return isinstance(statistic, cls.of)

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """Why "auto" does not consider it for this statistic, in words; None where it does."""
        return None

    def predicted_error(self) -> float | None:
        """How far from the truth it will be on average, from public numbers; None where that is simulated (`choose`)."""
        return None

    @classmethod
    def variants(cls) -> dict[str, Callable[[Statistic, Guarantee], Self]]:
        """What users may ask for by name, and how it is made."""
        return {} if cls.option is None else {cls.option: cls.for_statistic}

    # ---- what all share ----

    @final
    @quiet_about_records()  # nor may a warning end what has been paid for
    def release(
        self,
        data: Any,
        *,
        source: Source | None = None,
        guarantee: Guarantee | None = None,
        unit: str | None = None,
        reason: str = "asked for by name",
        entry: Mapping[str, Any] | None = None,
        ready: bool = False,
    ) -> Release:
        """The released value with its certificate.

        Parameters
        ----------
        data : array
            The value of the statistic, or the records, by `reads`. What is not finite or not on the manifold is data, not
            an argument: it is mapped into the public ball and the guarantee holds. Only a wrong shape raises.
        source : Source, optional
            Where the bits come from; the operating system by default. Another one is for simulation, and is recorded.
        guarantee, unit, reason, entry : optional
            What was asked for, whose data are protected, why this mechanism, and the ledger's entry that paid, where that is
            not what the parameters give, one record, a wish by name, and none.
        ready : bool
            Whether the data are what `accepted` has given: for whoever pays in between.
        """
        accepted, source = data if ready else self.accepted(data), check_source(source)
        # What has no name, or a text that is not plain, is refused before any draw.
        described = self.described()
        check_plain_text("reason", reason)
        unit = self._checked_unit(unit)
        if self.statistic.units:  # the statistic says which of its units it is of
            described["statistic"] = {**described["statistic"], UNIT_FIELD: unit}
        source.refresh()  # fresh bytes a release: clones of a machine must not share noise
        draw = self.draw(accepted, source)
        certificate = Certificate(
            **described,
            guarantee=self.guarantee if guarantee is None else guarantee,
            claims=Claims.of(self.profile, draw.tau or 0.0),
            unit=unit,
            trust=self.trust,
            numerics={
                "path": self.path,
                "grid": self.grid,
                "tau": draw.tau,
                "profile": self.profile.label,
            },
            entropy={"source": source.name, "cryptographic": source.is_cryptographic},
            release={
                "integers": _kept(draw.integers, self.staged),
                "sha256": digest_of_integers(draw.integers),
                "stages": [dict(stage) for stage in draw.stages],
                "reason": reason,
                "afterwards": list(self.afterwards),
            },
            ledger=None if entry is None else dict(entry),
        )
        certificate = certificate.sealed()
        vars(certificate)["made_by"] = self  # nobody has to rebuild what is at hand
        return Release(self.finish(draw.value), certificate)

    def described(self) -> dict[str, Any]:
        """What a certificate says of mechanism and statistic; refuses a manifold of a user's own without a name."""
        return {
            "mechanism": self.name,
            "manifold": manifold_name(self.manifold),
            "parameters": dict(self.parameters),
            "statistic": self.statistic.to_dict(),
            "sensitivity": self.sensitivity,
        }

    def _checked_unit(self, unit: str | None) -> str:
        """Return one of the statistic's privacy units, its usual one where none is given."""
        if unit is None:
            return str(self.statistic.unit)
        if unit not in (self.statistic.unit, *self.statistic.units):
            raise ParameterError(
                f"is no privacy unit of a {self.statistic.name}",
                parameter="unit",
                value=unit,
            )
        return unit

    def bill(self, budget: Guarantee, asked: Guarantee) -> Guarantee:
        """What a ledger with this budget is charged: what was asked for where it is of the budget's kind, else what the
        mechanism's own profile gives in it, which is exact where a single (ε, δ) gives nothing. The release satisfies
        each of them."""
        if type(asked) is type(budget) and getattr(asked, "order", None) == getattr(
            budget, "order", None
        ):
            return asked
        try:
            return convert(
                self.profile, to=type(budget), order=getattr(budget, "order", None)
            )
        except CurvedpError:
            return asked  # which the ledger converts, or refuses in its own words


def _served(made: Callable[..., Any]) -> Any:
    """`for_statistic` that refuses what the mechanism is not for."""

    @wraps(made)
    def for_statistic(
        kind: type[Mechanism], statistic: Any, guarantee: Any, **more: Any
    ) -> Any:
        kind.check_served(statistic)
        return made(kind, statistic, guarantee, **more)

    return classmethod(for_statistic)  # type: ignore[arg-type]  # `wraps` hides the arguments


def check_guarantee(guarantee: Any, *adjacencies: str) -> Guarantee:
    """A guarantee of ours for one of these adjacencies (replacing a record, by default), or a `ParameterError`."""
    if not isinstance(guarantee, Guarantee):
        such = "a guarantee, such as GDP(1.0) or ApproxDP(1.0, 1e-6)"
        raise ParameterError(f"must be {such}", parameter="guarantee", value=guarantee)
    known = adjacencies or ("replace-one",)
    if guarantee.adjacency not in known and guarantee.adjacency == "replace-one":
        raise ParameterError(
            f"{guarantee} is for replacing a record; this release is for adjacency='add-remove'"
        )
    if guarantee.adjacency not in known:
        raise ParameterError(
            f"{guarantee} is for adding or removing a record, where the number of records is private; this release uses "
            "and states n. Ask for the same guarantee with adjacency='replace-one'"
        )
    return guarantee


def check_source(source: Any) -> Source:
    """A source of bits; the operating system's where none is given."""
    if source is None:
        return SecureSource()
    if not isinstance(source, Source):
        raise ParameterError(
            "must be a curvedp.entropy.Source, or None",
            parameter="source",
            value=source,
        )
    return source


def _kept(integers: Sequence[np.ndarray], staged: bool) -> list[list[int]] | None:
    """What the certificate lists. Where a later stage depends on those before, nobody could tell what it was without."""
    if not staged and sum(np.size(part) for part in integers) > _MOST_KEPT:
        return None
    return [exact_integers(part) for part in integers]
