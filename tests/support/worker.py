"""The worker that recomputes certificates, run in the process of the tests.

`curvedp verify` starts a process for each certificate, which imports the library anew:
more than a second, of which most tests learn nothing. `answer_here` takes its place. All
that `curvedp.verification` and `curvedp.verify_worker` do is still done, but for the
process and its limits, which the tests marked `starts_workers` are about.
"""

import io
import subprocess
import sys
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
    stand_in = SimpleNamespace(
        run=answer_here,
        PIPE=subprocess.PIPE,
        DEVNULL=subprocess.DEVNULL,
        TimeoutExpired=subprocess.TimeoutExpired,
    )
    monkeypatch.setattr(verification, "subprocess", stand_in)
