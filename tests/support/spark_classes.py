"""Java that starts soon, for tests whose Spark drivers live for seconds.

Most of such a driver's time goes into loading Spark's classes, the same ones each time, and into making their
code faster than it needs to be. So the classes are kept in an archive that Java maps into memory, and the
code is compiled once and plainly. The archive is made by a driver that does a little of everything, and is
kept in the build folder under a name that says which Java and which Spark it is of. Java itself looks whether
it fits, and does without where it does not.

`python -m tests.support.spark_classes` is the driver.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from driftq.pipeline.runtime.processes import end_session
from driftq.pipeline.spark.java import JAVA_MIN, Java, find_means

ROOT = Path(__file__).parents[2]
OPTIONS = "SPARK_SUBMIT_OPTS"
"""Spark's own variable: options for the Java of a driver."""
_COMPILED = Path(__file__).parent / "compiled"
_PLAINLY = "-XX:TieredStopAtLevel=1"
_SILENTLY = "-Xlog:disable -Xlog:all=error:stderr"
_MADE_WITHIN_S = 240
_EVENTS = 20


@cache
def start_spark_soon(*, make: bool = True) -> None:
    """From here on, the drivers of this process and of those that it starts find their classes at once.

    An archive that is not there is made, or else done without. Their Python processes find what they need
    compiled, see `compiled/sitecustomize.py`.
    """
    paths = [str(_COMPILED), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    java = find_means().java
    if java is None or java.release < JAVA_MIN or OPTIONS in os.environ:
        return  # There is nothing to start, or it is said already how.
    archive = ROOT / "build" / f"spark-classes-{_of_what(java)}.jsa"
    if make and not archive.exists():
        _make(archive)
    os.environ[OPTIONS] = f"{_PLAINLY} {_SILENTLY} -XX:SharedArchiveFile={archive}"


def _of_what(java: Java) -> str:
    import pyspark

    said = subprocess.run([java.path, "-version"], capture_output=True, check=True).stderr
    spark = f"{pyspark.__version__} {pyspark.__file__}"
    return hashlib.sha256(said + spark.encode()).hexdigest()[:12]


def _make(archive: Path) -> None:
    """One process makes it and the others wait; one that fails leaves none behind."""
    archive.parent.mkdir(exist_ok=True)
    with (
        archive.with_suffix(".lock").open("w") as lock,
        tempfile.TemporaryDirectory(dir=archive.parent) as folder,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        made = Path(folder, "classes.jsa")
        options = f"{_PLAINLY} {_SILENTLY} -XX:ArchiveClassesAtExit={made}"
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_classes", folder],
            cwd=ROOT,
            env=os.environ | {OPTIONS: options},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            if driver.wait(_MADE_WITHIN_S) == 0:
                made.replace(archive)
        except (subprocess.TimeoutExpired, FileNotFoundError):
            pass  # Then they start as slowly as they do elsewhere.
        finally:
            end_session(driver.pid)
            driver.wait()


def main(folder: Path) -> None:
    """Publish a few events, project them, and let Java come to its end."""
    from pyspark import SparkContext

    from driftq.pipeline import Projection, open_session
    from driftq.pipeline.publisher.job import Publisher
    from driftq.settings import load_settings
    from driftq.sinks import SqliteSink
    from tests.harness import ServerProcess

    with ServerProcess(folder / "data") as server:
        url = f"http://127.0.0.1:{server.port}"
        options = load_settings(environ={}).pipeline(url=url, data=str(server.data))
        assert server.client().post("/v1/events", [_event(nth) for nth in range(_EVENTS)]).status < 300
        spark = open_session(options, master="local[2]")
        Publisher(options).start(spark, once=True).awaitTermination()
        projection = Projection("some", topic="events.order", sinks=[SqliteSink(f"{folder}/rows.db")])
        projection.run(spark, options=options, once=True)
        spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()  # What Java waits for, to end.
    gateway.proc.wait()


def _event(nth: int) -> dict[str, Any]:
    return {
        "event_id": f"e{nth}",
        "aggregate_type": "order",
        "aggregate_id": f"a{nth % 3}",
        "event_type": "Changed",
        "kind": "event",
        "operation": "append",
        "payload": {"n": nth},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
