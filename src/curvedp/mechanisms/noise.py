"""The two laws of noise about vectors: Gaussian, and for pure ε the Laplace law of the Euclidean norm, density ∝ exp(−|y|/b).

A record that moves the vector by Δ moves the exponent by at most Δ/b everywhere: ε = Δ/b in every dimension (the K-norm
mechanism, Hardt & Talwar 2010). |y| has the law b·Gamma(d) and no direction is special, so each coordinate has variance
b²·E|y/b|²/d = (d + 1)b².
"""

from math import sqrt
from typing import Literal

import numpy as np

from curvedp.errors import UnattainableGuarantee
from curvedp.mechanisms.base import check_guarantee
from curvedp.privacy import Guarantee, MeanConcentratedDP, PureDP, gaussian_profile, smallest_scale
from curvedp.privacy.hadamard import PureProfile
from curvedp.privacy.rounding import down, up

Law = Literal["gaussian", "laplace"]
LAWS: tuple[Law, ...] = ("gaussian", "laplace")


def least_scale(guarantee: Guarantee, moved: float = 1.0) -> float:
    """The least σ of Gaussian noise about what moves so far that meets the guarantee: 1/μ where it moves by 1."""
    if bounded(check_guarantee(guarantee)):
        raise UnattainableGuarantee(
            f"{guarantee} is not met by Gaussian noise, and this release has no other: ask for GDP, zCDP, or ApproxDP with a "
            "small δ"
        )
    return float(smallest_scale(lambda s: gaussian_profile(0.0, 1, s, moved), guarantee, moved))


def least_noise(guarantee: Guarantee, moved: float = 1.0) -> tuple[Law, float]:
    """(law, scale): the least noise about what moves so far that meets the guarantee, Laplace where it is `bounded`."""
    if bounded(check_guarantee(guarantee)):
        return "laplace", up(moved / bounded_epsilon(guarantee), 1e-15)
    return "gaussian", least_scale(guarantee, moved)


def bounded(guarantee: Guarantee) -> bool:
    """Whether it follows from bounded losses alone, which Gaussian noise does not have."""
    return isinstance(guarantee, PureDP | MeanConcentratedDP)


def bounded_epsilon(guarantee: Guarantee) -> float:
    """The largest pure ε that meets a `bounded` guarantee."""
    if isinstance(guarantee, PureDP):
        return guarantee.eps
    return down(1 / smallest_scale(lambda s: PureProfile(up(1 / s)), guarantee, 1.0), 1e-15)  # type: ignore[no-any-return]


def spread_of(law: str, size: int) -> float:
    """The deviation of a coordinate, over the law's scale."""
    return sqrt(size + 1) if law == "laplace" and size > 0 else 1.0


def float_noise(rng: np.random.Generator, law: Law, shape: tuple[int, int]) -> np.ndarray:
    """Rows of noise of scale 1: for predicted error, NOT for release."""
    normal = rng.standard_normal(shape)
    if law == "gaussian":
        return normal
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True) * rng.gamma(shape[1], size=(shape[0], 1)))
