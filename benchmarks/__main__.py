"""`python -m benchmarks`: every speed table, one after the other; each is also a module of its own."""

import subprocess
import sys
import time

SPEED = (
    "frechet_mean",
    "coordinates",
    "sampling",
    "exact_sampling",
    "spd_sampling",
    "accounting",
    "fits",
    "optim",
    "peers",
    "growth",
    "regression_peers --repeats 3",  # needs Wine Quality; says so and the rest goes on
)


def main() -> None:
    begin = time.perf_counter()
    failed = []
    for line in SPEED:
        name, *options = line.split()
        print(f"\n## {name}\n", flush=True)
        start = time.perf_counter()
        if subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *options], check=False
        ).returncode:
            failed.append(name)
        print(f"\n({name}: {time.perf_counter() - start:.0f} s)", flush=True)
    print(f"\nall together {(time.perf_counter() - begin) / 60:.1f} minutes")
    if failed:
        sys.exit(f"not made: {', '.join(failed)}")


if __name__ == "__main__":
    main()
