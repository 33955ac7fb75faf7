"""Linear regression on Wine Quality: ours beside IBM diffprivlib and Opacus, at the same ε, on the same data, in one run.

    python -m benchmarks.speed.regression_peers [--wine winequality-red.csv] [--repeats 20] [--skip 0]

Alcohol -> (fixed acidity, density, pH, residual sugar), first 100 rows, as in the geodesic regression paper (Table 1).
Our settings were found on those rows; `--skip 100` takes the next hundred, which nobody has seen.
Everybody gets the same public numbers: where the responses are about and how far they spread (wine trade), and that a
vinho verde has 8.5 to 11.5 % alcohol. Errors are in units of the data's standard deviations: 1 is the non-private mean.

diffprivlib 0.6.6 does not import beside today's scikit-learn, so the peers live in an environment of their own
(`benchmarks.peers`: torch alone is 200 MB), in which this script runs itself. That half imports nothing of curvedp.
"""

import argparse
import csv
import importlib.util
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np


def load_wine_module():
    """Import wine.py by its path: the peers' environment has no curvedp."""
    source = Path(__file__).parents[2] / "src/curvedp/papers/reg/wine.py"
    specification = importlib.util.spec_from_file_location("wine", source)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


wine = load_wine_module()
ALCOHOL, DELTA, EPSILON = wine.ALCOHOL, wine.DELTA, wine.EPSILON
error, first_wines = wine.error, wine.first_wines
private_line_errors = wine.private_line_errors


def load(path: str, skip: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Alcohol and the responses of 100 wines of the file."""
    with open(path, encoding="utf-8") as file:
        names, *rows = csv.reader(file, delimiter=";")
    return first_wines(
        dict(zip(names, np.array(rows[skip:], dtype=float).T, strict=True))
    )


def peers(
    x: np.ndarray, Y: np.ndarray, repeats: int
) -> tuple[dict[str, list[float]], dict, dict]:
    """diffprivlib with three public bounds; Opacus with a tutorial's settings and over a grid, for both kinds of neighbors.

    The best setting of a peer is picked by its error on the data at hand, as ours was on the first 100 rows.
    """
    import warnings

    import torch
    from diffprivlib.models import LinearRegression
    from opacus import PrivacyEngine
    from opacus.accountants.utils import get_noise_multiplier

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    found: dict[str, list[float]] = {}

    def ibm(bound: float, seed: int) -> np.ndarray:
        box = (-bound * np.ones(4), bound * np.ones(4))
        model = LinearRegression(
            epsilon=EPSILON, bounds_X=ALCOHOL, bounds_y=box, random_state=seed
        )
        return model.fit(x[:, None], Y).predict(x[:, None])

    for bound in (1.0, 2.0, 4.0):
        found[f"IBM diffprivlib, pure ε, responses within {bound:g} units"] = [
            error(ibm(bound, i), Y) for i in range(repeats)
        ]

    low, high = ALCOHOL
    t = 2 * (x - low) / (high - low) - 1
    inputs = torch.tensor(np.clip(t, -1, 1)[:, None], dtype=torch.float32)
    responses = torch.tensor(Y, dtype=torch.float32)

    def opacus(
        epochs: int, batch: int, rate: float, clip: float, factor: float, seed: int
    ) -> np.ndarray:
        torch.manual_seed(seed)
        model = torch.nn.Linear(1, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(inputs, responses), batch_size=batch
        )
        noise = factor * get_noise_multiplier(
            target_epsilon=EPSILON,
            target_delta=DELTA,
            sample_rate=1 / len(loader),
            epochs=epochs,
        )
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=clip,
        )
        for _ in range(epochs):
            for some, wanted in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(some), wanted).backward()
                optimizer.step()
        with torch.no_grad():
            return model(torch.tensor(t[:, None], dtype=torch.float32)).numpy()

    tutorial = (20, 10, 0.05, 1.0)
    grid = [
        (epochs, 10, rate, clip)
        for epochs in (20, 40)
        for rate, clip in ((0.1, 1.0), (0.2, 0.5), (0.1, 0.5))
    ] + [
        (20, 100, 1.0, 1.0),
        (20, 100, 2.0, 0.5),
    ]
    for factor, neighbors in (
        (1.0, "one added or removed"),
        (2.0, "one record replaced"),
    ):
        found[f"Opacus, tutorial settings, {neighbors}"] = [
            error(opacus(*tutorial, factor, i), Y) for i in range(repeats)
        ]
        tried = [
            [error(opacus(*setting, factor, i), Y) for i in range(repeats)]
            for setting in grid
        ]
        found[f"Opacus, best of {len(grid)} settings, {neighbors}"] = min(
            tried, key=np.mean
        )
    # one run of each as a line, for the paper's Figure 4: the responses at the ends of the data's range
    ends = [int(np.argmin(x)), int(np.argmax(x))]
    lines = {
        "IBM diffprivlib": ibm(4.0, 0)[ends].tolist(),
        "Opacus": opacus(*tutorial, 1.0, 0)[ends].tolist(),
    }
    versions = {
        name: version(name)
        for name in ("diffprivlib", "opacus", "torch", "scikit-learn", "numpy")
    }
    return found, lines, versions


def wine_file() -> str:
    """Where the loader finds it, or a line that says where to get it."""
    from curvedp.papers.data_sets import DATASETS, MissingData, find_file

    entry = DATASETS["wine"]
    try:
        return str(find_file(entry.file, entry.title, entry.source))
    except MissingData as missing:
        raise SystemExit(
            str(missing).replace(
                "give its folder with --data-dir or",
                "name it with --wine or its folder with",
            )
        ) from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--wine", help="path of winequality-red.csv (UCI); otherwise in CURVEDP_DATA"
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--skip", type=int, default=0, help="rows of the file to pass over"
    )
    parser.add_argument(
        "--peers-to", default=None, help=argparse.SUPPRESS
    )  # inside the peers' environment
    parser.add_argument(
        "--store",
        help="keep the peers' numbers, lines and versions: src/curvedp/papers/reg/peers.json",
    )
    arguments = parser.parse_args()
    if arguments.wine is None:
        arguments.wine = wine_file()
    x, Y = load(arguments.wine, arguments.skip)
    if arguments.peers_to:
        found, lines, versions = peers(x, Y, arguments.repeats)
        record = {
            "rows": arguments.skip,
            "versions": versions,
            "lines": lines,
            "errors": found,
        }
        Path(arguments.peers_to).write_text(
            json.dumps(record, indent=1), encoding="utf-8"
        )
        return
    from benchmarks.peers import (
        environment,
    )  # this file also runs where curvedp is not installed

    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "peers.json"
        command = [
            environment("regression"),
            __file__,
            "--wine",
            arguments.wine,
            "--repeats",
            str(arguments.repeats),
        ]
        subprocess.run(
            [*command, "--skip", str(arguments.skip), "--peers-to", answer], check=True
        )
        record = json.loads(answer.read_text(encoding="utf-8"))
        if arguments.store:
            Path(arguments.store).write_text(
                json.dumps(record, indent=1) + "\n", encoding="utf-8"
            )
        rows = {**private_line_errors(x, Y, arguments.repeats), **record["errors"]}
    design = np.column_stack([np.ones(len(x)), x])
    line = design @ np.linalg.lstsq(design, Y, rcond=None)[0]
    rows_used = f"rows {arguments.skip + 1} to {arguments.skip + 100}"
    print(
        f"Wine Quality, {rows_used}, 4 responses, ε = {EPSILON:g}, δ = {DELTA:g}; {arguments.repeats} runs each"
    )
    print(
        "paper: 0.873 least squares, 0.954 its own (not private), 7.856 IBM, 0.982 Opacus"
    )
    print(f"  {'least squares, not private':<58} {error(line, Y):8.3f}")
    print(
        f"  {'mean of the data, not private':<58} {error(np.broadcast_to(Y.mean(axis=0), Y.shape), Y):8.3f}"
    )
    print(f"  {'public middle, no data':<58} {error(np.zeros_like(Y), Y):8.3f}")
    for label, values in rows.items():
        print(
            f"  {label:<58} {np.mean(values):8.3f}  (sd {np.std(values):.3f}, median {np.median(values):.3f})"
        )


if __name__ == "__main__":
    sys.exit(main())
