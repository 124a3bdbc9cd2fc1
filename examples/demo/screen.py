"""What the demo says, and the tables it shows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from rich import box
from rich.console import Console
from rich.table import Column, Table

_POLL_S = 0.05

console = Console(highlight=False)
began = time.monotonic()


def tell(text: str) -> None:
    console.print(f"[dim]{time.monotonic() - began:5.1f} s[/dim]  {text}", soft_wrap=True)


def chapter(title: str) -> None:
    console.print()
    console.rule(f"[b]{title}[/b]", align="left", characters="─" if console.is_terminal else "-")


def table(title: str, *columns: str) -> Table:
    """Numbers stand in the last column."""
    lines = box.ROUNDED if console.is_terminal else box.ASCII
    *left, count = columns
    return Table(*left, Column(count, justify="right"), title=title, title_justify="left", box=lines)


def show(made: Table) -> None:
    console.print()
    console.print(made)


def add_verdict(made: Table, *, lost: Iterable[object], doubled: Iterable[object], cells: int) -> bool:
    """The last two rows; True when nothing was lost and nothing doubled."""
    made.add_section()
    sound = True
    for word, found in (("lost", list(lost)), ("doubled", list(doubled))):
        row = [f"[b]{word} {len(found)}[/b]", *[""] * (cells - 2), str(len(found))]
        made.add_row(*row, style="red" if found else "green")
        sound = sound and not found
    return sound


def wait_until(what: str, reached: Callable[[], bool], *, within_s: float) -> None:
    end = time.monotonic() + within_s
    while not reached():
        if time.monotonic() > end:
            sys.exit(f"gave up waiting until {what}")
        time.sleep(_POLL_S)
