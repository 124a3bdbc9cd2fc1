"""From Spark's long account of a failure to the one line that says what went wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT_MAX = 500
_TRACEBACK = "Traceback (most recent call last)"
_NAMED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: (.*))?$")


@dataclass(frozen=True, slots=True)
class Cause:
    """What a query failed of. `kind` is the class of the Python error at its bottom, if there is one."""

    kind: str | None
    text: str


def cause_of(failure: BaseException) -> Cause:
    """Our own errors speak for themselves; of a Python traceback inside Spark's the last line counts."""
    text = str(failure).strip()
    if _TRACEBACK in text:
        kind, said = _last_of_traceback(text)
    else:
        kind, said = type(failure).__name__, text.partition("terminated with exception: ")[2] or text
    first = next(
        (line.strip() for line in said.splitlines() if line.strip()), kind or "an error without words"
    )
    return Cause(kind, first if len(first) <= _TEXT_MAX else first[: _TEXT_MAX - 1] + "…")


def _last_of_traceback(text: str) -> tuple[str | None, str]:
    """The line under the innermost traceback names the error's class; ours need no such introduction."""
    for line in text.rsplit(_TRACEBACK, maxsplit=1)[-1].splitlines()[1:]:
        if line[:1].strip() and (named := _NAMED.match(line)):
            ours = line.startswith("driftq.") and named[2]
            return named[1], named[2] if ours else line.removeprefix("pyspark.errors.exceptions.base.")
    return None, text
