"""Read models in an SQLite file: for one machine, and for a start without a database server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Self
from urllib.parse import unquote

from driftq.errors import InvalidArgument, ReadModelNotFound
from driftq.sinks.names import projection_name
from driftq.sinks.port import Capabilities
from driftq.sinks.sql_model import SqlReadModel
from driftq.sql import open_database

_SCHEME = "sqlite:///"


@dataclass(frozen=True, slots=True)
class SqliteSink:
    """Tables in the file at `path`. Only the machine that drives Spark writes it."""

    path: str
    capabilities: ClassVar[Capabilities] = Capabilities(atomic=True)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`sqlite:///file.db` in the current folder, `sqlite:////folder/file.db` anywhere."""
        path = unquote(url.removeprefix(_SCHEME))
        if not url.startswith(_SCHEME) or not path.strip("/") or "?" in path:
            raise InvalidArgument(
                "sink", "write the address as sqlite:///file.db or sqlite:////folder/file.db"
            )
        return cls(path)

    def find(self, projection: str) -> SqlReadModel:
        """As `connect`, without creating the file."""
        if not os.path.exists(self.path):
            raise ReadModelNotFound(projection_name(projection), place=self.path)
        return self.connect(projection)

    def connect(self, projection: str) -> SqlReadModel:
        name = projection_name(projection)
        return SqlReadModel(name, open_database(f"sqlite:///{self.path}", connections=2))
