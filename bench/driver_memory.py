"""The memory of Spark's driver while a projection writes ten thousand aggregates, and a million.

Tasks fold and write the rows, so the driver should not notice how many there are. It is a process of its own
here, and so are the executors: with `local-cluster` the driver's Java does nothing but drive. The figures are
the peak of the driver's Python, and what its Java holds after a garbage collection.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from bench.harness.figure import Figure, at_most
from bench.projection import Services, fill, open_services

AGGREGATES = (10_000, 1_000_000)
GROWTH_MAX = 1.1
MASTER = "local-cluster[1,2,1024]"
DRIVER_MEMORY = "512m"


@dataclass(frozen=True, slots=True)
class DriverRun:
    """What a driver is told."""

    url: str
    data: str
    postgres: str
    name: str


@dataclass(frozen=True, slots=True)
class DriverPeak:
    """What a driver has used, in bytes."""

    python: int
    java: int
    rows: int


def driver_memory(most: int = AGGREGATES[-1]) -> list[Figure]:
    """One batch of each size, in a driver of its own."""
    sizes = (min(AGGREGATES[0], most), most)
    with open_services() as services:
        peaks = [_measure(services, aggregates) for aggregates in sizes]
    few, many = peaks
    grown = many.python / few.python
    figures = [
        Figure(f"driver of a projection, one batch of {size:,} aggregates: {part}", octets / 2**20, "MiB")
        for size, peak in zip(sizes, peaks, strict=True)
        for part, octets in (("Python", peak.python), ("Java", peak.java))
    ]
    java = many.java / few.java
    return [
        *figures,
        Figure("… its Python grows by", grown, "×", at_most(GROWTH_MAX)),
        Figure("… its Java grows by", java, "×", at_most(GROWTH_MAX)),
    ]


def _measure(services: Services, aggregates: int) -> DriverPeak:
    name = f"driver_{aggregates}"
    fill(services, f"events.{name}", aggregates, aggregates=aggregates)
    told = DriverRun(services.url, str(services.place / "data"), services.postgres, name)
    command = [sys.executable, "-m", "bench.driver_memory", json.dumps(asdict(told))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(ran.stderr[-4000:])
    peak = DriverPeak(**json.loads(ran.stdout.splitlines()[-1]))
    assert peak.rows == aggregates
    return peak


def drive(told: DriverRun) -> DriverPeak:
    """Run one projection to its end, and look at what that took."""
    from driftq.pipeline import Projection, open_session
    from driftq.settings import load_settings
    from driftq.sinks import PostgresSink

    options = load_settings().pipeline(url=told.url, data=told.data)
    spark = open_session(options, master=MASTER, conf={"spark.driver.memory": DRIVER_MEMORY})
    sink = PostgresSink(told.postgres)
    projection = Projection(told.name, topic=f"events.{told.name}", sink=sink)
    projection.run(spark, options=options, once=True)
    python = _peak(psutil.Process().pid)
    spark._jvm.System.gc()  # type: ignore[union-attr]
    runtime = spark._jvm.Runtime.getRuntime()  # type: ignore[union-attr]
    java = runtime.totalMemory() - runtime.freeMemory()
    spark.stop()
    model = sink.connect(told.name)
    rows = sum(1 for _ in model.registry())
    model.close()
    return DriverPeak(python, java, rows)


def _peak(pid: int) -> int:
    """The most memory that a process has had, as the kernel counts it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kibibytes = next(line for line in lines if line.startswith("VmHWM")).split()[1]
    return int(kibibytes) * 1024


def main(arguments: Sequence[str]) -> None:
    print(json.dumps(asdict(drive(DriverRun(**json.loads(arguments[0]))))))


if __name__ == "__main__":
    main(sys.argv[1:])
