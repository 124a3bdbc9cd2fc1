"""How log lines are written: as text for people, or as JSON, one object a line, for collectors."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from typing import Any, TextIO

import msgspec

from driftq.telemetry.log_context import ATTRIBUTE, current_ids
from driftq.telemetry.tracing import current_trace_id

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_encode = msgspec.json.Encoder(enc_hook=str).encode


def log_to(stream: TextIO | None = None, *, level: str = "info", form: str = "text") -> None:
    """Write the log of this process to a stream, stderr by default; replaces what was set before."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class TextLines(logging.Formatter):
    """Time, level, logger, message; and the request's id where there is one."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        request_id = _ids(record).get("request_id")
        return line if request_id is None else f"{line} [request {request_id}]"


class JsonLines(logging.Formatter):
    """`ts`, `level`, `logger`, `message`, then the ids that are known, then the error with its frames."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "ts": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(_ids(record))
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            line["stack"] = self.formatException(record.exc_info)
        elif record.stack_info:
            line["stack"] = record.stack_info
        return _encode(line).decode()


def _ids(record: logging.LogRecord) -> dict[str, Any]:
    """Those of the block that the line was logged in, then the line's own."""
    found = {**current_ids(), **getattr(record, ATTRIBUTE, {})}
    trace_id = current_trace_id()
    if trace_id is not None:
        found["trace_id"] = trace_id
    return found


def frames_of(error: BaseException) -> str:
    """Where an error was raised and its class, without its text, which may quote what a client sent."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"{frames}{type(error).__name__}"


def raised_at(error: BaseException) -> str:
    """The class of an error and the line that raised it, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
