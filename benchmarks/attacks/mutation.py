"""Mutation testing of the samplers, the accounting and the ledger: a sample of mutants, each against the tests of its line.

`python -m benchmarks.mutation [N] [seed] [files: a pattern] [seconds] [tests…]`. A mutant changes one thing in one line: a
comparison, an operator, a number, a boolean, a condition, a returned value; texts, messages, `__repr__` and annotations are
left alone. It is killed if a test fails (or the mutant hangs). The sample is uniform over all mutants of all files of `laws`,
`privacy`, `randomness` and the ledger. The table gives the share killed, group by group, with its Clopper–Pearson interval,
and lists the survivors with the line they change. Survivors of earlier samples that change nothing but effort are kept with
their reasons in `equivalent_mutants.txt`; they are shown in a column of their own, and the second share leaves them out.

One process collects the tests; each mutant is a fork of it in which the functions' code is exchanged, and which runs the
tests that execute the changed line: those of the module's own test file first, one case of each test before the second of
any, then the quickest. So a mutant costs one failing test, not an interpreter with its imports; the working tree is never
touched. Which test executes which line is kept in `build/`, so that it is measured again only for what has changed. What
this cannot see counts as survived: tests above `seconds` of CPU time, a mutant's tests beyond ten times that (the log says
how many of a survivor's tests ran), code that another interpreter runs.
"""

import ast
import functools
import hashlib
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
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from scipy import stats

from curvedp.privacy.guarantees.base import Guarantee

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/curvedp"
GROUPS = {
    "ledger": "ledger/*.py",
    "accounting": "privacy/**/*.py",
    "laws": "laws/**/*.py",
    "randomness": "randomness/*.py",
}
TESTS = [
    "tests/ledger",
    "tests/privacy",
    "tests/laws",
    "tests/randomness",
    "tests/conformance/test_laws.py",
    "tests/golden",
    "tests/local/test_metric.py",
]  # and the examples in the files themselves
SEEN = ROOT / "build/mutation.json"
# Tab-separated: file, function, statement, change, reason; see `syntactic_place`.
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
           ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr,
          ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift}  # fmt: skip


def mutant(source: str, site: int) -> tuple[range, str, str]:
    """(lines, what changed, mutated source) for one of the places that can be changed."""
    tree = ast.parse(source)
    node, change = list(_sites(tree))[site]
    lines, before = range(node.lineno, node.end_lineno + 1), ast.unparse(node)
    change()
    after = ast.unparse(node)  # a condition is wrapped from outside: its own text stays
    return (
        lines,
        f"{before}  →  {after if after != before else 'not'}",
        ast.unparse(ast.fix_missing_locations(tree)),
    )


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
            skipped.update(
                ast.walk(node)
            )  # zip's own check: both sides have one length, so the mutant does the same
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
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in BINARY:
            yield node, lambda n=node: setattr(n, "op", BINARY[type(n.op)]())
        elif isinstance(node, ast.BoolOp):
            yield (
                node,
                lambda n=node: setattr(
                    n, "op", ast.Or() if isinstance(n.op, ast.And) else ast.And()
                ),
            )
        elif (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and not isinstance(node.operand, ast.Constant)
        ):
            yield node, lambda n=node: setattr(n, "op", ast.UAdd())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, lambda n=node: setattr(n, "value", not n.value)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, int | float)
            and node.value not in (0,)
        ):
            yield (
                node,
                lambda n=node: setattr(
                    n, "value", n.value + 1 if abs(n.value) < 100 else n.value * 2
                ),
            )
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield (
                node.test,
                lambda n=node: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test)),
            )
        elif (
            isinstance(node, ast.Return)
            and node.value is not None
            and not isinstance(node.value, ast.Constant)
        ):
            yield node, lambda n=node: setattr(n, "value", ast.Constant(None))


def syntactic_place(tree: ast.Module, line: int) -> tuple[str, str]:
    """Return the function that holds a line, and the statement there as `ast` writes it.

    Neither changes with formatting, comments or code elsewhere in the file, so a mutant
    that was judged once is found again. Of a compound statement (`if`, `for`, `with`,
    `def`) only the first line is taken.

    Examples
    --------
    >>> syntactic_place(ast.parse("def f(x):\\n    return (x\\n      +1)"), 3)
    ('f', 'return x + 1')
    """
    function = "<module>"
    statement: ast.AST = tree
    names: list[str] = []
    node: ast.AST | None = tree
    while node is not None:
        children = ast.iter_child_nodes(node)
        node = next((c for c in children if _spans(c, line)), None)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
            function = ".".join(names)
        if isinstance(node, ast.stmt):
            statement = node
    return function, ast.unparse(statement).split("\n", 1)[0]


def _spans(node: ast.AST, line: int) -> bool:
    """Whether a node is a statement (or a handler of exceptions) that holds the line."""
    if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
        return False
    first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
    last = (
        node.body[-1].end_lineno
        if isinstance(node, ast.match_case)
        else node.end_lineno
    )
    return first <= line <= (last or first)


def forked(work: Callable[[], Any], wall: float) -> Any:
    """What `work` returns in a fork of this process, or None if it fails, crashes or takes too long."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            os.write(write, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    answer = b""
    end = time.monotonic() + wall
    while select.select([read], [], [], max(0.0, end - time.monotonic()))[0] and (
        more := os.read(read, 1 << 16)
    ):
        answer += more
    os.close(read)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and what it may have started
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def passes(item: pytest.Item, cpu: float) -> bool:
    """Whether the test passes; ends the process when so much CPU time is spent."""
    signal.setitimer(signal.ITIMER_PROF, cpu)
    return all(report.passed for report in runtestprotocol(item, log=False))


class Mutants:
    """A pytest plugin: instead of running the collected tests once, runs them against each mutant of some files."""

    def __init__(
        self, jobs: list[tuple[str, int]], sources: dict[str, str], seconds: float
    ) -> None:
        self.jobs, self.sources, self.seconds = jobs, sources, seconds
        self.results: list[tuple[str, int, str, bool]] = []
        self.trusted: set[tuple[str, pytest.Item]] = set()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        started = time.monotonic()
        profile = self._profile(session.items)
        order = sorted(profile, key=lambda item: profile[item][0])
        print(
            f"{len(order)} of {len(session.items)} tests look at the files [{_since(started)}]",
            flush=True,
        )
        for number, (file, site) in enumerate(self.jobs, 1):
            source = self.sources[file]
            lines, change, mutated = mutant(source, site)
            bodies = [range(n.body[0].lineno, n.end_lineno + 1) for n in ast.walk(ast.parse(source))
                      if isinstance(n, ast.FunctionDef)]  # fmt: skip
            inside = any(
                lines.start in body for body in bodies
            )  # else it runs on import: every test may notice
            touching = [item for item in order if file in profile[item][1]]
            tests = [
                t
                for t in touching
                if not inside or not profile[t][1][file].isdisjoint(lines)
            ]
            turn = {t: i for group in _cases(tests) for i, t in enumerate(group)}
            tests.sort(
                key=lambda t: (_mirrored(t.path.stem) != _mirrored(file), turn[t])
            )  # stable: then the quickest
            total = np.cumsum([profile[t][0] for t in tests])
            tests = tests[: int(np.sum(total <= 10 * self.seconds))]
            killed = self._killed(file, mutated, tests, profile)
            self.results.append((file, lines.start, change, killed))
            verdict = (
                "killed" if killed else f"survived {len(tests)} of {len(total)} tests"
            )
            print(
                f"{number}/{len(self.jobs)} [{_since(started)}] {file}:{lines.start}: {change[:150]}: {verdict}",
                flush=True,
            )
        return True

    def _profile(
        self, items: list[pytest.Item]
    ) -> dict[pytest.Item, tuple[float, dict[str, set[int]]]]:
        """(CPU seconds, lines that it executes in each file) of each test that passes by itself within the limit."""
        paths = {str(SOURCE / file): file for file in self.sources}
        SEEN.parent.mkdir(exist_ok=True)
        known = json.loads(SEEN.read_text("utf-8")) if SEEN.exists() else {}
        profile = {}
        for number, item in enumerate(items, 1):
            cpu, lines, digest = known.get(item.nodeid, (None, {}, ""))
            if digest != self._digest(item, lines):
                cpu, lines = forked(
                    lambda item=item: _lines_run(item, paths, self.seconds),
                    20 * self.seconds,
                ) or (
                    None,
                    {},
                )
                known[item.nodeid] = cpu, lines, self._digest(item, lines)
                print(f"\rtest {number} of {len(items)}", end="", flush=True)
            if lines:
                profile[item] = (
                    cpu,
                    {file: set(found) for file, found in lines.items()},
                )
            if number % 50 == 0 or number == len(items):
                SEEN.write_text(json.dumps(known), "utf-8")
        return profile

    def _digest(self, item: pytest.Item, lines: dict[str, list[int]]) -> str:
        """Changes with the test and with the files it executes, or with any of them if it failed or executes none."""
        texts = [
            item.path.read_text("utf-8"),
            *(self.sources.get(file, "") for file in sorted(lines or self.sources)),
        ]
        return hashlib.sha256("".join(texts).encode()).hexdigest()

    def _killed(
        self, file: str, mutated: str, tests: list[pytest.Item], profile: dict
    ) -> bool:
        """Whether a test fails that passes when the code is exchanged for itself."""
        while True:
            first = self._first_failure(file, mutated, tests, profile)
            if first == len(tests) or first is None:
                return first is None
            if (file, tests[first]) not in self.trusted:
                same = ast.unparse(ast.parse(self.sources[file]))
                if self._first_failure(file, same, [tests[first]], profile) != 1:
                    print(
                        f"{tests[first].nodeid} cannot be used for {file}", flush=True
                    )
                    tests = [*tests[:first], *tests[first + 1 :]]
                    continue
                self.trusted.add((file, tests[first]))
            return True

    @staticmethod
    def _first_failure(
        file: str, source: str, tests: list[pytest.Item], profile: dict
    ) -> int | None:
        """The number of the first test that fails, or of all where none does; None where the process hangs or dies."""

        def work() -> int:
            exchange(_module(file), source)
            return next(
                (
                    i
                    for i, item in enumerate(tests)
                    if not passes(item, 2 + 4 * profile[item][0])
                ),
                len(tests),
            )

        found = forked(work, 120 + 40 * sum(profile[t][0] for t in tests))
        return found if found is None else int(found)


def _cases(tests: list[pytest.Item]) -> Collection[list[pytest.Item]]:
    """The cases of each test, which differ in their parameters."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in tests:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    return cases.values()


def _mirrored(name: str) -> str:
    """What a module and the file of its tests have in common: "profiles/products.py", "test_products"."""
    return Path(name).stem.removeprefix("test_").lstrip("_")


def _since(started: float) -> str:
    return f"{time.monotonic() - started:.0f} s"


def _lines_run(
    item: pytest.Item, paths: dict[str, str], cpu: float
) -> tuple[float, dict[str, list[int]]] | None:
    """(CPU seconds, lines of the files that the test executes); None for a test that does not pass by itself.

    A function that is run over and over is not followed further: all its lines are taken to be executed.
    """
    lines: dict[str, set[int]] = {}
    steps: Counter[types.CodeType] = Counter()

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in paths or steps[code] > 3000:
            frame.f_trace_lines = False
            return None
        if event == "line":
            found = lines.setdefault(paths[code.co_filename], set())
            found.add(frame.f_lineno)
            steps[code] += 1
            if steps[code] == 3000:
                found.update(line for *_, line in code.co_lines() if line)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)
    started = time.process_time()
    passed = passes(item, cpu)
    taken = time.process_time() - started
    sys.settrace(None)
    return (
        (taken, {file: sorted(found) for file, found in lines.items()})
        if passed
        else None
    )


def _module(file: str) -> types.ModuleType:
    return importlib.import_module(
        "curvedp." + file.removesuffix(".py").replace("/", ".")
    )


def exchange(module: types.ModuleType, source: str) -> None:
    """Put the code of another version of a module into the functions that it and all others already hold."""
    fresh: dict[str, Any] = {
        "__name__": module.__name__,
        "__package__": module.__package__,
        "__file__": module.__file__,
    }
    registered = dict(Guarantee._registry)
    exec(compile(source, str(module.__file__), "exec"), fresh)
    Guarantee._registry.update(
        registered
    )  # a class made again is not another kind of guarantee
    before = dict(vars(module))
    _into(vars(module), fresh, module.__name__)
    for other in [
        m for name, m in sys.modules.items() if name.startswith("curvedp.")
    ]:  # numbers that others imported
        for name in vars(other).keys() & vars(module).keys():
            if vars(other)[name] is before[name] is not vars(module)[name]:
                setattr(other, name, vars(module)[name])


def _into(old: Any, new: Any, home: str) -> Any:
    """The old object with the new one's code in it; the new one itself where it is plain data."""
    if hasattr(new, "registry") and hasattr(
        old, "registry"
    ):  # single dispatch: each kind has a function of its own
        for kind in new.registry.keys() & old.registry.keys():
            _into(old.registry[kind], new.registry[kind], home)
    for wrapper in ("__wrapped__", "__func__", "fget", "func"):
        if (
            hasattr(new, wrapper)
            and hasattr(old, wrapper)
            and not isinstance(new, functools.partial)
        ):
            if hasattr(old, "cache_clear"):
                old.cache_clear()
            _into(getattr(old, wrapper), getattr(new, wrapper), home)
            return old
    if inspect.isfunction(new) and inspect.isfunction(old):
        names, cells = (
            new.__code__.co_freevars,
            dict(zip(old.__code__.co_freevars, old.__closure__ or (), strict=True)),
        )
        if new.__module__ == home and len(names) == len(cells):
            old.__code__, old.__defaults__, old.__kwdefaults__ = (
                new.__code__,
                new.__defaults__,
                new.__kwdefaults__,
            )
        elif new.__module__ == home and set(names) < set(
            cells
        ):  # a mutant that lost its super()
            return types.FunctionType(
                new.__code__,
                old.__globals__,
                new.__name__,
                new.__defaults__,
                tuple(cells[n] for n in names),
            )
    elif inspect.isclass(new) and inspect.isclass(old):
        if new.__module__ == home:
            for name in set(vars(new)) & set(vars(old)) - {
                "__dict__",
                "__weakref__",
                "__doc__",
                "__slots__",
            }:
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


def main(
    count: int = 200, seed: int = 0, only: str = "", seconds: float = 8.0, *tests: str
) -> int:
    started = time.monotonic()
    files = {
        str(path.relative_to(SOURCE)): group
        for group, glob in GROUPS.items()
        for path in sorted(SOURCE.glob(glob))
    }
    sources = {file: (SOURCE / file).read_text("utf-8") for file in files}
    pool = [(file, site) for file, text in sources.items() if re.search(only, file)
            for site, _ in enumerate(_sites(ast.parse(text)))]  # fmt: skip
    chosen = [
        pool[index]
        for index in np.random.default_rng(seed).permutation(len(pool))[:count]
    ]
    for (
        file
    ) in sources:  # before pytest finds them by their path and makes a second copy
        _module(file)
    print(
        f"{len(pool)} mutants in {len({file for file, _ in pool})} files; a sample of {len(chosen)}, seed {seed}",
        flush=True,
    )
    plugin = Mutants(chosen, sources, seconds)
    options = [
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-k",
        "not process and not fork",
    ]
    pytest.main(
        [
            *options,
            *sorted({str(SOURCE / file) for file, _ in chosen}),
            *(tests or TESTS),
        ],
        plugins=[plugin],
    )
    sizes = Counter(files[file] for file, _ in pool)
    reasons = {
        (file, function, statement, change): reason
        for file, function, statement, change, reason in _explained()
    }
    rows = []
    for file, line, change, killed in sorted(plugin.results):
        place = syntactic_place(ast.parse(sources[file]), line)
        rows.append(
            (
                file,
                line,
                change,
                killed,
                "" if killed else reasons.get((file, *place, change)),
            )
        )
    print(
        f"\n{'files':12} {'mutants':>8} {'killed':>7} {'of':>5} {'share':>7}  95% interval    equivalent  share without"
    )
    for group in (*(group for group in GROUPS if sizes[group]), "in all"):
        found = [row for row in rows if group in (files[row[0]], "in all")]
        killed, total, same = (
            sum(row[3] for row in found),
            len(found),
            sum(bool(row[4]) for row in found),
        )
        if total:
            low, high = stats.binomtest(killed, total).proportion_ci(method="exact")
            share = (
                f"{killed:7} {total:5} {killed / total:7.1%}  {low:.1%} to {high:.1%}"
            )
            print(
                f"{group:12} {sizes.get(group, len(pool)):8} {share} {same:10} {killed / max(total - same, 1):11.1%}"
            )
    print(f"survivors, after {_since(started)}:")
    for file, line, change, killed, reason in rows:
        if not killed:
            print(f"  {file}:{line}: {change}{f'  ({reason})' if reason else ''}")
    return int(sum(row[3] for row in rows) < 0.85 * sum(not row[4] for row in rows))


def _explained() -> Iterator[list[str]]:
    """(file, function, statement, change, reason) of each mutant known to change nothing."""
    for line in EQUIVALENT.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [part.strip() for part in line.split("\t")]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        main(
            *(int(a) for a in arguments[:2]),
            *arguments[2:3],
            *(float(a) for a in arguments[3:4]),
            *arguments[4:],
        )
    )
