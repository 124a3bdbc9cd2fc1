"""From Spark's long report of a failure to the one line that names the cause."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT_MAX = 500
_TRACEBACK = "Traceback (most recent call last)"
WORKER_LATE = "WorkerLate"
"""The kind of a start that failed because the machine was too busy: retry it soon."""
WORKER_WITHOUT_DRIFTQ = "WorkerWithoutDriftQ"
HOW_TO_EQUIP_WORKERS = (
    "install driftq where Spark's Python workers run, or let them run an interpreter that has it: "
    "PYSPARK_PYTHON, or spark.pyspark.python"
)
WORKERS_CANNOT_IMPORT = "Spark's Python workers cannot import driftq"
WORKERS_WITHOUT_DRIFTQ = f"{WORKERS_CANNOT_IMPORT}: {HOW_TO_EQUIP_WORKERS}"
_NAMED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: (.*))?$")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a query failed. `kind` is the class of the innermost Python error, if there is one."""

    kind: str | None
    text: str


_KNOWN = {
    # Spark gives a Python worker ten seconds to start, and reports a timeout only as this text.
    "Python worker failed to connect back": Cause(
        WORKER_LATE, "the machine was too busy to start Spark's Python worker in time"
    ),
    "No module named 'driftq'": Cause(WORKER_WITHOUT_DRIFTQ, WORKERS_WITHOUT_DRIFTQ),
    WORKERS_CANNOT_IMPORT: Cause(WORKER_WITHOUT_DRIFTQ, WORKERS_WITHOUT_DRIFTQ),
}


def cause_of(failure: BaseException) -> Cause:
    """Our own errors need no translation; of a Python traceback inside Spark's the last line counts."""
    text = str(failure).strip()
    known = next((cause for words, cause in _KNOWN.items() if words in text), None)
    if known is not None:
        return known
    if _TRACEBACK in text:
        kind, said = _last_of_traceback(text)
    else:
        kind, said = type(failure).__name__, text.partition("terminated with exception: ")[2] or text
    first = next(
        (line.strip() for line in said.splitlines() if line.strip()), kind or "an error without a message"
    )
    return Cause(kind, first if len(first) <= _TEXT_MAX else first[: _TEXT_MAX - 1] + "…")


def _last_of_traceback(text: str) -> tuple[str | None, str]:
    """The line under the innermost traceback names the error's class; ours need no class name."""
    for line in text.rsplit(_TRACEBACK, maxsplit=1)[-1].splitlines()[1:]:
        if line[:1].strip() and (named := _NAMED.match(line)):
            ours = line.startswith("driftq.") and named[2]
            return named[1], named[2] if ours else line.removeprefix("pyspark.errors.exceptions.base.")
    return None, text
