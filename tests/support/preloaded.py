"""Server processes that need not import the product again: each is forked from a process that has done so.

Most of a server's start is the start of Python and its imports, and the suites start hundreds of servers. So
each test process has a child, `preloading.py`, that imports all of it once, waits, and forks for each server
that is asked for. What runs in a fork is what `python -m` runs: the same arguments, environment, files and
signals, a session of its own, and a life that SIGKILL ends.

`start_python` returns what tests use of a `subprocess.Popen`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FROM_THE_START = ("PYTHON", "LD_", "CLOCK_")
"""Variables of these names are read when Python starts: too late for a fork."""
_COMPILED = str(Path(__file__).parent / "compiled")
"""In the path of tests on Spark; it makes starts cheaper and nothing else."""


def _from_the_start(env: Mapping[str, str]) -> dict[str, str]:
    read = {name: value for name, value in env.items() if name.startswith(_FROM_THE_START)}
    path = [one for one in read.pop("PYTHONPATH", "").split(os.pathsep) if one not in ("", _COMPILED)]
    return read | ({"PYTHONPATH": os.pathsep.join(path)} if path else {})


_OWN = _from_the_start(os.environ)
"""Before any test has changed it for a while."""


class ForkedProcess:
    """A process whose parent is the preloading one, which says how it ended. For any thread."""

    def __init__(self, args: Sequence[str], pid: int, ended: int) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        self._look(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left < 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._look(left)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _look(self, within_s: float | None) -> None:
        if self.returncode is not None:
            return
        if not select.select([self._ended], [], [], 0.1 if within_s is None else min(within_s, 0.1))[0]:
            return
        with self._reading:
            if self.returncode is None:
                said = os.read(self._ended, 100)
                assert said, "the preloading process is gone"
                self.returncode = int(said)

    def __del__(self) -> None:
        os.close(self._ended)


class Preloading:
    """The process that has imported everything. It ends, and all its children, with this one."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.preloading", str(theirs.fileno())],
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | _OWN,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self.close)

    def start(
        self, module: str, args: Sequence[str], *, env: Mapping[str, str], folder: Path, out: int, err: int
    ) -> ForkedProcess:
        ended, told = os.pipe()
        asked = {"module": module, "args": list(args), "env": dict(env), "folder": str(folder)}
        try:
            with self._asking:
                socket.send_fds(self._socket, [json.dumps(asked).encode()], [out, err, told])
                pid = int(self._socket.recv(100))
        finally:
            os.close(told)
        return ForkedProcess([module, *args], pid, ended)

    def close(self) -> None:
        with self._socket:
            self._socket.shutdown(socket.SHUT_RDWR)  # Its end, whoever else has inherited the socket.
        self._process.wait()


@cache
def _preloading(pid: int) -> Preloading:
    return Preloading()


def start_python(
    module: str, args: Sequence[str], *, env: Mapping[str, str], folder: Path, out: int, err: int
) -> ForkedProcess | subprocess.Popen[bytes]:
    """`python -m module args`, one of `preloading.MAINS`, in this folder and with these stdout and stderr.

    A new interpreter where the environment changes how Python starts, as a shifted clock does.
    """
    if _from_the_start(env) == _OWN:
        return _preloading(os.getpid()).start(module, args, env=env, folder=folder, out=out, err=err)
    return subprocess.Popen(
        [sys.executable, "-m", module, *args],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )
