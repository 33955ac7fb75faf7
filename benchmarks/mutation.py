"""Mutation testing of the samplers, the accounting and the ledger: a sample of mutants, each against the tests of its file.

`python -m benchmarks.mutation [N] [seed] [part of a file's name]`. A mutant changes one thing in one line: a comparison, an
operator, a number, a boolean, a condition, a returned value. It is killed if a test fails (or the mutant hangs). The sample
is uniform over all mutants of all files below; the table gives the share killed with its Clopper–Pearson interval and lists
the survivors with the line they change.

The mutated copy lives in a folder of its own, put in front of the package's path: the working tree is never touched.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

ROOT = Path(__file__).parent.parent
# Which tests look at which file, the cheapest that can be expected to notice.
TESTS = {
    "ledger.py": ["tests/test_ledger.py"],
    "laws/radial.py": ["tests/laws/test_gaussian.py", "tests/laws/test_laplace.py"],
    "laws/spaceform.py": ["tests/laws/test_gaussian.py", "tests/laws/test_laplace.py"],
    "laws/logconcave.py": [
        "tests/laws/test_gaussian.py",
        "tests/laws/test_laplace.py",
        "tests/laws/test_euclidean_laws.py",
    ],
    "laws/gaussian.py": ["tests/laws/test_gaussian.py"],
    "laws/laplace.py": ["tests/laws/test_laplace.py"],
    "laws/tangent.py": ["tests/laws/test_tangent.py"],
    "laws/euclidean.py": ["tests/laws/test_euclidean_laws.py"],
    "laws/spd_gaussian.py": ["tests/laws/test_spd_gaussian.py"],
    "laws/cells.py": ["tests/laws/test_knorm.py"],
    "entropy/bits.py": ["tests/entropy/test_csprng.py", "tests/entropy/test_exact_release.py"],
    "entropy/balls.py": ["tests/entropy/test_balls.py"],
    "entropy/csprng.py": ["tests/entropy/test_csprng.py"],
    "entropy/exact.py": ["tests/entropy/test_exact_release.py"],
    "entropy/exact_curved.py": ["tests/entropy/test_exact_curved.py"],
    "entropy/exact_radial.py": ["tests/entropy/test_exact_curved.py", "tests/entropy/test_exact_release.py"],
    "privacy/guarantees.py": ["tests/privacy/test_guarantees.py"],
    "privacy/gaussian.py": ["tests/privacy/test_guarantees.py", "tests/privacy/test_convert.py"],
    "privacy/circle.py": ["tests/privacy/test_circle.py"],
    "privacy/compose.py": ["tests/privacy/test_compose.py"],
    "privacy/convert.py": ["tests/privacy/test_convert.py"],
    "privacy/discrete.py": ["tests/privacy/test_discrete.py"],
    "privacy/rao.py": ["tests/privacy/test_rao.py"],
    "privacy/renyi.py": ["tests/privacy/test_guarantees.py", "tests/privacy/test_convert.py"],
    "privacy/subsampled.py": ["tests/privacy/test_subsampled.py"],
    "privacy/calibrate.py": ["tests/privacy/test_calibrate.py"],
}
COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
           ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
          ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult}  # fmt: skip


def mutant(source: str, site: int) -> tuple[int, str, str]:
    """(line, what changed, mutated source) for one of the places that can be changed."""
    tree = ast.parse(source)
    node, change = list(_sites(tree))[site]
    line, before = node.lineno, ast.unparse(node)
    change()
    return line, f"{before}  →  {ast.unparse(node)}", ast.unparse(ast.fix_missing_locations(tree))


def _sites(tree: ast.AST) -> Iterator[tuple[Any, Callable[[], None]]]:
    """(node, change) for each place that can be changed; annotations, texts and messages are left alone."""
    skipped = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if isinstance(getattr(node, field, None), ast.AST):
                skipped.update(ast.walk(getattr(node, field)))
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.ImportFrom | ast.Import):
            skipped.update(ast.walk(node))
        if isinstance(node, ast.keyword) and node.arg == "strict":
            skipped.update(ast.walk(node))  # zip's own check: both sides have one length, so the mutant does the same
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                skipped.update(ast.walk(decorator))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
            yield node, lambda n=node: n.ops.__setitem__(0, COMPARE[type(n.ops[0])]())
        elif isinstance(node, ast.BinOp) and type(node.op) in BINARY and not isinstance(node.left, ast.Constant | ast.Name
                ) | (isinstance(node.op, ast.BitOr)):  # fmt: skip
            yield node, lambda n=node: setattr(n, "op", BINARY[type(n.op)]())
        elif isinstance(node, ast.BoolOp):
            yield node, lambda n=node: setattr(n, "op", ast.Or() if isinstance(n.op, ast.And) else ast.And())
        elif (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and not isinstance(node.operand, ast.Constant)
        ):
            yield node, lambda n=node: setattr(n, "op", ast.UAdd())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, lambda n=node: setattr(n, "value", not n.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value not in (0,):
            yield node, lambda n=node: setattr(n, "value", n.value + 1 if abs(n.value) < 100 else n.value * 2)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test, lambda n=node: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
        elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield node, lambda n=node: setattr(n, "value", ast.Constant(None))


def survives(file: str, source: str, seconds: float) -> bool:
    """Whether the tests of the file pass on a package in which it has this source."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "src" / "curvedp", Path(folder) / "curvedp", ignore=shutil.ignore_patterns("__pycache__")
        )
        (Path(folder) / "curvedp" / file).write_text(source, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *TESTS[file]]
        try:
            run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return False
        return run.returncode == 0


def main(count: int = 150, seed: int = 0, only: str = "") -> int:
    sources = {file: (ROOT / "src/curvedp" / file).read_text("utf-8") for file in TESTS if only in file}
    pool = [(file, site) for file, text in sources.items() for site, _ in enumerate(_sites(ast.parse(text)))]
    order = np.random.default_rng(seed).permutation(len(pool))[:count]
    limits: dict[str, float] = {}
    killed, survivors = 0, []
    print(f"{len(pool)} mutants in {len(sources)} files; a sample of {len(order)}", flush=True)
    for number, index in enumerate(order, 1):
        file, site = pool[index]
        line, change, source = mutant(sources[file], site)
        if file not in limits:
            started = time.perf_counter()
            if not survives(file, sources[file], 600):
                raise SystemExit(f"{file}: its tests fail on the code as it is")
            limits[file] = 30 + 5 * (time.perf_counter() - started)
        if survives(file, source, limits[file]):
            survivors.append((file, line, change))
            print(f"{number:4d} survived {file}:{line}: {change}", flush=True)
        else:
            killed += 1
            print(f"{number:4d} killed   {file}:{line}", flush=True)
    total = len(order)
    low = stats.beta.ppf(0.025, killed, total - killed + 1) if killed else 0.0
    high = stats.beta.ppf(0.975, killed + 1, total - killed) if killed < total else 1.0
    print(f"killed {killed} of {total}: {killed / total:.1%} (95% interval {low:.1%} to {high:.1%})")
    for file, line, change in survivors:
        print(f"  {file}:{line}: {change}")
    return int(killed < 0.85 * total)


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:3]), *sys.argv[3:4]))
