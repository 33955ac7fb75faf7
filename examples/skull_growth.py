# %% [markdown]
# # Principal geodesics: how skulls grow
#
# X-ray pictures of growing rats give eight landmarks on the outline of each skull. If position, size and rotation
# are ignored, the landmarks are *shapes*, which are points of Kendall's shape space. The first principal geodesic
# of these shapes is mostly growth. This tutorial releases it privately, together with its variance, and counts
# the directions that exceed the noise.

# %%
import os
from pathlib import Path

import numpy as np

from curvedp import GDP, PrivateTangentPCA, plan
from curvedp.geometry import KendallShapes

shapes = KendallShapes(8)
rng = np.random.default_rng(0)
file = Path(os.environ.get("CURVEDP_DATA", "nowhere")) / "dryden_shapes.npz"
if file.is_file():
    with np.load(file) as table:
        landmarks = np.moveaxis(table["rats_x"], -1, 0)
        age = np.log(table["rats_time"])
    kind = "rat skulls"
else:
    print(
        "no dryden_shapes.npz in CURVEDP_DATA\n-> synthetic skulls are used instead\n"
    )
    angle = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    young = np.column_stack([1.2 * np.cos(angle), np.sin(angle)])
    growth = np.column_stack([0.5 * np.cos(angle), -0.2 * np.sin(2 * angle)])
    age = rng.uniform(2, 5, 600)
    landmarks = young + (age / 5)[:, None, None] * growth
    landmarks = landmarks + 0.02 * rng.normal(size=landmarks.shape)
    kind = "synthetic skulls"
centered = landmarks - landmarks.mean(axis=1, keepdims=True)
X = np.asarray(shapes.project(centered))
print(kind, X.shape, "on a space of dimension", shapes.dim)

# %% [markdown]
# ## Plan the release
#
# One record is one picture of a skull. To protect all pictures of an animal together, pass `groups=`. The privacy
# unit is then one animal, and n is the number of animals. The function `plan` predicts the accuracy from public
# numbers: the number of shapes, and a guess of their spread.

# %%
budget = GDP(2.0)
told = plan(shapes, len(X), "private", budget, spread=0.1, statistic="tangent-pca")
print(told)

# %% [markdown]
# ## The release
#
# The center, the radius and the principal directions are found in one release, with one certificate.

# %%
pca = PrivateTangentPCA(shapes, radius="private", guarantee=budget).fit(X)
print(pca.n_components_above_noise_, "directions stand out of the noise")
print(
    "first direction explains",
    np.round(pca.explained_variance_ratio_[0], 2),
    "of the variance",
)
intervals = pca.confidence_region(0.95, target="variances")
print(
    "its variance:",
    np.round(intervals.lower[0], 5),
    "to",
    np.round(intervals.upper[0], 5),
)

# %% [markdown]
# ## What it shows
#
# The coordinate of a skull along the first geodesic follows its age. The coordinates are computed from the real
# records, so only those who may see the records may see this correlation. The geodesic itself is public.

# %%
score = pca.transform(X)[:, 0]
print("correlation with log age:", np.round(abs(np.corrcoef(score, age)[0, 1]), 2))
young, old = pca.inverse_transform(
    np.outer([-2, 2], np.sqrt(pca.explained_variance_[:1]))
    @ np.eye(1, len(pca.components_))
)
print("shapes at both ends are", np.round(float(shapes.dist(young, old)), 3), "apart")

# %%
pca.plot(components=1).savefig("skull_growth.png", dpi=150)
