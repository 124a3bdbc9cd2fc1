"""The face for callers without a loop is the awaited client, call for call: nobody has to learn two."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from driftq.client import (
    AsyncClient,
    AsyncDeadLetters,
    AsyncEventStore,
    Client,
    DeadLetters,
    EventStore,
    Idempotency,
    JobCalls,
)
from driftq.client.effects import AsyncIdempotency
from driftq.client.job_calls import AsyncJobCalls

PAIRS = [
    (AsyncClient, Client),
    (AsyncIdempotency, Idempotency),
    (AsyncJobCalls, JobCalls),
    (AsyncDeadLetters, DeadLetters),
    (AsyncEventStore, EventStore),
]
OWN = {"over"}
"""What only the face has, because it lives on a thread: how it is put in front of a client."""


def _calls(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, value in vars(kind).items():
        if not name.startswith("_") and inspect.isfunction(value):
            yield name, value


def _parameters(call: Callable[..., object]) -> list[tuple[object, ...]]:
    found = inspect.signature(call).parameters.values()
    return [(one.name, one.kind, one.default, one.annotation) for one in found]


@pytest.mark.parametrize(("awaited", "face"), PAIRS, ids=lambda kind: kind.__name__)
def test_the_face_has_every_call_with_the_same_parameters(awaited: type, face: type) -> None:
    calls, faces = dict(_calls(awaited)), dict(_calls(face))
    assert set(calls) == set(faces) - OWN
    for name, call in calls.items():
        assert _parameters(call) == _parameters(faces[name]), name
        assert not inspect.iscoroutinefunction(faces[name]), name
        assert all(inspect.getdoc(one) for one in (call, faces[name])), f"{name} says nothing"
