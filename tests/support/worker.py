"""The worker that recomputes certificates, run in the process of the tests.

`curvedp verify` starts a process for each certificate, which imports the library anew:
more than a second, of which most tests learn nothing. `answer_here` takes its place. All
that `curvedp.verification` and `curvedp.verify_worker` do is still done, but for the
process and its limits, which the tests marked `starts_workers` are about.

`ForkedWorkers` is for many certificates that need the limits: each has a process, which
limits itself, but is the copy of one that has imported the library.
"""

import io
import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from curvedp import verification, verify_worker

WORKER = [sys.executable, "-P", "-m", "curvedp.verify_worker"]


def answer_here(command, **options):
    """Answer a question as the worker does; start a process for any other command."""
    if command != WORKER:
        return subprocess.run(command, **options)
    reply = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        streams = SimpleNamespace(stdin=io.StringIO(options["input"]), stdout=reply)
        patch.setattr(verify_worker, "sys", streams)
        patch.setattr(verify_worker, "limit_process", lambda seconds: None)
        verify_worker.answer(verify_worker.OPERATIONS)
    return subprocess.CompletedProcess(command, 0, stdout=reply.getvalue())


def use_this_process(monkeypatch):
    """Let `curvedp.verification` start no worker."""
    _run_workers_by(monkeypatch, answer_here)


def _run_workers_by(monkeypatch, run):
    """Let `curvedp.verification` call this instead of `subprocess.run`."""
    stand_in = SimpleNamespace(
        run=run,
        PIPE=subprocess.PIPE,
        DEVNULL=subprocess.DEVNULL,
        TimeoutExpired=subprocess.TimeoutExpired,
    )
    monkeypatch.setattr(verification, "subprocess", stand_in)


# Answers every question in a copy of itself, and prints how the copy ended and how many
# seconds it computed.
FORKING = """
import json, os, sys
from curvedp import verify_worker

for line in sys.stdin:
    question, answer = json.loads(line)
    copy = os.fork()
    if copy == 0:
        try:
            sys.stdin, sys.stdout = open(question), open(answer, "w")
            verify_worker.answer(verify_worker.OPERATIONS)
            sys.stdout.close()
            os._exit(0)
        finally:
            os._exit(1)
    _, status, usage = os.wait4(copy, 0)
    ended = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    print(json.dumps(ended), flush=True)
"""


class ForkedWorkers:
    """Stand in for `subprocess.run`; workers are forks of one process.

    Attributes
    ----------
    cpu_seconds : float
        How long all workers have computed so far.
    """

    def __init__(self, process: subprocess.Popen, folder: Path) -> None:
        self.cpu_seconds = 0.0
        self._process = process
        self._question, self._answer = folder / "question", folder / "answer"

    def run(self, command, **options):
        """Answer a question as a worker does; start a process for any other command."""
        if command != WORKER:
            return subprocess.run(command, **options)
        self._question.write_text(options["input"], encoding="utf-8")
        self._answer.write_text("")
        paths = [str(self._question), str(self._answer)]
        self._process.stdin.write(json.dumps(paths) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], options["timeout"])[0]:
            self._process.kill()
            raise subprocess.TimeoutExpired(command, options["timeout"])
        returncode, seconds = json.loads(self._process.stdout.readline())
        self.cpu_seconds += seconds
        answer = self._answer.read_text(encoding="utf-8")
        return subprocess.CompletedProcess(command, returncode, stdout=answer)


@contextmanager
def forked_workers(monkeypatch, folder: Path) -> Iterator[ForkedWorkers]:
    """Let `curvedp.verification` use forks of one process, which end with the block."""
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", FORKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        workers = ForkedWorkers(process, folder)
        _run_workers_by(monkeypatch, workers.run)
        yield workers
        process.stdin.close()
