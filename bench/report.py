"""One figure of a run, and the table of all of them."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, beside what was aimed at."""

    name: str
    measured: str
    aim: str = ""
    reached: bool | None = None


def show(figures: list[Figure]) -> None:
    table = Table(title="DriftQ benchmarks", title_justify="left")
    table.add_column("what", overflow="fold")
    table.add_column("measured", justify="right")
    table.add_column("aim", justify="right")
    table.add_column("")
    for figure in figures:
        mark = "" if figure.reached is None else ("[green]reached[/]" if figure.reached else "[red]short[/]")
        table.add_row(figure.name, figure.measured, figure.aim, mark)
    Console(width=110).print(table)
