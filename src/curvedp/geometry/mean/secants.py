"""The acceleration that every search for a mean uses: what the steps so far have taught (Anderson 1965)."""

from itertools import pairwise

import numpy as np

__all__ = ["Secants"]

_MEMORY = 5  # steps that it looks back
_NEW = 1e-3  # share of a change that must be new: less is round-off, and would be blown up


class Secants:
    """Steps taken, and what they changed: F − (ΔX + ΔF)γ, γ the least-squares fit of F by the changes ΔF along steps ΔX."""

    def __init__(self) -> None:
        self.steps: list[np.ndarray] = []
        self.values: list[np.ndarray] = []

    def step(self, value: np.ndarray) -> np.ndarray:
        """The next step, from the Newton-like one that the present gradient asks for."""
        self.values = [*self.values, value][-_MEMORY - 1 :]
        step = value
        if self.steps:
            changed = [(new - old).ravel() for old, new in pairwise(self.values)]
            # orthonormal, from the latest: the changes fall by orders of magnitude from step to step
            rest = value.ravel()
            basis: list[tuple[np.ndarray, np.ndarray]] = []
            for moved, change in zip(reversed(self.steps), reversed(changed), strict=True):
                together, whole = moved.ravel() + change, float(np.linalg.norm(change))
                for q, with_q in basis:
                    part = float(q @ change)
                    change, together = change - part * q, together - part * with_q
                length = float(np.linalg.norm(change))
                if length > _NEW * whole:
                    basis.append((change / length, together / length))
                    step = step - float(basis[-1][0] @ rest) * basis[-1][1].reshape(value.shape)
        self.steps = [*self.steps, step][-_MEMORY:]
        return step
