"""Six awkward real files, as a newcomer takes them and as the readers do: the table of docs/howto/load-data.md.

    python -m benchmarks.first_data --data-dir DATA [--before SRC]

Each file is made from a real data set, in the state in which such files arrive. The error is the distance of the released
mean from the mean of the true records in the public ball, at GDP(1), the median of 21 releases. `--before` is the `src`
folder of an older version (the page has c5956f5's), which gets the newcomer's arrays in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import arrays

REPEATS = 21


class Case(NamedTuple):
    """What a newcomer passes on, how the file is read now, the ball, the truth, and whose record each is."""

    title: str
    space: str
    radius: float
    naive: np.ndarray
    center: (
        np.ndarray | None
    )  # that the newcomer does not give: the default is the origin
    file: str
    reading: dict[str, Any]
    truth: np.ndarray
    groups: np.ndarray | None = None


def directions(lat: Any, lon: Any) -> np.ndarray:
    """Degrees to unit vectors."""
    lat, lon = np.radians(np.asarray(lat, float)), np.radians(np.asarray(lon, float))
    return np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1
    )


ATLANTIC = [
    np.cos(0.4),
    0.0,
    np.sin(0.4),
]  # 23°N, on a meridian that is turned to 60°W: public
TURN = np.array([[0.5, 0.75**0.5, 0.0], [-(0.75**0.5), 0.5, 0.0], [0.0, 0.0, 1.0]])


def rounded(data: Path, folder: Path) -> Case:
    """Where storms were first seen, as unit vectors with four decimals, under the header 0,1,2 that pandas writes."""
    table = arrays(data / "hurdat2_AL.npz")
    first = np.unique(table["key"], return_index=True)[1]
    truth = directions(table["lat"][first], table["lon"][first])
    np.savetxt(
        folder / "rounded.csv",
        truth,
        fmt="%.4f",
        delimiter=",",
        header="0,1,2",
        comments="",
    )
    naive = np.loadtxt(folder / "rounded.csv", delimiter=",")
    return Case("1893 directions, four decimals", "sphere:2", 0.75, naive, TURN @ ATLANTIC,
                "rounded.csv", {"header": True}, truth)  # fmt: skip


def volts(data: Path, folder: Path) -> Case:
    """EEG covariances of four channels in V², as MNE has them; (10 µV)² is the textbook's power of a channel."""
    truth = arrays(data / "eeg_eeglab_cov.npz")["windows2s_cov"][:, ::8, ::8] * 1e-12
    np.save(folder / "volts.npy", truth)
    return Case(
        "119 EEG covariances in V²",
        "spd-affine:4",
        4.0,
        truth,
        1e-10 * np.eye(4),
        "volts.npy",
        {},
        truth,
    )


def quakes(data: Path, folder: Path) -> Case:
    """Latitudes and longitudes of earthquakes around Japan, under three lines of comments and a header."""
    lines = (data / "earth_quakes_all.csv").read_text().splitlines()
    kept = [line for line in lines[4:] if near_japan(*map(float, line.split(",")[:2]))]
    (folder / "quakes.csv").write_text("\n".join(lines[:4] + kept) + "\n")
    places = np.array([line.split(",")[:2] for line in kept], dtype=float)
    reading = {"header": True, "skip": 3, "form": "latlon-degrees"}
    return Case(f"{len(kept)} latitudes and longitudes", "sphere:2", 0.3, places, directions(36, 138),
                "quakes.csv", reading, directions(*places.T))  # fmt: skip


def near_japan(lat: float, lon: float) -> bool:
    """The question, not the data: which earthquakes are meant."""
    return 25 <= lat <= 50 and 122 <= lon <= 155


def volume(data: Path, folder: Path) -> Case:
    """A NIfTI file of tensors in mm²/s in FSL's order, with a mask; water diffuses at 10⁻³ mm²/s."""
    import nibabel

    table = arrays(data / "dti_dipy.npz")
    mask = np.zeros((10, 10, 10), np.uint8)
    six, whole = np.zeros((*mask.shape, 6), np.float32), np.zeros((*mask.shape, 3, 3))
    place = tuple(table["small_64D_voxel"].T)
    mask[place], whole[place] = 1, table["small_64D_tensor"]
    six[...] = whole[..., *np.triu_indices(3)]
    for name, content in (("tensor.nii.gz", six), ("mask.nii.gz", mask)):
        nibabel.save(nibabel.Nifti1Image(content, np.eye(4)), folder / name)
    reading = {"form": "tensor6-upper", "mask": str(folder / "mask.nii.gz")}
    return Case("972 voxels of a NIfTI volume, mm²/s", "spd-affine:3", 3.0, whole[mask == 1], 1e-3 * np.eye(3),
                "tensor.nii.gz", reading, whole[mask == 1])  # fmt: skip


def pixels(data: Path, folder: Path) -> Case:
    """Landmarks of apes' skulls in the digitizer's units. The template stands for a published one: a rough drawing."""
    raw = np.moveaxis(arrays(data / "dryden_shapes.npz")["apes_x"], -1, 0)
    np.save(folder / "apes.npy", raw)
    truth = raw - raw.mean(axis=1, keepdims=True)
    truth /= np.linalg.norm(truth, axis=(1, 2), keepdims=True)
    drawn = np.round(truth[0], 1) - np.round(truth[0], 1).mean(axis=0)
    return Case("167 skulls, raw landmarks", "kendall:8", 0.35, raw, drawn / np.linalg.norm(drawn),
                "apes.npy", {"form": "landmarks"}, truth)  # fmt: skip


def storms(data: Path, folder: Path) -> Case:
    """All fixes of all storms: a storm has up to 133 of them, and the storm is what is to be protected."""
    table = arrays(data / "hurdat2_AL.npz")
    np.save(folder / "fixes.npy", np.column_stack([table["lat"], table["lon"]]))
    truth = directions(table["lat"], table["lon"])
    return Case("51840 fixes of 1893 storms", "sphere:2", 0.75, truth, TURN @ ATLANTIC,
                "fixes.npy", {"form": "latlon-degrees"}, truth, table["key"])  # fmt: skip


CASES = (rounded, volts, quakes, volume, pixels, storms)


def fitted(space: str, center: Any, radius: float, records: Any) -> list[Any]:
    """Released means, or the one line of a refusal. Runs under the old version too."""
    from curvedp import GDP, PrivateFrechetMean
    from curvedp.errors import CurvedpError
    from curvedp.geometry import parse_manifold

    model = PrivateFrechetMean(
        parse_manifold(space), radius=radius, center=center, guarantee=GDP(1.0)
    )
    try:
        return [model.fit(records).location_.tolist() for _ in range(REPEATS)]
    except CurvedpError as error:
        return [str(error)]


def before(source: Path, case: Case, folder: Path) -> list[Any]:
    """The newcomer's array, the default center where there are units to get wrong, and an older version."""
    np.save(folder / "naive.npy", case.naive)
    center = None if case.space.startswith("spd") else case.center.tolist()
    code = "import sys, json, numpy as np; from first_data import fitted; space, center, radius = json.loads(sys.argv[1]); "
    code += "print(json.dumps(fitted(space, center, radius, np.load(sys.argv[2]))))"
    call = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        code,
        json.dumps([case.space, center, case.radius]),
        str(folder / "naive.npy"),
    ]
    paths = os.pathsep.join([str(source), str(Path(__file__).parent)])
    done = subprocess.run(
        call,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


def after(case: Case, folder: Path) -> list[Any]:
    from curvedp.geometry import parse_manifold
    from curvedp.records import read_records

    M = parse_manifold(case.space)
    records = persons(
        M, read_records(folder / case.file, M, **case.reading), case.groups
    )
    return fitted(case.space, case.center, case.radius, records)


def error(case: Case, found: list[Any]) -> str:
    """Median distance to the true mean in the ball, or what was said instead."""
    from curvedp.geometry import frechet_mean, parse_manifold, project_to_ball

    if isinstance(found[0], str):
        return f"refused: {found[0]}"
    M = parse_manifold(case.space)
    truth = persons(M, case.truth, case.groups)
    mean = frechet_mean(M, project_to_ball(M, case.center, case.radius, truth))
    return f"{np.median([float(M.dist(mean, np.array(one))) for one in found]):.2g}"


def persons(M: Any, records: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """One record a person: the mean of what that person has, a map of one person alone."""
    from curvedp.geometry import frechet_mean

    if groups is None:
        return records
    there = np.isfinite(records).all(axis=1)
    return np.stack(
        [frechet_mean(M, records[there & (groups == who)]) for who in np.unique(groups)]
    )


def written(data: Path) -> None:
    """The same records written otherwise: how far their mean in the ball moves, beside the furthest that a record moves."""
    from curvedp.geometry import (
        Rotations,
        SPDAffineInvariant,
        Sphere,
        frechet_mean,
        project_to_ball,
    )
    from curvedp.records import read_records

    table = arrays(data / "hurdat2_AL.npz")
    first = np.unique(table["key"], return_index=True)[1]
    wrists = read_records(data / "drill_so3_quaternions.csv", Rotations(3), form="quaternion-wxyz", header=True,
                          columns=["Q1", "Q2", "Q3", "Q4"])  # fmt: skip
    tensors = 1e3 * arrays(data / "dti_dipy.npz")["small_64D_tensor"]
    known = [(Sphere(2), directions(table["lat"][first], table["lon"][first]), TURN @ ATLANTIC, 0.75),
             (Rotations(3), wrists, np.eye(3), 1.2), (SPDAffineInvariant(3), tensors, np.eye(3), 3.0)]  # fmt: skip
    print(
        "| written as | "
        + " | ".join(f"{M!r}" for M, *_ in known)
        + " |\n"
        + "|---" * 4
        + "|"
    )
    for name, write in WAYS.items():
        cells = []
        for M, X, center, radius in known:
            means = [
                frechet_mean(
                    M, project_to_ball(M, center, radius, np.asarray(Y, float))
                )
                for Y in (X, write(X))
            ]
            furthest = np.nanmax(M.dist(X, M.from_record(np.asarray(write(X), float))))
            cells.append(f"{float(M.dist(*means)):.1e} ({furthest:.1e})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


WAYS = {f"{k} decimals": (lambda X, k=k: np.round(X, k)) for k in range(8, 2, -1)}
WAYS |= {"float32": np.float32, "float16": np.float16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="src folder of an older version")
    parser.add_argument(
        "--written", action="store_true", help="only: decimals, float16 and the mean"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="print what `curvedp.check` says of each file",
    )
    options = parser.parse_args()
    if options.written:
        written(options.data_dir)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("| input | before | after |\n|---|---|---|")
        for build in CASES:
            case = build(options.data_dir, folder)
            old = (
                error(case, before(options.before, case, folder))
                if options.before
                else "not run"
            )
            print(
                f"| {case.title} | {old} | {error(case, after(case, folder))} |",
                flush=True,
            )
            if options.check:
                from curvedp import check
                from curvedp.geometry import parse_manifold

                where, space = folder / case.file, parse_manifold(case.space)
                print(
                    check(
                        space,
                        where,
                        case.center,
                        case.radius,
                        case.groups,
                        **case.reading,
                    )
                )


if __name__ == "__main__":
    main()
