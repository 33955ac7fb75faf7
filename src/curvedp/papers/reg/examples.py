"""Private geodesic regression on real data: a table and a picture for each example.

    python -m curvedp.papers.reg.examples --data-dir DIR [--out DIR] [--repeats 20]

The data are a polar wander path, rat skulls and storm tracks. For every public number
(center, radius, speed, clip, range) the source is stated, and none is computed from
private data.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp import ApproxDP, PrivateGeodesicRegression, PureDP
from curvedp.geometry import KendallShapes, Sphere
from curvedp.geometry.manifold import Manifold
from curvedp.papers.data_sets import find_file, load_dataset
from curvedp.papers.reg.pictures import plot_geodesic
from curvedp.randomness import GeneratorSource
from curvedp.regression import GeodesicFit, fit_geodesic

# Rows of the rat data that are known to be corrupted.
CORRUPTED = np.array([23, 101, 104, 160]) - 1
# The number of skulls of the first animal, which is given up as public.
PUBLIC_SKULLS = 8


class Example(NamedTuple):
    """A data set with its public numbers.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the responses.
    x, Y : array of shape (n,), array of shape (n, *point_shape)
        Predictors and responses.
    public : dict
        Center, radius, speed, clip and range of the private estimator, by the names of
        its parameters.
    """

    manifold: Manifold
    x: np.ndarray
    Y: np.ndarray
    public: dict[str, Any]


def polar_wander(folder: Path | None) -> Example:
    """Return 33 poles of the global apparent polar wander path, one record for each pole.

    The predictor is the age of a pole, from 0 to 320 million years. Two facts are taken
    as public: today's pole is the axis of rotation, and continents do not drift much
    faster than one radian in that time.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    """
    table = load_dataset("polar-wander", folder)
    public = {
        "center": np.array([0.0, 0.0, -1.0]),
        "radius": 0.6,
        "speed": 1.2,
        "clip": 0.3,
        "x_range": (0.0, 320.0),
    }
    return Example(Sphere(2), table["age"], table["pole"], public)


def rat_skulls(folder: Path | None) -> Example:
    """Return eight landmarks of the skulls of 20 rats at 8 ages, against log age.

    There are 21 animals, of 7 to 150 days. The first one is given up as public: its
    skull at 40 days is the center, and its growth sets speed and clip. Private are the
    other 160 skulls, the corrupted ones among them.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    """
    path = find_file("calvaria.npz", "rat skulls", "the R package GeodRegr", folder)
    with np.load(path, allow_pickle=False) as table:
        age, shape = table["age_days"].astype(float), table["preshape"]
    points = np.stack([shape.real, shape.imag], axis=-1)
    public = {
        "center": points[4],
        "radius": 0.1,
        "speed": 0.4,
        "clip": 0.08,
        "x_range": (np.log(7.0), np.log(150.0)),
    }
    private = slice(PUBLIC_SKULLS, None)
    return Example(KendallShapes(8), np.log(age)[private], points[private], public)


def storm_tracks(folder: Path | None) -> Example:
    """Return the displacements of Atlantic storms: one observation of each storm.

    A record is a storm. The predictor is the time in hours since the storm was first
    seen. Its displacement since then (east and north, along the geodesic) is drawn from
    a common public point, 20°N 60°W. It is public knowledge that storms live about ten
    days and travel some 300 km a day.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    """
    path = find_file(
        "hurdat2_AL.npz",
        "Atlantic storms 1851 to 2019",
        "NOAA (HURDAT2, Atlantic)",
        folder,
    )
    names = ("key", "lat", "lon", "unix_time")
    with np.load(path, allow_pickle=False) as table:
        key, lat, lon, time = (table[name] for name in names)

    first, later = _one_observation_per_storm(key)
    has_longitudes = np.isfinite(lon[later] + lon[first])
    later, first = later[has_longitudes], first[has_longitudes]

    # The displacement of each storm, as coordinates to the east and to the north.
    sphere = Sphere(2)
    start, start_frame = _place(lat[first], lon[first])
    end, _ = _place(lat[later], lon[later])
    displacements = np.einsum(
        "nki,ni->nk", start_frame, np.asarray(sphere.log(start, end))
    )

    # The same displacements from the common point.
    center, center_frame = _place(np.array([20.0]), np.array([-60.0]))
    points = np.asarray(sphere.exp(center[0], displacements @ center_frame[0]))
    hours = (time[later] - time[first]) / 3600
    public = {
        "center": center[0],
        "radius": 0.3,
        "speed": 0.8,
        "clip": 0.3,
        "x_range": (0.0, 240.0),
    }
    return Example(sphere, hours, points, public)


def _one_observation_per_storm(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each storm's first observation, and of one that is chosen.

    A public rule chooses it: the rule uses a fixed seed, and not the data.

    Parameters
    ----------
    key : array of shape (n,)
        The storm of each row; rows of one storm are in the order of time.

    Returns
    -------
    first, chosen : arrays of int
        One row for each storm.
    """
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    fractions = np.random.default_rng(0).random(len(first))
    return first, first + np.floor(fractions * count).astype(int)


def _place(lat: np.ndarray, lon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return unit vectors of places, and their directions east and north.

    Parameters
    ----------
    lat, lon : array of shape (n,)
        Latitudes and longitudes in degrees.

    Returns
    -------
    places, frames : array of shape (n, 3), array of shape (n, 2, 3)
        Unit vectors; and for each the unit tangent vectors to the east and the north.
    """
    a = np.radians(np.asarray(lat, dtype=float))
    b = np.radians(np.asarray(lon, dtype=float))
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
    """Study all examples, or one: the command `python -m curvedp.papers.reg.examples`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", choices=list(EXAMPLES), default=None)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, (load, guarantees) in EXAMPLES.items():
        if arguments.only in (None, name):
            example = load(arguments.data_dir)
            study(name, example, guarantees, arguments.repeats, arguments.out)


def permutation_pvalue(
    manifold: Manifold, x: Any, Y: Any, permutations: int, rng: np.random.Generator
) -> float:
    """Test whether Y depends on x, by how well random pairings are fitted. NOT PRIVATE.

    With c the number of random pairings whose fit is at least as near as that of the
    data, (1 + c)/(1 + permutations) is an exact p-value under independence.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    x, Y : array of shape (n,), array of shape (n, *point_shape)
        The data.
    permutations : int
        The number of random pairings.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    float
        The p-value.
    """

    def energy(order: np.ndarray) -> float:
        """Return the mean squared residual of the fit to reordered predictors."""
        fit = fit_geodesic(manifold, x[order], Y)
        return float(np.mean(fit.residuals(x[order], Y) ** 2))

    observed = energy(np.arange(len(x)))
    count = sum(
        energy(rng.permutation(len(x))) <= observed * (1 + 1e-12)
        for _ in range(permutations)
    )
    return (1 + count) / (1 + permutations)


def study(
    name: str, example: Example, guarantees: Any, repeats: int, out: Path
) -> None:
    """Print the fit and private fits of an example, and draw them. NOT PRIVATE.

    Parameters
    ----------
    name : str
        The name of the example, for the table and the file.
    example : Example
        The data set with its public numbers.
    guarantees : sequence of Guarantee
        The guarantees of the private fits.
    repeats : int
        The number of private fits at each guarantee.
    out : Path
        The folder for the picture.
    """
    manifold, x, Y, public = example
    low, high = public["x_range"]
    times = np.linspace(low, high, 50)
    fit = fit_geodesic(manifold, x, Y)
    rng = np.random.default_rng(0)
    p = permutation_pvalue(manifold, x, Y, permutations=99, rng=rng)
    median = float(np.median(fit.residuals(x, Y)))
    print(f"\n{name}: {manifold!r}, n = {len(x)}; fit: R² = {fit.score(x, Y):.3f}, ")
    print(f"  p = {p:.2f}, median residual {median:.4f} rad")
    geodesics: dict[str, Any] = {"fitted": fit}
    if name == "rat-skulls":
        geodesics = _without_corrupted(example, fit, times)

    reference = geodesics["fitted"]
    for guarantee in guarantees:
        model = _repeat_private_fit(example, guarantee, repeats, reference, times)
        if isinstance(guarantee, PureDP) or guarantee is guarantees[0]:
            geodesics[f"private, ε = {guarantee.eps:g}"] = model
    picture = plot_geodesic(manifold, np.clip(x, low, high), Y, **geodesics)
    picture.savefig(out / f"regression-{name}.png", dpi=100)


def _repeat_private_fit(
    example: Example,
    guarantee: Any,
    repeats: int,
    reference: GeodesicFit,
    times: np.ndarray,
) -> PrivateGeodesicRegression:
    """Fit an example privately several times, and print how far the fits are off.

    Parameters
    ----------
    example : Example
        The data set with its public numbers.
    guarantee : Guarantee
        The guarantee of each private fit.
    repeats : int
        The number of private fits.
    reference : GeodesicFit
        The fit without privacy.
    times : array
        Predictors at which the private fits are compared with it.

    Returns
    -------
    PrivateGeodesicRegression
        The last private fit.
    """
    manifold, x, Y, public = example
    distances, medians = [], []
    for seed in range(repeats):
        source = GeneratorSource(np.random.default_rng(seed))
        model = PrivateGeodesicRegression(
            manifold, guarantee=guarantee, source=source, **public
        ).fit(x, Y)
        distance = manifold.dist(model.predict(times), reference.predict(times))
        distances.append(float(np.mean(np.asarray(distance))))
        medians.append(float(np.median(manifold.dist(model.predict(x), Y))))
    print(
        f"  {guarantee!r:<24} {model.method_:<7} distance to the fit "
        f"{np.mean(distances):.4f} (sd {np.std(distances):.4f}), "
        f"median residual {np.mean(medians):.4f}"
    )
    return model


def _without_corrupted(
    example: Example, fit: GeodesicFit, times: np.ndarray
) -> dict[str, Any]:
    """Return the fits of the rat skulls without and with the corrupted ones.

    Both are printed as well, and how far apart they are.

    Parameters
    ----------
    example : Example
        The rat skulls.
    fit : GeodesicFit
        The fit with the corrupted skulls.
    times : array
        Predictors at which the fits are compared.

    Returns
    -------
    dict
        The fits, by the labels of the picture.
    """
    manifold, x, Y, _ = example
    is_clean = np.ones(len(x), dtype=bool)
    is_clean[CORRUPTED - PUBLIC_SKULLS] = False
    x, Y = x[is_clean], Y[is_clean]
    clean_fit = fit_geodesic(manifold, x, Y)
    median = np.median(clean_fit.residuals(x, Y))
    n_corrupted = np.sum(~is_clean)
    r_squared = clean_fit.score(x, Y)
    print(
        f"  without the {n_corrupted} corrupted: R² = {r_squared:.3f}, "
        f"median {median:.4f}"
    )
    off = np.asarray(manifold.dist(fit.predict(times), clean_fit.predict(times)))
    print(f"  least squares with the corrupted ones is off by {off.mean():.4f}")
    return {"fitted": clean_fit, "fitted, 4 corrupted": fit}


if __name__ == "__main__":
    main()
