"""From Spark's long account of a failure to the one line that says what went wrong."""

from __future__ import annotations

import re

_TEXT_MAX = 500
_NOISE = re.compile(
    r"^\s*(at |File \"|\^|~|Traceback|\.\.\. \d+ more|JVM stacktrace|During handling|The above)"
)


def cause_of(failure: BaseException) -> str:
    """Our own errors speak for themselves; of a Python traceback inside Spark's the last line counts."""
    text = str(failure).strip() or type(failure).__name__
    if "Traceback (most recent call last)" in text:
        text = _last_of_traceback(text)
    elif text.startswith("[STREAM_FAILED]"):
        text = text.partition("terminated with exception: ")[2] or text
    first = next((line.strip() for line in text.splitlines() if line.strip()), text)
    return first if len(first) <= _TEXT_MAX else first[: _TEXT_MAX - 1] + "…"


def _last_of_traceback(text: str) -> str:
    """The line under the innermost traceback; it begins with the error's class."""
    lines = text.rsplit("Traceback (most recent call last)", maxsplit=1)[-1].splitlines()[1:]
    for line in lines:
        if line[:1].strip() and not _NOISE.match(line):
            return line.removeprefix("pyspark.errors.exceptions.base.")
    return text
