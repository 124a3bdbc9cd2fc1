"""A driver whose projection writes to Delta and stops at a point: `python mortal_delta.py JSON`.

It says so with a file and waits there to be killed.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driftq.pipeline import DeltaSink, Projection, open_session
from driftq.settings import load_settings
from driftq.sinks.delta.model import DeltaReadModel
from driftq.sinks.delta.tables import ExactTable

POINTS = ("before write", "before offset commit", "after write")
NAME = "lamps"


def main() -> None:
    told = json.loads(sys.argv[1])
    options = load_settings().pipeline(url=told["url"], data=told["data"])
    wait_at = {
        "before write": lambda: _before(DeltaReadModel, "apply", told["mark"]),
        # The notes are written by then; rows and positions are one commit.
        "before offset commit": lambda: _before(ExactTable, "merge", told["mark"], rows_only=True),
        "after write": lambda: _after(DeltaReadModel, "apply", told["mark"]),
    }
    wait_at.get(told["point"], lambda: None)()
    projection = Projection(
        NAME,
        topic=told["topic"],
        sink=DeltaSink(told["delta"]),
        batch_messages_max=told["batch_messages_max"],
    )
    projection.run(open_session(options, master="local[2]"), options=options, once=True)


def _before(owner: type, method: str, mark: str, *, rows_only: bool = False) -> None:
    original: Callable[..., Any] = getattr(owner, method)

    def stopping(self: Any, *arguments: Any, **named: Any) -> Any:
        if not rows_only or named.get("numbers"):
            _wait(mark)
        return original(self, *arguments, **named)

    setattr(owner, method, stopping)


def _after(owner: type, method: str, mark: str) -> None:
    original: Callable[..., Any] = getattr(owner, method)

    def stopping(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        _wait(mark)

    setattr(owner, method, stopping)


def _wait(mark: str) -> None:
    Path(mark).write_text("here")
    threading.Event().wait()


if __name__ == "__main__":
    main()
