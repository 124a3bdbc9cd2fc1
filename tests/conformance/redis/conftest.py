"""The document store on a real server, and a second hand on it, as another process would have."""

from collections.abc import Callable, Iterator

import pytest

from driftq.sinks.redis import RedisSink
from driftq.sinks.redis.store import RedisStore
from tests.services_redis import make_redis, private_redis, redis_sink

__all__ = ["make_redis", "private_redis", "redis_sink"]

NAME = "orders_by_id"
PLACE = "a" * 32
OpenStore = Callable[..., RedisStore]


@pytest.fixture
def open_store(redis_sink: RedisSink) -> Iterator[OpenStore]:
    """Stores with the place; another sink may be given."""
    opened: list[RedisStore] = []

    def open_one(sink: RedisSink = redis_sink) -> RedisStore:
        opened.append(sink.open_store(NAME))
        opened[-1].create_place(PLACE)
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> RedisStore:
    return open_store()
