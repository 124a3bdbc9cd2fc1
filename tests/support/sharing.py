"""How processes share the tests: by module, all that shares the Spark session in one of them.

So a module's server is started once and there is one Spark session. Tests whose drivers are processes of
their own, to be killed, are together too: at most one of them runs beside the session. Modules are handed out
in the order in which they are named: name the slow ones first.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

OWN_DRIVERS = (
    "tests/acceptance/spark_worker/",
    "tests/spark/test_projection_killed.py",
    "tests/spark/test_publisher_killed.py",
)
ON_SPARK = ("tests/spark/", "tests/acceptance/pipeline/", *OWN_DRIVERS)


def is_on_spark(nodeid: str) -> bool:
    return nodeid.startswith(ON_SPARK)


class SharedByModule(LoadScopeScheduling):  # type: ignore[misc]
    """What `--dist loadscope` does, with the suites on Spark as two modules."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(OWN_DRIVERS):
            return "drivers"
        return "spark" if is_on_spark(nodeid) else nodeid.partition("::")[0]
