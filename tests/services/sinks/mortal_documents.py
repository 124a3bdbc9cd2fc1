"""A driver that runs a projection into Redis until its point: `python mortal_documents.py JSON`.

At its point it writes a file and waits there, to be killed with all its processes.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass

from driftq.pipeline import Projection, open_session
from driftq.settings import load_settings
from driftq.sinks import Capabilities, StagedBatch, WriterEpoch
from driftq.sinks.redis import RedisSink
from driftq.sinks.redis.sink import RedisReadModel
from tests.spark.mortal_projection import Death, MortalBatch

POINTS = ("before the tasks write", "before write", "before offset commit")
"""Of the driver; in the last two, the tasks have stored every document."""


class MortalDocumentModel(RedisReadModel):
    death: Death

    def open_batch(self, writer_epoch: WriterEpoch) -> StagedBatch:  # type: ignore[override]
        staged = super().open_batch(writer_epoch)
        self.death.come("before the tasks write")
        return MortalBatch(staged, self.death)


@dataclass(frozen=True)
class MortalRedisSink:
    """Its batches stop at a point; the sink that tasks get does not."""

    sink: RedisSink
    death: Death

    @property
    def capabilities(self) -> Capabilities:
        return self.sink.capabilities

    def connect(self, projection: str) -> MortalDocumentModel:
        model = self.sink.connect(projection)
        model.__class__ = MortalDocumentModel
        assert isinstance(model, MortalDocumentModel)
        model.death = self.death
        return model


def main() -> None:
    told = json.loads(sys.argv[1])
    options = load_settings().pipeline(url=told["url"], data=told["data"])
    death = Death(told["point"], told["mark"], threading.Event())
    projection = Projection(
        told["name"],
        topic=told["topic"],
        sink=MortalRedisSink(RedisSink(told["redis"], prefix=told["prefix"]), death),
        batch_messages_max=told["batch_messages_max"],
    )
    projection.run(open_session(options, master="local[2]"), options=options, once=True)


if __name__ == "__main__":
    main()
