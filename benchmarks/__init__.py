"""Scripts that print the tables of the documentation, in three folders by purpose.

- `speed/` compares our running time with peers and with the limits of the machine;
- `studies/` measures utility, coverage, goodness of fit and the quality of predictions;
- `attacks/` tries to break sensitivities, releases, the ledger and our own tests.

Every script runs as `python -m benchmarks.<name>`, whatever folder it is in.
"""

from pathlib import Path

import numpy as np

_FOLDER = Path(__file__).parent

# Python looks for the modules of this package in these folders, so that a script can
# move from one to another without a change of the command that the pages print.
__path__ = [
    str(_FOLDER),
    *(str(_FOLDER / purpose) for purpose in ("speed", "studies", "attacks")),
]


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file by name, and close the file."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)
