"""Errors of delta-rs as ours: one sentence each, without the trail of requests behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from driftq.errors import ReadModelUnavailable

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ANSWER = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")
_ASKED_THE_MACHINE = ("169.254.169.254", "/latest/api/token")
_CAUSE_MAX = 300
_KEYS = "check the access key and its secret"
_ADVICE = {
    "AccessDenied": _KEYS,
    "InvalidAccessKeyId": _KEYS,
    "SignatureDoesNotMatch": _KEYS,
    "NoSuchBucket": "create the bucket, or correct the address",
}
"""By the code of a bucket's answer."""
_NO_FOLDER = "Could not create local directory"


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Whatever the storage or the library refuses is an outage: no row is given up for it."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise ReadModelUnavailable(address, cause=cause_of(error)) from error


def cause_of(error: Exception) -> str:
    text = _COLOURS.sub("", str(error))
    if any(mark in text for mark in _ASKED_THE_MACHINE):
        return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if answer := _ANSWER.search(text):
        advice = f": {_ADVICE[answer[1]]}" if answer[1] in _ADVICE else ""
        return f"{answer[1]}: {answer[2]}{advice}"
    lines = [line.strip(" ↳\t") for line in text.splitlines() if line.strip()] or [type(error).__name__]
    said = (lines[-1] if "↳" in text else lines[0])[:_CAUSE_MAX]
    return f"{said}: name a folder that this user may write" if said.startswith(_NO_FOLDER) else said
