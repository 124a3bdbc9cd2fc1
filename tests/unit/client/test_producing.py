"""A produce is repeated only under a key, and only while that can help; many go in one request."""

import asyncio
from typing import Any

import msgspec
import pytest

from driftq.client import AsyncClient, ClientOptions
from driftq.errors import (
    BatchRefused,
    ClientClosed,
    DriftQError,
    InvalidArgument,
    Overloaded,
    ServerUnreachable,
    ShuttingDown,
    TopicNotFound,
)
from tests.unit.client.scripted import DROP, REFUSE, SILENCE, Request, Script, stored

FULL = Overloaded("t", partition=0, limit="full", retry_after_ms=10)


def client(script: Script, **options: Any) -> AsyncClient:
    return AsyncClient(connector=script, options=ClientOptions(**options))


def refusing(*errors: DriftQError | None) -> Any:
    """Some messages of a batch are refused."""

    def reply(request: Request) -> dict[str, Any]:
        from driftq.http.wire.exchange import error_fields

        answer = stored(request)
        for place, error in enumerate(errors):
            if error is not None:
                answer["results"][place] = error_fields(error)
        return answer

    return reply


@pytest.mark.clause("P7")
@pytest.mark.parametrize("failure", [DROP, REFUSE, ShuttingDown(), FULL], ids=str)
async def test_a_message_is_sent_until_it_is_confirmed_under_one_key(failure: Any) -> None:
    script = Script([failure, failure, stored])
    async with client(script) as asking:
        receipt = await asking.produce("t", "v")
    assert receipt.offset == 0
    keys = {line["envelope"]["idempotency_key"] for request in script.requests for line in request.lines}
    assert len(keys) == 1
    if failure != REFUSE:
        assert len(script.requests) == 3


@pytest.mark.clause("P7")
@pytest.mark.parametrize("failure", [DROP, REFUSE, ShuttingDown(), FULL], ids=str)
async def test_without_retries_there_is_no_key_and_no_second_try(failure: Any) -> None:
    script = Script([failure, stored])
    async with client(script) as asking:
        with pytest.raises(DriftQError) as raised:
            await asking.produce("t", "v", retries=0)
    assert isinstance(raised.value, ServerUnreachable if isinstance(failure, str) else type(failure))
    assert len(script.requests) <= 1
    assert all("envelope" not in line for request in script.requests for line in request.lines)


@pytest.mark.clause("P7")
async def test_retries_are_counted_where_they_are_given() -> None:
    script = Script([DROP, DROP, DROP, stored])
    async with client(script) as asking:
        with pytest.raises(ServerUnreachable):
            await asking.produce("t", "v", retries=2)
    assert len(script.requests) == 3


async def test_a_refusal_for_good_is_not_argued_with() -> None:
    script = Script([refusing(TopicNotFound("t"))])
    async with client(script) as asking:
        with pytest.raises(TopicNotFound) as raised:
            await asking.produce("t", "v")
    assert raised.value.topic == "t"
    assert len(script.requests) == 1


async def test_patience_ends() -> None:
    script = Script([ShuttingDown()])
    async with client(script, timeout_s=1.5) as asking:
        with pytest.raises(ShuttingDown):
            await asyncio.wait_for(asking.produce("t", "v"), 60)
    assert len(script.requests) >= 2


async def test_a_server_that_says_nothing_is_given_up_on() -> None:
    script = Script([SILENCE])
    async with client(script, timeout_s=1.5, attempt_timeout_s=0.1) as asking:
        with pytest.raises(ServerUnreachable) as raised:
            await asyncio.wait_for(asking.produce("t", "v"), 60)
    assert raised.value.cause == "no response in time"
    assert script.connections >= 2


@pytest.mark.clause("P6")
async def test_what_is_produced_together_goes_in_one_request() -> None:
    script = Script([stored])
    async with client(script) as asking:
        await asyncio.gather(*[asking.produce("t", str(number)) for number in range(500)])
    assert [len(request.lines) for request in script.requests] == [500]
    assert [line["value"] for line in script.requests[0].lines] == [str(number) for number in range(500)]


@pytest.mark.clause("P6")
async def test_the_server_gets_the_first_of_many_before_the_last_have_asked() -> None:
    script = Script([stored])
    sent_before_the_last: list[int] = []

    async def ask(asking: AsyncClient, number: int) -> None:
        if number == 599:
            sent_before_the_last.append(sum(len(request.lines) for request in script.requests[1:]))
        await asking.produce("t", str(number))

    async with client(script) as asking:
        await asking.produce("t", "so that it is connected")
        await asyncio.gather(*[ask(asking, number) for number in range(600)])
    assert sent_before_the_last == [500]
    assert [line["value"] for request in script.requests[1:] for line in request.lines] == [
        str(number) for number in range(600)
    ]


@pytest.mark.parametrize(
    "answer", [b"<html>", b"[]", b'{"results":[]}', b'{"results":[{"status":"produced"}]}']
)
async def test_an_answer_that_cannot_be_understood_is_asked_for_again(answer: bytes) -> None:
    script = Script([lambda _: msgspec.Raw(answer), stored])
    async with client(script) as asking:
        receipt = await asyncio.wait_for(asking.produce("t", "v"), 60)
    assert receipt.offset == 0
    assert len({request.body for request in script.requests}) == 1
    assert len(script.requests) == 2


@pytest.mark.clause("P6")
async def test_of_a_batch_only_what_was_refused_for_now_is_sent_again() -> None:
    script = Script([refusing(None, FULL, TopicNotFound("t")), stored])
    async with client(script) as asking:
        first, second, third = await asyncio.gather(
            *[asking.produce("t", value) for value in "abc"], return_exceptions=True
        )
    assert isinstance(third, TopicNotFound)
    assert not isinstance(first, BaseException)
    assert not isinstance(second, BaseException)
    assert [[line["value"] for line in request.lines] for request in script.requests] == [
        ["a", "b", "c"],
        ["b"],
    ]


async def test_order_survives_a_lost_connection() -> None:
    script = Script([stored, DROP, stored])
    async with client(script, batch_messages=10, requests_under_way=3) as asking:
        receipts = await asking.produce_many("t", [str(number) for number in range(60)])
    assert len(receipts) == 60
    last: dict[str, int] = {}
    for place, request in enumerate(script.requests):
        last.update({line["value"]: place for line in request.lines})
    assert sorted(last.values()) == [last[str(number)] for number in range(60)]


async def test_memory_is_bounded_by_holding_the_caller_back() -> None:
    script = Script([stored], hold=asyncio.Event())
    asking = client(script, buffer_messages=20, batch_messages=5, requests_under_way=2)
    tasks = [asyncio.create_task(asking.produce("t", str(number))) for number in range(100)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert asking._producing is not None
    assert asking._producing.batcher._unanswered <= 20
    assert sum(len(request.lines) for request in script.requests) == 10
    assert script.hold is not None
    script.hold.set()
    await asyncio.gather(*tasks)
    await asking.close()


async def test_a_caller_who_gives_up_stops_nobody() -> None:
    script = Script([stored], hold=asyncio.Event())
    async with client(script) as asking:
        given_up = asyncio.create_task(asking.produce("t", "a"))
        other = asyncio.create_task(asking.produce("t", "b"))
        await asyncio.sleep(0)
        given_up.cancel()
        assert script.hold is not None
        script.hold.set()
        assert (await other).offset == 0


async def test_closing_sends_what_waits_and_ends_the_client() -> None:
    script = Script([stored])
    asking = client(script)
    waiting = asyncio.create_task(asking.produce("t", "v"))
    await asyncio.sleep(0)
    await asking.close()
    assert (await waiting).offset == 0
    with pytest.raises(ClientClosed):
        await asking.produce("t", "v")


async def test_closing_does_not_wait_for_ever() -> None:
    script = Script([REFUSE] * 50)
    asking = client(script, close_timeout_s=0.05)
    waiting = asyncio.create_task(asking.produce("t", "v"))
    await asyncio.sleep(0)
    await asking.close()
    with pytest.raises(ClientClosed):
        await waiting


async def test_many_say_which_were_refused() -> None:
    script = Script([refusing(None, TopicNotFound("t"))])
    async with client(script) as asking:
        with pytest.raises(BatchRefused) as raised:
            await asking.produce_many("t", ["a", "b", "c"])
        assert list(raised.value.errors) == [1]
        assert sorted(raised.value.receipts) == [0, 2]
        assert await asking.produce_many("t", []) == []


@pytest.mark.clause("P7")
async def test_many_get_a_key_each() -> None:
    script = Script([stored])
    async with client(script) as asking:
        await asking.produce_many("t", ["a", "b"], idempotency_key="import", key=str.upper)
        await asking.produce_many("t", ["c"], idempotency_key=lambda value: f"of-{value}")
        await asking.produce_many("t", ["d"], retries=0)
    lines = [line for request in script.requests for line in request.lines]
    keys = [line.get("envelope", {}).get("idempotency_key") for line in lines]
    assert keys == ["import-1", "import-2", "of-c", None]
    assert [line["key"] for line in lines[:2]] == ["A", "B"]


async def test_a_bad_value_is_refused_alone() -> None:
    script = Script([stored])
    async with client(script) as asking:
        with pytest.raises(InvalidArgument):
            await asking.produce("t", object())
        assert (await asking.produce("t", "v")).offset == 0
