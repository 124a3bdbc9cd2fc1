"""Wire types: requests are strict, replies are lenient, and what a reply leaves out is fixed."""

import importlib
import pkgutil

import msgspec
import pytest

import driftq.model.wire
from driftq.model.wire.fields import Request
from driftq.model.wire.idempotency import EffectStatus
from driftq.model.wire.jobs import EnqueuedJob
from driftq.model.wire.produce import Receipt


def _structs() -> list[type[msgspec.Struct]]:
    found: list[type[msgspec.Struct]] = []
    for module in pkgutil.iter_modules(driftq.model.wire.__path__):
        home = importlib.import_module(f"driftq.model.wire.{module.name}")
        kinds = [kind for kind in vars(home).values() if isinstance(kind, type)]
        found += [
            kind for kind in kinds if issubclass(kind, msgspec.Struct) and kind.__module__ == home.__name__
        ]
    return found


def test_a_request_refuses_unknown_fields_and_a_reply_ignores_them() -> None:
    kinds = _structs()
    assert len(kinds) > 60
    wrong = [
        kind.__name__
        for kind in kinds
        if kind.__struct_config__.forbid_unknown_fields is not issubclass(kind, Request)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Receipt("t", 0, 7), b'{"status":"produced","topic":"t","partition":0,"offset":7,"duplicate":false}'),
        (EnqueuedJob("job-1", "ready"), b'{"job_id":"job-1","state":"ready","duplicate":false}'),
        (EffectStatus("FAILED", last_error=""), b'{"status":"FAILED","last_error":""}'),
        (
            EffectStatus("COMMITTED", owner="w", result=msgspec.Raw(b"null")),
            b'{"status":"COMMITTED","owner":"w","result":null}',
        ),
    ],
)
def test_a_reply_says_what_it_always_says(reply: msgspec.Struct, text: bytes) -> None:
    assert msgspec.json.encode(reply) == text
