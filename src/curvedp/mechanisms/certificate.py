"""What a release says about itself: every public quantity from which an auditor can recompute the guarantee.

A certificate holds no data and no hash of data. `curvedp verify` (`mechanisms/verify.py`) recomputes each claim from the
parameters alone.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from math import exp
from pathlib import Path
from typing import Any

from curvedp._numerics import up
from curvedp.errors import ParameterError
from curvedp.privacy import Guarantee, PrivacyProfile, guarantee_from_dict

__all__ = ["SCHEMA", "Certificate", "Claims"]

SCHEMA = "curvedp-certificate/1"
_CURVE_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_PACKAGES = ("numpy", "scipy", "python-flint", "cryptography")


@dataclass(frozen=True)
class Claims:
    """The guarantee in every definition. None where the mechanism does not have it."""

    gdp: float | None
    pure: float | None
    zcdp: float | None
    rao: float | None
    curve: tuple[tuple[float, float], ...]  # (ε, δ) with the numerical slack already added to δ

    @classmethod
    def of(cls, profile: PrivacyProfile, tau: float) -> "Claims":
        """What the profile of the ideal law gives, and its (ε, δ) curve for the implemented one.

        If the implemented law is within total variation τ of the ideal one on both data sets, δ grows by (1+e^ε)τ.
        """
        return cls(
            gdp=_finite(profile.mu),
            pure=_finite(profile.pure_epsilon),
            zcdp=_finite(up(profile.mu**2 / 2)),  # μ-GDP implies μ²/2-zCDP (Dong, Roth & Su 2022, Corollary B.6)
            rao=_finite(profile.rao),
            curve=tuple((eps, min(1.0, float(profile.delta(eps)) + (1 + exp(eps)) * tau)) for eps in _CURVE_EPSILONS),
        )


@cache
def _software() -> Mapping[str, str]:  # reading the packages' metadata takes longer than most draws
    return {"curvedp": version("curvedp"), "python": platform.python_version(), **{p: version(p) for p in _PACKAGES}}


@dataclass(frozen=True)
class Certificate:
    """Mechanism, manifold, parameters, claims, slack and entropy of one release, as JSON.

    >>> from curvedp.geometry import Sphere
    >>> from curvedp.mechanisms import GaussianMechanism
    >>> from curvedp.privacy import GDP
    >>> mechanism = GaussianMechanism.calibrated(Sphere(2), 0.01, GDP(0.5))
    >>> certificate = mechanism.release(Sphere(2).origin).certificate
    >>> Certificate.from_json(certificate.to_json()) == certificate
    True
    """

    mechanism: str
    manifold: str
    parameters: Mapping[str, Any]  # the mechanism's public fields, enough to build it again
    sensitivity: float
    claims: Claims
    guarantee: Guarantee  # what was asked for, or what the parameters give
    numerics: Mapping[str, Any]  # path, grid and certified slack τ
    entropy: Mapping[str, Any]  # name of the source and whether it is cryptographic
    statistic: Mapping[str, Any] = field(default_factory=dict)  # name, n, ball, bound, solver error; reason of a choice
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    software: Mapping[str, str] = field(default_factory=lambda: dict(_software()))
    schema: str = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values only."""
        claims = {"gdp": self.claims.gdp, "pure": self.claims.pure, "zcdp": self.claims.zcdp, "rao": self.claims.rao}
        return {
            "schema": self.schema,
            "created": self.created,
            "mechanism": self.mechanism,
            "manifold": self.manifold,
            "parameters": dict(self.parameters),
            "statistic": dict(self.statistic),
            "sensitivity": self.sensitivity,
            "guarantee": self.guarantee.to_dict(),
            "claims": {**claims, "curve": [list(pair) for pair in self.claims.curve]},
            "numerics": dict(self.numerics),
            "entropy": dict(self.entropy),
            "software": dict(self.software),
        }

    def to_json(self) -> str:
        """The certificate as text; floats are written so that they read back exactly."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate; raises `ParameterError` where it is not one of this schema."""
        try:
            record = json.loads(text)
            if record["schema"] != SCHEMA:
                raise ParameterError(f"schema {record['schema']!r} is not {SCHEMA!r}")
            for name in ("parameters", "statistic", "numerics", "entropy", "software", "claims"):
                if not isinstance(record[name], dict):
                    raise TypeError(f"{name} is not an object")
            claims = {
                name: value if value is None else float(value)
                for name, value in record["claims"].items()
                if name != "curve"
            }
            curve = tuple((float(eps), float(delta)) for eps, delta in record["claims"]["curve"])
            return cls(
                **{
                    **record,
                    "claims": Claims(**claims, curve=curve),
                    "guarantee": guarantee_from_dict(record["guarantee"]),
                }
            )
        except ParameterError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise ParameterError(f"not a curvedp certificate: {error}") from None

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate from a file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"cannot read the certificate {path}: {error}") from None


def _finite(value: float) -> float | None:
    return float(value) if value < float("inf") else None
