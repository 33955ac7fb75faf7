"""Studies and speed ratios; each module prints its table: `python -m benchmarks.<name>`."""

from pathlib import Path

import numpy as np


def arrays(path: Path) -> dict[str, np.ndarray]:
    """What an npz file holds, by name."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)
