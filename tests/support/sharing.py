"""How processes share the tests: by module, all that shares the Spark session in one of them.

So a module's server is started once and there is one Spark session. Tests whose drivers are processes of
their own are together too: at most one of them runs beside the session. Modules are handed out in the order
in which they are named: name the slow ones first. Seeds of the simulator share nothing and take long, so
they are handed out one by one, and no process is left alone with a long module at the end.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

OWN_DRIVERS = "tests/acceptance/pipeline/"
ON_SPARK = ("tests/spark/", "tests/matrix/spark_kills/", "tests/matrix/volume/", OWN_DRIVERS)
ON_KAFKA = (
    "tests/services/kafka_s3_postgres/test_effects.py",
    "tests/services/test_bridge",
    "tests/services/test_kafka_partitions.py",
    "tests/services/test_kafka_publisher.py",
    "tests/services/test_kafka_read_models.py",
    "tests/services/transport/",
)
"""These share a session with Kafka's connector, and mostly a broker."""
ONE_BY_ONE = (
    "tests/simulation/test_checkers_catch.py",
    "tests/simulation/test_seeds.py",
    "tests/simulation/test_work_seeds.py",
)


def is_on_spark(nodeid: str) -> bool:
    return nodeid.startswith(ON_SPARK)


class SharedByModule(LoadScopeScheduling):  # type: ignore[misc]
    """What `--dist loadscope` does, with the suites on Spark as three modules."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(OWN_DRIVERS):
            return "drivers"
        if nodeid.startswith(ONE_BY_ONE):
            return nodeid
        if nodeid.startswith(ON_KAFKA):
            return "kafka"
        return "spark" if is_on_spark(nodeid) else nodeid.partition("::")[0]
