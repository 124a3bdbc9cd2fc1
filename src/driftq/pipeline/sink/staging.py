"""Staged rows of a micro-batch: written by tasks, then published by one manifest.

A micro-batch that Spark repeats may cut its rows into other tasks, in another order. So the first finished
stage of a batch becomes its manifest, by creating an object that cannot be created twice, and every later try
sends the files that the manifest names. A row's index under the manifest is its position on the topic's lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote
from uuid import uuid4

import msgspec
import pyarrow as arrow

from driftq.errors import InvalidArgument
from driftq.eventstore.objects import S3Access, open_objects
from driftq.model import Envelope
from driftq.pipeline.sink.options import TEXT_COLUMNS

FILE_BYTES = 16 << 20
_PLAIN = ""
"""No character of a writer's name may act as a folder separator."""
_SCHEMA = arrow.schema([arrow.field(name, arrow.string()) for name in TEXT_COLUMNS])
_check_envelope = msgspec.json.Decoder(Envelope).decode


class Staging:
    """The staged files of one writer."""

    def __init__(self, location: str, writer: str, *, s3_endpoint: str | None = None) -> None:
        self._objects = open_objects(location, access=S3Access(endpoint=s3_endpoint))
        self._folder = f"rows/{quote(writer, safe=_PLAIN)}"

    def stage(self, batches: Iterable[arrow.RecordBatch], *, topic: str | None) -> list[str]:
        """Store the rows of one task in files of bounded size; returns the names. Raises InvalidArgument."""
        names: list[str] = []
        waiting: list[arrow.RecordBatch] = []
        for batch in batches:
            waiting.append(checked(batch, topic=topic))
            if sum(one.nbytes for one in waiting) >= FILE_BYTES:
                names.append(self._keep(waiting))
                waiting = []
        if any(one.num_rows for one in waiting):
            names.append(self._keep(waiting))
        return names

    def _keep(self, batches: Sequence[arrow.RecordBatch]) -> str:
        sink = arrow.BufferOutputStream()
        with arrow.ipc.new_stream(sink, _SCHEMA) as stream:
            for batch in batches:
                stream.write_batch(batch)
        name = f"{self._folder}/staged/{uuid4().hex}.arrow"
        self._objects.create(name, sink.getvalue().to_pybytes())
        return name

    def publish(self, batch_id: int, names: Sequence[str]) -> list[str]:
        """The files of this batch: these, or those of an earlier try."""
        manifest = self._manifest(batch_id)
        if self._objects.create(manifest, msgspec.json.encode(names)):
            return list(names)
        return msgspec.json.decode(self._objects.read(manifest), type=list[str])

    def rows(self, names: Iterable[str]) -> Iterator[arrow.RecordBatch]:
        """The rows of files, in the order of the names."""
        for name in names:
            with arrow.ipc.open_stream(self._objects.read(name)) as stream:
                yield from stream

    def clean(self, *, before: int) -> None:
        """Remove the batches before this one, which Spark never repeats, with all their files."""
        kept: set[str] = set()
        for manifest in self._objects.names(f"{self._folder}/batches"):
            if manifest < self._manifest(before):
                self._objects.delete(manifest)
            else:
                kept.update(msgspec.json.decode(self._objects.read(manifest), type=list[str]))
        for name in self._objects.names(f"{self._folder}/staged"):
            if name not in kept:
                self._objects.delete(name)

    def _manifest(self, batch_id: int) -> str:
        return f"{self._folder}/batches/{batch_id:020d}.json"


def checked(batch: arrow.RecordBatch, *, topic: str | None) -> arrow.RecordBatch:
    """The columns that a message is made of; raises InvalidArgument for rows that are no valid messages."""
    columns = {
        name: batch.column(name).cast(arrow.string())
        if name in batch.schema.names
        else arrow.nulls(batch.num_rows, arrow.string())
        for name in TEXT_COLUMNS
    }
    if columns["value"].null_count:
        raise InvalidArgument("value", "is null in some rows; every message needs a value")
    if topic is not None:
        columns["topic"] = columns["topic"].fill_null(topic)
    elif columns["topic"].null_count:
        raise InvalidArgument("topic", "is null in some rows, and the option topic is not set")
    for text in columns["envelope"].drop_null().to_pylist():
        try:
            _check_envelope(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument("envelope", f"{text[:80]!r} is not an envelope: {error}") from None
    return arrow.RecordBatch.from_arrays([columns[name] for name in TEXT_COLUMNS], schema=_SCHEMA)
