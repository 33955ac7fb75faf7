"""Attacks on the default output of two location packages: trasgoDP 2.1.0, privkit 0.5.1.

The table of docs/referee.md, "Location privacy". The packages are called as their own
pages say; what is attacked is what they return. Run it where they are installed:

    pip install --no-deps trasgoDP==2.1.0 privkit==0.5.1 && pip install numpy scipy pandas
    python benchmarks/attacks/location_packages.py

Modules that the packages import and the attacked functions do not use (maps, faces,
networks) are replaced by empty ones where they are not installed.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from unittest.mock import MagicMock

import numpy as np

N = 1000
PER_METER = 0.001  # ε = 1 per kilometer
METERS_PER_DEGREE = 6_371_000 * np.pi / 180


class _EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for modules that are not installed."""

    NAMES = (
        "cv2 deepface folium geopandas keras matplotlib mpl_toolkits networkx open3d osmnx "
        "pyproj requests retinaface skimage sklearn tensorflow tf_keras torch "
        "torchvision tqdm"
    )

    def find_spec(self, name, path=None, target=None):
        """Return a spec for the names above."""
        if name.split(".")[0] in self.NAMES.split():
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """Return an empty module: every attribute is a mock."""
        module = MagicMock(name=spec.name)
        module.__path__ = []
        module.__spec__ = spec
        return module

    def exec_module(self, module):
        """Do nothing."""


def meters(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return great-circle distances of places in degrees, in meters."""
    lat1, lon1, lat2, lon2 = np.radians([*first.T, *second.T])
    half = np.sin((lat2 - lat1) / 2) ** 2
    half += np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6_371_000 * np.arcsin(np.sqrt(np.clip(half, 0, 1)))


def attack_seed() -> None:
    """trasgoDP: recover every place from the default output."""
    import pandas as pd
    from trasgodp.geoindis import metric_privacy

    rng = np.random.default_rng(0)
    places = np.stack([rng.uniform(-60, 60, N), rng.uniform(-179, 179, N)], axis=1)
    table = pd.DataFrame(places, columns=["lat", "lon"])
    output = metric_privacy(table, "lat", "lon", PER_METER)
    reports = output[["lat", "lon"]].to_numpy()
    print("trasgoDP 2.1.0, metric_privacy, default arguments")
    print(f"  columns of the output: {', '.join(output.columns)}")
    print(f"  mean displacement {meters(places, reports).mean():.0f} m (2000 expected)")

    # The seed is a default argument, and the radius a column of the output.
    state = np.random.RandomState(42)
    angles = np.array(
        [(state.uniform(0, 2 * np.pi), state.gamma(2, 1))[0] for _ in range(N)]
    )
    steps = output["radius_m"].to_numpy() / METERS_PER_DEGREE
    latitude = reports[:, 0] - steps * np.cos(angles)
    longitude = reports[:, 1] - steps * np.sin(angles) / np.cos(np.radians(latitude))
    recovered = np.stack([latitude, longitude], axis=1)
    print(f"  places recovered within {meters(places, recovered).max():.2g} m, all {N}")

    # With another seed the radius alone gives a circle instead of a region.
    other = metric_privacy(table, "lat", "lon", PER_METER, seed=987654321)
    gap = meters(places, other[["lat", "lon"]].to_numpy()) - other["radius_m"]
    print(
        f"  any seed: distance known within {np.abs(gap).max():.2g} m from the column"
    )

    north = pd.DataFrame({"lat": np.full(N, 89.99), "lon": rng.uniform(-179, 179, N)})
    beyond = metric_privacy(north, "lat", "lon", PER_METER)
    over = float((beyond["lat"].abs() > 90).mean())
    outside = float((beyond["lon"].abs() > 180).mean())
    print(f"  1.1 km from the pole: {over:.0%} of the latitudes beyond 90°")
    print(f"  and {outside:.0%} of the longitudes beyond 180°")


def attack_last_bit() -> None:
    """trasgoDP: tell two latitudes apart by the last bit of a reported one.

    A float between 0.25 and 0.5 is a multiple of 2^-54, but a sum with 1 is a multiple
    of 2^-53. ε is 0.01 per kilometer, at which the two places may differ by a factor 3.
    """
    import pandas as pd
    from trasgodp.geoindis import metric_privacy

    for latitude in (0.0, 1.0):
        # The mechanism reports equal places once, so the longitudes differ a little.
        longitudes = np.arange(20_000) * 1e-7
        table = pd.DataFrame({"lat": latitude, "lon": longitudes})
        output = metric_privacy(table, "lat", "lon", 1e-5, seed=20261119)
        reported = output["lat"].to_numpy()
        inside = reported[(reported >= 0.25) & (reported < 0.5)]
        odd = float(np.mean(np.ldexp(inside, 54) % 2 == 1))
        print(f"  from {latitude:g}°: {odd:.0%} odd last bits of {len(inside)} reports")


def attack_latitude() -> None:
    """privkit: read the latitude off reports of places near the equator."""
    from privkit.ppms.planar_laplace import PlanarLaplace

    mechanism = PlanarLaplace(PER_METER)
    print("privkit 0.5.1, PlanarLaplace")
    for name, latitude, longitude in (
        ("equator", 0.0, 32.4),
        ("Quito", -0.1807, -78.4678),
        ("Singapore", 1.3521, 103.8198),
        ("London", 51.5007, -0.1246),
    ):
        draws = [mechanism.get_obfuscated_point(latitude, longitude) for _ in range(N)]
        reports = np.array([draw[:2] for draw in draws])
        claimed = np.mean([draw[2] for draw in draws])
        place = np.tile([latitude, longitude], (N, 1))
        errors = (reports[:, 0] - latitude) * METERS_PER_DEGREE
        print(
            f"  {name}: latitude known within {np.abs(errors).mean():.3g} m on average "
            f"(noise of {claimed:.0f} m is stated, {meters(place, reports).mean():.0f} m "
            "are delivered)"
        )


def main() -> None:
    sys.meta_path.append(_EmptyModules())
    for attack in (attack_seed, attack_last_bit, attack_latitude):
        try:
            attack()
        except ImportError as error:
            print(f"{attack.__doc__} Not run: {error}")


if __name__ == "__main__":
    main()
