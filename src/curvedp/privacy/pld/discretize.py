"""Replace the privacy profile δ(ε) of a mechanism by a discrete one that bounds it. P
and Q are the mechanism's output distributions on two neighboring data sets. The result
is a privacy loss distribution (PLD): probability masses at losses L on a grid. Its δ(ε)
is never smaller.

Theorem (connect the dots: Doroshenko et al. 2022; docs/theory/accounting.md, Theorem
C2). Let δ(ε) be known at losses 0 = ε₀ < ε₁ < … < ε_n, multiples of a width w. As a
function of e^ε, δ is convex. So the piecewise linear function through those values lies
above it, and so does the lower convex envelope of that function. The envelope is the
profile of discrete P and Q: with dᵢ = δᵢ₋₁ − δᵢ and hᵢ = εᵢ − εᵢ₋₁,

    P(L = εᵢ)  = dᵢ/(1 − e^{−hᵢ}) − dᵢ₊₁/(e^{hᵢ₊₁} − 1),
    P(L = −εᵢ) = e^{−εᵢ}·Q(L = −εᵢ),

where Q(L = −εᵢ) has the same form in the profile of Q against P. Every mass is rounded
up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array, round_up

Profile = Callable[[Array], Array]

UNIT_ROUNDOFF = 2.0**-53  # the unit roundoff of doubles
# Rounding errors that are charged, in units of UNIT_ROUNDOFF. Each constant belongs to
# one line of the table below Theorem C2 (docs/theory/accounting.md), which proves it.
MASS_ERROR = 8  # line (a): a mass at a loss > 0, relative
ZERO_MASS_ERROR = 16  # line (b): the mass at loss 0, absolute
ENVELOPE_ERROR = 8  # line (v): the chord over loss 0, relative
# The distance of neighboring grid points, relative to their loss. It increases the
# variance by at most the fraction 2^-20/6.
GROWTH = 2.0**-10
# No two grid points are farther apart than 1/MIN_POINTS of the whole range.
MIN_POINTS = 16384
_MAX_ENVELOPE_ROUNDS = 200
_LARGEST_EXPONENT = 700.0  # e^700 is 1e304; the largest float is e^709.8


@dataclass(frozen=True)
class PairProfile:
    """δ(ε) of one mechanism, for a pair of neighboring data sets in both orders.

    P and Q are the output distributions on the two data sets. If they differ by one
    additional record, P belongs to the data set with that record.

    Attributes
    ----------
    remove : callable
        δ(ε) of P against Q, at increasing ε >= 0.
    add : callable
        δ(ε) of Q against P. It is the same function if both orders agree.
    truncation : float
        The loss beyond which both profiles are treated as constant.
    """

    remove: Profile
    add: Profile
    truncation: float

    @classmethod
    def symmetric(cls, delta: Profile, truncation: float) -> "PairProfile":
        """Build the object for a mechanism with the same δ(ε) in both orders.

        Parameters
        ----------
        delta : callable
            δ(ε) at increasing ε >= 0.
        truncation : float
            The loss beyond which δ(ε) is treated as constant.

        Returns
        -------
        PairProfile
            Its fields `remove` and `add` are both `delta`.
        """
        return cls(delta, delta, truncation)

    @property
    def is_symmetric(self) -> bool:
        """Whether `remove` and `add` are the same function."""
        return self.remove == self.add

    def reversed(self) -> "PairProfile":
        """Return the same mechanism with the two data sets exchanged.

        Its losses, discretized, give δ(ε) for adding a record instead of removing one.
        """
        return replace(self, remove=self.add, add=self.remove)


@dataclass(frozen=True)
class DiscretePLD:
    """A privacy loss distribution on the multiples of a width, and at infinity.

    Attributes
    ----------
    width : float
        The distance of neighboring grid points.
    index : array of int
        The losses divided by the width, increasing.
    masses : array
        P's masses at these losses, rounded up; with `infinite` they may exceed 1.
    infinite : float
        P's mass at an infinite loss.
    """

    width: float
    index: NDArray[np.int64]
    masses: Array
    infinite: float

    @property
    def losses(self) -> Array:
        """The finite losses, increasing."""
        return np.asarray(self.index * self.width, np.float64)

    def log_moment(self, rate: float) -> tuple[float, float]:
        """Return the logarithm of the moment Σ p·e^{λL}, and its derivative in λ.

        The sum runs over all finite losses L and their masses p. The logarithm is
        called κ(λ).

        Parameters
        ----------
        rate : float
            The exponent λ, the rate of a tilt.

        Returns
        -------
        kappa : float
            κ(λ).
        slope : float
            κ′(λ): the mean loss if masses are multiplied by e^{λL}.
        """
        # Divide by the largest term, so that nothing overflows.
        exponent = rate * self.losses
        largest_exponent = float(exponent.max())
        weights = self.masses * np.exp(exponent - largest_exponent)
        total = float(weights.sum())
        kappa = math.log(total) + largest_exponent
        return kappa, float(weights @ self.losses) / total


class _PositiveLosses(NamedTuple):
    """The half of a discrete privacy loss distribution with losses > 0.

    It is computed from the profile δ(ε) in one direction: P against Q, or Q against P.
    """

    losses: Array  # the losses > 0
    masses: Array  # their masses
    taken_from_zero: float  # the amount to subtract from the mass at loss 0
    delta_at_zero: float  # δ at ε = 0
    delta_at_end: float  # δ at the largest ε, which becomes the mass at infinity


def connect_the_dots(
    pair: PairProfile,
    width: float,
    growth: float = GROWTH,
    min_points: int = MIN_POINTS,
) -> DiscretePLD:
    """Return a discrete privacy loss distribution that bounds a mechanism's δ(ε).

    The mechanism's δ is evaluated at the points of a grid and connected by straight
    lines in e^ε. So the δ of the result is at least that of the mechanism at every ε.

    The result must dominate the mechanism: no mass may be rounded down.
    tests/privacy/test_pld.py checks δ of the result against the profile.

    Parameters
    ----------
    pair : PairProfile
        Upper bounds on δ(ε) of the mechanism: of P against Q, and of Q against P, its
        output distributions on two data sets. Beyond `pair.truncation` δ is treated as
        constant, and that much mass is moved to an infinite loss.
    width : float
        The width of the grid: all losses are multiples of it.
    growth : float
        The largest distance of neighboring points at which the profile is evaluated,
        relative to their loss.
    min_points : int
        No two points are farther apart than 1/min_points of the whole range.

    Returns
    -------
    DiscretePLD
        The distribution, with masses rounded up.
    """
    # The losses ε at which the profile is evaluated.
    last_index = max(math.ceil(pair.truncation / width), 1)
    grid = loss_grid(last_index, growth, min_points)
    eps = np.asarray(grid * width, np.float64)

    remove, add = _masses_in_both_directions(pair, eps)

    # The mass at loss 0 is what is left of 1. Its rounding error is (b) of
    # docs/theory/accounting.md, Theorem C2.
    left_of_one = 1 - remove.delta_at_zero - remove.taken_from_zero
    left_of_one -= add.taken_from_zero
    mass_at_zero = max(left_of_one + ZERO_MASS_ERROR * UNIT_ROUNDOFF, 0.0)

    # The masses of P at losses < 0 follow from Q's: P(L = −ε) = e^{−ε}·Q(L = −ε).
    negative_masses = round_up(
        add.masses * np.exp(-add.losses), MASS_ERROR * UNIT_ROUNDOFF
    )

    # Put together: losses < 0 (in increasing order), 0, and losses > 0.
    losses = np.concatenate([-add.losses[::-1], [0.0], remove.losses])
    masses = np.concatenate([negative_masses[::-1], [mass_at_zero], remove.masses])
    index = np.rint(losses / width).astype(np.int64)
    return DiscretePLD(width, index, masses, remove.delta_at_end)


def _masses_in_both_directions(
    pair: PairProfile, eps: Array
) -> tuple[_PositiveLosses, _PositiveLosses]:
    """Return the masses at losses > 0, of P against Q and of Q against P.

    P and Q are the output distributions of a mechanism on two data sets. The losses < 0
    of P follow from the losses > 0 of Q, so both are needed.

    Parameters
    ----------
    pair : PairProfile
        Upper bounds on δ(ε) in both directions.
    eps : array
        The ε at which they are evaluated, increasing from 0.

    Returns
    -------
    remove, add : _PositiveLosses
        The masses for removing and for adding a record.
    """
    delta_remove = np.minimum(np.asarray(pair.remove(eps)), 1.0)
    if pair.is_symmetric:
        both = masses_from_profile(*convex_envelope(eps, delta_remove))
        return both, both

    # Both directions have the same δ(0). Rounding may make them differ, and the larger
    # one is used for both.
    delta_add = np.minimum(np.asarray(pair.add(eps)), 1.0)
    delta_at_zero = max(delta_remove[0], delta_add[0])
    delta_remove[0] = delta_at_zero
    delta_add[0] = delta_at_zero
    remove_corners = convex_envelope(eps, delta_remove, is_symmetric=False)
    add_corners = convex_envelope(eps, delta_add, is_symmetric=False)
    return masses_from_profile(*remove_corners), masses_from_profile(*add_corners)


def loss_grid(last_index: int, growth: float, min_points: int) -> NDArray[np.int64]:
    """Return the grid indices, increasing, at which a privacy profile is evaluated.

    They run from 0 to `last_index` and get sparser, because a loss needs a constant
    relative accuracy only. All indices up to 1/growth are included. Then the steps
    grow: they are about `growth` times the index, until they reach
    last_index/min_points.

    Parameters
    ----------
    last_index : int
        The last index.
    growth : float
        The largest distance of neighboring indices, relative to the index.
    min_points : int
        No two indices are farther apart than last_index/min_points.

    Returns
    -------
    array of int
        Indices from 0 to `last_index`.
    """
    # Where the steps begin to grow, and where they stop growing.
    largest_step = max(last_index / min_points, 1.0)
    end_of_unit_steps = min(1 / growth, last_index)
    end_of_growing_steps = min(largest_step / growth, last_index)

    # The indices of the three ranges. Growing steps are equal steps of the logarithm.
    with_unit_steps = np.arange(end_of_unit_steps)
    with_growing_steps = np.zeros(0)
    if end_of_growing_steps > end_of_unit_steps:
        log_start = math.log(end_of_unit_steps)
        log_end = math.log(end_of_growing_steps)
        with_growing_steps = np.exp(np.arange(log_start, log_end, growth))
    with_largest_steps = np.arange(end_of_growing_steps, last_index, largest_step)

    indices = np.concatenate(
        [with_unit_steps, with_growing_steps, with_largest_steps, [last_index]]
    )
    return np.unique(np.rint(indices).astype(np.int64))


def masses_from_profile(eps: Array, delta: Array) -> _PositiveLosses:
    """Return the masses at losses > 0 that produce a given privacy profile δ(ε).

    The profile is given by its corners (εᵢ, δᵢ) and is linear in e^ε between them. Only
    the εᵢ have mass. With dᵢ = δᵢ₋₁ − δᵢ and hᵢ = εᵢ − εᵢ₋₁, the mass at the loss εᵢ is

        dᵢ/(1 − e^{−hᵢ}) − dᵢ₊₁/(e^{hᵢ₊₁} − 1),

    raised by the rounding errors of this formula. The two terms are `given_to_right` of
    step i and `taken_from_left` of step i + 1 (`_masses_of_steps`).

    Rounding a mass up is safe; rounding it down is not.

    Parameters
    ----------
    eps : array
        The ε of the corners, increasing from 0.
    delta : array
        The δ of the corners, convex in e^ε.

    Returns
    -------
    _PositiveLosses
        The losses > 0, their masses, and what belongs to loss 0 and to infinity.
    """
    # Point i is the right end of step i and the left end of step i + 1; no step begins
    # at the last point.
    given_to_right, taken_from_left = _masses_of_steps(eps, delta)
    taken_from_left = np.append(taken_from_left, 0.0)

    # The masses, raised by their rounding: docs/theory/accounting.md, Theorem C2 (a).
    rounding = MASS_ERROR * UNIT_ROUNDOFF * (given_to_right + taken_from_left[1:])
    masses = np.maximum(given_to_right - taken_from_left[1:] + rounding, 0.0)

    # Leave out zeros at the end.
    n_used = 1 + int(np.max(np.nonzero(masses)[0], initial=0))
    return _PositiveLosses(
        losses=eps[1 : n_used + 1],
        masses=masses[:n_used],
        taken_from_zero=float(taken_from_left[0]),
        delta_at_zero=float(delta[0]),
        delta_at_end=float(delta[-1]),
    )


def _masses_of_steps(eps: Array, delta: Array) -> tuple[Array, Array]:
    """Return what each step of a privacy profile contributes to two probability masses.

    The masses are those of the privacy loss distribution with this profile. A step
    leads from one point (ε, δ) of the profile to the next. If ε grows by h and δ drops
    by d, the step adds d/(1 − e^{−h}) to the mass at its right end and subtracts
    d/(e^h − 1) from the mass at its left end.

    Parameters
    ----------
    eps : array
        The ε of the points, increasing.
    delta : array
        The δ of the points, not increasing.

    Returns
    -------
    given_to_right, taken_from_left : array
        The two numbers, one for each step.
    """
    width = np.diff(eps)
    drop = -np.diff(delta)
    with np.errstate(over="ignore"):
        return drop / -np.expm1(-width), drop / np.expm1(width)


def convex_envelope(
    eps: Array, delta: Array, is_symmetric: bool = True
) -> tuple[Array, Array]:
    """Return the corners of the convex envelope of given points of a privacy profile.

    The envelope is the largest convex function of e^ε that lies below the points
    (ε, δ). The true profile is convex in e^ε, but rounding may have raised some of the
    points. A point above the chord of its neighbors is not a corner. All such points
    are removed at once, and this is repeated until none is left. Which points remain
    decides how tight the bound is, not whether it holds: chords between any points lie
    above the true convex profile.

    Parameters
    ----------
    eps : array
        The ε of the points, increasing from 0.
    delta : array
        The δ of the points.
    is_symmetric : bool
        Whether the profile continues to ε < 0 as its own mirror image. Then the point
        at ε = 0 may lie above a chord too, and is lowered to it.

    Returns
    -------
    eps, delta : array
        The corners that remain, ε increasing.
    """
    delta = np.minimum.accumulate(delta)
    for _ in range(_MAX_ENVELOPE_ROUNDS):
        # A point is a corner if its mass (`masses_from_profile`) is >= 0. Both ends
        # always remain.
        given_to_right, taken_from_left = _masses_of_steps(eps, delta)
        has_mass = given_to_right[:-1] >= taken_from_left[1:]
        is_corner = np.concatenate([[True], has_mass, [True]])

        chord_over_zero = _chord_over_zero(eps[1], delta[1])
        zero_is_low_enough = delta[0] <= chord_over_zero or not is_symmetric
        if is_corner.all() and zero_is_low_enough:
            break

        eps = eps[is_corner]
        delta = delta[is_corner]
        if is_symmetric:
            delta[0] = min(delta[0], chord_over_zero)
    return eps, delta


def _chord_over_zero(first_eps: float, first_delta: float) -> float:
    """Return an upper bound on δ(0) from δ(ε₁): the height of a chord, rounded up.

    It says whether the point at ε = 0 is a corner of a convex envelope. As a function
    of x = e^ε a profile is convex, so it lies below its chords. The chord from
    x = e^{−ε₁} to x = e^{ε₁} is evaluated at x = 1, where ε = 0. Its left end is known,
    because the profile is symmetric: δ(−ε) = 1 − e^{−ε}·(1 − δ(ε)). With s = e^{ε₁} − 1
    (`step` in the code), the height is (s + 2·δ(ε₁))/(s + 2).

    Parameters
    ----------
    first_eps : float
        The number ε₁ > 0.
    first_delta : float
        The value δ(ε₁) of the profile.

    Returns
    -------
    float
        An upper bound on δ(0).
    """
    step = math.expm1(min(first_eps, _LARGEST_EXPONENT))
    height = (step + 2 * first_delta) / (step + 2)
    # The rounding error: docs/theory/accounting.md, Theorem C2 (v).
    height = height * (1 + ENVELOPE_ERROR * UNIT_ROUNDOFF)
    return math.nextafter(height, 2.0)
