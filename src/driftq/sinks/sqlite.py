"""Read models in an SQLite file: for one machine, and for a start without a database server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from driftq.sinks.names import projection_name
from driftq.sinks.port import Capabilities
from driftq.sinks.sql_model import SqlReadModel
from driftq.sql import open_database


@dataclass(frozen=True, slots=True)
class SqliteSink:
    """Tables in the file at `path`. Only the machine that drives Spark writes it."""

    path: str
    capabilities: ClassVar[Capabilities] = Capabilities(atomic=True)

    def connect(self, projection: str) -> SqlReadModel:
        name = projection_name(projection)
        return SqlReadModel(name, open_database(f"sqlite:///{self.path}", connections=2))
