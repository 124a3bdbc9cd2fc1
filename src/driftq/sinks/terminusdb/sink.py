"""The sink for read models in TerminusDB."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from driftq.errors import InvalidArgument
from driftq.sinks.documents.model import DocumentReadModel
from driftq.sinks.names import projection_name
from driftq.sinks.port import Capabilities
from driftq.sinks.terminusdb.address import TerminusAddress
from driftq.sinks.terminusdb.server import TerminusServer
from driftq.sinks.terminusdb.store import TerminusStore

MOST_DOCUMENTS = 1_000
SHORTEST_S = 60.0


@dataclass(frozen=True, slots=True)
class TerminusSink:
    """Read models in the database at `url`, like `terminusdb+http://user:password@host:6363/ORG/DB`.

    The server stores a few hundred documents in a second, and `timeout_s` covers a whole commit.
    """

    url: str = field(repr=False)
    batch_documents: int = 500
    """The most documents in one commit."""
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        TerminusAddress.of(self.url)
        if not 1 <= self.batch_documents <= MOST_DOCUMENTS:
            raise InvalidArgument("batch_documents", f"must be 1 to {MOST_DOCUMENTS}")
        if self.timeout_s < SHORTEST_S:
            raise InvalidArgument("timeout_s", f"must be at least {SHORTEST_S:g}")

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Raises InvalidArgument, without the address in its text."""
        return cls(url)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(atomic=False, ordered=True)

    def connect(self, projection: str) -> DocumentReadModel:
        return DocumentReadModel.open(self, projection)

    def open_store(self, projection: str) -> TerminusStore:
        """Raises InvalidArgument, in one sentence, when this database cannot be used as it is."""
        name = projection_name(projection)
        server = TerminusServer(TerminusAddress.of(self.url), timeout_s=self.timeout_s)
        server.check()
        return TerminusStore(server, name, batch_documents=self.batch_documents)
