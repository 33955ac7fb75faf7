# %% [markdown]
# # Wind on the torus
#
# Two successive measurements of the wind direction are two angles, which form a point of the flat torus. North is
# both 0 and 2π. If these angles are treated as numbers, the mean of two northerly winds points south. The
# sensitivity of the mean of n records in a ball of radius r on the torus is 2r/n for every r < π/2. Winds from
# the south are clipped to the ball about north. Most of the error on the manifold is this bias, not noise.

# %%
import numpy as np
from against_vectors import DOTS, FLAT, OURS, TRUE, compare, picture, table

from curvedp.geometry import Torus

winds = table("wind_coldelanoue_s1.csv", "wind at Col de la Noue")
angles = (
    np.random.default_rng(0).vonmises(0.3, 1.6, 310)
    if winds is None
    else winds["direction_rad"]
)
torus = Torus(2)
pairs = np.asarray(
    torus.project(np.asarray(angles)[: len(angles) // 2 * 2].reshape(-1, 2))
)

# %% [markdown]
# The alternative treats the angles from 0 to 2π as numbers and bounds them by the square that contains them.

# %%
found = compare(
    torus, pairs, np.zeros(2), 1.5, lambda x: np.mod(x, 2 * np.pi) - np.pi, lambda z: torus.project(z + np.pi),
    np.pi * np.sqrt(2), np.zeros(2),
)  # fmt: skip


def draw(panel):
    for style, points in (
        (DOTS, pairs),
        (TRUE, found.truth[None]),
        (OURS, found.ours[None]),
        (FLAT, found.flat[None]),
    ):
        panel.scatter(*np.degrees(points).T, **style)
    panel.set(
        xlabel="now, degrees",
        ylabel="next, degrees",
        xlim=(-180, 180),
        ylim=(-180, 180),
    )
    panel.legend(fontsize=8, loc="lower right")


picture("wind", found, draw, "Wind directions, now and next")
