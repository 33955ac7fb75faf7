# %% [markdown]
# # Rigid-body poses
#
# A pose of a gripper is a rotation and a position, where half a meter counts as one radian:
# `SpecialEuclidean(3, length=0.5)`. The alternative treats a pose as a vector, and adds noise to the twelve
# matrix entries. Near the identity, these entries are nearly normal coordinates, so the alternative loses little
# accuracy. Far from the identity, it loses more.

# %%
import numpy as np
from against_vectors import cloud, compare, picture

from curvedp.geometry import SpecialEuclidean

poses = SpecialEuclidean(3, length=0.5)
grips = cloud(poses, poses.origin, 0.25, 300, np.random.default_rng(2026))


def entries(x):
    return np.concatenate(
        [x[..., :3, :3].reshape(len(x), 9) / np.sqrt(2), x[..., :3, 3] / 0.5], axis=1
    )


def pose(z):
    return poses.project(
        np.block(
            [
                [np.sqrt(2) * z[:9].reshape(3, 3), 0.5 * z[9:, None]],
                [np.zeros((1, 3)), 1.0],
            ]
        )
    )


# %%
found = compare(poses, grips, poses.origin, 1.2, entries, pose, 1.2)


def draw(panel):
    for k, color in enumerate(("#c0392b", "#27ae60", "#2471a3")):
        tips = grips[:, :3, 3] + 0.2 * grips[:, :3, k]
        panel.scatter(tips[:, 0], tips[:, 1], s=5, color=color, alpha=0.4)
        for frame, ink, line, width in (
            (found.truth, color, "-", 6),
            (found.ours, "#1d2b3a", ":", 2.5),
        ):
            panel.plot(
                *(frame[:2, 3, None] + 0.2 * frame[:2, k, None] * [0, 1]),
                line,
                color=ink,
                linewidth=width,
            )
    panel.set(aspect="equal", xlabel="m", ylabel="m")


picture(
    "poses", found, draw, "Three axes of the gripper: true mean solid, private dotted"
)
