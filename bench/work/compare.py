"""Two versions of the server, run by turns through every scenario."""

import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.work.meter import Meter, best_meter
from bench.work.scenarios import SCENARIOS, Calls, Run
from bench.work.source import ROOT, source_of

RATIO_MAX = 1.03
"""Beside the recorded version a change may cost so much; more needs a reason, and a new record."""
RECORDED_MAX = 1.10
"""Beside the recorded figures, which other libraries move a little as well."""
_RECORD = Path(__file__).with_name("record.json")
_STOP_WITHIN_S = 30


class Record(msgspec.Struct):
    """The version to compare with, and what its work was."""

    revision: str
    python: str = ""
    figures: "list[Counted]" = []

    def work_of(self, name: str, unit: str) -> float | None:
        """The recorded figure; None where another Python or another meter had another one."""
        if self.python != platform.python_version():
            return None
        return next((one.now for one in self.figures if (one.name, one.unit) == (name, unit)), None)


class Counted(msgspec.Struct, frozen=True):
    """Work for one operation, before and now."""

    name: str
    unit: str
    before: float
    now: float
    ratio: float
    """The median over all pairs of runs."""

    def faults(self, record: Record) -> list[str]:
        """What speaks against this figure; nothing in most cases."""
        found = []
        if self.ratio > RATIO_MAX:
            found.append(f"{self.name}: {self.ratio:.3f} times {record.revision[:10]}, at most {RATIO_MAX}")
        work = record.work_of(self.name, self.unit)
        if work is not None and self.now > RECORDED_MAX * work:
            found.append(f"{self.name}: {self.now:,.0f} {self.unit}, recorded {work:,.0f}")
        return found


@dataclass(frozen=True, slots=True)
class Subject:
    """A server of one version that is being measured."""

    pid: int
    calls: Calls
    folder: Path
    meter: Meter

    def count(self, name: str) -> float:
        return self.count_run(*SCENARIOS[name])

    def count_run(self, run: Run, operations: int) -> float:
        operations *= self.meter.scale
        self.meter.reset(self.pid)
        run(self.calls, operations)
        return self.meter.read(self.pid, self.folder) / operations


@contextmanager
def subject(
    source: Path,
    meter: Meter,
    *,
    program: Sequence[str] = ("-m", "driftq"),
    arguments: Sequence[str] = (),
    key: str | None = None,
) -> Iterator[Subject]:
    """A warm server: everything that is counted later was run before."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=ROOT / "build") as name:
        folder = Path(name)
        command = [
            sys.executable,
            *program,
            "serve",
            "--port",
            "0",
            "--data",
            str(folder / "data"),
            *arguments,
        ]
        process = subprocess.Popen(
            meter.command(command, folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env={**_neutral(), "PYTHONPATH": f"{source}:{ROOT}", "PYTHONHASHSEED": "0"},
        )
        try:
            calls = Calls(_port(process), key, process.pid)
            calls.create()
            for run, operations in SCENARIOS.values():
                run(calls, 2 * operations)
            meter.begin(process.pid)
            for run, operations in SCENARIOS.values():
                run(calls, operations)
            yield Subject(process.pid, calls, folder, meter)
            calls.close()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=_STOP_WITHIN_S)
            if process.stdout is not None:
                process.stdout.close()


def _neutral() -> dict[str, str]:
    """The environment without settings of a server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}


def _port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"http://[^:]+:(\d+)", line)
        if found:
            return int(found[1])
    raise RuntimeError("the server did not start")


def recorded() -> Record:
    return msgspec.json.decode(_RECORD.read_bytes(), type=Record)


def record(revision: str, figures: list[Counted]) -> None:
    """Later comparisons are with this version."""
    text = msgspec.json.encode(Record(revision, platform.python_version(), figures))
    _RECORD.write_bytes(msgspec.json.format(text, indent=2) + b"\n")


def compare(revision: str, meter: Meter | None = None) -> list[Counted]:
    """Count this checkout beside the given version. Raises NoSuchVersion."""
    meter = meter or best_meter()
    (ROOT / "build").mkdir(exist_ok=True)
    with ExitStack() as stack:
        before = stack.enter_context(subject(stack.enter_context(source_of(revision)), meter))
        now = stack.enter_context(subject(ROOT / "src", meter))
        return [_counted(name, before, now, meter) for name in SCENARIOS]


def _counted(name: str, before: Subject, now: Subject, meter: Meter) -> Counted:
    pairs = [(before.count(name), now.count(name)) for _ in range(meter.pairs)]
    return Counted(
        name=name,
        unit=meter.unit,
        before=round(statistics.median(one for one, _ in pairs), 1),
        now=round(statistics.median(other for _, other in pairs), 1),
        ratio=round(statistics.median(other / one for one, other in pairs), 4),
    )
