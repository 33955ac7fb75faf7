"""`python -m benchmarks`: every speed table, one after the other; each is also a module of its own."""

import subprocess
import sys

SPEED = ("frechet_mean", "coordinates", "sampling", "exact_sampling", "spd_sampling")


def main() -> None:
    for name in SPEED:
        print(f"\n## {name}\n", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
