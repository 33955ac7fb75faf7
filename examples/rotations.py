# %% [markdown]
# # Wrist rotations
#
# The records are orientations of the wrist of people who hold a drill. Rows with a missing quaternion are
# skipped. The alternative treats rotations as vectors: it adds noise to the nine matrix entries and takes the
# nearest rotation.

# %%
import numpy as np
from against_vectors import DOTS, FLAT, OURS, TRUE, cloud, compare, picture, table

from curvedp.geometry import Rotations

rotations, drill = Rotations(3), table("drill_so3_quaternions.csv", "drill")
if drill is None:
    turns = cloud(rotations, rotations.origin, 0.3, 240, np.random.default_rng(2026))
else:
    whole = (drill["Joint"] == "Wrist") & ~np.isnan(drill["Q1"])
    w, x, y, z = (drill[f"Q{k}"][whole] for k in (1, 2, 3, 4))
    turns = np.stack([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]).transpose(2, 0, 1)  # fmt: skip

# %%
found = compare(
    rotations, turns, rotations.origin, 1.2, lambda x: x.reshape(len(x), 9) / np.sqrt(2),
    lambda z: rotations.project(np.sqrt(2) * z.reshape(3, 3)), 1.2,
)  # fmt: skip


def draw(panel):
    for style, points in (
        (DOTS, turns),
        (TRUE, found.truth[None]),
        (OURS, found.ours[None]),
        (FLAT, found.flat[None]),
    ):
        axis = np.degrees(
            np.asarray(rotations.normal_coordinates(rotations.origin, points))
        )
        panel.scatter(axis[:, 0], axis[:, 1], **style)
    panel.set(xlabel="rotation vector, degrees", ylabel="degrees")
    panel.legend(fontsize=8)


picture("rotations", found, draw, "Rotation vectors of a wrist")
