# %% [markdown]
# # Classifying EEG
#
# Two seconds of EEG give one covariance matrix. It describes how strongly the signal of each electrode varies,
# and which signals vary together. *Minimum distance to mean* is the standard classifier of brain–computer
# interfaces. It computes one Fréchet mean per class, and assigns a new window to the class of the nearest mean.
# Here each mean is released privately, so that the classifier can be published.
#
# The recording has no labels, so we make a task from the positions of the electrodes. Given six electrodes in a
# row from front to back, were they on the left or on the right of the head? The two rows are mirror images of
# each other, so this is not easy.

# %%
import matplotlib.pyplot as plt
import numpy as np

from curvedp import GDP, PrivateMDM
from curvedp.geometry import SPDAffineInvariant, frechet_mean
from curvedp.papers.data_sets import MissingData, load_dataset

LEFT, RIGHT = (
    [2, 7, 11, 16, 20, 25],
    [4, 8, 12, 17, 22, 27],
)  # F3 FC1 C3 CP1 P3 PO3, and F4 FC2 C4 CP2 P4 PO4
manifold = SPDAffineInvariant(6)


def rows(covariances, electrodes):
    """The 6×6 block of these electrodes."""
    return covariances[:, electrodes][:, :, electrodes]


try:
    recording = load_dataset("eeg")
    windows, epochs = recording["windows2s_cov"], recording["epochs_cov"]  # in µV²
    kind = "EEG (EEGLAB's sample recording)"
except MissingData as missing:
    print(f"{missing}\n-> synthetic covariances are used instead\n")
    rng = np.random.default_rng(0)
    place = np.linspace(0, 1, 32)
    typical = 400 * np.exp(-np.abs(place[:, None] - place) / 2) + np.diag(
        20 * np.linspace(1, 4, 32)
    )
    factors = np.linalg.cholesky(typical) @ rng.normal(size=(199, 32, 90)) / np.sqrt(90)
    windows, epochs = np.split(factors @ factors.transpose(0, 2, 1), [119])
    kind = "synthetic covariances"

# Every window contributes one record to one class. The privacy unit is the window, because all
# windows come from one recording; with several people, people would be the unit.
train = np.concatenate([rows(windows[::2], LEFT), rows(windows[1::2], RIGHT)])
train_side = np.repeat(["left", "right"], [len(windows[::2]), len(windows[1::2])])
test = np.concatenate([rows(epochs, LEFT), rows(epochs, RIGHT)])
test_side = np.repeat(["left", "right"], [len(epochs), len(epochs)])
print(kind, train.shape, test.shape)

# %% [markdown]
# ## Public choices
#
# Scalp voltages have a variance of some hundred µV², and electrodes that are a few centimeters apart are strongly
# correlated. This is textbook knowledge, and it determines the center: 300 µV², correlation 0.9. A radius of 4 is
# generous. The labels and the number of windows in each class are public.

# %%
center = 300 * (0.1 * np.eye(6) + 0.9 * np.ones((6, 6)))
model = PrivateMDM(manifold, center=center, radius=4.0, guarantee=GDP(1.0)).fit(
    train, train_side
)
print("accuracy on the epochs, GDP(1):", model.score(test, test_side))

# %% [markdown]
# Each window is in one class, so both means together cost no more than one. If every window contributed a record
# to both classes, μ would be √2 times as large.
#
# ## Accuracy against the budget
#
# With 60 windows per class and 21 numbers per mean, this is a small study. The noise is proportional to 1/n. Ten
# times as many windows would therefore reach the same accuracy at a tenth of μ.

# %%
means = np.stack(
    [
        np.asarray(frechet_mean(manifold, train[train_side == side]))
        for side in model.classes_
    ]
)
nearest = model.classes_[manifold.dist(means[None], test[:, None]).argmin(axis=1)]
limit = np.mean(nearest == test_side)
budgets = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
scores = []
for mu in budgets:
    again = PrivateMDM(
        manifold,
        center=center,
        radius=4.0,
        guarantee=GDP(mu),
        mechanism="tangent-gaussian",
    )
    scores.append(
        [again.fit(train, train_side).score(test, test_side) for _ in range(6)]
    )
for mu, runs in zip(budgets, scores, strict=True):
    print(
        f"GDP({mu:<4}): accuracy {np.mean(runs):.3f}, from {min(runs):.3f} to {max(runs):.3f}"
    )
print(f"without privacy: {limit:.3f}")

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.9), layout="constrained", width_ratios=[1.2, 1]
)
shown = np.concatenate([means, model.means_])
for place, (title, matrix) in enumerate(
    zip(
        ("left, true", "right, true", "left, GDP(1)", "right, GDP(1)"),
        shown,
        strict=True,
    )
):
    inset = left.inset_axes((0.5 * (place % 2), 0.52 * (1 - place // 2), 0.42, 0.4))
    scale = np.sqrt(np.diag(matrix))
    image = inset.imshow(
        matrix / np.outer(scale, scale), cmap="viridis", vmin=0, vmax=1
    )
    inset.set_title(title, fontsize=9)
    inset.set(xticks=[], yticks=[])
left.set_axis_off()
figure.colorbar(image, ax=left, shrink=0.7, label="correlation")
for mu, runs in zip(budgets, scores, strict=True):
    right.plot([mu] * len(runs), runs, "o", color="#c0392b", alpha=0.5)
right.plot(
    budgets,
    [np.mean(runs) for runs in scores],
    color="#c0392b",
    label="private, mean of 6",
)
right.axhline(limit, color="#1d2b3a", linestyle="--", label="without privacy")
right.axhline(0.5, color="#95a5a6", linestyle=":", label="guessing")
right.set(
    xscale="log",
    xticks=budgets,
    xticklabels=[f"{mu:g}" for mu in budgets],
    xlabel="μ of the guarantee GDP(μ)",
    ylabel="accuracy",
    ylim=(0.35, 1.02),
    title=kind,
)
right.minorticks_off()
right.legend(frameon=False, loc="lower right", fontsize=9)
figure.savefig("eeg_classification.png", dpi=110)
