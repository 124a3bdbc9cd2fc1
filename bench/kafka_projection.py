"""From Kafka to a read model in PostgreSQL, beside a DriftQ topic and beside a job written by hand.

All three have the same events, the same PostgreSQL and one Spark session, take a million messages at once and
take turns; the best of some runs counts. The job by hand is the one that people write: Spark's Kafka source,
`foreachBatch`, the newest row of each key by `max_by`, JDBC into a staging table and one upsert into a keyed
table. It has Spark's checkpoint, and nothing else: no fence, no positions in the target, no dead letters.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
from sqlalchemy.engine import make_url

from bench.harness.figure import Figure, at_least
from bench.projection import Bed, aggregates_of, bench_events, fill, open_services, project
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.java_options import spark_options
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import KAFKA
from driftq.pipeline import open_session
from driftq.settings import load_settings
from tests.services_kafka import KafkaServer, connector_jars
from tests.support.maven import jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = 2_000_000
PARTITIONS = 4
RUNS = 3
BATCH = 1_000_000
SHARE_OF_TOPIC = 0.8
SHARE_OF_HAND = 1.0
WARM_UP = 20_000
EVENT = (
    "event_id string, aggregate_type string, aggregate_id string, sequence_number long, "
    "operation string, payload string"
)
UPSERT = """
INSERT INTO {schema}.rows AS kept
SELECT aggregate_type, aggregate_id, sequence_number, event_id, CAST(state AS json) FROM {schema}.stage
ON CONFLICT (aggregate_id, aggregate_type) DO UPDATE SET
    sequence_number = excluded.sequence_number, event_id = excluded.event_id, state = excluded.state
WHERE kept.sequence_number < excluded.sequence_number
"""


@dataclass(frozen=True, slots=True)
class KafkaBed:
    """The same Spark and PostgreSQL, once with DriftQ's topics and once with Kafka's."""

    driftq: Bed
    kafka: Bed
    cluster: KafkaOptions


def kafka_projection(events: int = EVENTS) -> list[Figure]:
    """Twenty events an aggregate, and then two, each of which becomes a row."""
    with open_kafka_bed() as bed:
        _compare(bed, "warm", WARM_UP, aggregates_of(WARM_UP), runs=1)
        often = _compare(bed, "often", events, aggregates_of(events))
        once = _compare(bed, "once", events, events // 2, batch=events // 2)
    return [*often, *once]


def _compare(
    bed: KafkaBed, name: str, events: int, aggregates: int, *, runs: int = RUNS, batch: int = BATCH
) -> list[Figure]:
    topic = f"events.{name}"
    fill(bed.driftq, topic, events, aggregates=aggregates)
    fill_kafka(bed.cluster, topic, events, aggregates)
    hand: list[float] = []
    kafka: list[float] = []
    driftq: list[float] = []
    for run in range(runs):
        hand.append(by_hand(bed, topic, events, schema=f"hand_{name}_{run}", batch=batch))
        kafka.append(project(bed.kafka, name, events, schema=f"kafka_{run}", batch_messages_max=batch))
        driftq.append(project(bed.driftq, name, events, schema=f"driftq_{run}", batch_messages_max=batch))
    of_topic, of_hand = min(driftq) / min(kafka), min(hand) / min(kafka)
    what = f"{events:,} events of {aggregates:,} aggregates"
    return [
        Figure(f"DriftQ topic → PostgreSQL, {what}", events / min(driftq), "/s"),
        Figure("job by hand: Kafka → JDBC → upsert", events / min(hand), "/s"),
        Figure("Kafka → PostgreSQL read model", events / min(kafka), "/s"),
        Figure("… as a part of the DriftQ topic", of_topic, "×", at_least(SHARE_OF_TOPIC)),
        Figure("… as a part of the job by hand", of_hand, "×", at_least(SHARE_OF_HAND)),
    ]


@contextmanager
def open_kafka_bed() -> Iterator[KafkaBed]:
    import pyspark

    cluster = KafkaServer()
    try:
        with open_services() as services:
            options = load_settings().pipeline(url=services.url, data=str(services.place / "data"))
            needed = [*connector_jars(pyspark.__version__), *jars("postgres-jdbc")]
            reached = replace(cluster.options, spark_jars=",".join(map(str, needed)))
            on_kafka = replace(options, transport=KAFKA, kafka=reached)
            spark = open_session(on_kafka, app_name="bench", reads_kafka=True)
            place = (services.place, services.server, services.postgres, spark)
            yield KafkaBed(Bed(*place, options), Bed(*place, on_kafka), cluster.options)
            spark.stop()
    finally:
        cluster.remove()


def fill_kafka(cluster: KafkaOptions, topic: str, events: int, aggregates: int) -> None:
    """With the headers of our publisher; the job by hand does not read them."""
    from confluent_kafka import Producer

    assert cluster.bootstrap is not None
    servers: dict[str, str | int | float | bool] = {"bootstrap.servers": cluster.bootstrap}
    with KafkaCluster(cluster) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
    producer = Producer(servers | {"partitioner": "murmur2_random", "linger.ms": 50, "batch.size": 1_000_000})
    for event in bench_events(events, aggregates):
        names = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")
        while True:
            try:
                producer.produce(
                    topic,
                    key=str(event["aggregate_id"]),
                    value=json.dumps(event),
                    headers=[(name, str(event[name])) for name in names],
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(600) == 0


def by_hand(bed: KafkaBed, topic: str, events: int, *, schema: str, batch: int) -> float:
    """Seconds from the start of the query to its last upsert."""
    from pyspark.sql import functions as f

    url = make_url(bed.driftq.postgres).set(drivername="postgresql")
    address = url.render_as_string(hide_password=False)
    jdbc = f"jdbc:postgresql://{url.host}:{url.port}/{url.database}?reWriteBatchedInserts=true"
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(
            f"CREATE TABLE {schema}.rows (aggregate_type text, aggregate_id text, sequence_number bigint, "
            "event_id text, state json, PRIMARY KEY (aggregate_id, aggregate_type))"
        )

    def upsert(rows: "DataFrame", number: int) -> None:
        event = f.from_json(f.col("value").cast("string"), EVENT)
        parsed = rows.select(event.alias("event")).select("event.*")
        state = f.when(f.col("operation") != "delete", f.col("payload"))
        newest = parsed.groupBy("aggregate_type", "aggregate_id").agg(
            f.max("sequence_number").alias("sequence_number"),
            f.max_by("event_id", "sequence_number").alias("event_id"),
            f.max_by(state, "sequence_number").alias("state"),
        )
        newest.write.format("jdbc").mode("overwrite").options(
            url=jdbc,
            dbtable=f"{schema}.stage",
            user=url.username or "",
            password=url.password or "",
            driver="org.postgresql.Driver",
            batchsize="10000",
        ).save()
        with psycopg.connect(address) as connection:
            connection.execute(UPSERT.format(schema=schema))

    wanted = spark_options(bed.cluster) | {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(batch),
        "kafka.isolation.level": "read_committed",
    }
    stream = bed.kafka.spark.readStream.format("kafka").options(**wanted).load()
    began = time.perf_counter()
    query = (
        stream.writeStream.option("checkpointLocation", str(bed.driftq.place / uuid4().hex))
        .foreachBatch(upsert)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    took = time.perf_counter() - began
    with psycopg.connect(address) as connection:
        found = connection.execute(f"SELECT sum(sequence_number) FROM {schema}.rows").fetchone()
    assert found is not None
    assert int(found[0]) == events
    return took
