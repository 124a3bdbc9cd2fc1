"""How processes share the tests: by module, and all that needs Spark to one of them.

So a module's server is started once, there is one Spark session, and while one process is busy with Spark the
others do the rest. Modules are handed out in the order in which they are named: name the slow ones first.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

ON_SPARK = ("tests/spark/", "tests/acceptance/pipeline/", "tests/acceptance/spark_worker/")


def is_on_spark(nodeid: str) -> bool:
    return nodeid.startswith(ON_SPARK)


class SharedByModule(LoadScopeScheduling):  # type: ignore[misc]
    """What `--dist loadscope` does, with the suites on Spark as one module."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if is_on_spark(nodeid) else nodeid.partition("::")[0]
