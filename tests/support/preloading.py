"""The process that servers are forked from, see preloaded.py: `python -m tests.support.preloading FD`.

It has one thread, so that a fork has all there is. On the socket FD come requests, each with the files of one
server, and pids go back. How a child ended goes into the pipe that came with its request.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import driftq.cli.app
import driftq.cli.serving
import driftq.server.broker
from tests.contract import launcher

Main = Callable[[], object]

MAINS: Mapping[str, Main] = {"driftq": driftq.cli.main, "tests.contract.launcher": launcher.main}


class Children:
    """Those that run, each with the pipe for its end."""

    def __init__(self) -> None:
        self._told: dict[int, int] = {}

    def reap(self) -> None:
        while self._told:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            told = self._told.pop(pid)
            with suppress(BrokenPipeError):
                os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(told)

    def add(self, pid: int, told: int) -> None:
        self._told[pid] = told

    def forget(self) -> None:
        """In a child: the others are not its own."""
        for told in self._told.values():
            os.close(told)
        self._told.clear()

    def kill(self) -> None:
        for pid in self._told:
            os.kill(pid, signal.SIGKILL)


def serve(requests: socket.socket) -> Main | None:
    """Fork as asked until the other side is gone. Returns in a child too, with what it has to do."""
    children = Children()
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            with suppress(BlockingIOError):
                os.read(woken, 4096)
            children.reap()
        if requests.fileno() not in ready:
            continue
        content, files, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not content:
            children.kill()
            return None
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            children.forget()
            for file in (woken, wake, requests.detach()):
                os.close(file)
            return become(json.loads(content), files)
        children.add(pid, files[2])
        for file in files[:2]:
            os.close(file)
        requests.send(str(pid).encode())


def become(asked: dict[str, Any], files: Sequence[int]) -> Main:
    """Be the process that was asked for, up to its main function."""
    os.setsid()
    out, err, told = files
    for file, number in ((out, 1), (err, 2)):
        os.dup2(file, number)
    for file in (out, err, told):
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[0] = asked["folder"]  # As `python -m` has it.
    sys.argv = [asked["module"], *asked["args"]]
    return MAINS[asked["module"]]


if __name__ == "__main__":
    main = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main() if main else 0)  # type: ignore[arg-type]
