"""The federated release as a statistic and a mechanism of the house, so that its certificate is built and verified like any
other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.federated.plan import Plan, Round
from curvedp.geometry.base import Manifold
from curvedp.mechanisms.base import DISCRETE, Check, Draw, Mechanism, at_least
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.statistic import Statistic
from curvedp.privacy import Guarantee

__all__ = ["FederatedMechanism", "FederatedSum", "Walk", "stage_of", "trust_model"]


class Walk(Protocol):
    """A run of a plan: who carries messages to the sites."""

    def rounds_of(self, plan: Plan) -> Sequence[Round]:
        """Form the noisy sums."""


@dataclass(frozen=True, eq=False)
class FederatedSum(Statistic):
    """What the sites of a plan add up.

    Parameters
    ----------
    plan : mapping
        `Plan.to_dict()`: all its terms, the guarantee among them.
    """

    plan: Any

    name: ClassVar[str] = "federated sum"
    valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", self.agreed.to_dict())

    @cached_property
    def agreed(self) -> Plan:
        """The plan, validated anew."""
        return Plan.from_dict(self.plan)

    @property
    def space(self) -> Manifold:
        """Where the released value lives."""
        return self.agreed.kernel.space

    @property
    def sensitivity(self) -> float:
        """Of the first round's sum, in whole units."""
        return self.agreed.sensitivity(0)

    @property
    def afterwards(self) -> list[str]:
        """What is done to the noisy sums."""
        return self.agreed.kernel.afterwards


@dataclass(frozen=True, eq=False)
class FederatedMechanism(Mechanism):
    """Sums of whole numbers over sites, masked, with discrete noise in shares. Its data are a `Walk`: the sites themselves.

    Guarantees
    - μ-GDP for replace-one adjacency against the public, the server, and the server with `collusion` of the sites, in the
      computational sense, whoever is lost up to `dropouts`;
    - within total variation τ of a post-processing of real Gaussian noise (docs/federation.md).
    """

    name: ClassVar[str] = "federated-sum"
    reads: ClassVar[Any] = "records"
    path: ClassVar[str] = DISCRETE
    staged: ClassVar[bool] = True

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The plan's own mechanism; the guarantee is one of the plan's terms."""
        made = cls(statistic=statistic)
        if guarantee != made.plan.guarantee:
            raise ParameterError(f"the plan is for {made.plan.guarantee}, not {guarantee}")
        return made

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """All its terms are the statistic's."""
        return cls(statistic=statistic)

    @classmethod
    def serves(cls, statistic: Statistic) -> bool:
        """Sums over sites only."""
        return isinstance(statistic, FederatedSum)

    @property
    def plan(self) -> Plan:
        """The agreed terms."""
        assert isinstance(self.statistic, FederatedSum)  # `serves` nothing else
        return self.statistic.agreed

    @property
    def profile(self) -> Guarantee:
        """That of one Gaussian release."""
        return self.plan.profile

    @property
    def guarantee(self) -> Guarantee:
        """As the plan says."""
        return self.plan.guarantee

    @property
    def sensitivity(self) -> float:
        """The statistic's."""
        return self.statistic.sensitivity

    @property
    def parameters(self) -> Mapping[str, Any]:
        """None of its own."""
        return {}

    @property
    def grid(self) -> int:
        """The exponent of the first round's unit."""
        return self.plan.exponent(0)

    @property
    def trust(self) -> str:
        """Who must be trusted with what, in words."""
        return trust_model(self.plan)

    def accepted(self, data: Any) -> Walk:
        """A run that has not begun."""
        if not hasattr(data, "rounds_of"):
            raise ParameterError("a federated release is drawn by the sites; see curvedp.federated.coordinate")
        walk: Walk = data
        return walk

    def draw(self, data: Walk, source: Source) -> Draw:
        """The rounds; the sites draw the noise, each from its own cryptographic bits."""
        rounds = data.rounds_of(self.plan)
        stages = [stage_of(self.plan, r, round) for r, round in enumerate(rounds)]
        return Draw(self.plan.value(rounds), [np.array(r.total) for r in rounds], self.plan.tau, stages)

    def value_of(self, certificate: Certificate) -> np.ndarray:
        """From the noisy sums, and who was in them."""
        integers, stages = certificate.release["integers"], certificate.release["stages"]
        lengths = [self.plan.kernel.length(r, self.plan.rounds or 0) for r in range(self.plan.rounds or 0)]
        if not isinstance(integers, list) or [len(part) for part in integers] != lengths or len(stages) != len(lengths):
            raise ParameterError("the released integers are not those of this plan")
        if not all(type(k) is int and abs(k) < 2**63 for part in integers for k in part):
            raise ParameterError("the released integers are no 64-bit numbers")
        return self.plan.value([Round(t, self._alive(s)) for t, s in zip(integers, stages, strict=True)])

    def checks(self, certificate: Certificate) -> list[Check]:
        """Each round's noise and sensitivity, the sites lost, and that the sites' number allows it."""
        stages = certificate.release["stages"]
        same = [
            isinstance(stage, dict) and stage == stage_of(self.plan, r, Round((), self._alive(stage)))
            for r, stage in enumerate(stages)
        ]
        lost = [len(stage.get("lost", [])) for stage in stages if isinstance(stage, dict)]
        few = bool(lost) and max(lost) <= self.plan.dropouts
        return [
            Check("rounds", len(stages) == self.plan.rounds and all(same), "noise, sensitivity and grid recomputed"),
            Check(f"{max(lost, default=0)} of {len(self.plan.sites)} sites lost", few, "no more than the plan allows"),
            at_least("slack of the discrete noise", certificate.numerics["tau"], self.plan.tau),
        ]

    def _alive(self, stage: Mapping[str, Any]) -> list[int]:
        return [i for i, key in enumerate(self.plan.sites) if key not in stage["lost"]]


def stage_of(plan: Plan, r: int, round: Round) -> dict[str, Any]:
    """What a certificate says of a round."""
    return {
        "lost": [key for i, key in enumerate(plan.sites) if i not in round.alive],
        "variance": str(plan.variance(r)),
        "sensitivity": plan.sensitivity(r),
        "exponent": plan.exponent(r),
    }


def trust_model(plan: Plan) -> str:
    """Who must be trusted with what, in words."""
    with_them = f" together with any {plan.collusion} of the sites" if plan.collusion else ""
    return (
        f"no curator: the guarantee holds against the public, and against the server{with_them}, as far as X25519, "
        "ChaCha20, SHA-256 and Ed25519 hold. A site's own records are known to that site. Sites compute what they say they "
        "compute: one that does not can spoil the value, not the others' privacy"
    )
