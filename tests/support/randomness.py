"""Sources of random bits that repeat."""

import numpy as np

from curvedp.randomness import GeneratorSource


def seeded_source(seed: int = 1) -> GeneratorSource:
    """Return a source that gives the same bits for the same seed; it is not private."""
    return GeneratorSource(np.random.default_rng(seed))
