# %% [markdown]
# # A polar wander path
#
# Rocks record where the magnetic pole was when they formed. Relative to a continent, the pole has moved over the
# sphere for 320 million years. *Geodesic regression* fits a great circle, traversed at constant speed, to these
# poles. It is the counterpart of linear regression for responses on a sphere.

# %%
import matplotlib.pyplot as plt
import numpy as np

from curvedp import PrivateGeodesicRegression, PureDP
from curvedp.geometry import Sphere
from curvedp.papers.data_sets import MissingData, load_dataset
from curvedp.regression import fit_geodesic

sphere, SOUTH = Sphere(2), np.array([0.0, 0.0, -1.0])
rng = np.random.default_rng(0)
try:
    path = load_dataset("polar-wander")
    age, pole = path["age"], path["pole"]
    kind = "global polar wander path"
except MissingData as missing:
    print(f"{missing}\n-> a synthetic path is used instead\n")
    age = np.arange(0.0, 330.0, 10.0)
    clean = sphere.exp(SOUTH, (age / 320)[:, None] * np.array([0.9, 0.4, 0.0]))
    pole = sphere.exp(
        clean, sphere.from_coordinates(clean, 0.12 * rng.normal(size=(len(age), 2)))
    )
    kind = "synthetic path"
fit = fit_geodesic(sphere, age / 320, pole)
print(
    kind,
    pole.shape,
    f"R² = {fit.score(age / 320, pole):.3f}, speed {np.linalg.norm(fit.velocity):.2f} rad in 320 Myr",
)

# %% [markdown]
# ## Thirty-three records are too few
#
# The mechanism needs four public parameters:
#
# - The center is the south pole, which is today's pole.
# - The radius is 0.7 rad: the mean position of the pole over 320 Myr lies within this distance of the center.
# - The speed is 1.5 rad, because plates move the pole by at most this angle in that time.
# - The clip is 0.4 rad; longer residuals are clipped to this length.
#
# With n = 33 records, the density of the pure ε mechanism varies by at most a factor of e^{nε/4} over its whole
# domain. A release at a small ε is therefore almost pure noise.

# %%
public = {
    "center": SOUTH,
    "radius": 0.7,
    "speed": 1.5,
    "clip": 0.4,
    "x_range": (0.0, 320.0),
}
few = {}
for eps in (2.0, 10.0):
    few[eps] = [
        PrivateGeodesicRegression(sphere, guarantee=PureDP(eps), **public).fit(
            age, pole
        )
        for _ in range(5)
    ]
    scores = sorted(round(model.score(age, pole), 2) for model in few[eps])
    print(
        f"n = {len(age)}, pure eps = {eps:4}: R² of five releases {scores} (reads the data: not private)"
    )

# %% [markdown]
# ## The records behind the path
#
# Each of these poles is itself a mean over many measured sites, so a private study would use the sites as records.
# We simulate 1,000 sites. Each of them has an age and a pole, which scatters around the path with 0.15 rad. With
# so many records, ε = 1 is enough.

# %%
sites = rng.uniform(0, 320, 1000)
clean = fit.predict(sites / 320)
site_poles = sphere.exp(
    clean, sphere.from_coordinates(clean, 0.15 * rng.normal(size=(1000, 2)))
)
many = PrivateGeodesicRegression(sphere, guarantee=PureDP(1.0), **public).fit(
    sites, site_poles
)
target = fit_geodesic(sphere, sites / 320, site_poles)
ages = np.linspace(0, 320, 65)
error = np.degrees(np.max(sphere.dist(target.predict(ages / 320), many.predict(ages))))
print(f"n = 1000, pure eps = 1: at most {error:.2f} degrees from the non-private fit")
print(
    "certificate:",
    many.certificate_.mechanism,
    many.method_,
    f"pure epsilon {many.certificate_.claims.pure:.6f}",
)

# %% [markdown]
# The paper that proposed private geodesic regression contains three errors that break privacy if it is followed
# literally (E20, E22 and E24 of the [errata](../errata.md)). The [page on regression](../theory/regression.md)
# proves the guarantee of the algorithm that is used here.

# %%
figure, panels = plt.subplots(1, 2, figsize=(10, 4.7), layout="constrained")


def flat(points):
    """Looking up at the south pole: distance from it kept, longitude as angle."""
    points = np.atleast_2d(points)
    angle, away = (
        np.arctan2(points[:, 1], points[:, 0]),
        np.degrees(sphere.dist(SOUTH, points)),
    )
    return away * np.cos(angle), away * np.sin(angle)


for axes, title in zip(
    panels, (f"{len(age)} poles: {kind}", "1000 simulated sites"), strict=True
):
    for ring in (20, 40, 60):
        axes.add_patch(
            plt.Circle((0, 0), ring, fill=False, color="#d5dbdb", linewidth=0.8)
        )
        axes.annotate(
            f"{90 - ring}°S",
            (0, -ring),
            color="#95a5a6",
            fontsize=8,
            ha="center",
            va="bottom",
        )
    axes.plot(0, 0, "+", color="#95a5a6")
    axes.set(xlim=(-72, 72), ylim=(-72, 72), aspect="equal", title=title)
    axes.set_axis_off()
panels[0].scatter(*flat(pole), c=age, cmap="viridis", s=18, zorder=3)
panels[0].plot(
    *flat(fit.predict(ages / 320)),
    color="#1d2b3a",
    linewidth=2,
    label="fit without privacy",
)
for eps, style in (
    (2.0, {"linestyle": ":", "linewidth": 1.3}),
    (10.0, {"linestyle": "--", "linewidth": 1.3}),
):
    for number, model in enumerate(few[eps]):
        label = f"private, ε = {eps:g}, five releases" if number == 0 else None
        panels[0].plot(
            *flat(model.predict(ages)), color="#c0392b", label=label, **style
        )
shown = panels[1].scatter(*flat(site_poles), c=sites, cmap="viridis", s=5, alpha=0.6)
panels[1].plot(
    *flat(target.predict(ages / 320)),
    color="#1d2b3a",
    linewidth=2,
    label="fit without privacy",
)
panels[1].plot(
    *flat(many.predict(ages)),
    "--",
    color="#c0392b",
    linewidth=2,
    label="private, ε = 1",
)
for axes in panels:
    axes.legend(loc="lower left", fontsize=8)
figure.colorbar(shown, ax=panels, shrink=0.7, label="age (million years)")
figure.savefig("polar_wander.png", dpi=95)
