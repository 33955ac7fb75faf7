"""Print the tables of docs/evidence/optimization.md from the recorded numbers of Figure
3: `python -m curvedp.papers.opt.tables`.
"""

import json
from typing import Any

from curvedp.papers.opt.fig3 import LEVELS, RECORD

# What each row of the paper's Figure 3 is, by its key in fig3.json.
TITLES = {
    "poincare": "mammals in the Poincaré disk, mean",
    "sphere": "MNIST digit 0, leading eigenvector",
    "sphere, digit 1": "MNIST digit 1, leading eigenvector",
    "spd": "PathMNIST adipose, 11 × 11 covariances, mean",
    "spd, background": "PathMNIST background, likewise",
}
# The methods of the first table, whose guarantees are proved, and of the second.
SOUND = ("DP-RGD", "DP-RSGD", "DP-RSVRG", "one-shot")
PAPERS = (
    "DP-RSVRG",
    "DP-RSVRG, anchor re-noised",
    "paper's DP-RSVRG",
    "paper's DP-RSVRG, as printed",
)


def with_error(row: dict[str, Any]) -> str:
    """Return the mean excess risk of the runs and its standard error, as text.

    Parameters
    ----------
    row : dict
        The figures of one method, as fig3.json has them.
    """
    error = row["sd"] / (row.get("runs", 5) - 1) ** 0.5
    return f"{row['excess']:.3g} ± {error:.2g}"


def svrg_over_rgd(panel: dict[str, Any]) -> float:
    """Return the mean excess risk of DP-RSVRG over that of DP-RGD.

    Parameters
    ----------
    panel : dict
        The figures of all methods in one case at one ε.
    """
    return float(panel["DP-RSVRG"]["excess"] / panel["DP-RGD"]["excess"])


def main() -> None:
    """Print both tables as Markdown."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    print("\n".join(risk_table(record)))
    print()
    print("\n".join(variants_table(record)))


def risk_table(record: dict[str, Any]) -> list[str]:
    """Return the table of optimizers and one-shot mechanisms, a line for each row.

    Parameters
    ----------
    record : dict
        The contents of fig3.json.
    """
    head = ("excess risk, mean ± standard error", "ε", *SOUND, "RSVRG/RGD")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, title in TITLES.items():
        case = record[name]
        label = f"{title} (n = {case['n']}; start {case['start']:.3g})"
        for eps in LEVELS:
            level = f"ε = {eps}"
            panel = case[level]
            cells = [with_error(panel[method]) for method in SOUND]
            ratio = f"{svrg_over_rgd(panel):.2g}"
            lines.append("| " + " | ".join([label, f"{eps}", *cells, ratio]) + " |")
            label = ""  # once for each case
    return lines


def variants_table(record: dict[str, Any]) -> list[str]:
    """Return the table of our DP-RSVRG and of the paper's variants, line by line.

    Parameters
    ----------
    record : dict
        The contents of fig3.json.
    """
    head = ("", "ε", "ours", *PAPERS[1:])
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, title in TITLES.items():
        for eps in LEVELS:
            panel = record[name][f"ε = {eps}"]
            cells = [f"{panel[method]['excess']:.2g}" for method in PAPERS]
            lines.append("| " + " | ".join([title, f"{eps}", *cells]) + " |")
    return lines


if __name__ == "__main__":
    main()
