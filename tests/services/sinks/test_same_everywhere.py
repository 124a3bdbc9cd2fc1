"""The same events in every kind of target, some of which are killed or paused: the same documents in each.

The events arrive shuffled, some of them twice, and later once more. In the end Redis loses everything, and
all targets are rebuilt. From outside, the command that prints a read model must print the same lines for
every target.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess
from tests.services_opensearch import SearchServer, private_search
from tests.services_postgres import PostgresServer, private_postgres
from tests.services_redis import RedisServer, make_redis, private_redis
from tests.services_terminusdb import TerminusProcess, create_database, private_terminus
from tests.spark.events import Event, create, expected, history, mixed, send
from tests.support.waiting import wait_until

__all__ = ["make_redis", "private_postgres", "private_redis", "private_search", "private_terminus"]

pytestmark = [pytest.mark.timeout(1_800)]

AGGREGATES = 1_000
EACH = 50
TOPIC = "events.order"
APP = """
from driftq.pipeline import App, Projection

app = App()
app.projection(Projection("orders", topic="events.order", batch_messages_max={batch}))
"""
SMALL, LARGE = 8_000, 60_000
"""Batches: many of them while targets go away, and few afterwards."""
WITHIN_S = 900.0
AWAY = "the target is unavailable, waiting"


@pytest.mark.clause("V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "X9", "X9b")
def test_targets_that_are_killed_and_paused_come_to_the_same_documents(
    tmp_path: Path,
    server: ServerProcess,
    private_postgres: PostgresServer,
    private_redis: RedisServer,
    private_search: SearchServer,
    private_terminus: TerminusProcess,
) -> None:
    sinks = {
        "sqlite": f"sqlite:///{tmp_path}/orders.db",
        "postgres": private_postgres.url,
        "parquet": f"parquet://{tmp_path}/parquet",
        "delta": f"delta://{tmp_path}/delta",
        "redis": f"{private_redis.url}?prefix=shop",
        "opensearch": f"opensearch+{private_search.url}/shop",
        "terminusdb": create_database(private_terminus.url),
    }
    events = history(AGGREGATES, EACH)
    app = tmp_path / "app.py"
    app.write_text(APP.format(batch=SMALL))
    pipeline = PipelineCommands(f"http://127.0.0.1:{server.port}", server.data, within_s=WITHIN_S)
    words = [word for sink in sinks.values() for word in ("--sink", sink)]
    create(server, TOPIC, partitions=4)
    send(server, TOPIC, mixed(events, seed=7))
    said = tmp_path / "said"
    running = pipeline.start("run", "projection", "--once", "--app", str(app), *words, errors=said)
    faults: list[tuple[Callable[[], None], Callable[[], None]]] = [
        (private_redis.kill, private_redis.start),
        (private_search.freeze, private_search.thaw),
        (private_terminus.kill, private_terminus.start),
        (private_postgres.stop, private_postgres.start),
        (private_redis.pause, private_redis.resume),
        (private_search.kill, private_search.start),
    ]
    try:
        wait_until(
            "it is under way",
            lambda: batches(pipeline) > 0 or running.poll() is not None,
            within_s=WITHIN_S,
        )
        for number, (begin, end) in enumerate(faults):
            begin()
            wait_until(
                "the outage is noticed",
                lambda number=number: times_away(server) > number or running.poll() is not None,  # type: ignore[misc]
                within_s=WITHIN_S,
            )
            end()
            assert running.poll() is None, said.read_text()[-3_000:]
        assert running.wait(timeout=WITHIN_S) == 0, said.read_text()[-3_000:]
    finally:
        running.kill()
        running.wait()
    require_the_same(pipeline, sinks, events)
    app.write_text(APP.format(batch=LARGE))
    send(server, TOPIC, mixed(events, seed=8, doubled=0.0))
    pipeline.ran("run", "projection", "--once", "--app", str(app), *words)
    require_the_same(pipeline, sinks, events)
    with private_redis.client() as client:
        client.flushall()
    assert pipeline.run("rows", "orders", "--sink", sinks["redis"]).returncode != 0
    pipeline.ran("run", "rebuild", "--name", "orders", "--once", "--app", str(app), *words)
    require_the_same(pipeline, sinks, events)


def require_the_same(pipeline: PipelineCommands, sinks: dict[str, str], events: list[Event]) -> None:
    rows, _ = expected(events)
    names = ("aggregate_type", "aggregate_id", "sequence_number", "state")
    wanted = [dict(zip(names, row, strict=True)) for row in rows]
    for name, sink in sinks.items():
        found = pipeline.rows("orders", "--sink", sink)
        assert len(found) == len(wanted), name
        for have, want in zip(found, wanted, strict=True):
            assert have == want, name


def batches(pipeline: PipelineCommands) -> int:
    status = pipeline.status_of("projection-orders")
    return status.rows if status is not None else 0


def times_away(server: ServerProcess) -> int:
    """By the log of the driver."""
    log = server.data / "pipeline" / "logs" / "projection.log"
    return log.read_text().count(AWAY) if log.exists() else 0
