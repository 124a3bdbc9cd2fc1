"""Read models in OpenSearch and Elasticsearch, as a sink of a projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from driftq.errors import InvalidArgument
from driftq.sinks.documents import DocumentReadModel
from driftq.sinks.names import projection_name
from driftq.sinks.opensearch.address import IndexNames, parse_url
from driftq.sinks.opensearch.connection import SearchConnection
from driftq.sinks.opensearch.store import OpenSearchStore
from driftq.sinks.port import Capabilities

_NUMBERS = ("shards", "replicas")


@dataclass(frozen=True, slots=True)
class OpenSearchSink:
    """Indexes of the server at `url`, like `opensearch+http://user:password@host:9200/PREFIX`.

    Readers search the alias PREFIX-PROJECTION. Every document has `aggregate_type`, `aggregate_id`,
    `sequence_number`, `event_id` and, where it is a JSON object, its `state`.
    """

    url: str = field(repr=False)
    prefix: str = ""
    """What the names of all indexes begin with, if the address does not say it; `driftq` by default."""
    mapping: Mapping[str, Any] | None = field(default=None, hash=False)
    """The mapping of `state`. By default its fields are mapped as they come. A rebuild applies a new one."""
    shards: int = 1
    replicas: int = 1
    timeout_s: float = 30.0
    """For one request."""
    retry_s: float = 30.0
    """For how long a task repeats what an overloaded server refuses, while nothing is stored."""
    ca_file: str | None = None
    """The certificates to trust, where those of the system are not the right ones."""
    capabilities: ClassVar[Capabilities] = Capabilities(atomic=False, ordered=True)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`opensearch+http://host:9200/PREFIX`; `?shards=` and `?replicas=` may follow."""
        parts = urlsplit(url)
        given: dict[str, int] = {}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name not in _NUMBERS:
                raise InvalidArgument(
                    "sink", f"OpenSearch has no option {name!r}; there are shards and replicas"
                )
            if not value.isascii() or not value.isdigit():
                raise InvalidArgument(name, "must be a whole number")
            given[name] = int(value)
        address = parts._replace(query="").geturl()
        parse_url(address, prefix="")
        return cls(address, **given)  # type: ignore[arg-type]

    def connect(self, projection: str) -> DocumentReadModel:
        return DocumentReadModel.open(self, projection)

    def open_store(self, projection: str) -> OpenSearchStore:
        address, prefix = parse_url(self.url, prefix=self.prefix)
        names = IndexNames(prefix, projection_name(projection))
        connection = SearchConnection(address, timeout_s=self.timeout_s, ca_file=self.ca_file)
        try:
            connection.require_supported()
        except BaseException:
            connection.close()
            raise
        settings = {
            "number_of_shards": self.shards,
            "number_of_replicas": self.replicas,
            "translog.durability": "request",  # An answered write survives a crash, whatever a template says.
        }
        return OpenSearchStore(
            connection, names, state_mapping=self.mapping, settings=settings, retry_s=self.retry_s
        )
