"""Print the tables of docs/evidence/optimization.md from the recorded Figure 3.

python -m curvedp.papers.opt.tables
"""

import json
from typing import Any

from curvedp.papers.opt.fig3 import LEVELS, RECORD

TITLES = {
    "poincare": "mammals in the Poincaré disk, mean",
    "sphere": "MNIST digit 0, leading eigenvector",
    "sphere, digit 1": "MNIST digit 1, leading eigenvector",
    "spd": "PathMNIST adipose, 11 × 11 covariances, mean",
    "spd, background": "PathMNIST background, likewise",
}
SOUND = ("DP-RGD", "DP-RSGD", "DP-RSVRG", "one-shot")
PAPERS = (
    "DP-RSVRG",
    "DP-RSVRG, anchor re-noised",
    "paper's DP-RSVRG",
    "paper's DP-RSVRG, as printed",
)


def with_error(row: dict[str, Any]) -> str:
    """Return the mean risk and the standard error of that mean."""
    error = row["sd"] / (row.get("runs", 5) - 1) ** 0.5
    return f"{row['excess']:.3g} ± {error:.2g}"


def svrg_over_rgd(panel: dict[str, Any]) -> float:
    """Return the mean risk of DP-RSVRG over that of DP-RGD."""
    return float(panel["DP-RSVRG"]["excess"] / panel["DP-RGD"]["excess"])


def main() -> None:
    """Print both tables as Markdown."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    head = ("excess risk, mean ± standard error", "ε", *SOUND, "RSVRG/RGD")
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for name, title in TITLES.items():
        case = record[name]
        label = f"{title} (n = {case['n']}; start {case['start']:.3g})"
        for eps in LEVELS:
            level = f"ε = {eps}"
            panel = case[level]
            cells = [with_error(panel[method]) for method in SOUND]
            ratio = f"{svrg_over_rgd(panel):.2g}"
            print("| " + " | ".join([label, f"{eps}", *cells, ratio]) + " |")
            label = ""
    print()
    second_head = ("", "ε", *PAPERS)
    print("| " + " | ".join(second_head) + " |")
    print("|---" * len(second_head) + "|")
    for name, title in TITLES.items():
        for eps in LEVELS:
            panel = record[name][f"ε = {eps}"]
            cells = [f"{panel[method]['excess']:.2g}" for method in PAPERS]
            print("| " + " | ".join([title, f"{eps}", *cells]) + " |")


if __name__ == "__main__":
    main()
