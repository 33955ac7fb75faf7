# %% [markdown]
# # Angles, proportions, correlations, poses
#
# Six spaces that records come from, and what is lost when they are treated as vectors. On each one the mean is released at
# GDP(1) twice: on its own space, and by the usual detour through vectors (angles as numbers, log-ratios, Fisher's z, matrix
# entries) with Gaussian noise for the same guarantee. Errors are distances on the space to the mean of the records as they
# are, so that what a ball or a bound cuts off counts too. A mean of vectors is another mean: its error is shown against
# the space's mean and against what the detour itself would say without privacy. The public bounds stand beside each case.

# %%
import matplotlib.pyplot as plt
import numpy as np
from data_sets import MissingData, find_file

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import (
    CorrelationOffLog,
    HPDAffineInvariant,
    Rotations,
    Simplex,
    SpecialEuclidean,
    Torus,
    frechet_mean,
)

RUNS = 8
rng = np.random.default_rng(2026)


def table(file, title):
    """A file of the shared data, or None, said aloud."""
    try:
        return np.genfromtxt(find_file(file, title, "CRAN"), delimiter=",", names=True, dtype=None, encoding="utf-8")
    except MissingData as missing:
        print(f"{missing}\n-> synthetic records stand in\n")
        return None


def compare(name, space, records, center, radius, there, back, bound, middle=None):
    """Root mean square errors of both ways; `bound` is the public radius of the vectors about `middle`."""
    truth, n = frechet_mean(space, records), len(records)
    vectors, middle = there(records), there(center[None])[0] if middle is None else middle
    shift = vectors - middle
    shift *= np.minimum(1.0, bound / np.maximum(np.linalg.norm(shift, axis=1), 1e-300))[:, None]
    own, last, errors = back(vectors.mean(axis=0)), None, []
    for _ in range(RUNS):
        last = PrivateFrechetMean(space, center=center, radius=radius, guarantee=GDP(1.0)).fit(records).location_
        noisy = middle + shift.mean(axis=0) + 2 * bound / n * rng.normal(size=len(middle))
        found = back(noisy)
        errors.append([float(space.dist(a, b)) for a, b in ((truth, last), (truth, found), (own, found))])
    ours, flat, alone = np.sqrt(np.mean(np.square(errors), axis=0))
    print(f"{name:30s} n={n}: ours {ours:.4f}, as vectors {flat:.4f}, against their own mean {alone:.4f}")
    return truth, last


def cloud(space, center, spread, n):
    """A Gaussian cloud in the chart."""
    return np.asarray(space.unchart(center, spread * rng.normal(size=(n, space.dim))))


figure, panels = plt.subplots(2, 3, figsize=(13, 8.4), constrained_layout=True)
DOTS = {"s": 8, "color": "#7f8c8d", "alpha": 0.6, "label": "records"}
TRUE = {"marker": "+", "s": 170, "color": "#1d2b3a", "linewidths": 2.5, "label": "true mean", "zorder": 3}
OURS = {"marker": "x", "s": 110, "color": "#c0392b", "linewidths": 2.5, "label": "private, GDP(1)", "zorder": 4}

# %% [markdown]
# ## Wind on the torus
#
# Two measurements in a row are two angles. North is 0 and also 2π: as numbers, their mean points south. The ball about
# north cuts off the winds from the south; most of our error is that, not noise.

# %%
winds = table("wind_coldelanoue_s1.csv", "wind at Col de la Noue")
angles = rng.vonmises(0.3, 1.6, 310) if winds is None else winds["direction_rad"]
torus, pairs = Torus(2), np.asarray(angles)[: len(angles) // 2 * 2].reshape(-1, 2)
pairs = np.asarray(torus.project(pairs))
truth, release = compare(
    "wind, angles as numbers", torus, pairs, np.zeros(2), 1.5, lambda x: np.mod(x, 2 * np.pi) - np.pi,
    lambda z: torus.project(z + np.pi), np.pi * np.sqrt(2), np.zeros(2),
)  # fmt: skip
for style, points in ((DOTS, pairs), (TRUE, truth[None]), (OURS, release[None])):
    panels[0, 0].scatter(*np.degrees(points).T, **style)
panels[0, 0].set(title="Wind, now and next (torus)", xlabel="degrees", ylabel="degrees", xlim=(-180, 180))
panels[0, 0].legend(fontsize=8, loc="lower right")

# %% [markdown]
# ## Proportions
#
# Zeros are allowed in Fisher–Rao geometry. Log-ratios need them replaced, here by ½ %, and the bound must cover it.

# %%
simplex = Simplex(2)
counts = np.array([rng.multinomial(40, p) for p in rng.dirichlet([6.0, 2.5, 0.6], 300)])
shares = counts / counts.sum(axis=1, keepdims=True)


def log_ratios(p):
    logs = np.log(np.maximum(p, 0.005))
    return logs - logs.mean(axis=-1, keepdims=True)


truth, release = compare(
    "proportions, log-ratios", simplex, shares, simplex.origin, 1.6, log_ratios,
    lambda z: simplex.project(np.exp(z)), float(np.linalg.norm(log_ratios(np.array([0.99, 0.005, 0.005])))),
)  # fmt: skip
corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
panels[0, 1].plot(*corners[[0, 1, 2, 0]].T, color="#1d2b3a", linewidth=1)
for style, points in ((DOTS, shares), (TRUE, truth[None]), (OURS, release[None])):
    panels[0, 1].scatter(*(points @ corners).T, **style)
panels[0, 1].set(title="Proportions, zeros included (simplex)", aspect="equal")
panels[0, 1].axis("off")

# %% [markdown]
# ## Sub-networks of a connectome
#
# Correlations of four regions. Fisher's z entry by entry may end outside the correlation matrices and is then projected.

# %%
network = CorrelationOffLog(4)
typical = np.array([[1.0, 0.7, 0.2, -0.1], [0.7, 1.0, 0.3, 0.0], [0.2, 0.3, 1.0, 0.6], [-0.1, 0.0, 0.6, 1.0]])
brains = cloud(network, typical, 0.25, 300)
below = np.tril_indices(4, -1)


def from_z(z):
    C = np.eye(4)
    C[below] = np.tanh(z)
    C = C + C.T - np.eye(4)
    w, U = np.linalg.eigh(C)
    return network.project((U * np.maximum(w, 1e-6)) @ U.T)


truth, release = compare(
    "correlations, Fisher's z", network, brains, typical, 1.5, lambda C: np.arctanh(C[:, below[0], below[1]]),
    from_z, np.arctanh(0.9) * np.sqrt(6),
)  # fmt: skip
panels[0, 2].imshow(np.block([[truth, np.full((4, 1), np.nan), np.asarray(release)]]), vmin=-1, vmax=1, cmap="RdBu_r")
panels[0, 2].set(title="Correlations: true mean | private", xticks=[], yticks=[])

# %% [markdown]
# ## Poses of a gripper
#
# A rotation and a place, half a meter counting as much as a radian. The detour adds noise to the twelve matrix entries.

# %%
poses = SpecialEuclidean(3, length=0.5)
grips = cloud(poses, poses.origin, 0.25, 300)
truth, release = compare(
    "poses, matrix entries", poses, grips, poses.origin, 1.2,
    lambda x: np.concatenate([x[..., :3, :3].reshape(len(x), 9) / np.sqrt(2), x[..., :3, 3] / 0.5], axis=1),
    lambda z: poses.project(np.block([[np.sqrt(2) * z[:9].reshape(3, 3), 0.5 * z[9:, None]], [np.zeros((1, 3)), 1.0]])),
    1.2,
)  # fmt: skip
for k, color in enumerate(("#c0392b", "#27ae60", "#2471a3")):
    tips = grips[:, :3, 3] + 0.2 * grips[:, :3, k]
    panels[1, 0].scatter(tips[:, 0], tips[:, 1], s=4, color=color, alpha=0.4)
    for frame, ink, line, width in ((truth, color, "-", 6), (np.asarray(release), "#1d2b3a", ":", 2.5)):
        panels[1, 0].plot(*(frame[:2, 3, None] + 0.2 * frame[:2, k, None] * [0, 1]), line, color=ink, linewidth=width)
panels[1, 0].set(title="Poses: true mean solid, private dotted", aspect="equal", xlabel="m", ylabel="m")

# %% [markdown]
# ## Complex covariances
#
# Two radar channels: power and phase. As vectors, the entries have no bound but the largest power that anyone may have.

# %%
radar = HPDAffineInvariant(2)
echoes = cloud(radar, radar.from_complex(np.array([[2.0, 0.8 + 0.6j], [0.8 - 0.6j, 1.5]])), 0.5, 300)
truth, release = compare(
    "complex covariances, entries", radar, echoes, radar.origin, 3.0, lambda x: x.reshape(len(x), -1),
    lambda z: radar.project(z.reshape(2, 2, 2)), float(np.exp(3.0)),
)  # fmt: skip
for style, points in ((DOTS, echoes), (TRUE, truth[None]), (OURS, np.asarray(release)[None])):
    panels[1, 1].scatter(points[:, 0, 1, 0], points[:, 0, 1, 1], **style)
panels[1, 1].set(title="Cross term of complex covariances", xlabel="real", ylabel="imaginary")

# %% [markdown]
# ## Rotations of a joint
#
# How people hold a drill; rows with a missing quaternion are left out. The detour adds noise to nine entries and takes
# the nearest rotation.

# %%
rotations, drill = Rotations(3), table("drill_so3_quaternions.csv", "drill")
if drill is None:
    turns = cloud(rotations, rotations.origin, 0.3, 240)
else:
    whole = (drill["Joint"] == "Wrist") & ~np.isnan(drill["Q1"])
    w, x, y, z = (drill[f"Q{k}"][whole] for k in (1, 2, 3, 4))
    turns = np.stack([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]).transpose(2, 0, 1)  # fmt: skip
truth, release = compare(
    "rotations, matrix entries", rotations, turns, rotations.origin, 1.2,
    lambda x: x.reshape(len(x), 9) / np.sqrt(2), lambda z: rotations.project(np.sqrt(2) * z.reshape(3, 3)), 1.2,
)  # fmt: skip
for style, points in ((DOTS, turns), (TRUE, truth[None]), (OURS, np.asarray(release)[None])):
    axis = np.degrees(np.asarray(rotations.chart(rotations.origin, points)))
    panels[1, 2].scatter(axis[:, 0], axis[:, 1], **style)
panels[1, 2].set(title="Rotation vectors of a joint", xlabel="degrees", ylabel="degrees")
figure.savefig("spaces.png", dpi=100)
