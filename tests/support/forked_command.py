"""The command `curvedp` for tests whose subject is not how its process starts.

A process imports the library for more than a second before it does anything. Here
`curvedp` is a small script that asks a server to run the command: a process that has
imported the library, and forks for each command. The fork has the streams, the working
folder, the environment and the arguments of the script, runs what the installed command
runs, and the script ends with its exit status. Certificates are recomputed in forks too,
which limit themselves as the worker does. Before a fork JAX is not imported, and no noise
is drawn.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

INSTALLED = Path(sys.executable).with_name("curvedp")

# Imported before any fork: what most commands need, none of which starts a thread.
MODULES = """
import functools, io
from contextlib import redirect_stderr, suppress
import typer.main
import matplotlib.backends.backend_agg, matplotlib.backends.backend_pdf
import matplotlib.backends.backend_svg, matplotlib.figure, matplotlib.pyplot
import scipy.linalg, scipy.optimize, scipy.spatial, scipy.stats
import curvedp.cli
from curvedp import estimators, inference, mechanisms, neuro, planning
from curvedp import release, report, statistics
for package in (estimators, inference, mechanisms, neuro, planning):
    for name in package.__all__:
        getattr(package, name)
# The commands are made once; one that fails at once imports what all of them need.
typer.main.get_command = functools.cache(typer.main.get_command)
with redirect_stderr(io.StringIO()), suppress(SystemExit):
    curvedp.cli.app(["ledger", "show", "no such file"])
"""

# Accepts connections until its standard input is closed. For each it forks a process that
# sends the exit status of another, in which the command runs. That one ends as a program
# does, but for the release of its memory, which it would have to copy first.
SERVER = """
import atexit, gc, json, os, select, socket, subprocess, sys, tempfile, threading
import traceback
from types import SimpleNamespace
{modules}
from curvedp import verification, verify_worker
from curvedp.__main__ import main



def run(command, **options):
    "Fork for a question about a certificate; start a process for any other command."
    if command != [sys.executable, "-P", "-m", "curvedp.verify_worker"]:
        return subprocess.run(command, **options)
    with tempfile.TemporaryFile("w+") as question, tempfile.TemporaryFile("w+") as answer:
        question.write(options["input"])
        question.seek(0)
        if not (worker := os.fork()):
            try:
                sys.stdin, sys.stdout = question, answer
                verify_worker.answer(verify_worker.OPERATIONS)
                answer.flush()
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        answer.seek(0)
        return subprocess.CompletedProcess(command, status, stdout=answer.read())


gc.freeze()
assert threading.active_count() == 1
assert "jax" not in sys.modules
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
while True:
    ready, _, _ = select.select([listener, sys.stdin], [], [])
    if sys.stdin in ready:
        sys.exit()
    connection, _ = listener.accept()
    if os.fork():
        connection.close()
        while True:
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if ended == 0:
                break
        continue
    listener.close()
    question, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while more := connection.recv(1 << 16):
        question += more
    if command := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        connection.sendall(str(status).encode())
        os._exit(0)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    break

question = json.loads(question)
os.chdir(question["folder"])
os.environ.clear()
os.environ.update(question["environment"])
sys.argv[:] = question["arguments"]
search_path = question["environment"].get("PYTHONPATH", "").split(os.pathsep)
sys.path[:0] = [path for path in search_path if path and path not in sys.path]
verification.subprocess = SimpleNamespace(**vars(subprocess))
verification.subprocess.run = run
status = 0
try:
    main()
except SystemExit as end:
    status = end.code or 0
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
except BaseException:
    traceback.print_exc()
    status = 1
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
os._exit(status)
"""

# As quick to start as Python can be. The first time it is the installed command.
SCRIPT = """#!{python} -IS
import json, os, socket, sys
try:
    os.close(os.open({fresh!r}, os.O_CREAT | os.O_EXCL))
    os.execv({installed!r}, [{installed!r}, *sys.argv[1:]])
except FileExistsError:
    pass
question = {{
    "folder": os.getcwd(),
    "environment": dict(os.environ),
    "arguments": [{installed!r}, *sys.argv[1:]],
}}
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [json.dumps(question).encode()], [0, 1, 2])
server.shutdown(socket.SHUT_WR)
status = int(server.recv(16) or b"70")
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@contextmanager
def curvedp_on_path(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield a folder with the script `curvedp`; its server ends with the block.

    Parameters
    ----------
    environment : mapping
        What is read while the library is imported, such as COLUMNS; a command has the
        environment of the script.
    """
    with tempfile.TemporaryDirectory() as short_name:  # a socket's name must be short
        folder = Path(short_name)
        names = {
            "python": sys.executable,
            "installed": str(INSTALLED),
            "fresh": str(folder / "fresh"),
            "address": str(folder / "server"),
        }
        script = folder / "bin" / "curvedp"
        script.parent.mkdir()
        script.write_text(SCRIPT.format(**names))
        script.chmod(0o755)
        code = SERVER.replace("{modules}", MODULES)
        with subprocess.Popen(
            [sys.executable, "-P", "-c", code, names["address"]],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout.readline() == "ready\n"
            yield script.parent
            server.stdin.close()
