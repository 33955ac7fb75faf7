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
    "optim",
    "peers",
    "growth",
)


def main() -> None:
    begin = time.perf_counter()
    for name in SPEED:
        print(f"\n## {name}\n", flush=True)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
        print(f"\n({name}: {time.perf_counter() - start:.0f} s)", flush=True)
    print(f"\nall together {(time.perf_counter() - begin) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
