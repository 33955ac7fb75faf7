# %% [markdown]
# # Compositional data
#
# The records are counts of three species in 300 samples, read as proportions. Fisher–Rao geometry allows zeros,
# because the boundary belongs to the simplex. Log-ratios do not: zeros must be replaced first, here by ½%, and
# the bound must cover the replacement.

# %%
import numpy as np
from against_vectors import DOTS, FLAT, OURS, TRUE, compare, picture

from curvedp.geometry import Simplex

rng, simplex = np.random.default_rng(2026), Simplex(2)
counts = np.array([rng.multinomial(40, p) for p in rng.dirichlet([6.0, 2.5, 0.6], 300)])
shares = counts / counts.sum(axis=1, keepdims=True)


def log_ratios(p):
    logs = np.log(np.maximum(p, 0.005))
    return logs - logs.mean(axis=-1, keepdims=True)


# %%
largest = float(np.linalg.norm(log_ratios(np.array([0.99, 0.005, 0.005]))))
found = compare(
    simplex,
    shares,
    simplex.origin,
    1.6,
    log_ratios,
    lambda z: simplex.project(np.exp(z - np.max(z))),
    largest,
)


def draw(panel):
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
    panel.plot(*corners[[0, 1, 2, 0]].T, color="#1d2b3a", linewidth=1)
    for (x, y), name, lift in zip(corners, "ABC", (-0.05, -0.05, 0.03), strict=True):
        panel.text(x, y + lift, f"all {name}", ha="center")
    each = (
        (DOTS, shares),
        (TRUE, found.truth[None]),
        (OURS, found.ours[None]),
        (FLAT, found.flat[None]),
    )
    for style, points in each:
        panel.scatter(*(points @ corners).T, **style)
    panel.set(aspect="equal", ylim=(-0.1, 1.0))
    panel.axis("off")
    panel.legend(fontsize=8, loc="upper left")


picture("proportions", found, draw, "Shares of three species, zeros included")
