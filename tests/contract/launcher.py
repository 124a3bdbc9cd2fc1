"""Runs one server for the contract tests: one JSON argument says which, one line of output says on what port.

`{"folder": PATH or null, "port": 0, "limits": {…}, "http": {…}, "router": "module:attr", "fsync": "always",
"history": PATH or null, "segment_records": 100000}`
 "events": {…}}`
"""

import importlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

import uvloop

from driftq.http.wire.edge import HttpOptions
from driftq.http.wire.server import HttpServer, run
from driftq.log.disk import OsFolder
from driftq.log.log import SEGMENT_RECORDS
from driftq.log.memory import MemoryFolder
from driftq.model.options.events import EventOptions
from driftq.model.options.limits import Limits
from driftq.server.broker import BrokerOptions
from driftq.server.io_threads import Fsync


def _find(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _ready(server: HttpServer) -> None:
    print(server.port, flush=True)


def main() -> int:
    asked = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    path = asked.get("folder")
    router = asked.get("router")
    events = EventOptions(**asked.get("events", {}))
    options = BrokerOptions(
        limits=Limits(**asked.get("limits", {})),
        fsync=Fsync(asked.get("fsync", "always")),
        durable=path is not None,
        router=_find(router) if router else None,
        history=asked.get("history"),
        segment_records=asked.get("segment_records", SEGMENT_RECORDS),
        router_timeout_ms=asked.get("router_timeout_ms", 1000),
        pipelines=str(Path(path).parent / "pipelines.json") if path is not None else None,
        events=events.within(str(Path(path).parent.absolute())) if path is not None else events.in_memory(),
    )
    folder = OsFolder(path) if path is not None else MemoryFolder()
    http = HttpOptions(**asked.get("http", {}))
    return uvloop.run(run(options, folder, "127.0.0.1", asked.get("port", 0), http, ready=_ready))


if __name__ == "__main__":
    sys.exit(main())
