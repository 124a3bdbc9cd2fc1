"""A pipeline on a real cluster: server, PostgreSQL, S3 and perhaps Kafka, with parts that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pyspark

from driftq.errors import KafkaTopicNotFound
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import PipelineOptions
from driftq.settings import load_settings
from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess
from tests.matrix.cluster.kills import KILLED, Kill, kill_driver
from tests.services_kafka import connector_jars
from tests.services_s3 import S3Server
from tests.services_spark_cluster import SparkCluster

ENDS_WITHIN_S = 1_800
"""For one run, on a machine that has many others to run."""
_POLL_S = 0.2


class ClusterStage:
    """The commands of one pipeline that runs on the cluster, and what came of it."""

    def __init__(
        self,
        folder: Path,
        cluster: SparkCluster,
        *,
        app: str,
        database_url: str,
        s3: S3Server,
        kafka: KafkaOptions | None = None,
        settings: dict[str, str] | None = None,
        words: Sequence[str] = (),
    ) -> None:
        """`settings` go into the environment of the commands, `words` behind `driftq pipeline run`."""
        self.cluster = cluster
        self.app = folder / "app.py"
        self.app.write_text(app)
        self._folder = folder
        self._kafka = kafka
        self._database_url = database_url
        access = {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
        env = access | {
            "AWS_REGION": s3.region,
            "DRIFTQ_DATABASE_URL": database_url,
            "DRIFTQ_OBJECTS_URL": s3.fresh_url(),
            "DRIFTQ_S3_ENDPOINT": s3.endpoint,
            "PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS": "5",
            "PROCESSED_EVENT_HEARTBEAT_INTERVAL_SECONDS": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        if kafka is not None:
            env |= {
                "DRIFTQ_TRANSPORT": "kafka",
                "DRIFTQ_KAFKA_BOOTSTRAP": str(kafka.bootstrap),
                "DRIFTQ_SPARK_KAFKA_JARS": ",".join(map(str, connector_jars(pyspark.__version__))),
            }
        self._env = env | (settings or {})
        self.server = ServerProcess(folder / "data", env=self._env)
        executors = [f"spark.executorEnv.{name}={value}" for name, value in access.items()]
        conf = [*executors, "spark.driver.host=127.0.0.1", "spark.cores.max=2", "spark.executor.memory=768m"]
        self._words = [*words, *(word for one in conf for word in ("--conf", one))]
        self._errors = folder / "errors-0"
        self.starts = 0

    def start(self, *tables: str) -> None:
        """Database and server; `tables` are statements that make what handlers write to."""
        upgraded = subprocess.run(
            [sys.executable, "-m", "driftq", "db", "upgrade"],
            env=os.environ | self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert upgraded.returncode == 0, upgraded.stderr
        self.server.start()
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            for statement in tables:
                connection.execute(statement.encode())

    @property
    def pipeline(self) -> PipelineCommands:
        return PipelineCommands(f"http://127.0.0.1:{self.server.port}", self.server.data, env=self._env)

    @property
    def options(self) -> PipelineOptions:
        """What the jobs are told, for a look at their tables."""
        return load_settings(environ=self._env).pipeline(
            url=f"http://127.0.0.1:{self.server.port}", data=str(self.server.data)
        )

    def run(self, *jobs: str, kills: Sequence[Kill] = ()) -> None:
        """Run these jobs once on the cluster, with these kills in this order, each at its moment.

        Only a driver that was killed is started again. Fails when a moment did not come.
        """
        left = list(kills)
        end = time.monotonic() + ENDS_WITHIN_S
        while True:
            process = self._start(*jobs)
            try:
                while process.poll() is None:
                    assert time.monotonic() < end, self.said()
                    if left and left[0].done(self, process):
                        left.pop(0)
                    time.sleep(_POLL_S)
            finally:
                if process.poll() is None:
                    kill_driver(self, process)
            if process.returncode == 0:
                assert not left, f"{len(left)} moments did not come:\n{self.said()}"
                return
            assert process.returncode == KILLED, f"{process.returncode}:\n{self.said()}"

    def said(self) -> str:
        """The end of what the command of the current run has said."""
        return self._errors.read_text()[-4000:]

    def published(self, topics: Sequence[str]) -> int:
        """How many messages these topics have by now."""
        if self._kafka is not None:
            return self._published_to_kafka(topics)
        client, found = self.server.client(), 0
        for topic in topics:
            answer = client.get(f"/v1/topics/{topic}")
            if answer.status == 200:
                found += sum(one["messages"] for one in answer.body["partitions"])
        return found

    def rows_done(self, job: str) -> int:
        """How many messages of finished batches a job has reported."""
        status = self.pipeline.status_of(job)
        return 0 if status is None else status.rows

    def counted(self, table: str) -> int:
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
            return 0 if row is None else int(row[0])

    def selected(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self._database_url) as connection:
            return [tuple(row) for row in connection.execute(query.encode()).fetchall()]

    def stop(self) -> None:
        self.server.kill()

    def _start(self, *jobs: str) -> subprocess.Popen[bytes]:
        self.starts += 1
        self._errors = self._folder / f"errors-{self.starts}"
        words = ["run", *jobs, "--app", str(self.app), "--once", "--master", self.cluster.url, *self._words]
        return self.pipeline.start(*words, errors=self._errors)

    def _published_to_kafka(self, topics: Sequence[str]) -> int:
        """Those of open transactions too: they are sent, and not yet to be seen."""
        assert self._kafka is not None
        with KafkaCluster(self._kafka) as cluster:
            try:
                return sum(cluster.end_offsets(topics, committed=False).values())
            except KafkaTopicNotFound:
                return 0
