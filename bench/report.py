"""The table of a run's figures, and their JSON: one object a figure."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.harness.figure import Bound, Figure
from bench.harness.plan import STEAL_MAX

_DIGITS = {"µs": 1, "ms": 2, "s": 2, "MB": 1, "×": 2}


def told(value: float, unit: str) -> str:
    """The value as a person reads it."""
    if unit == "%":
        return f"{value:.1%}"
    digits = _DIGITS.get(unit, 0)
    return f"{value:,.{digits}f} {unit}".rstrip().replace(" /s", "/s").replace(" ×", "×")


def told_bound(bound: Bound | None, unit: str) -> str:
    if bound is None:
        return ""
    text = f"{bound.value:.0%}" if unit == "%" else f"{bound.value:,g}"
    return f"{bound.kind} {text}{'×' if unit == '×' else ''}"


def as_json(figures: Sequence[Figure], about: dict[str, str]) -> list[dict[str, Any]]:
    """What the file of a run has: every figure with the machine and the revision it was measured on."""
    return [
        {
            "name": one.name,
            "value": one.value,
            "unit": one.unit,
            "ratio_to": one.ratio_to or None,
            "ratio": one.ratio,
            "cpu_us": one.cpu_us,
            "steal": one.steal,
            "rounds": one.rounds,
            "benchmark": one.benchmark,
            "aim": told_bound(one.aim, one.unit) or None,
            "ratio_aim": told_bound(one.ratio_aim, "×") or None,
            "held": one.held,
            "each_round": [msgspec.to_builtins(shown) for shown in one.each_round],
            **about,
        }
        for one in figures
    ]


def with_full_names(figures: Sequence[Figure]) -> list[Figure]:
    """A name that begins with "… " goes on from the last one that does not."""
    full: list[Figure] = []
    start = ""
    for one in figures:
        if one.name.startswith("… "):
            full.append(replace(one, name=f"{start}: {one.name.removeprefix('… ')}"))
        else:
            start = one.name
            full.append(one)
    return full


def write_json(path: Path, figures: Sequence[Figure], about: dict[str, str]) -> None:
    text = msgspec.json.encode(as_json(figures, about))
    path.write_bytes(msgspec.json.format(text, indent=2) + b"\n")


def show(figures: Sequence[Figure]) -> None:
    table = Table(title="DriftQ benchmarks", title_justify="left")
    table.add_column("what", overflow="fold")
    for column in ("value", "aim", "beside", "ratio", "aim", "CPU µs", "steal", "rounds"):
        table.add_column(column, justify="right")
    table.add_column("")
    for one in figures:
        mark = "" if one.held is None else ("[green]holds[/]" if one.held else "[red]short[/]")
        steal = "" if one.steal is None else f"{one.steal:.1%}"
        table.add_row(
            one.name,
            told(one.value, one.unit),
            told_bound(one.aim, one.unit),
            one.ratio_to,
            "" if one.ratio is None else f"{one.ratio:.2f}×",
            told_bound(one.ratio_aim, "×"),
            "" if one.cpu_us is None else f"{one.cpu_us:,.1f}",
            f"[yellow]{steal}[/]" if one.steal is not None and one.steal > STEAL_MAX else steal,
            str(one.rounds),
            mark,
        )
    Console(width=200).print(table)
