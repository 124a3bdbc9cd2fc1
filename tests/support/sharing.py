"""How processes share the tests: by module, all that shares the Spark session in one of them.

So a module's server is started once and there is one Spark session. Tests whose drivers are processes of
their own are together too: at most one of them runs beside the session. Modules are handed out in the order
in which they are named: name the slow ones first. Seeds of the simulator share nothing and take long, so
they are handed out one by one, and no process is left alone with a long module at the end.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

OWN_DRIVERS = (
    "tests/acceptance/pipeline/",
    "tests/acceptance/spark_worker/",
    "tests/spark/test_projection_killed.py",
    "tests/spark/test_publisher_killed.py",
)
ON_SPARK = ("tests/spark/", *OWN_DRIVERS)
ONE_BY_ONE = (
    "tests/simulation/test_checkers_catch.py",
    "tests/simulation/test_seeds.py",
    "tests/simulation/test_work_seeds.py",
)


def is_on_spark(nodeid: str) -> bool:
    return nodeid.startswith(ON_SPARK)


class SharedByModule(LoadScopeScheduling):  # type: ignore[misc]
    """What `--dist loadscope` does, with the suites on Spark as two modules."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(OWN_DRIVERS):
            return "drivers"
        if nodeid.startswith(ONE_BY_ONE):
            return nodeid
        return "spark" if is_on_spark(nodeid) else nodeid.partition("::")[0]
