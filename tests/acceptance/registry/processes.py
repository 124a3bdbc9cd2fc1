"""Starting and killing worker processes.

They are forked, because a fresh interpreter costs a second of imports each. A child opens a database of its
own and never touches what it inherits; it ends without running the parent's exit handlers.
"""

import multiprocessing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from driftq.registry import Effect
from tests.acceptance.registry.conftest import Site
from tests.acceptance.registry.worker_process import work

PATIENCE_S = 60
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Running:
    process: BaseProcess
    line: Connection

    def hear(self) -> str:
        """The next thing it says."""
        assert self.line.poll(PATIENCE_S), "the worker is silent"
        return str(self.line.recv())

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.join()
        self.line.close()

    def finish(self) -> list[str]:
        """Everything it says until it ends."""
        said = [self.hear()]
        while said[-1] != "finished":
            said.append(self.hear())
        self.process.join(PATIENCE_S)
        self.line.close()
        return said


def start(site: Site, effect: Effect, *, stop_at: str = "never", events: int = 1) -> Running:
    ours, theirs = _fork.Pipe()
    told = {"url": site.url, "schema": site.schema, "folder": site.folder}
    process = _fork.Process(
        target=work, args=(theirs,), kwargs=told | {"effect": effect, "stop_at": stop_at, "events": events}
    )
    process.start()
    theirs.close()
    return Running(process, ours)


def kill_at(site: Site, effect: Effect, step: str) -> None:
    """Run a worker up to this step and kill it there."""
    running = start(site, effect, stop_at=step)
    assert running.hear() == f"at {step}"
    running.kill()


def run(site: Site, effect: Effect, *, events: int = 1) -> list[str]:
    """Run a worker to its end and return what it said."""
    return start(site, effect, events=events).finish()
