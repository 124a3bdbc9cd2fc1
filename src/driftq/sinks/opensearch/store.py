"""The documents of one projection in a search server.

Each document carries its sequence as an external version, so the server itself refuses an older or equal one.
A deletion is a document with `deleted: true` and the version of its event. A real delete would not do: a
server forgets the version of a deleted document after a minute, or when it restarts.

What a fold reads is fetched by id, which sees every stored write at once. A scan refreshes its index first,
then goes through it page by page in the order of type and id. No document leaves its index before the whole
index goes, and none changes its place in this order, so pages need no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks.documents.port import ControlText, Note
from driftq.sinks.opensearch import documents
from driftq.sinks.opensearch.address import IndexNames, write_alias
from driftq.sinks.opensearch.bulk import Bulk
from driftq.sinks.opensearch.connection import SearchConnection, SearchProblem, problem_of
from driftq.sinks.opensearch.documents import StoredDocument, StoredNote, document_id
from driftq.sinks.port import Change, RefusedChange

_Source = TypeVar("_Source")
_ABSENT = 404
_CONFLICT = 409
_EXISTS = "resource_already_exists_exception"
_PAGE_FIRST = 100
_PAGE_MAX = 1_000
_PAGE_BYTES = 4_000_000
"""About how large a page of a scan becomes."""


class _Hit(msgspec.Struct, Generic[_Source], rename={"source": "_source"}):
    source: _Source
    sort: list[str]


class _Hits(msgspec.Struct, Generic[_Source]):
    hits: list[_Hit[_Source]]


class _HitsReply(msgspec.Struct, Generic[_Source]):
    hits: _Hits[_Source]


class _Got(msgspec.Struct, rename={"source": "_source"}):
    found: bool = False
    source: StoredDocument | None = None
    error: Any = None


class _GetReply(msgspec.Struct):
    docs: list[_Got]


class _Control(msgspec.Struct):
    text: str


class _ControlReply(
    msgspec.Struct, rename={"seq_no": "_seq_no", "term": "_primary_term", "source": "_source"}
):
    seq_no: int
    term: int
    source: _Control


class OpenSearchStore:
    """A document store over one connection."""

    def __init__(
        self,
        connection: SearchConnection,
        names: IndexNames,
        *,
        state_mapping: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
        retry_s: float,
    ) -> None:
        self._connection = connection
        self._names = names
        self._state_mapping = state_mapping
        self._settings = settings
        self._retry_s = retry_s

    @property
    def address(self) -> str:
        return f"{self._connection.address}/{self._names.readers}"

    def read_control(self, name: str) -> ControlText | None:
        reply = self._connection.call("GET", self._control_path("_doc", name), accept=[_ABSENT])
        if reply.status == _ABSENT:
            return None
        found = msgspec.json.decode(reply.text, type=_ControlReply)
        return ControlText(found.source.text, f"{found.seq_no} {found.term}")

    def write_control(self, name: str, text: str, *, expected: str | None) -> bool:
        body = msgspec.json.encode(_Control(text))
        if expected is None:
            self._create_index(self._names.control, documents.control_mapping(), aliases={})
            path, condition = self._control_path("_create", name), {}
        else:
            seq_no, _, term = expected.partition(" ")
            if not term:
                return False  # No version that this store has given out.
            path, condition = self._control_path("_doc", name), {"if_seq_no": seq_no, "if_primary_term": term}
        reply = self._connection.call("PUT", path, params=condition, body=body, accept=[_CONFLICT])
        return reply.status != _CONFLICT

    def create_place(self, place: str) -> None:
        mapping = documents.documents_mapping(self._state_mapping)
        for index, shape in (
            (self._names.documents(place), mapping),
            (self._names.notes(place), documents.notes_mapping()),
        ):
            self._create_index(index, shape, aliases={write_alias(index): {}})

    def publish_place(self, place: str) -> None:
        index, alias = self._names.documents(place), self._names.readers
        if not self._refresh(write_alias(index)):
            return
        visible = {"term": {"deleted": False}}
        actions = [
            {"remove": {"index": f"{alias}--*", "alias": alias, "must_exist": False}},
            {"add": {"index": index, "alias": alias, "filter": visible, "is_write_index": False}},
        ]
        # One request is one change of the cluster's state: readers see the one place or the other.
        self._connection.call(
            "POST", "/_aliases", body=msgspec.json.encode({"actions": actions}), accept=[_ABSENT]
        )

    def drop_place(self, place: str) -> None:
        for index in (self._names.documents(place), self._names.notes(place)):
            self._connection.call("DELETE", f"/{index}", accept=[_ABSENT])

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        refused: list[RefusedChange] = []
        sent: list[Change] = []
        lines: list[bytes] = []
        for change in changes:
            try:
                lines.append(documents.change_lines(change))
                sent.append(change)
            except documents.NotJson as error:
                refused.append(RefusedChange(change, str(error)))
        for at, problem in self._bulk(self._names.documents(place)).send(lines).items():
            refused.append(RefusedChange(sent[at], str(problem)))
        return refused

    def get(self, place: str, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        if not aggregates:
            return {}
        wanted = list(dict.fromkeys(document_id(*aggregate) for aggregate in aggregates))
        alias = write_alias(self._names.documents(place))
        reply = self._connection.call("POST", f"/{alias}/_mget", body=msgspec.json.encode({"ids": wanted}))
        found: dict[Aggregate, Change] = {}
        for got in msgspec.json.decode(reply.text, type=_GetReply).docs:
            if got.error is not None:
                raise ReadModelUnavailable(self.address, cause=str(SearchProblem.of(got.error)))
            if got.source is not None:
                found[Aggregate(got.source.aggregate_type, got.source.aggregate_id)] = got.source.change()
        return found

    def scan(self, place: str) -> Iterator[Change]:
        alias = write_alias(self._names.documents(place))
        if not self._refresh(alias):
            return iter(())
        order = ("aggregate_type", "aggregate_id")
        pages = self._pages(alias, {"match_all": {}}, order, _HitsReply[StoredDocument])
        return (stored.change() for stored in pages)

    def put_notes(self, place: str, notes: Sequence[Note]) -> None:
        lines = [documents.note_lines(note) for note in notes]
        for problem in self._bulk(self._names.notes(place)).send(lines).values():
            raise InvalidArgument("note", f"{self.address} refuses it ({problem})")

    def notes(self, place: str, kind: str, *, groups: Sequence[str] | None = None) -> Iterator[Note]:
        alias = write_alias(self._names.notes(place))
        if (groups is not None and not groups) or not self._refresh(alias):
            return iter(())
        wanted: list[dict[str, Any]] = [{"term": {"kind": kind}}]
        if groups is not None:
            wanted.append({"terms": {"group": list(groups)}})
        pages = self._pages(alias, {"bool": {"filter": wanted}}, ("id",), _HitsReply[StoredNote])
        return (stored.note() for stored in pages)

    def remove_notes(self, place: str, kind: str, ids: Iterable[str]) -> None:
        lines = [documents.note_removal_line(kind, each) for each in ids]
        self._bulk(self._names.notes(place)).send(lines, absent_is_done=True)

    def close(self) -> None:
        self._connection.close()

    def _control_path(self, action: str, name: str) -> str:
        return f"/{self._names.control}/{action}/{quote(document_id(self._names.projection, name), safe='')}"

    def _bulk(self, index: str) -> Bulk:
        return Bulk(self._connection, write_alias(index), retry_s=self._retry_s)

    def _create_index(self, index: str, mapping: dict[str, Any], *, aliases: dict[str, Any]) -> None:
        body = {"settings": self._settings, "mappings": mapping, "aliases": aliases}
        reply = self._connection.call("PUT", f"/{index}", body=msgspec.json.encode(body), accept=[400])
        if reply.status == 400 and (problem := problem_of(reply)).type != _EXISTS:
            raise InvalidArgument("sink", f"{self.address} cannot create the index {index} ({problem})")

    def _refresh(self, alias: str) -> bool:
        """Let searches see what is stored; False where the place is gone."""
        reply = self._connection.call("POST", f"/{alias}/_refresh", accept=[_ABSENT])
        if reply.status == _ABSENT:
            return False
        if msgspec.json.decode(reply.text)["_shards"]["failed"]:
            raise ReadModelUnavailable(self.address, cause="a shard could not be refreshed")
        return True

    def _pages(
        self, alias: str, query: dict[str, Any], order: Sequence[str], shape: type[_HitsReply[_Source]]
    ) -> Iterator[_Source]:
        """What the query finds, by these fields, which no two documents share."""
        decode = msgspec.json.Decoder(shape).decode
        body: dict[str, Any] = {
            "size": _PAGE_FIRST,
            "query": query,
            "sort": [{name: "asc"} for name in order],
            "track_total_hits": False,
        }
        while True:
            reply = self._connection.call(
                "POST",
                f"/{alias}/_search",
                params={"allow_partial_search_results": "false"},
                body=msgspec.json.encode(body),
            )
            hits = decode(reply.text).hits.hits
            for hit in hits:
                yield hit.source
            if len(hits) < body["size"]:
                return
            body["search_after"] = hits[-1].sort
            body["size"] = max(1, min(_PAGE_MAX, _PAGE_BYTES * len(hits) // len(reply.text)))
