"""The guide's way to read documents works on what the sink has written."""

import re
from pathlib import Path
from typing import Any

import pytest
import redis

from driftq.sinks import Application, Change
from driftq.sinks.redis import RedisSink
from driftq.testing.sinks.cast import change

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "redis.md"


@pytest.mark.clause("V6", "O5")
def test_the_guides_reader_finds_documents_before_and_after_a_rebuild(redis_sink: RedisSink) -> None:
    [block] = [
        each for each in re.findall(r"```py\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "def " in each
    ]
    guide: dict[str, Any] = {}
    exec(block, guide)
    model = redis_sink.connect("orders")
    odd = Change("a:b%", "é {x}:\n", 1, "e", '{"odd":true}')
    model.apply(Application(changes=[change(1), odd, change(2, of="gone", deleted=True)]), model.take_over())
    with redis.Redis.from_url(redis_sink.url) as client:

        def read(aggregate_type: str, aggregate_id: str) -> bytes | None:
            found: bytes | None = guide["read_document"](
                client, "orders", aggregate_type, aggregate_id, prefix=redis_sink.prefix
            )
            return found

        assert read("order", "o-1") == b'{"at": 1}'
        assert read(*odd[:2]) == b'{"odd":true}'
        assert read("order", "gone") is None
        assert read("order", "never") is None
        fresh = model.beside()
        rebuilding = fresh.take_over()
        fresh.apply(Application(changes=[change(2)]), rebuilding)
        assert read("order", "o-1") == b'{"at": 1}'
        model.swap(rebuilding)
        assert read("order", "o-1") == b'{"at": 2}'
    model.close()
