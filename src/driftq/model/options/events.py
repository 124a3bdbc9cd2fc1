"""Options of a server's event store as plain data: nothing here needs a database driver."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Where events are stored and how they are numbered; None uses the server's folder."""

    database_url: str | None = None
    objects_url: str | None = None
    s3_endpoint: str | None = None
    allocator: str | None = None
    mismatch: str = "error"
    sequence_schema: str = "spice_event_registry"
    handler_prefix: str = "write_side"
    folder: str | None = None
    """The server's folder; None for a store in memory."""

    def within(self, folder: str) -> Self:
        """The same for a server with this folder."""
        return replace(self, folder=folder)

    def in_memory(self) -> Self:
        """The same for a server that stores nothing on disk."""
        return replace(self, database_url=None, objects_url=None, folder=None)

    @property
    def database_file(self) -> str | None:
        """SQLite's file where no address is given."""
        return f"{self.folder}/events.db" if self.folder is not None else None

    @property
    def objects_folder(self) -> str | None:
        """The folder of the segments where no address is given."""
        return f"{self.folder}/objects" if self.folder is not None else None
