"""The whole story in two minutes, on nothing but one folder: run it with `make demo`.

First the broker: a server is killed under load. Then the pipeline: events go from the event store through a
topic to a worker and a read model on Spark, and both Spark and the server are killed on the way. Each part
ends with a table that was counted from outside; the exit code is 0 only if nothing was lost or doubled.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from driftq.errors import SparkUnusable
from driftq.pipeline.java import require_spark
from examples.demo.broker import tell_broker_story
from examples.demo.pipeline import tell_pipeline_story
from examples.demo.screen import chapter, console, tell
from examples.demo.server import Server


def main() -> int:
    try:
        require_spark()
    except SparkUnusable as missing:
        console.print(f"the demo's second part runs on Spark: {missing}", soft_wrap=True)
        return 1
    with tempfile.TemporaryDirectory(prefix="driftq-demo-", ignore_cleanup_errors=True) as made:
        server = Server(Path(made))
        try:
            chapter("A broker that is killed")
            tell(f"a server listens on {server.url}, its folder is {server.folder}")
            sound = tell_broker_story(server)
            chapter("A pipeline that is killed")
            return 0 if tell_pipeline_story(server) and sound else 1
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
