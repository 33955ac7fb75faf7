# %% [markdown]
# # Private topics: what do customers write to their bank about?
#
# A bank wants to publish what its customers write about, without exposing anyone. Each message is embedded as a
# unit vector of 384 numbers, which is a point of the sphere S³⁸³. This tutorial releases the centers and sizes of
# topics, names the topics with a public vocabulary, and measures their accuracy. It then shows two approaches
# that fail.

# %%
import os
from pathlib import Path

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from curvedp import ApproxDP, PrivateKMeans, plan
from curvedp.geometry import Sphere
from curvedp.mechanisms.vector import smallest_gaussian_scale
from curvedp.release.verify import verify_certificate
from curvedp.report.topics import topics_figure
from curvedp.topics import (
    NOT_COVERED,
    make_vocabulary,
    nearest_phrases,
    plane_positions,
)

sphere = Sphere(383)
rng = np.random.default_rng(0)
file = Path(os.environ.get("CURVEDP_DATA", "nowhere")) / "banking77_minilm_s383.npz"
if file.is_file():
    with np.load(file) as content:
        vectors = sphere.project(content["X"].astype(float))
        intents, is_public = content["y"], content["split"] == 1
        names = [str(name).replace("_", " ") for name in content["classes"]]
    kind = "messages to a bank"
else:
    print(
        "no banking77_minilm_s383.npz in CURVEDP_DATA\n-> simulated vectors are used instead\n"
    )
    names = [f"subject {k}" for k in range(20)]
    common, subjects = rng.normal(size=384), rng.normal(size=(20, 384))
    intents = np.arange(8000) % 20
    vectors = sphere.project(common + subjects[intents] + rng.normal(size=(8000, 384)))
    is_public = rng.random(8000) < 0.25
    kind = "simulated messages"
X = vectors[~is_public]
print(kind, X.shape)

# %% [markdown]
# ## Plan: how many topics can these data support?
#
# The prediction needs public numbers only, namely the number of messages and the budget.

# %%
guarantee = ApproxDP(4.0, 1e-6, adjacency="add-remove")
study = plan(sphere, len(X), guarantee=guarantee, statistic="kmeans", classes=20)
print("\n".join(study.advice()))
print("topics at most:", study.largest_number_of_clusters)

# %% [markdown]
# ## One release
#
# The release has three steps. First, a noisy second moment shows the directions along which messages differ. Then,
# a noisy histogram gives initial centers, and finally a few noisy steps improve these centers. With "add-remove",
# the number of messages is also private.

# %%
model = PrivateKMeans(sphere, n_clusters=20, guarantee=guarantee).fit(X)
print("directions above the noise:", model.n_components_)
print("error bar of a count: ±", round(model.count_error_))
checks = verify_certificate(model.certificate_)
print("every claim holds:", all(check.holds for check in checks))

# %% [markdown]
# ## Name the topics
#
# A released center is a vector. To name its topic, we find those phrases of a *public* vocabulary whose vectors
# are nearest to it. Here the vocabulary has one entry per intent: the mean vector of its messages in the public
# test part of this data set. For your own data, embed public phrases with the encoder of the messages. Do not use
# phrases from private texts, because they are private data.

# %%
public_means = [
    vectors[is_public & (intents == k)].mean(axis=0) for k in range(len(names))
]
vocabulary = make_vocabulary(names, public_means)
phrases = nearest_phrases(vocabulary, model.cluster_centers_, 2)
for index in np.argsort(-model.counts_)[:10]:
    words = "; ".join(phrase.text for phrase in phrases[index])
    print(f"{model.counts_[index]:6.0f}  {words}")

# %%
places = plane_positions(model.cluster_centers_, model.counts_)
figure = topics_figure(
    places, model.counts_, model.count_error_, [near[0].text for near in phrases]
)
figure.savefig("private_topics.png", dpi=150)

# %% [markdown]
# ## Accuracy
#
# These messages are public, so we can compare the topics with the true intents. The measure is the normalized
# mutual information, which is 1 for a perfect match and 0 for chance. Do not publish it for private messages,
# because `predict` is computed from them.

# %%
truth = intents[~is_public]
print(
    "mutual information:",
    round(normalized_mutual_info_score(truth, model.predict(X)), 2),
)
true_counts = np.bincount(model.predict(X), minlength=20)
print("largest error of a count:", round(np.abs(true_counts - model.counts_).max()))

# %% [markdown]
# ## Two approaches that fail
#
# With a smaller budget, fewer topics can be found, and with a very small budget none at all. The plan shows this
# before you spend any budget.

# %%
for epsilon in (4.0, 1.0, 0.2, 0.02):
    tight = ApproxDP(epsilon, 1e-6, adjacency="add-remove")
    carried = plan(sphere, len(X), guarantee=tight, statistic="kmeans")
    print(f"ε = {epsilon:g}: at most {carried.largest_number_of_clusters} topics")

# %% [markdown]
# In the second approach, each customer's device adds noise to the message's vector. The noise hides the
# direction, because there are 384 dimensions. The output is the cosine between a unit vector and the same vector
# with Gaussian noise for (1, 10⁻⁵)-DP:

# %%
noise_scale = 2 * smallest_gaussian_scale(ApproxDP(1.0, 1e-5))  # for vectors 2 apart
noisy = noise_scale * rng.normal(size=(2000, 384))
noisy[:, 0] += 1
print("cosine:", np.round(np.mean(noisy[:, 0] / np.linalg.norm(noisy, axis=1)), 4))

# %% [markdown]
# ## What the guarantee does not cover

# %%
print("\n".join(NOT_COVERED))
