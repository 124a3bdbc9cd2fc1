"""Deleting by a call whose answer may be lost: a second try that finds nothing has found what it wanted."""

import pytest

from driftq.client import AsyncClient
from driftq.errors import GroupNotFound, TopicNotFound
from tests.unit.client.scripted import DROP, Script


def client_of(script: Script) -> AsyncClient:
    return AsyncClient(connector=script)


async def test_what_the_first_try_deleted_is_not_missed_by_the_second() -> None:
    script = Script([DROP, TopicNotFound("orders")])
    async with client_of(script) as client:
        await client.delete_topic("orders")
    assert [request.method for request in script.requests] == ["DELETE", "DELETE"]


async def test_what_was_never_there_is_missed() -> None:
    script = Script([GroupNotFound("orders", group="billing")])
    async with client_of(script) as client:
        with pytest.raises(GroupNotFound):
            await client.delete_group("orders", "billing")
    assert [request.path for request in script.requests] == ["/v1/topics/orders/groups/billing"]
