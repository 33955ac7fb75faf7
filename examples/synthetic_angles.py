# %% [markdown]
# # Synthetic records: a protein's angles
#
# The backbone of a protein is described by two angles for each residue. Pairs of angles lie on a *torus*, in
# clusters that belong to helices and sheets. This tutorial releases the distribution of such pairs once, under
# one guarantee. It then draws any number of synthetic pairs from this distribution.

# %%
import os
from pathlib import Path

import numpy as np

from curvedp import ApproxDP, PrivateSynthesizer
from curvedp.geometry import Torus
from curvedp.inference import combine_synthetic
from curvedp.statistics.energy import energy_distance

torus = Torus(2)
rng = np.random.default_rng(0)
file = Path(os.environ.get("CURVEDP_DATA", "nowhere")) / "tim8_torus2.csv"
if file.is_file():
    angles = np.genfromtxt(file, delimiter=",", skip_header=1)[:, -2:]
    kind = "backbone angles of a protein"
else:
    print("no tim8_torus2.csv in CURVEDP_DATA\n-> synthetic angles are used instead\n")
    helix = rng.normal([-1.1, -0.7], 0.15, (700, 2))
    sheet = rng.normal([-2.1, 2.3], 0.35, (500, 2))
    angles = np.concatenate([helix, sheet])
    kind = "simulated angles"
X = np.asarray(torus.project(angles))
print(kind, X.shape)

# %% [markdown]
# ## One release
#
# The public ball is the whole torus, because no pair of angles is farther than π√2 from the center. With
# `model="auto"`, curvedp predicts the error of each model from public numbers and takes the best model. For
# several clusters in two dimensions, this is a tree of cells, which are boxes of angles. A box is split if its
# noisy count is large, and at the end the counts are made consistent.

# %%
guarantee = ApproxDP(4.0, 1e-6)
synthesizer = PrivateSynthesizer(torus, radius=np.pi * np.sqrt(2), guarantee=guarantee)
synthesizer.fit(X)
print("model:", synthesizer.model_)
print("expected energy distance:", np.round(synthesizer.predicted_error_, 3))

# %%
synthetic = synthesizer.sample(2000, rng=1)  # 1 is a public seed
print(
    "energy distance to the real ones:",
    np.round(energy_distance(torus, X, synthetic), 3),
)

# %% [markdown]
# The last number was computed from the real records, so it is not private. Everything else is public. If you use
# the same seed and the same certificate again, you get the same file:

# %%
again = synthesizer.sample(2000, rng=1)
print("repeats:", np.array_equal(synthetic, again))

# %% [markdown]
# ## Error bars
#
# Suppose that an analyst wants to know the share of residues in a helix. If the analyst treats the 2,000
# synthetic pairs as real data, the error bar is far too small. The function `combine_synthetic`, in contrast,
# also simulates the sampling of the records, the noise and the drawing of the file.


# %%
def helix_share(records):
    first, second = records.points.T
    return np.mean((first < 0) & (np.abs(second + 0.7) < 1.0))


result = combine_synthetic(synthesizer.certificate_, helix_share, records=2000, files=3)
print(
    f"share {result.estimate:.3f}, standard error {result.standard_error:.3f}; "
    f"of the files alone {result.file_error:.4f}"
)

# %%
synthesizer.plot(n=2000, rng=1).savefig("synthetic_angles.png", dpi=150)
