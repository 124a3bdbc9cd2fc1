"""The whole story in two minutes, on nothing but one folder: run it with `make demo`.

First the broker: a server is killed under load. Then the pipeline: events go from the event store through a
topic to a worker and a read model on Spark, and both Spark and the server are killed on the way. Each part
ends with a table that was counted from outside. Without Java the second part is left out.

The exit code is 0 only if, in all that was run, nothing was lost or doubled; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from driftq.errors import SparkUnusable
from driftq.pipeline.spark.java import require_spark
from examples.demo.broker import tell_broker_story
from examples.demo.screen import chapter, say, tell
from examples.demo.server import Server
from examples.demo.stopping import Stopped, listen

NEXT = (
    ("make serve", "run a server yourself, then follow docs/tutorials/quickstart.md"),
    (".venv/bin/driftq --help", "see every command, each with examples"),
    ("examples/", "read small programs to start from; the demo itself is examples/demo/"),
)


def main() -> int:
    listen()
    try:
        with tempfile.TemporaryDirectory(prefix="driftq-demo-", ignore_cleanup_errors=True) as made:
            return _run(Path(made))
    except Stopped as stopped:
        say("\nStopped before the end: all processes of the demo are ended, its folder is removed.")
        return stopped.exit_code


def _run(folder: Path) -> int:
    missing = _missing_for_spark()
    length = "one to two minutes" if missing is None else "a few seconds"
    say(f"This takes {length} on a quiet machine. Everything happens in {folder}; Ctrl-C ends it.")
    server = Server(folder)
    try:
        server.start()
        chapter("Part 1: the broker is killed")
        sound = tell_broker_story(server)
        chapter("Part 2: the pipeline on Spark is killed")
        if missing is not None:
            tell(f"[yellow]left out[/yellow]: {missing}")
        else:
            from examples.demo.pipeline import tell_pipeline_story

            sound = tell_pipeline_story(server) and sound
    finally:
        server.kill()
    _close(sound=sound, whole=missing is None)
    return 0 if sound else 1


def _missing_for_spark() -> SparkUnusable | None:
    try:
        require_spark()
    except SparkUnusable as missing:
        return missing
    return None


def _close(*, sound: bool, whole: bool) -> None:
    say()
    if not sound:
        say("[red]Something was lost or doubled. That is a bug: please report these tables.[/red]")
        return
    kills = "three times" if whole else "once"
    say(f"[green]Killed {kills}, and every event had its effect exactly once.[/green]")
    if not whole:
        say("The pipeline was left out. With Java 17 installed, [b]make demo[/b] shows that part too.")
    for number, (command, what) in enumerate(NEXT):
        say(f"{'next:' if number == 0 else '     '} [b]{command}[/b]  {what}")


if __name__ == "__main__":
    sys.exit(main())
