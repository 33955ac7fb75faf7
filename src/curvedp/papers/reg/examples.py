"""Private geodesic regression on real data: a polar wander path, rat skulls, storm tracks. Tables, and pictures of each.

    python -m curvedp.papers.reg.examples --data-dir DIR [--out DIR] [--repeats 20]

Every public number (center, radius, speed, clip, range) is stated with where it comes from; none is read off private data.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from curvedp import ApproxDP, PrivateGeodesicRegression, PureDP
from curvedp.geometry import KendallShapes, Sphere
from curvedp.geometry.manifold import Manifold
from curvedp.papers.data_sets import find_file, load_dataset
from curvedp.papers.reg.pictures import plot_geodesic
from curvedp.randomness import GeneratorSource
from curvedp.regression import fit_geodesic

CORRUPTED = np.array([23, 101, 104, 160]) - 1  # rows of the rat data known to be so


def polar_wander(
    folder: Path,
) -> tuple[Manifold, np.ndarray, np.ndarray, dict[str, Any]]:
    """33 poles of the global apparent polar wander path, age 0 to 320 million years; one pole is one record.

    Public: today's pole is the axis of rotation; continents do not drift much faster than a radian in 320 million years.
    """
    table = load_dataset("polar-wander", folder)
    axis = np.array([0.0, 0.0, -1.0])
    public = {
        "center": axis,
        "radius": 0.6,
        "speed": 1.2,
        "clip": 0.3,
        "x_range": (0.0, 320.0),
    }
    return Sphere(2), table["age"], table["pole"], public


def rat_skulls(folder: Path) -> tuple[Manifold, np.ndarray, np.ndarray, dict[str, Any]]:
    """Eight landmarks of the skull of 21 rats at 8 ages, 7 to 150 days; log age.

    The first animal is given up as public: its skull at 40 days is the center and its growth sets speed and clip. Private are
    the other 160 skulls, the corrupted ones among them.
    """
    path = find_file("calvaria.npz", "rat skulls", "the R package GeodRegr", folder)
    with np.load(path, allow_pickle=False) as table:
        age, shape = table["age_days"].astype(float), table["preshape"]
    points = np.stack([shape.real, shape.imag], axis=-1)
    x = np.log(age)
    public = {
        "center": points[4],
        "radius": 0.1,
        "speed": 0.4,
        "clip": 0.08,
        "x_range": (np.log(7.0), np.log(150.0)),
    }
    return KendallShapes(8), x[8:], points[8:], public


def storm_tracks(
    folder: Path,
) -> tuple[Manifold, np.ndarray, np.ndarray, dict[str, Any]]:
    """How Atlantic storms travel: one fix of each, as seen from where it was first seen, against hours since then.

    A storm is one record. Its way (east, north, along the geodesic) is drawn from a public place, 20°N 60°W. Public: storms
    live about ten days and make some 300 km a day.
    """
    path = find_file(
        "hurdat2_AL.npz",
        "Atlantic storms 1851 to 2019",
        "NOAA (HURDAT2, Atlantic)",
        folder,
    )
    with np.load(path, allow_pickle=False) as table:
        key, lat, lon, time = (
            table[name] for name in ("key", "lat", "lon", "unix_time")
        )
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    one = first + np.floor(np.random.default_rng(0).random(len(first)) * count).astype(
        int
    )  # a public rule
    known = np.isfinite(lon[one] + lon[first])  # a few fixes have no longitude
    one, first = one[known], first[known]
    M = Sphere(2)
    (start, frame), (end, _) = (_place(lat[part], lon[part]) for part in (first, one))
    way = np.einsum("nki,ni->nk", frame, np.asarray(M.log(start, end)))
    center, compass = _place(np.array([20.0]), np.array([-60.0]))
    points = np.asarray(M.exp(center[0], way @ compass[0]))
    public = {
        "center": center[0],
        "radius": 0.3,
        "speed": 0.8,
        "clip": 0.3,
        "x_range": (0.0, 240.0),
    }
    return M, (time[one] - time[first]) / 3600, points, public


def _place(lat: np.ndarray, lon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of degrees, and the directions east and north there."""
    a, b = (
        np.radians(np.asarray(lat, dtype=float)),
        np.radians(np.asarray(lon, dtype=float)),
    )
    east = np.stack([-np.sin(b), np.cos(b), np.zeros_like(b)], axis=-1)
    north = np.stack(
        [-np.sin(a) * np.cos(b), -np.sin(a) * np.sin(b), np.cos(a)], axis=-1
    )
    up = np.stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)], axis=-1)
    return up, np.stack([east, north], axis=1)


EXAMPLES = {
    "polar-wander": (polar_wander, (PureDP(2.0), PureDP(8.0), ApproxDP(2.0, 1e-5))),
    "rat-skulls": (rat_skulls, (ApproxDP(2.0, 1e-5), ApproxDP(8.0, 1e-5))),
    "storm-tracks": (storm_tracks, (PureDP(0.5), PureDP(2.0), ApproxDP(2.0, 1e-5))),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", choices=list(EXAMPLES), default=None)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, (load, guarantees) in EXAMPLES.items():
        if arguments.only in (None, name):
            study(
                name,
                *load(arguments.data_dir),
                guarantees,
                arguments.repeats,
                arguments.out,
            )


def permutation_pvalue(
    M: Manifold, x: Any, Y: Any, permutations: int, rng: np.random.Generator
) -> float:
    """How often a random pairing of x and Y is fitted as well: (1 + count)/(1 + permutations), exact under independence."""

    def energy(order: np.ndarray) -> float:
        return float(np.mean(fit_geodesic(M, x[order], Y).residuals(x[order], Y) ** 2))

    observed = energy(np.arange(len(x)))
    count = sum(
        energy(rng.permutation(len(x))) <= observed * (1 + 1e-12)
        for _ in range(permutations)
    )
    return (1 + count) / (1 + permutations)


def study(
    name: str,
    M: Manifold,
    x: Any,
    Y: Any,
    public: dict[str, Any],
    guarantees: Any,
    repeats: int,
    out: Path,
) -> None:
    """The non-private fit, private fits at each guarantee, and a picture."""
    low, high = public["x_range"]
    times = np.linspace(low, high, 50)
    fit = fit_geodesic(M, x, Y)
    p = permutation_pvalue(M, x, Y, permutations=99, rng=np.random.default_rng(0))
    typical = float(np.median(fit.residuals(x, Y)))
    print(
        f"\n{name}: {M!r}, n = {len(x)}; fit: R² = {fit.score(x, Y):.3f}, p = {p:.2f}, median residual {typical:.4f} rad"
    )
    fits = {"fitted": fit}
    if name == "rat-skulls":
        sound = np.ones(len(x), dtype=bool)
        sound[CORRUPTED - 8] = False
        fits = {
            "fitted": fit_geodesic(M, x[sound], Y[sound]),
            "fitted, 4 corrupted": fit,
        }
        clean = fits["fitted"].residuals(x[sound], Y[sound])
        r2 = fits["fitted"].score(x[sound], Y[sound])
        print(
            f"  without the {np.sum(~sound)} corrupted: R² = {r2:.3f}, median {np.median(clean):.4f}"
        )
        off = np.asarray(M.dist(fit.predict(times), fits["fitted"].predict(times)))
        print(f"  least squares with the corrupted ones is off by {off.mean():.4f}")
    drawn = dict(fits)
    for guarantee in guarantees:
        rows = []
        for seed in range(repeats):
            source = GeneratorSource(np.random.default_rng(seed))
            model = PrivateGeodesicRegression(
                M, guarantee=guarantee, source=source, **public
            ).fit(x, Y)
            off = np.asarray(
                M.dist(model.predict(times), fits["fitted"].predict(times))
            )
            rows.append((off.mean(), float(np.median(M.dist(model.predict(x), Y)))))
        mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
        said = f"distance to the fit {mean[0]:.4f} (sd {spread[0]:.4f}), median residual {mean[1]:.4f}"
        print(f"  {guarantee!r:<24} {model.method_:<7} {said}")
        if isinstance(guarantee, PureDP) or guarantee is guarantees[0]:
            drawn[f"private, ε = {guarantee.eps:g}"] = model
    picture = plot_geodesic(M, np.clip(x, low, high), Y, **drawn)
    picture.savefig(out / f"regression-{name}.png", dpi=100)


if __name__ == "__main__":
    main()
