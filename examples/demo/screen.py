"""What the demo says: lines of the story, a live line while it waits, and tables."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.table import Column, Table

from examples.demo.stopping import fail_if_stopped

_POLL_S = 0.1
_LIVE_S = 0.2
_PLAIN_S = 10.0
"""How often a log that nobody watches is told that the demo still waits."""

console = Console(highlight=False)
began = time.monotonic()


def say(text: str = "") -> None:
    """A line without a time; it is folded by the terminal, and by nobody in a log."""
    console.print(text, soft_wrap=True)


def tell(text: str) -> None:
    """A line of the story."""
    say(f"{_elapsed()}  {text}")


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


class Line:
    """What the demo waits for, and how far that is; the thread that waits writes it, another one shows it."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self.how_far = ""

    def __str__(self) -> str:
        return f"{self._doing}: {self.how_far}" if self.how_far else self._doing


def wait_until(
    doing: str, reached: Callable[[], bool], *, within_s: float, how_far: Callable[[], str] = str
) -> None:
    """Wait, and show what for; Ctrl-C ends the wait. `how_far` says where it is now."""
    end = time.monotonic() + within_s
    with working(doing) as line:
        while not reached():
            fail_if_stopped()
            if time.monotonic() > end:
                sys.exit(f"This took longer than {within_s:g} s: {line}")
            line.how_far = how_far()
            time.sleep(_POLL_S)


@contextmanager
def working(doing: str) -> Iterator[Line]:
    """Something is under way: a line that lives on a terminal, a line every ten seconds in a log."""
    line, over = Line(doing), threading.Event()
    shown = _live if console.is_terminal else _plain
    clock = threading.Thread(target=shown, args=(line, over), name="screen", daemon=True)
    clock.start()
    try:
        yield line
    finally:
        over.set()
        clock.join()


def _live(line: Line, over: threading.Event) -> None:
    with console.status("") as status:
        while not over.is_set():
            status.update(f"{_elapsed()}  {line}")
            over.wait(_LIVE_S)


def _plain(line: Line, over: threading.Event) -> None:
    while not over.wait(_PLAIN_S):
        tell(f"… {line}")


def _elapsed() -> str:
    return f"[dim]{time.monotonic() - began:5.1f} s[/dim]"
