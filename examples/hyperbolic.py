# %% [markdown]
# # Hyperbolic embeddings
#
# A tree does not fit into the plane. Its number of leaves grows exponentially, while the length of a circle of
# radius r is only 2πr. In the hyperbolic plane, the length of a circle also grows exponentially. Trees
# (taxonomies, social networks, disease networks) are therefore embedded there. This tutorial releases the mean of
# such an embedding. It also shows an effect that does not exist in flat space: isotropic noise cannot bring μ
# below a certain floor.

# %%
import matplotlib.pyplot as plt
import numpy as np

from curvedp import GDP, PrivateFrechetMean
from curvedp.errors import UnattainableGuarantee
from curvedp.geometry import Lorentz, PoincareBall, frechet_mean
from curvedp.mechanisms import GaussianMechanism, LogGaussianMechanism
from curvedp.papers.data_sets import MissingData, embed_tree, load_dataset
from curvedp.privacy import gaussian_floor, gaussian_profile

disc = PoincareBall(2)
try:
    points = load_dataset("mammals", download=False)
    kind = "mammals of WordNet"
except MissingData as missing:
    print(f"{missing}\n-> a synthetic tree is used instead\n")
    rng = np.random.default_rng(0)
    points = embed_tree(
        [
            -1,
            *(
                int(rng.integers(max(0, i // 2 - 3), i // 2 + 1))
                for i in range(1, 1000)
            ),
        ],
        1.0,
    )
    kind = "a synthetic tree"
print(kind, points.shape)

# %% [markdown]
# ## Release the mean
#
# Embedding software keeps points away from the rim of the disk. A hyperbolic radius of 10 is a Euclidean radius
# of 0.9999, and this is public knowledge. On spaces of curvature ≤ 0, one record moves the mean by at most 2r/n,
# however large the radius r of the ball is.

# %%
mean = PrivateFrechetMean(disc, radius=10.0, guarantee=GDP(1.0)).fit(points)
true = np.asarray(frechet_mean(disc, points))
print("mechanism:", mean.certificate_.mechanism)
print(
    f"hyperbolic distance to the true mean: {float(disc.dist(true, mean.location_)):.4f}"
)

# %% [markdown]
# ## The floor
#
# In flat space, more noise always gives more privacy. In hyperbolic space it does not. The volume of a ball grows
# so fast that wide noise ends near the rim, and from there two centers can still be distinguished. [No
# rotation-invariant noise of any scale](../theory/hyperbolic-floor.md) gets below a floor that depends on the
# dimension and the sensitivity.

# %%
for dimension in (2, 5, 10, 50):
    floor = float(gaussian_floor(-1.0, dimension, 0.2))
    print(f"H^{dimension}, sensitivity 0.2: mu cannot be below {floor:.3f}")
try:
    GaussianMechanism.calibrated(Lorentz(10), 0.2, GDP(0.25))
except UnattainableGuarantee as refusal:
    print("refused:", refusal)

# %% [markdown]
# The remedy is noise in normal coordinates. Take the logarithm of the mean at the public center, add ordinary
# Gaussian noise to it, and map the result back. On such spaces the logarithm does not increase distances.
# Therefore μ = Δ/σ exactly, where Δ is the sensitivity and σ the noise scale, and there is no floor.

# %%
chart = LogGaussianMechanism.calibrated(Lorentz(10), 0.2, GDP(0.25))
print(f"tangent-gaussian: sigma = {chart.sigma:.3f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
left.add_patch(plt.Circle((0, 0), 1, facecolor="#f4f6f7", edgecolor="#1d2b3a"))
left.plot(*points.T, ".", color="#85929e", markersize=2.5)
left.plot(
    *true, "+", color="#1d2b3a", markersize=16, markeredgewidth=2.5, label="true mean"
)
left.plot(
    *mean.location_,
    "x",
    color="#c0392b",
    markersize=11,
    markeredgewidth=2.5,
    label="private mean, GDP(1)",
)
left.set(
    xlim=(-1.05, 1.05),
    ylim=(-1.05, 1.05),
    aspect="equal",
    title=f"{len(points)} points: {kind}",
)
left.set_axis_off()
left.legend(loc="lower left", fontsize=9)
sigma = np.geomspace(0.05, 10, 25)
for dimension, name, color in (
    (2, "H²", "#2471a3"),
    (5, "H⁵", "#b9770e"),
    (10, "H¹⁰", "#c0392b"),
):
    right.plot(
        sigma,
        [gaussian_profile(-1.0, dimension, s, 0.2).mu for s in sigma],
        color=color,
        label=name,
    )
    right.axhline(
        gaussian_floor(-1.0, dimension, 0.2), color=color, linestyle=":", linewidth=1
    )
right.plot(
    sigma,
    0.2 / sigma,
    color="#1d2b3a",
    linestyle="--",
    label="flat space, or noise in a chart",
)
right.set(
    xscale="log",
    yscale="log",
    xlabel="σ of the noise",
    ylabel="μ (smaller is more private)",
    ylim=(0.02, 6),
)
right.set(title="More noise stops helping: the floor")
right.legend(frameon=False, fontsize=9)
figure.savefig("hyperbolic.png", dpi=110)
