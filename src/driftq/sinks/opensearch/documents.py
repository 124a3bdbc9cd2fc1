"""Changes and notes as documents of an index, and back.

A state that is a JSON object is stored under `state`, where it can be searched. Its text is sent and read as
it is, not decoded, so that what a fold reads is what it wrote. Any other state, such as a number or a list,
has no fields to search: its text is stored under `state_text`, which is not indexed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from driftq.sinks.documents.port import Note
from driftq.sinks.port import Change

ID_BYTES_MAX = 512
"""The longest id of a document that a server takes."""
_NOT_INDEXED = {"type": "object", "enabled": False}
"""Takes any value."""


class NotJson(Exception):
    """A change that cannot be sent: its state is no JSON, or a text of it has no form in UTF-8."""


class StoredDocument(msgspec.Struct, omit_defaults=True):
    """A change. The id of its document is made of type and id."""

    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_id: str
    deleted: bool | msgspec.UnsetType = msgspec.UNSET
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    state_text: str | msgspec.UnsetType = msgspec.UNSET

    def change(self) -> Change:
        state: str | None = None
        if isinstance(self.state_text, str):
            state = self.state_text
        elif isinstance(self.state, msgspec.Raw):
            state = bytes(self.state).decode()
        return Change(self.aggregate_type, self.aggregate_id, self.sequence_number, self.event_id, state)


class StoredNote(msgspec.Struct):
    """A note."""

    kind: str
    group: str
    id: str
    text: str

    def note(self) -> Note:
        return Note(self.kind, self.group, self.id, self.text)


class _Versioned(msgspec.Struct):
    _id: str
    version: int
    version_type: str = "external"


class _Index(msgspec.Struct):
    index: _Versioned


_encode = msgspec.json.Encoder().encode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


def documents_mapping(state: Mapping[str, Any] | None) -> dict[str, Any]:
    """The mapping of an index of documents; `state` is the user's for the states."""
    return {
        "dynamic": "strict",
        "date_detection": False,
        "properties": {
            "aggregate_type": {"type": "keyword"},
            "aggregate_id": {"type": "keyword"},
            "sequence_number": {"type": "long"},
            "event_id": {"type": "keyword", "ignore_above": 1024},
            "deleted": {"type": "boolean"},
            "state": {"type": "object", "dynamic": True} if state is None else dict(state),
            "state_text": _NOT_INDEXED,
        },
    }


def notes_mapping() -> dict[str, Any]:
    return {
        "dynamic": "strict",
        "properties": {
            "kind": {"type": "keyword"},
            "group": {"type": "keyword"},
            "id": {"type": "keyword"},
            "text": _NOT_INDEXED,
        },
    }


def control_mapping() -> dict[str, Any]:
    return {"dynamic": "strict", "properties": {"text": _NOT_INDEXED}}


def document_id(first: str, second: str) -> str:
    """One text of two, never the same for two pairs: the first part has no separator in it.

    A long one is a hash. Nothing else begins with `%s`.
    """
    whole = first.replace("%", "%25").replace("/", "%2F") + "/" + second
    octets = whole.encode()
    if len(octets) <= ID_BYTES_MAX:
        return whole
    return f"%sha256/{hashlib.sha256(octets).hexdigest()}"


def change_lines(change: Change) -> bytes:
    """The two lines of a bulk request; raises NotJson."""
    try:
        return _lines(change)
    except (UnicodeEncodeError, msgspec.DecodeError, RecursionError) as error:
        raise NotJson(error) from error


def _lines(change: Change) -> bytes:
    document = StoredDocument(
        change.aggregate_type, change.aggregate_id, change.sequence_number, change.event_id
    )
    if change.state is None:
        document.deleted = True
    else:
        document.deleted = False
        _set_state(document, change.state)
    action = _Index(
        _Versioned(document_id(change.aggregate_type, change.aggregate_id), change.sequence_number)
    )
    return _encode(action) + b"\n" + _encode(document) + b"\n"


def _set_state(document: StoredDocument, state: str) -> None:
    octets = state.encode()
    value = bytes(_check_json(octets))
    is_object = value.startswith(b"{")
    if is_object and b"\n" not in octets and value == octets:
        document.state = msgspec.Raw(octets)
        return
    document.state_text = state
    if is_object:  # Written over several lines, which a bulk request has no room for.
        document.state = msgspec.Raw(_encode(msgspec.json.decode(octets)))


def note_lines(note: Note) -> bytes:
    stored = StoredNote(*note)
    return _encode({"index": {"_id": document_id(note.kind, note.id)}}) + b"\n" + _encode(stored) + b"\n"


def note_removal_line(kind: str, id_: str) -> bytes:
    return _encode({"delete": {"_id": document_id(kind, id_)}}) + b"\n"
