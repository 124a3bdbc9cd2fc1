"""A head that was read before changes nothing about what a request is, however its bytes are cut."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.errors import DriftQError, InvalidArgument
from driftq.http.wire.edge import HttpOptions
from driftq.http.wire.exchange import Exchange
from driftq.http.wire.hosts import HostRule
from driftq.http.wire.parser import HEADS_MAX, CachedHead, HeadCache, RequestReader

Seen = tuple[bytes, bytes, bytes, bytes, bool, bytes]


class _Forgetful(HeadCache):
    def learn(self, octets: bytes, url: bytes, head: CachedHead) -> None:
        """Every request is the parser's."""


class _RequestSource:
    """Takes the requests of one connection."""

    def __init__(self, known: HeadCache) -> None:
        self.seen: list[Seen] = []
        edge = SimpleNamespace(options=HttpOptions(), known_heads=known, host_rule=HostRule(()), guard=None)
        self.reader = RequestReader(cast(Any, edge), cast(Any, self))

    def received(self, exchange: Exchange, refusal: DriftQError | None = None) -> None:
        place = (exchange.method, exchange.path, exchange.query)
        self.seen.append((*place, exchange.content_type, refusal is not None, exchange.body))

    def owe_continue(self) -> None:
        """The body is on its way already."""


def post(body: bytes, *headers: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join((b"POST /v1/produce?a=1 HTTP/1.1", b"Host: localhost", *headers, length, b"", body))


REQUESTS = (
    b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
    b"\r\n\r\nGET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    post(b'{"value":"a"}', b"Content-Type: application/json"),
    post(b'{"value":"b"}', b"Content-Type: application/json"),
    post(b"GET / HTTP/1.1\r\n\r\n", b"Content-Type: text/plain"),
    post(b"", b"Expect: 100-continue"),
    post(b"long " * 50, b"X-Own: " + b"y" * 300),
    b"POST /v1/ack HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"GET /v1/topics HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n",
    b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://elsewhere\r\n\r\n",
    b"GET /v1/topics HTTP/1.1\r\nHost: elsewhere\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
)

streams = st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=12)


@pytest.mark.clause("H1")
@given(streams, st.data())
def test_known_heads_give_the_same_requests(asked: list[bytes], data: st.DataObject) -> None:
    wanted = _RequestSource(_Forgetful())
    for request in asked:
        wanted.reader.feed(request)
    assert len(wanted.seen) == len(asked)
    known = HeadCache()
    whole = b"".join(asked)
    for _ in range(2):  # The second connection knows what the first one has learned.
        found = _RequestSource(known)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)))
        for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            found.reader.feed(whole[start:stop])
        assert found.seen == wanted.seen


def test_a_head_is_learned_once_and_the_parser_is_left_alone() -> None:
    source = _RequestSource(HeadCache())
    source.reader.feed(REQUESTS[3])
    source.reader._parser = cast(Any, None)  # Whoever uses it now fails.
    source.reader.feed(REQUESTS[4] + REQUESTS[3])
    assert [body for *_, body in source.seen] == [b'{"value":"a"}', b'{"value":"b"}', b'{"value":"a"}']


def test_what_does_not_begin_with_its_head_is_not_learned() -> None:
    known = HeadCache()
    source = _RequestSource(known)
    source.reader.feed(REQUESTS[2])
    source.reader.feed(REQUESTS[8])
    source.reader.feed(b"GET /v1/old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert len(source.seen) == 3
    assert not known


@pytest.mark.clause("Y6")
def test_a_head_that_is_refused_is_not_learned() -> None:
    known = HeadCache()
    source = _RequestSource(known)
    for request in (*REQUESTS[-2:], *REQUESTS[-2:]):
        source.reader.feed(request)
    assert [refused for *_, refused, _ in source.seen] == [True] * 4
    assert not known


def test_few_heads_are_kept() -> None:
    source = _RequestSource(HeadCache())
    for number in range(HEADS_MAX + 10):
        source.reader.feed(b"GET /v1/topics/%d HTTP/1.1\r\n\r\n" % number)
    assert len(source.seen) == HEADS_MAX + 10
    assert len(source.reader._known) == 10


def test_noise_behind_a_known_head_is_refused() -> None:
    source = _RequestSource(HeadCache())
    source.reader.feed(REQUESTS[0])
    with pytest.raises(InvalidArgument):
        source.reader.feed(REQUESTS[0] + b"noise\r\n\r\n")
    assert len(source.seen) == 2
