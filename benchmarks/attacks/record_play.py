"""Audit this library by a tool of others: Re:cord-play (Cebere et al. 2026).

    python -m benchmarks.record_play FOLDER

FOLDER is the folder `src` of a checkout of their package `dp-recorder`, which also needs
dp-accounting, graphviz, matplotlib, seaborn and tqdm. The tool runs a release on one data
set and records what its noise is added to. It then runs the release on a neighboring
data set with the recorded outputs. It fails if the second run asks for other noise, or
if an input of the noise moves by more than its declared sensitivity.

Every exact Gaussian draw of a release is handed to the tool. Its declared sensitivity is
μ times its noise, which one draw may use up at most. The sum of squares over all draws,
which must be at most μ² = 1, is computed here from the tool's record.
"""

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    mechanisms,
)
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Grassmann,
    KendallShapes,
    Lorentz,
    Manifold,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.laws.exact import ExactDraw
from curvedp.mechanisms.isotropic import base as isotropic

N_RECORDS = 400
SPACES: tuple[Manifold, ...] = (
    Sphere(2),
    SPDAffineInvariant(3),
    Lorentz(3),
    SPDLogEuclidean(2),
    Grassmann(4, 2),
    KendallShapes(4),
)

Release = Callable[[np.ndarray], Any]


def releases(manifold: Manifold) -> dict[str, Release]:
    """Return the audited releases on a manifold, by name. All are GDP(1)."""
    guarantee = GDP(1.0)
    radius = 0.5 if isinstance(manifold, KendallShapes) else 0.7
    estimators = {
        "mean, tangent Gaussian": PrivateFrechetMean(
            manifold, radius, guarantee=guarantee, mechanism="tangent-gaussian"
        ),
        "mean, noisy Newton": PrivateFrechetMean(
            manifold, radius, guarantee=guarantee, mechanism="newton"
        ),
        "mean in a private ball": PrivateFrechetMean(
            manifold, "private", guarantee=guarantee
        ),
        "dispersion": PrivateDispersion(manifold, radius, guarantee=guarantee),
        "median": PrivateFrechetMedian(manifold, radius, guarantee=guarantee),
    }
    return {name: estimator.fit for name, estimator in estimators.items()}


def radius_from_the_records(records: np.ndarray) -> Any:
    """Release a mean in a ball that was read off the records: not private."""
    sphere = Sphere(2)
    radius = min(float(np.max(sphere.dist(sphere.origin, records))), 1.0)
    estimator = PrivateFrechetMean(sphere, radius, mechanism="tangent-gaussian")
    return estimator.fit(records)


def random_records(
    manifold: Manifold, n: int, spread: float, rng: np.random.Generator
) -> np.ndarray:
    """Return records about the origin."""
    origin = np.broadcast_to(manifold.origin, (n, *manifold.point_shape))
    steps = spread * rng.standard_normal((n, manifold.dim))
    return np.asarray(manifold.exp(origin, manifold.from_coordinates(origin, steps)))


def neighbors(
    manifold: Manifold, records: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return data sets in which one record is unreadable, huge, zero, far or central."""
    replacements = [
        np.full(manifold.point_shape, np.nan),
        np.full(manifold.point_shape, 1e300),
        np.zeros(manifold.point_shape),
        random_records(manifold, 1, 3.0, rng)[0],
        np.asarray(manifold.origin),
    ]
    pairs = []
    for index, replacement in enumerate(replacements):
        changed = records.copy()
        changed[index] = replacement
        pairs.append(changed)
    return pairs


def audit(
    primitives: Any, release: Release, first: np.ndarray, second: np.ndarray
) -> tuple[int, float]:
    """Return the number of draws of a release and Σ (difference/noise)² of a pair.

    Parameters
    ----------
    primitives : module
        `dp_recorder.auditing.audit_primitives`.
    release : function
        What is audited.
    first, second : array
        Neighboring data sets.

    Raises
    ------
    AssertionError, RuntimeError
        Where the tool finds a violation.
    """

    def distance(one: Any, other: Any) -> float:
        return float(np.linalg.norm(np.asarray(one) - np.asarray(other)))

    @primitives.audit_spec("exact Gaussian", "value", "sensitivity", distance)  # type: ignore[untyped-decorator]  # the tool has no types
    def noisy(
        value: np.ndarray, scale: float, sensitivity: float, grid: int
    ) -> np.ndarray:
        # The tool restores the state of NumPy's global generator.
        noise = np.random.standard_normal(value.shape)  # noqa: NPY002 - see above
        integers = np.round((value + scale * noise) * 2.0**grid)
        return np.asarray(np.vectorize(int, otypes=[object])(integers))

    def draw(
        manifold: Manifold,
        scale: float,
        center: Any,
        *,
        source: Any = None,
        grid: int = 30,
    ) -> ExactDraw:
        value = np.asarray(center, dtype=np.float64)
        integers = noisy(value, float(scale), float(scale), grid)
        return ExactDraw(integers, grid, 2.0**-100, manifold)

    auditor = primitives.Auditor()
    originals = _replace_gaussian_draws(draw)
    try:
        with auditor:
            release(first)
        auditor.set_replay()
        with auditor:
            release(second)
    finally:
        for module, name, original in originals:
            setattr(module, name, original)
    auditor.validate_records()

    total = 0.0
    for entry in auditor.log:
        if entry.inputs_dp is None:
            raise AssertionError("the second run asked for fewer draws")
        move = distance(entry.inputs_d["value"], entry.inputs_dp["value"])
        total += (move / entry.params["scale"]) ** 2
    return len(auditor.log), total


def _replace_gaussian_draws(draw: Callable[..., ExactDraw]) -> list[tuple[Any, ...]]:
    """Replace the exact Gaussian sampler in every mechanism; return the originals."""
    originals = []
    packages = pkgutil.walk_packages(mechanisms.__path__, "curvedp.mechanisms.")
    for package in packages:
        module = importlib.import_module(package.name)
        if "exact_gaussian" in vars(module):
            originals.append((module, "exact_gaussian", vars(module)["exact_gaussian"]))
            vars(module)["exact_gaussian"] = draw

    # Mechanisms of one value call one sampler for all kinds of noise. Here every
    # release is calibrated to GDP, so that its noise is Gaussian.
    originals.append((isotropic, "exact_draw", vars(isotropic)["exact_draw"]))
    vars(isotropic)["exact_draw"] = lambda kind, *args, **options: draw(
        *args, **options
    )
    return originals


def main() -> None:
    """Audit every release on every space, and a control that must fail."""
    sys.path.insert(0, str(Path(sys.argv[1]).resolve()))
    from dp_recorder.auditing import (  # type: ignore[import-not-found]  # on the path given
        audit_primitives,
    )

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    n_pairs = 0
    largest = 0.0
    for manifold in SPACES:
        records = random_records(manifold, N_RECORDS, 0.3, rng)
        for name, release in releases(manifold).items():
            try:
                results = [
                    audit(audit_primitives, release, records, changed)
                    for changed in neighbors(manifold, records, rng)
                ]
            except ParameterError as refusal:
                print(f"{manifold}, {name}: refused, {refusal}", flush=True)
                continue
            n_pairs += len(results)
            worst = max(total for _, total in results)
            largest = max(largest, worst)
            print(f"{manifold}, {name}: {results[0][0]} draws, at most {worst:.3f}")
    print(f"{n_pairs} pairs, no violation; Σ (difference/noise)² at most {largest:.3f}")

    sphere = Sphere(2)
    records = random_records(sphere, N_RECORDS, 0.1, rng)
    changed = records.copy()
    changed[0] = -np.asarray(sphere.origin)
    try:
        audit(audit_primitives, radius_from_the_records, records, changed)
    except AssertionError as violation:
        print(f"control, a radius from the records: {str(violation).splitlines()[0]}")
    else:
        raise SystemExit("the control was not found out")


if __name__ == "__main__":
    main()
