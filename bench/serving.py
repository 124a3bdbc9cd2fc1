"""`python -m bench.serving OPTIONS`: a server with options that the command line does not offer."""

import json
import os
import sys

import uvloop

from driftq.http.wire.edge import HttpOptions
from driftq.http.wire.server import run
from driftq.log.disk import OsFolder
from driftq.server.broker import BrokerOptions


def main() -> int:
    given = json.loads(sys.argv[1])
    data = given.pop("data")
    options = BrokerOptions(
        **given, tables=os.path.join(data, "tables"), history=os.path.join(data, "history.db")
    )
    work = run(
        options,
        OsFolder(os.path.join(data, "log")),
        "127.0.0.1",
        0,
        HttpOptions(version="bench", commit="bench"),
        ready=lambda server: print(server.port, flush=True),
    )
    return uvloop.run(work)


if __name__ == "__main__":
    raise SystemExit(main())
