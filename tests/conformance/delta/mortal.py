"""A process that writes a read model and kills itself before a commit.

It ends by itself when there were fewer commits than it was to survive.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from deltalake import CommitProperties

from driftq.sinks import Application, DeltaSink, OutOfOrderEvent, TopicPartition
from driftq.sinks.delta import tables
from driftq.testing.sinks.cast import change, dead_letter

ORDERS = TopicPartition("events.order", 0, "driftq/folder/1")
FIRST = Application(
    changes=[change(2), change(1, of="o-2"), change(4, of="gone", deleted=True)],
    positions={ORDERS: 7},
    dead_letters=[dead_letter(3)],
    waiting=[OutOfOrderEvent("order", "o-2", 3, "e-3", "{}", "events.order", 0, 6)],
)
SECOND = Application(changes=[change(5), change(2, of="o-2")], positions={ORDERS: 12})
REBUILT = Application(changes=[change(4)], positions={ORDERS: 9}, dead_letters=[dead_letter(8)])


def main(folder: str, story: str, commit: int) -> None:
    _die_before(commit)
    STORIES[story](DeltaSink(folder))


def write_batches(sink: DeltaSink) -> None:
    model = sink.connect("orders_by_id")
    writer_epoch = model.take_over()
    for application in (FIRST, SECOND):
        model.apply(application, writer_epoch)


def rebuild(sink: DeltaSink) -> None:
    model = sink.connect("orders_by_id")
    fresh = model.beside()
    writer_epoch = fresh.take_over()
    fresh.apply(REBUILT, writer_epoch)
    model.swap(writer_epoch)


def _die_before(commit: int) -> None:
    exactly, left = tables._exactly, [commit]

    def counted(numbers: Mapping[str, int]) -> CommitProperties:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return exactly(numbers)

    tables._exactly = counted


STORIES = {"batches": write_batches, "rebuild": rebuild}
