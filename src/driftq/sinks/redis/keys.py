"""The keys of read models in Redis.

    driftq:{orders}:live                            the place that readers use
    driftq:{orders}:control:control                 positions and the writer's epoch
    driftq:{orders:PLACE:07}:d:order:o-1            hash of a document: d text, s sequence, e event id
    driftq:{orders:PLACE:07}:v:order:o-1            its text, where values have a lifetime
    driftq:{orders:PLACE:07}:index:order            the ids of a type in this bucket
    driftq:{orders:PLACE:notes}:…                   out-of-order events, dead letters, redrive marks

A script may use keys of one hash slot only. Redis takes the slot from the part in braces, the hash tag: a
document's bucket, one of 64, is the CRC-32 of `type:id`. In a cluster, 64 tags of each place spread over the
nodes.

No two aggregates share a key: a type is written with `%25` for a percent sign and `%3A` for a colon, so it
ends at the first colon, and the id is the rest as it is. Braces in either mean nothing behind the tag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote
from zlib import crc32

from driftq.model import Aggregate

BUCKETS = 64


class DocumentName(NamedTuple):
    """Where an aggregate is within a place."""

    bucket: int
    suffix: bytes
    """Its type and its id, as they end every key of its own."""


def document_name(aggregate: Aggregate) -> DocumentName:
    """Raises UnicodeEncodeError for a text that UTF-8 cannot hold."""
    suffix = f"{escaped_type(aggregate.type)}:{aggregate.id}".encode()
    return DocumentName(crc32(suffix) % BUCKETS, suffix)


def escaped_type(aggregate_type: str) -> str:
    return aggregate_type.replace("%", "%25").replace(":", "%3A")


def aggregate_of(suffix: bytes) -> Aggregate:
    """The opposite of `document_name`."""
    kind, _, aggregate_id = suffix.decode().partition(":")
    return Aggregate(kind.replace("%3A", ":").replace("%25", "%"), aggregate_id)


@dataclass(frozen=True, slots=True)
class ProjectionKeys:
    """The keys of one projection outside of its places."""

    prefix: str
    projection: str

    @property
    def live(self) -> str:
        """The place that readers use."""
        return f"{self.prefix}:{{{self.projection}}}:live"

    @property
    def places(self) -> str:
        """Those that exist."""
        return f"{self.prefix}:{{{self.projection}}}:places"

    def control(self, name: str) -> str:
        return f"{self.prefix}:{{{self.projection}}}:control:{name}"

    def barrier(self, number: int) -> str:
        """Keys without content, as many as it takes to find one on every node."""
        return f"{self.prefix}:{self.projection}:barrier:{number}"

    def bucket(self, place: str, bucket: int) -> BucketKeys:
        return BucketKeys(f"{self._tagged(place, f'{bucket:02}')}:".encode())

    def notes(self, place: str) -> NoteKeys:
        return NoteKeys(f"{self._tagged(place, 'notes')}:".encode())

    def _tagged(self, place: str, part: str) -> str:
        return f"{self.prefix}:{{{self.projection}:{quote(place, safe='')}:{part}}}"


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """One of the buckets of a place; all of its keys are in one hash slot."""

    root: bytes

    @property
    def mark(self) -> bytes:
        """Exists as long as the place does, and holds the instant of the last write."""
        return self.root + b"place"

    @property
    def types(self) -> bytes:
        return self.root + b"types"

    @property
    def expiring(self) -> bytes:
        """The hashes whose guards expire, by instant."""
        return self.root + b"expiring"

    @property
    def documents(self) -> bytes:
        """What the keys of hashes begin with."""
        return self.root + b"d:"

    @property
    def values(self) -> bytes:
        return self.root + b"v:"

    def index(self, aggregate_type: str) -> bytes:
        """The ids of a type, in the order of their bytes."""
        return self.root + f"index:{aggregate_type}".encode()


@dataclass(frozen=True, slots=True)
class NoteKeys:
    """The notes of a place; all of its keys are in one hash slot."""

    root: bytes

    @property
    def mark(self) -> bytes:
        return self.root + b"place"

    @property
    def kinds(self) -> bytes:
        return self.root + b"kinds"

    def ids(self, kind: str) -> bytes:
        """In the order of their bytes."""
        return self.root + f"ids:{kind}".encode()

    def texts(self, kind: str) -> bytes:
        """By id."""
        return self.root + f"texts:{kind}".encode()

    def groups(self, kind: str) -> bytes:
        return self.root + f"groups:{kind}".encode()

    def group(self, kind: str, group: str) -> bytes:
        """The ids of a group, in the order of their bytes."""
        return self.root + f"group:{escaped_type(kind)}:{group}".encode()
