"""Mutation testing of the samplers, the accounting and the ledger: a sample of mutants, each against the tests of its file.

`python -m benchmarks.mutation [N] [seed] [files: a pattern] [seconds] [tests…]`. A mutant changes one thing in one line: a
comparison, an operator, a number, a boolean, a condition, a returned value; texts, messages, `__repr__` and annotations are
left alone. It is killed if a test fails (or the mutant hangs). The sample is uniform over all mutants of all files below; the
table gives the share killed with its Clopper–Pearson interval and lists the survivors with the line they change.

One process collects the tests; each mutant is a fork of it in which the functions' code is exchanged, and which runs the
tests that execute the changed line, the quickest first. So a mutant costs one failing test, not an interpreter with its
imports; the working tree is never touched. What this cannot see counts as survived: tests above `seconds` of CPU time, code
that another interpreter runs, defaults of dataclass fields.
"""

import ast
import functools
import importlib
import inspect
import json
import os
import re
import select
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from scipy import stats

ROOT = Path(__file__).parent.parent
# Which tests look at which file, the cheapest that can be expected to notice; its own examples come first.
TESTS = {
    "ledger.py": ["tests/test_ledger.py"],
    "laws/radial.py": ["tests/laws/test_mutants.py", "tests/laws/test_gaussian.py", "tests/laws/test_laplace.py"],
    "laws/spaceform.py": ["tests/laws/test_mutants.py", "tests/laws/test_gaussian.py", "tests/laws/test_laplace.py"],
    "laws/logconcave.py": [
        "tests/laws/test_gaussian.py",
        "tests/laws/test_laplace.py",
        "tests/laws/test_euclidean_laws.py",
    ],
    "laws/gaussian.py": ["tests/laws/test_mutants.py", "tests/laws/test_gaussian.py"],
    "laws/laplace.py": ["tests/laws/test_laplace.py"],
    "laws/tangent.py": ["tests/laws/test_tangent.py"],
    "laws/euclidean.py": ["tests/laws/test_euclidean_laws.py"],
    "laws/spd_gaussian.py": ["tests/laws/test_spd_gaussian.py"],
    "laws/spd_chain.py": ["tests/laws/test_spd_gaussian.py"],
    "laws/cells.py": ["tests/laws/test_knorm.py"],
    "entropy/bits.py": ["tests/entropy/test_csprng.py", "tests/entropy/test_exact_release.py"],
    "entropy/balls.py": ["tests/entropy/test_balls.py"],
    "entropy/csprng.py": ["tests/entropy/test_mutants.py", "tests/entropy/test_csprng.py"],
    "entropy/exact.py": ["tests/entropy/test_mutants.py", "tests/entropy/test_exact_release.py"],
    "entropy/exact_curved.py": ["tests/entropy/test_exact_curved.py"],
    "entropy/exact_radial.py": ["tests/entropy/test_exact_curved.py", "tests/entropy/test_exact_release.py"],
    "entropy/exact_spd.py": ["tests/entropy/test_exact_spd.py"],
    "entropy/exact_spd_chain.py": ["tests/entropy/test_exact_spd.py"],
    "entropy/exact_spd_near.py": ["tests/entropy/test_exact_spd.py"],
    "entropy/exact_spd_far.py": ["tests/entropy/test_exact_spd.py"],
    "entropy/exact_spd_turn.py": ["tests/entropy/test_exact_spd.py"],
    "privacy/guarantees.py": ["tests/privacy/test_mutants.py", "tests/privacy/test_guarantees.py"],
    "privacy/gaussian.py": ["tests/privacy/test_guarantees.py", "tests/privacy/test_convert.py"],
    "privacy/circle.py": ["tests/privacy/test_circle.py"],
    "privacy/compose.py": ["tests/privacy/test_mutants.py", "tests/privacy/test_compose.py"],
    "privacy/convert.py": ["tests/privacy/test_mutants.py", "tests/privacy/test_convert.py"],
    "privacy/discrete.py": ["tests/privacy/test_discrete.py"],
    "privacy/profile.py": ["tests/privacy/test_profile.py"],
    "privacy/pld.py": [
        "tests/privacy/test_mutants.py",
        "tests/privacy/test_compose.py",
        "tests/privacy/test_subsampled.py",
    ],
    "privacy/products.py": ["tests/privacy/test_products.py"],
    "privacy/certify.py": ["tests/privacy/test_certify.py"],
    "privacy/_space_form.py": ["tests/privacy/test_numerics.py", "tests/privacy/test_constant_curvature.py"],
    "privacy/rao.py": ["tests/privacy/test_mutants.py", "tests/privacy/test_rao.py"],
    "privacy/renyi.py": [
        "tests/privacy/test_mutants.py",
        "tests/privacy/test_guarantees.py",
        "tests/privacy/test_convert.py",
    ],
    "privacy/subsampled.py": ["tests/privacy/test_subsampled.py"],
    "privacy/calibrate.py": ["tests/privacy/test_calibrate.py"],
}
COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
           ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
          ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult}  # fmt: skip


def mutant(source: str, site: int) -> tuple[range, str, str]:
    """(lines, what changed, mutated source) for one of the places that can be changed."""
    tree = ast.parse(source)
    node, change = list(_sites(tree))[site]
    lines, before = range(node.lineno, node.end_lineno + 1), ast.unparse(node)
    change()
    after = ast.unparse(node)  # a condition is wrapped from outside: its own text stays
    return lines, f"{before}  →  {after if after != before else 'not'}", ast.unparse(ast.fix_missing_locations(tree))


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
        if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__"):
            skipped.update(ast.walk(node))
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


def forked(work: Callable[[], Any], cpu: float, wall: float) -> Any:
    """What `work` returns in a fork of this process, or None if it fails, crashes or takes too long."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            signal.setitimer(signal.ITIMER_PROF, cpu)  # ends the process when its CPU time is spent
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            os.write(write, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    answer = b""
    end = time.monotonic() + wall
    while select.select([read], [], [], max(0.0, end - time.monotonic()))[0] and (more := os.read(read, 1 << 16)):
        answer += more
    os.close(read)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and what it may have started
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


class Mutants:
    """A pytest plugin: instead of running the collected tests once, runs them against each mutant of some files."""

    def __init__(self, jobs: dict[str, tuple[str, list[int]]], seconds: float) -> None:
        self.jobs, self.seconds = jobs, seconds
        self.killed, self.survivors = 0, []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        modules = {file: _module(file) for file in self.jobs}
        paths = {str(module.__file__) for module in modules.values()}
        profile = {}  # test → (CPU seconds, lines it executes in each file)
        for item in session.items:
            seen = forked(lambda item=item: _lines_run(item, paths), self.seconds, 60 * self.seconds)
            if seen is not None and seen[1]:
                profile[item] = (seen[0], {path: set(lines) for path, lines in seen[1].items()})
        order = sorted(profile, key=lambda item: profile[item][0])
        print(f"{len(profile)} of {len(session.items)} tests", flush=True)
        for file, (source, sites) in self.jobs.items():
            path = str(modules[file].__file__)
            touching = [item for item in order if path in profile[item][1]]
            if self._fails(modules[file], ast.unparse(ast.parse(source)), touching[:12], 60):
                raise SystemExit(f"{file}: its tests fail on the code as it is")
            bodies = [range(n.body[0].lineno, n.end_lineno + 1) for n in ast.walk(ast.parse(source))
                      if isinstance(n, ast.FunctionDef)]  # fmt: skip
            for site in sites:
                lines, change, mutated = mutant(source, site)
                inside = any(lines.start in body for body in bodies)  # else it runs on import: every test may notice
                tests = [t for t in touching if not inside or not profile[t][1][path].isdisjoint(lines)]
                if self._fails(modules[file], mutated, tests, 1 + 3 * sum(profile[t][0] for t in tests)):
                    self.killed += 1
                    print(f"  killed   {file}:{lines.start}: {change[:150]}", flush=True)
                else:
                    self.survivors.append((file, lines.start, change))
                    print(f"  survived {file}:{lines.start} ({len(tests)} tests): {change[:300]}", flush=True)
        return True

    def _fails(self, module: types.ModuleType, source: str, tests: list[pytest.Item], cpu: float) -> bool:
        def work() -> bool:
            exchange(module, source)
            return any(report.failed for item in tests for report in runtestprotocol(item, log=False))

        return forked(work, cpu, 120 + 20 * cpu) is not False if tests else False


def _lines_run(item: pytest.Item, paths: set[str]) -> tuple[float, dict[str, list[int]]] | None:
    """(CPU seconds, lines of the files that the test executes); None for a test that does not pass by itself."""
    lines: dict[str, set[int]] = {}

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in paths:
            return None
        if event == "line":
            lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)
    started = time.process_time()
    passed = all(report.passed for report in runtestprotocol(item, log=False))
    taken = time.process_time() - started
    sys.settrace(None)
    return (taken, {path: sorted(found) for path, found in lines.items()}) if passed else None


def _module(file: str) -> types.ModuleType:
    return importlib.import_module("curvedp." + file.removesuffix(".py").replace("/", "."))


def exchange(module: types.ModuleType, source: str) -> None:
    """Put the code of another version of a module into the functions that it and all others already hold."""
    fresh: dict[str, Any] = {
        "__name__": module.__name__,
        "__package__": module.__package__,
        "__file__": module.__file__,
    }
    exec(compile(source, str(module.__file__), "exec"), fresh)
    _into(vars(module), fresh, module.__name__)


def _into(old: Any, new: Any, home: str) -> Any:
    """The old object with the new one's code in it; the new one itself where it is plain data."""
    for wrapper in ("__wrapped__", "__func__", "fget", "func"):
        if hasattr(new, wrapper) and hasattr(old, wrapper) and not isinstance(new, functools.partial):
            if hasattr(old, "cache_clear"):
                old.cache_clear()
            _into(getattr(old, wrapper), getattr(new, wrapper), home)
            return old
    if inspect.isfunction(new) and inspect.isfunction(old):
        if new.__module__ == home and len(old.__code__.co_freevars) == len(new.__code__.co_freevars):
            old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    elif inspect.isclass(new) and inspect.isclass(old):
        if new.__module__ == home:
            for name in set(vars(new)) & set(vars(old)) - {"__dict__", "__weakref__", "__doc__", "__slots__"}:
                value = _into(vars(old)[name], vars(new)[name], home)
                if value is not vars(old)[name]:
                    type.__setattr__(old, name, value)
    elif isinstance(new, dict) and isinstance(old, dict):
        for key in set(new) & set(old):
            if not str(key).startswith("__"):
                old[key] = _into(old[key], new[key], home)
    elif isinstance(new, tuple) and isinstance(old, tuple) and not _plain(new):
        for before, after in zip(old, new, strict=False):
            _into(before, after, home)
    elif _plain(new):
        return new
    return old


def _plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return isinstance(value, int | float | str | complex | np.ndarray | np.number)


def main(count: int = 150, seed: int = 0, only: str = "", seconds: float = 20.0, *tests: str) -> int:
    sources = {file: (ROOT / "src/curvedp" / file).read_text("utf-8") for file in TESTS if re.search(only, file)}
    pool = [(file, site) for file, text in sources.items() for site, _ in enumerate(_sites(ast.parse(text)))]
    order = np.random.default_rng(seed).permutation(len(pool))[:count]
    groups: dict[tuple[str, ...], dict[str, tuple[str, list[int]]]] = {}  # files that share their tests share a session
    for index in order:
        file, site = pool[index]
        jobs = groups.setdefault(tests or tuple(TESTS[file]), {})
        jobs.setdefault(file, (sources[file], []))[1].append(site)
    for file in sources:  # before pytest finds them by their path and makes a second copy
        _module(file)
    print(f"{len(pool)} mutants in {len(sources)} files; a sample of {len(order)}", flush=True)
    killed, survivors = 0, []
    for paths, jobs in groups.items():
        plugin = Mutants(jobs, seconds)
        own = [str(ROOT / "src/curvedp" / file) for file in jobs]
        options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not process and not fork"]
        pytest.main([*options, *own, *paths], plugins=[plugin])
        killed, survivors = killed + plugin.killed, survivors + plugin.survivors
    total = killed + len(survivors)
    low = stats.beta.ppf(0.025, killed, total - killed + 1) if killed else 0.0
    high = stats.beta.ppf(0.975, killed + 1, total - killed) if killed < total else 1.0
    print(f"killed {killed} of {total}: {killed / max(total, 1):.1%} (95% interval {low:.1%} to {high:.1%})")
    for file, line, change in survivors:
        print(f"  {file}:{line}: {change}")
    return int(killed < 0.85 * total)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        main(*(int(a) for a in arguments[:2]), *arguments[2:3], *(float(a) for a in arguments[3:4]), *arguments[4:])
    )
