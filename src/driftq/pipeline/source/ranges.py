"""Which task reads what: sealed ranges from the files of the topic's table, everything else over HTTP.

Ranges of one plan do not overlap and leave nothing out. The source of a range never changes its rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from driftq.model.wire.topics import SpansReply
from driftq.pipeline.source.offsets import Offsets
from driftq.pipeline.source.topics import Topics
from driftq.storage.address import read_instance
from driftq.tables.reader import TableFile, read_table

PIECE_MESSAGES = 100_000
"""The most messages that one task fetches over HTTP."""
TASK_ROWS = 400_000
"""One task reads several small files, up to about this many rows."""


class SealedFile(NamedTuple):
    """A Parquet file of the table; `end` is after its last offset."""

    path: str
    end: int


@dataclass
class TopicRange(InputPartition):
    """Offsets of one partition for one task: from `start` up to, without, `end`."""

    topic: str
    partition: int
    start: int
    end: int
    files: tuple[SealedFile, ...] = ()
    """Where the rows are sealed."""
    messages: int | None = None
    """How many there are, if they are fetched."""
    instance: str | None = None
    """Which start of the server has the files: another machine may have a folder of the same name."""


class UncoveredRange(NamedTuple):
    """Offsets that no file has."""

    partition: int
    start: int
    end: int


def plan(topics: Topics, start: Offsets, end: Offsets, *, data: str) -> list[TopicRange]:
    """The ranges between two offsets; raises MessagesExpired or TopicStartedOver unless loss is allowed."""
    planned: list[TopicRange] = []
    for topic, partitions in end.items():
        start_offsets = start.get(topic, {})
        wanted = [
            {"partition": int(number), "from": start_offsets.get(number, 0), "to": upto}
            for number, upto in partitions.items()
            if start_offsets.get(number, 0) != upto
        ]
        if wanted:
            planned += _plan_topic(
                topics, topic, topics.spans(topic, wanted), partitions, start_offsets, data=data
            )
    return planned


def _plan_topic(
    topics: Topics,
    topic: str,
    found: SpansReply,
    ends: dict[str, int],
    start_offsets: dict[str, int],
    *,
    data: str,
) -> Iterator[TopicRange]:
    files = sealed_files(os.path.join(data, "tables", topic)) if _is_servers_folder(found, data) else []
    folder = os.path.abspath(os.path.join(data, "tables", topic))
    gaps: list[UncoveredRange] = []
    for span in found.spans:
        number = str(span.partition)
        begin = (
            topics.checked(topic, span, next_offset=found.next_offset)
            if number in start_offsets
            else span.from_
        )
        upto = ends[number]
        kept_from = max(begin, span.first_offset)  # Files below may belong to a deleted topic of this name.
        own_files = [file for file in files if file.partition == span.partition]
        own_files = [file for file in own_files if file.last_offset >= kept_from and file.first_offset < upto]
        for one in _sealed_ranges(topic, own_files, folder, begin=begin, upto=upto):
            one.instance = found.instance
            yield one
        gaps += uncovered(own_files, partition=span.partition, start=begin, end=upto)
    yield from _fetched_ranges(topics, topic, gaps)


def _is_servers_folder(found: SpansReply, data: str) -> bool:
    """Whether the readable folder belongs to the server that answers."""
    return found.table and bool(found.instance) and read_instance(data) == found.instance


def sealed_files(path: str) -> list[TableFile]:
    """The files of a table, in the order of their offsets."""
    manifest = read_table(path)
    return sorted(manifest.files, key=lambda file: file.first_offset) if manifest else []


def _sealed_ranges(
    topic: str, files: Sequence[TableFile], folder: str, *, begin: int, upto: int
) -> Iterator[TopicRange]:
    """One range for each large file, or for several adjacent small ones."""
    together: list[TableFile] = []
    rows = 0
    for file in [*files, None]:
        more = 0 if file is None else _rows_between(file, begin=begin, upto=upto)
        full = file is None or rows + more > TASK_ROWS
        if together and full:
            first, last = together[0], together[-1]
            yield TopicRange(
                topic,
                first.partition,
                max(begin, first.first_offset),
                min(upto, last.last_offset + 1),
                files=tuple(
                    SealedFile(os.path.join(folder, one.name), one.last_offset + 1) for one in together
                ),
            )
            together, rows = [], 0
        if file is not None:
            together.append(file)
            rows += more


def _rows_between(file: TableFile, *, begin: int, upto: int) -> int:
    """About how many rows of a file lie between two offsets: a batch may end within a file."""
    offsets = min(upto, file.last_offset + 1) - max(begin, file.first_offset)
    return file.rows * offsets // (file.last_offset + 1 - file.first_offset)


def uncovered(
    files: Sequence[TableFile], *, partition: int, start: int, end: int
) -> Iterator[UncoveredRange]:
    """The offsets before, between and after the files. Most hold no message: offsets have gaps."""
    for file in files:
        if start < file.first_offset:
            yield UncoveredRange(partition, start, file.first_offset)
        start = max(start, file.last_offset + 1)
    if start < end:
        yield UncoveredRange(partition, start, end)


def _fetched_ranges(topics: Topics, topic: str, gaps: Sequence[UncoveredRange]) -> Iterator[TopicRange]:
    if not gaps:
        return
    queries = [
        {"partition": one.partition, "from": one.start, "to": one.end, "every": PIECE_MESSAGES}
        for one in gaps
    ]
    for gap, span in zip(gaps, topics.spans(topic, queries).spans, strict=True):
        left = span.messages
        cuts = [gap.start, *span.cuts, gap.end]
        for first, end in pairwise(cuts):
            if left > 0:
                count = min(left, PIECE_MESSAGES)
                yield TopicRange(topic, gap.partition, first, end, messages=count)
                left -= count
