"""Log lines: as text for people and as JSON for collectors, with the ids of what they are about."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from driftq.telemetry.log_context import ids, log_ids
from driftq.telemetry.log_lines import frames_of, log_to, raised_at

logger = logging.getLogger("driftq.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the log goes meanwhile; the handlers from before come back."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield io.StringIO()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.clause("O2")
def test_a_json_line_carries_the_ids_of_its_block_and_its_own(stream: io.StringIO) -> None:
    log_to(stream, form="json")
    with log_ids(topic="orders", partition=1, offset=7, run_id="run-1"):
        with log_ids(job_id="job-3"):
            logger.warning("slow: %d s", 3, extra=ids(request_id="r-1"))
        logger.info("done")
    first, second = lines(stream)
    assert first.pop("ts").endswith("Z")
    assert first == {
        "level": "warning",
        "logger": "driftq.test",
        "message": "slow: 3 s",
        "topic": "orders",
        "partition": 1,
        "offset": 7,
        "run_id": "run-1",
        "job_id": "job-3",
        "request_id": "r-1",
    }
    assert "job_id" not in second
    assert second["offset"] == 7


@pytest.mark.clause("O2")
def test_a_level_leaves_out_what_is_below_it(stream: io.StringIO) -> None:
    log_to(stream, level="error", form="json")
    logger.warning("not this")
    logger.error("this")
    assert [line["message"] for line in lines(stream)] == ["this"]


@pytest.mark.clause("O2")
def test_an_error_is_one_json_line_with_its_frames(stream: io.StringIO) -> None:
    log_to(stream, form="json")
    try:
        raise KeyError("missing")
    except KeyError:
        logger.exception("it failed")
    (line,) = lines(stream)
    assert line["error"] == "KeyError"
    assert "test_an_error_is_one_json_line_with_its_frames" in line["stack"]


@pytest.mark.clause("O2")
def test_a_text_line_names_the_request_where_there_is_one(stream: io.StringIO) -> None:
    log_to(stream)
    logger.info("started")
    logger.error("it failed", extra=ids(request_id="r-9"))
    plain, failed = stream.getvalue().splitlines()
    assert plain.endswith("INFO driftq.test: started")
    assert failed.endswith("ERROR driftq.test: it failed [request r-9]")


@pytest.mark.clause("O2")
def test_the_frames_of_an_error_leave_out_its_text() -> None:
    try:
        raise ValueError("card 4111 1111")
    except ValueError as error:
        shown, place = frames_of(error), raised_at(error)
    assert "4111" not in shown.replace('raise ValueError("card 4111 1111")', "")
    assert shown.endswith("ValueError")
    assert place.startswith("ValueError at ")
    assert sys.exc_info() == (None, None, None)
