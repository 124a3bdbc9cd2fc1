"""What goes in as a value comes out as one."""

import dataclasses
import datetime as dt
import os

import msgspec
import pytest

from driftq.client import AppendReceipt, EventReceipt, Receipt
from driftq.client.producing.outgoing import keys, outgoing, text_of, with_instant
from driftq.errors import InvalidArgument
from driftq.model import Message, RetryPolicy
from driftq.model.value import BYTES_MARK, bytes_of, json_of
from driftq.model.wire.jobs import EnqueuedJob


@dataclasses.dataclass
class Order:
    id: int
    items: list[str]


@pytest.mark.parametrize("value", [{"id": 1}, [1, "zwei", None], 3.5, True, None])
def test_json_values_are_stored_as_json(value: object) -> None:
    assert json_of(text_of(value)) == value


def test_a_dataclass_is_read_back_as_one() -> None:
    order = Order(1, ["coffee"])
    assert json_of(text_of(order), Order) == order
    with pytest.raises(InvalidArgument):
        json_of('{"id": "one"}', Order)


def test_text_is_stored_as_it_is() -> None:
    assert text_of("two coffees ü") == "two coffees ü"
    assert text_of('{"id":1}') == '{"id":1}'


@pytest.mark.parametrize("octets", [b"", b"\x00\xff", b"plain", bytes(range(256))])
def test_bytes_come_back_as_they_were(octets: bytes) -> None:
    stored = text_of(octets)
    assert stored.startswith(BYTES_MARK)
    assert bytes_of(stored) == octets
    assert bytes_of(text_of(bytearray(octets))) == octets


def test_a_text_has_bytes_too() -> None:
    assert bytes_of("ü") == "ü".encode()
    assert bytes_of(BYTES_MARK + "not base64!") == (BYTES_MARK + "not base64!").encode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": object()},
        {"value": "\ud800"},
        {"key": "\ud800"},
        {"idempotency_key": "\ud800"},
        {"run_id": 5},
        {"unheard": "of"},
        {"labels": {"a": "\ud800"}},
        {"deliver_at": dt.datetime(2100, 1, 1)},  # noqa: DTZ001 - neither has this.
        {"deadline": dt.datetime(2100, 1, 1)},  # noqa: DTZ001 - that it has no zone is the point.
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_cannot_be_sent_is_refused_before_it_meets_others_in_a_batch(wrong: dict[str, object]) -> None:
    fields = {"value": "v", "key": "", "idempotency_key": None, **wrong}
    envelope = {
        name: fields.pop(name) for name in list(fields) if name not in ("value", "key", "idempotency_key")
    }
    with pytest.raises(InvalidArgument):
        outgoing("t", **fields, envelope=envelope)  # type: ignore[arg-type]


@pytest.mark.clause("E1")
def test_envelope_fields_are_written_as_they_were_given() -> None:
    message = outgoing(
        "t",
        "v",
        key="k",
        idempotency_key="i",
        envelope={
            "run_id": "r",
            "deadline": dt.datetime(2100, 1, 1, tzinfo=dt.UTC),
            "retry_policy": RetryPolicy(max_attempts=3),
        },
    )
    assert msgspec.json.decode(msgspec.json.encode(message)) == {
        "topic": "t",
        "value": "v",
        "key": "k",
        "envelope": {
            "idempotency_key": "i",
            "run_id": "r",
            "deadline": "2100-01-01T00:00:00+00:00",
            "retry_policy": {"max_attempts": 3},
        },
    }


@pytest.mark.clause("P9")
def test_a_delay_becomes_an_instant() -> None:
    now = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    fields = with_instant({"run_id": "r", "delay": 1.5}, lambda: now)
    assert fields == {"run_id": "r", "deliver_at": now + dt.timedelta(seconds=1.5)}
    message = outgoing("t", "v", key="", idempotency_key=None, envelope=fields)
    envelope = msgspec.json.decode(msgspec.json.encode(message))["envelope"]
    assert envelope == {"run_id": "r", "deliver_at": "2100-01-01T00:00:01.500000+00:00"}
    assert with_instant({"deliver_at": now}, lambda: now) == {"deliver_at": now}


@pytest.mark.clause("P9")
@pytest.mark.parametrize(
    "wrong", [{"delay": 1, "deliver_at": "2100-01-01T00:00:00Z"}, {"delay": "soon"}, {"delay": 1e30}]
)
def test_a_delay_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        with_instant(wrong, lambda: dt.datetime.now(dt.UTC))  # type: ignore[arg-type]


@pytest.mark.clause("P7")
def test_no_two_keys_are_the_same_also_not_in_a_child_process() -> None:
    mine = {keys.next() for _ in range(100)}
    assert len(mine) == 100
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, keys.next().encode())
        os._exit(0)
    os.waitpid(child, 0)
    prefix, _, _ = next(iter(mine)).rpartition("-")
    theirs = os.read(read_end, 100).decode()
    os.close(read_end)
    os.close(write_end)
    assert theirs
    assert not theirs.startswith(prefix)


def test_a_message_in_a_handlers_hands_is_read_as_a_type() -> None:
    message = Message("orders", text_of(Order(1, ["coffee"])))
    assert message.decode(Order) == Order(1, ["coffee"])
    assert message.json() == {"id": 1, "items": ["coffee"]}
    with pytest.raises(ValueError, match="Expected `int`"):
        Message("orders", '{"id": "one", "items": []}').decode(Order)


def test_what_a_call_gives_back_can_be_given_on_as_an_object() -> None:
    """As FastAPI's encoder does with what it does not know: it asks for a dict."""
    assert dict(Receipt("orders", 1, 2)) == {
        "topic": "orders",
        "partition": 1,
        "offset": 2,
        "duplicate": False,
        "payload_mismatch": False,
    }
    assert dict(EnqueuedJob("job-1", "ready"))["job_id"] == "job-1"
    assert dict(EventReceipt("e", 3, False))["sequence_number"] == 3
    assert dict(AppendReceipt(1, 0, 7))["position"] == 7
    assert msgspec.json.decode(msgspec.json.encode(Receipt("orders", 1, 2)), type=Receipt).offset == 2


def test_a_schema_for_pydantic_names_every_field() -> None:
    """Schemas are data: pydantic is no dependency, and its handler says only what each type looks like."""

    class Handler:
        def generate_schema(self, kind: type) -> dict[str, str]:
            return {"type": kind.__name__}

    schema = Receipt.__get_pydantic_core_schema__(Receipt, Handler())
    assert (schema["type"], schema["cls"]) == ("is-instance", Receipt)
    shown = schema["serialization"]["return_schema"]["fields"]
    assert {name: field["schema"]["type"] for name, field in shown.items()} == {
        "topic": "str",
        "partition": "int",
        "offset": "int",
        "duplicate": "bool",
        "payload_mismatch": "bool",
    }
