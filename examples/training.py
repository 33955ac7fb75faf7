# %% [markdown]
# # Private training
#
# Some statistics have no closed form, but they minimize a loss over a manifold. Gradient descent finds the
# minimum. It is private if every gradient is clipped and noise is added. This tutorial computes the leading
# direction of handwritten digits (a point on a sphere), and then a robust mean with a custom loss.

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from curvedp import ApproxDP, PrivatePCA
from curvedp.geometry import Sphere
from curvedp.optim import LeadingEigenvectorProblem, Problem, dp_rgd, dp_rsgd

images = load_digits().data
records = images / np.linalg.norm(
    images, axis=1, keepdims=True
)  # unit vectors of R^64, shipped with scikit-learn
print(records.shape)

# %% [markdown]
# ## Three ways to the same direction
#
# The guarantee covers all steps together, and the optimizer derives the noise from it. The optimizer `dp_rgd`
# reads all records at each step. In contrast, `dp_rsgd` reads a random batch, and the randomness of the batch
# adds privacy. The step size, the clipping norm and the number of steps are chosen without the data.

# %%
target, problem = ApproxDP(1.0, 1e-6), LeadingEigenvectorProblem(64)
start = np.full(64, 1 / 8)  # public
runs = {
    "dp_rgd, 30 steps": dp_rgd(
        problem, records, start, steps=30, clip=1.0, learning_rate=0.5, guarantee=target, record_history=True
    ),
    "dp_rsgd, 300 steps of 100": dp_rsgd(
        problem, records, start, steps=300, batch_size=100, clip=1.0, learning_rate=lambda t: 0.5 / (1 + t / 10),
        guarantee=target, record_history=True,
    ),
}  # fmt: skip
moment = records.T @ records / len(records)
best = np.linalg.eigvalsh(moment)[-1]
for name, run in runs.items():
    print(
        f"{name:26}: noise sd {run.noise:.4f} per step, explained {run.point @ moment @ run.point:.4f}"
    )
print(f"{'without privacy':26}: explained {best:.4f}")

# %% [markdown]
# A history of the loss reads the data at every step, so it is not private.
#
# ## If there is a closed form, take it
#
# The leading direction is also an eigenvector of the second moment matrix. A single noisy matrix is usually
# better than many noisy gradients, and it has no step size to choose.

# %%
direction = (
    PrivatePCA(n_components=1, radius=1.0, guarantee=target).fit(records).components_[0]
)
print(f"PrivatePCA, one release   : explained {direction @ moment @ direction:.4f}")

# %% [markdown]
# ## A loss of your own
#
# You can use any loss of one record; its derivatives come from JAX. The example is a mean on which distant
# records have little influence, because the loss grows like the distance and not like its square. Write distances
# so that they are easy to differentiate: use half the chord and not the arc cosine.

# %%
sphere = Sphere(63)


def pseudo_huber(w, z):
    """√(1 + (chord/0.3)²): a parabola near by, a straight line far away."""
    return 0.3 * jnp.sqrt(1 + jnp.sum((w - z) ** 2) / 0.3**2)


robust = dp_rsgd(
    Problem(sphere, pseudo_huber),
    records,
    start,
    steps=300,
    batch_size=100,
    clip=1.0,
    learning_rate=0.3,
    guarantee=target,
)
plain = sphere.project(records.mean(axis=0))
print(
    f"angle between robust private mean and plain mean: {float(sphere.dist(plain, robust.point)):.3f} rad"
)

# %%
figure, (left, *faces) = plt.subplots(
    1, 4, figsize=(11, 3.4), layout="constrained", width_ratios=[2.2, 1, 1, 1]
)
for (name, run), color in zip(runs.items(), ("#2471a3", "#c0392b"), strict=True):
    history = np.asarray(run.history)
    left.plot(np.linspace(0, 1, len(history)), best + history, color=color, label=name)
left.set(
    yscale="log",
    xlabel="share of the steps",
    ylabel="excess loss",
    title="(1, 10⁻⁶)-DP in total",
)
left.legend(frameon=False, fontsize=9)
exact = np.linalg.eigh(moment)[1][:, -1]
pictures = {
    "exact": exact,
    "dp_rsgd": runs["dp_rsgd, 300 steps of 100"].point,
    "PrivatePCA": direction,
}
for axes, (name, vector) in zip(faces, pictures.items(), strict=True):
    axes.imshow(
        (vector * np.sign(vector.sum())).reshape(8, 8),
        cmap="gray_r",
        vmin=-0.1,
        vmax=0.35,
    )
    axes.set_title(name)
    axes.set_axis_off()
figure.savefig("training.png", dpi=110)
