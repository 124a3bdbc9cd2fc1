"""Whether Spark's Python workers have DriftQ, checked before a query fails with a pickle's traceback."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from driftq.errors import SparkUnusable
from driftq.pipeline.runtime.causes import HOW_TO_EQUIP_WORKERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_equipped_workers(spark: SparkSession) -> None:
    """Raise SparkUnusable if a worker that Spark starts for this session cannot import DriftQ.

    On this machine, and under this interpreter, it can. Otherwise one task checks it, made of the standard
    library alone, because our own modules could not be loaded there. Any other failure of that task is not
    reported here: the first query reports it in Spark's own words.
    """
    try:
        context: Any = spark.sparkContext
        if context.master.startswith("local") and runs_here(context.pythonExec):
            return
        found = context.parallelize(["driftq"], 1).map(importlib.util.find_spec).map(bool).collect()
    except Exception:  # noqa: BLE001 - Spark Connect has no context; a busy machine starts no worker in time.
        return
    if found == [False]:
        raise SparkUnusable("Spark's Python workers cannot import driftq", remedy=HOW_TO_EQUIP_WORKERS)


def runs_here(command: str) -> bool:
    """Whether this command is the interpreter that we run in: `python3` in a venv is `python` there."""
    path = shutil.which(command)
    if path is None:
        return False
    same_folder = os.path.dirname(os.path.abspath(path)) == os.path.dirname(sys.executable)
    return same_folder and os.path.realpath(path) == os.path.realpath(sys.executable)
