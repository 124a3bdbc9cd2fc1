"""The committed results: what a run measured replaces everything that its benchmarks had measured before."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from bench.harness.figure import RoundShown

FILE = Path(__file__).resolve().parents[2] / "docs" / "assets" / "bench" / "results.json"


class Result(msgspec.Struct, frozen=True):
    """One figure as it stands in a file."""

    name: str
    value: float
    unit: str
    benchmark: str
    ratio_to: str | None = None
    ratio: float | None = None
    cpu_us: float | None = None
    steal: float | None = None
    rounds: int = 1
    aim: str | None = None
    ratio_aim: str | None = None
    held: bool | None = None
    each_round: tuple[RoundShown, ...] = ()
    machine: str = ""
    revision: str = ""
    at: str = ""


def read(file: Path = FILE) -> list[Result]:
    return msgspec.json.decode(file.read_bytes(), type=list[Result])


def write(results: Iterable[Result], file: Path = FILE) -> None:
    text = msgspec.json.encode([_short(msgspec.to_builtins(one)) for one in results])
    file.write_bytes(msgspec.json.format(text, indent=1) + b"\n")


def _short(found: Any) -> Any:
    """Numbers with six digits: more are noise, and make every comparison of the file longer."""
    if isinstance(found, float):
        return float(f"{found:.6g}")
    if isinstance(found, dict):
        return {name: _short(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_short(value) for value in found]
    return found


def take_over(before: Iterable[Result], run: Iterable[Result]) -> list[Result]:
    """The figures of a benchmark stay together, in the place where they were."""
    new = list(run)
    measured = {one.benchmark for one in new}
    taken: list[Result] = []
    for one in before:
        if one.benchmark not in measured:
            taken.append(one)
        elif any(other.benchmark == one.benchmark for other in new):
            taken += [other for other in new if other.benchmark == one.benchmark]
            new = [other for other in new if other.benchmark != one.benchmark]
    return taken + new


def by_benchmark(results: Iterable[Result]) -> dict[str, list[Result]]:
    """In the order of the file."""
    groups: dict[str, list[Result]] = {}
    for one in results:
        groups.setdefault(one.benchmark, []).append(one)
    return groups


def runs(results: Iterable[Result]) -> list[tuple[str, str, list[str]]]:
    """Machine and revision with the benchmarks that were measured there."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in results:
        names = found.setdefault((one.machine, one.revision), [])
        if one.benchmark not in names:
            names.append(one.benchmark)
    return [(machine, revision, names) for (machine, revision), names in found.items()]
