"""What travels to Spark's Python workers says what is missing there, instead of failing to unpickle.

Readers and writers are pickled in the driver, and loaded where a task runs. A pickle that names our classes
fails there with a traceback when DriftQ is not installed. So the pickle carries a small function by value,
made of the standard library alone, which looks for DriftQ first.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from pyspark import cloudpickle

from driftq.pipeline.runtime.causes import WORKERS_WITHOUT_DRIFTQ


class SaysWhatIsMissing:
    """A mixin for what is unpickled in Spark's Python workers."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack, (pickle.dumps((type(self), self.__dict__)), WORKERS_WITHOUT_DRIFTQ)


def can_import_driftq(_: object = None) -> bool:
    """The same question alone, for a task."""
    import importlib.util

    return importlib.util.find_spec("driftq") is not None


def _unpack(content: bytes, problem: str) -> Any:
    """Runs in the worker, where no module of ours may exist: it uses only what it imports itself."""
    import importlib.util
    import pickle

    if importlib.util.find_spec("driftq") is None:
        raise ImportError(problem)
    kind, state = pickle.loads(content)  # noqa: S301 - from the driver, as the tasks themselves are
    made = object.__new__(kind)
    made.__dict__.update(state)
    return made


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
