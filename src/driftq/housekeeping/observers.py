"""The observers of a round: tables and history, made from the records it folds."""

from __future__ import annotations

from driftq.history.writer import History
from driftq.housekeeping.round import RoundObserver
from driftq.log.files import Folder
from driftq.tables.writer import Tables


def make_projections(folder: Folder, *, tables: str | None, history: str | None) -> list[RoundObserver]:
    """The observers that have a target to write to."""
    made: list[RoundObserver] = []
    if tables is not None:
        made.append(Tables(tables, folder))
    if history is not None:
        made.append(History(history))
    return made
