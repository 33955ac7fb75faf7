# %% [markdown]
# # Local privacy: places
#
# In this example, earthquake epicenters stand for the places of people. Each person adds noise to their
# own place before it is sent, so nobody else sees the true places. From the noisy reports alone, the server can
# still estimate where the people are on average, and how their places are distributed.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from curvedp import GDP
from curvedp.geometry import Sphere
from curvedp.local import (
    DeviceLedger,
    Earth,
    MetricLaplace,
    compare_trust,
    estimate_density,
    estimate_mean,
)
from curvedp.papers.data_sets import MissingData, load_dataset

earth = Earth(public_place=(35.0, 140.0))
try:
    everywhere = earth.write(load_dataset("earthquakes"))
    kind = "earthquakes"
except MissingData as missing:
    print(f"{missing}\n-> synthetic places are used instead\n")
    rng = np.random.default_rng(0)
    everywhere = np.array([37.0, 141.0]) + rng.normal(size=(900, 2)) * [5.0, 4.0]
    kind = "synthetic places"
latitude, longitude = everywhere.T
window = (latitude > 20) & (latitude < 50) & (longitude > 120) & (longitude < 160)
places = everywhere[window]
print(f"{len(places)} {kind} as (latitude, longitude) in degrees")

# %% [markdown]
# ## What a report gives away
#
# With `epsilon=0.02` per kilometer, consider two places that are 50 km apart. No report is more than e ≈ 2.7
# times as likely from one of them as from the other. The loss of accuracy is known before any noise is drawn: on
# average, a report lies 100 km from the true place.

# %%
device = MetricLaplace(earth, epsilon=0.02)
print(f"reports lie {device.expected_displacement:.0f} km away on average,")
print(f"and within {device.displacement_quantile(0.95):.0f} km with probability 0.95")
print(device.certificate_.explain().split("\n")[0])

reports = device.randomize(places)  # one for each person, from the system's entropy
moved = earth.dist(places, reports)
print(f"these reports: {moved.mean():.0f} km on average, {moved.max():.0f} km at most")

# %% [markdown]
# ## The mean place, from reports alone
#
# The distribution of the noise is public, so its bias is known and can be corrected. The region contains the mean
# direction of the records with probability 0.95 or more. It is computed from the spread of the reports, which
# includes both the noise and the spread of the records.

# %%
mean = estimate_mean(device, reports)
directions = earth.read(places).mean(axis=0)
true = earth.write(directions[None])[0]
print(f"from reports: {mean.value.round(2)}, within {mean.radius:.0f} km")
print(f"{float(earth.dist(true, mean.value)):.0f} km from the true mean (not public)")

# %% [markdown]
# ## The density of places
#
# The noise shrinks the spherical harmonics of the density by known factors. The estimate enlarges them again, and
# it gives each value a standard error. The parameter `degree` determines how fine the details are. By default it
# follows from the number of reports and the noise.

# %%
north, east = np.meshgrid(np.arange(20, 51), np.arange(120, 161), indexing="ij")
grid = np.stack([north.ravel(), east.ravel()], axis=1).astype(float)
density = estimate_density(device, reports, grid, degree=40)
peak = grid[np.argmax(density.values)]
error = density.standard_errors[np.argmax(density.values)]
print(f"densest at {peak}: {density.values.max():.1f} ± {error:.1f} per steradian")

# %% [markdown]
# ## The same person again
#
# If someone averages many fresh reports of one place, the average reveals the place. A device therefore keeps one
# permanent report for each public cell. Before it spends any budget, it also states how much a trace will cost.

# %%
home, work = [35.68, 139.69], [35.44, 139.64]
fresh = device.randomize(np.tile(home, (500, 1)))
averaged = earth.write(earth.read(fresh).mean(axis=0)[None])[0]
print(f"one report: {float(earth.dist(home, fresh[0])):.0f} km from home")
print(f"500 fresh reports, averaged: {float(earth.dist(home, averaged)):.1f} km")

path = Path(tempfile.mkdtemp()) / "device.json"
phone = DeviceLedger(path, device, per_day=0.1, cell=1.0)
week = [home, work] * 7
print(phone.cost(week))
permanent = np.array([phone.report(place) for place in week])
different = len(np.unique(permanent, axis=0))
print(f"14 visits, {different} reports, {phone.total:.2f} per km spent in all")

# %% [markdown]
# ## Who is trusted
#
# The last comparison answers the same question under three models of trust: a curator, a federation of sites, and
# local reports that hide the *whole* place. The question is the mean of directions in a ball of 0.4 radians, at
# the same guarantee. The result shows why local privacy needs many people.

# %%
print(compare_trust(Sphere(2), 10_000, 0.4, GDP(1.0), error=0.01))

# %%
figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
panels[0].plot(
    places[:, 1], places[:, 0], ".", ms=3, color="#7f8c8d", label=f"{kind} (not public)"
)
panels[0].plot(
    reports[:, 1],
    reports[:, 0],
    ".",
    ms=3,
    color="#c0392b",
    label="reports, 0.02 per km",
)
panels[0].plot(
    mean.value[1], mean.value[0], "x", ms=11, mew=2.5, color="#1d2b3a", label="mean"
)
panels[0].legend(loc="lower right", fontsize=8)
panels[0].set(xlim=(118, 162), ylim=(18, 52), title="What the server sees, in red")
values = density.values.reshape(north.shape)
panels[1].contourf(east, north, np.maximum(values, 0), levels=12, cmap="Blues")
panels[1].plot(places[:, 1], places[:, 0], ".", ms=1.5, color="#7f8c8d")
panels[1].set(title="Density from reports alone")
for axes in panels:
    axes.set(aspect=1.25, xlabel="longitude", ylabel="latitude")
figure.savefig("local_privacy.png", dpi=110)
