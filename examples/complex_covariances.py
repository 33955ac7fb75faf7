# %% [markdown]
# # Complex covariances
#
# Each record is the covariance matrix of two channels of a radar, with power and phase. The manifold
# `HPDAffineInvariant(2)` has curvature between −½ and 0, so the sensitivity of the mean of n records in a ball of
# radius r is 2r/n. If the records are treated as vectors, their entries are bounded only by the largest power
# that a record may have.

# %%
import numpy as np
from against_vectors import DOTS, FLAT, OURS, TRUE, cloud, compare, picture

from curvedp.geometry import HPDAffineInvariant

radar = HPDAffineInvariant(2)
middle = radar.from_complex(np.array([[2.0, 0.8 + 0.6j], [0.8 - 0.6j, 1.5]]))
echoes = cloud(radar, middle, 0.5, 300, np.random.default_rng(2026))

# %%
found = compare(
    radar, echoes, radar.origin, 3.0, lambda x: x.reshape(len(x), -1), lambda z: radar.project(z.reshape(2, 2, 2)),
    float(np.exp(3.0)),
)  # fmt: skip


def draw(panel):
    for style, points in (
        (DOTS, echoes),
        (TRUE, found.truth[None]),
        (OURS, found.ours[None]),
        (FLAT, found.flat[None]),
    ):
        panel.scatter(points[:, 0, 1, 0], points[:, 0, 1, 1], **style)
    panel.set(xlabel="real part", ylabel="imaginary part")
    panel.legend(fontsize=8)


picture("complex_covariances", found, draw, "Cross term of two channels")
