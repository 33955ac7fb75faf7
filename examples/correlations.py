# %% [markdown]
# # Functional connectivity
#
# The records are correlation matrices of four regions in 300 brains (simulated). The manifold `CorrelationOffLog`
# is flat and does not depend on the order of the regions. The alternative treats the records as vectors: it takes
# Fisher's z of each entry. Its release need not be a correlation matrix, and it is then projected to one.

# %%
import numpy as np
from against_vectors import cloud, compare, picture

from curvedp.geometry import CorrelationOffLog

network = CorrelationOffLog(4)
typical = np.array(
    [
        [1.0, 0.7, 0.2, -0.1],
        [0.7, 1.0, 0.3, 0.0],
        [0.2, 0.3, 1.0, 0.6],
        [-0.1, 0.0, 0.6, 1.0],
    ]
)
brains = cloud(network, typical, 0.25, 300, np.random.default_rng(2026))
below = np.tril_indices(4, -1)


def from_z(z):
    C = np.eye(4)
    C[below] = np.tanh(z)
    C = C + C.T - np.eye(4)
    w, U = np.linalg.eigh(C)
    return network.project((U * np.maximum(w, 1e-6)) @ U.T)


# %%
found = compare(
    network,
    brains,
    typical,
    1.5,
    lambda C: np.arctanh(C[:, below[0], below[1]]),
    from_z,
    np.arctanh(0.9) * np.sqrt(6),
)


def draw(panel):
    gap = np.full((4, 1), np.nan)
    panel.imshow(
        np.hstack([found.truth, gap, found.ours, gap, found.flat]),
        vmin=-1,
        vmax=1,
        cmap="RdBu_r",
    )
    for left, matrix in ((0, found.truth), (5, found.ours), (10, found.flat)):
        for (i, j), x in np.ndenumerate(matrix):
            ink = "white" if abs(x) > 0.65 else "black"
            panel.text(
                left + j, i, f"{x:.2f}", ha="center", va="center", fontsize=8, color=ink
            )
    panel.set(
        xticks=[1.5, 6.5, 11.5],
        xticklabels=["true mean", "private", "private, Fisher's z"],
        yticks=[],
    )


picture("correlations", found, draw, "Correlations of four regions")
