"""The address of a Redis sink: its options, and mistakes in it that never show a password."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.errors import InvalidArgument
from driftq.model import Aggregate
from driftq.sinks.redis import RedisSink
from driftq.sinks.redis.keys import BUCKETS, aggregate_of, document_name


@pytest.mark.clause("V6")
def test_an_address_has_every_option_and_passes_on_those_of_the_client() -> None:
    sink = RedisSink.from_url(
        "rediss://app:s%40cret@redis:6380/2?prefix=shop:a&ttl_ms=1000&guard_ttl_ms=5000&cluster=true"
        "&wait_replicas=1&assume_noeviction=yes&ssl_ca_certs=/etc/ca.pem"
    )
    assert sink == RedisSink(
        "rediss://app:s%40cret@redis:6380/2?ssl_ca_certs=%2Fetc%2Fca.pem",
        prefix="shop:a",
        ttl_ms=1000,
        guard_ttl_ms=5000,
        cluster=True,
        wait_replicas=1,
        assume_noeviction=True,
    )
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert "cret" not in repr(sink)
    assert RedisSink.from_url("redis://redis") == RedisSink("redis://redis")


@pytest.mark.clause("V6", "Y4")
@pytest.mark.parametrize(
    "address",
    [
        "redis://:s3cret/w0rd@host:6379/0",  # A slash that is not quoted ends the host.
        "redis://user:s3cret@host:port/0",
        "redis://user:s3cret@host:6379/zero",
        "redis://user:s3cret@:6379/0",
        "redis://user:s3cret@host:99999/0",
        "http://user:s3cret@host:6379/0",
        "redis://user:s3cret@host:6379/0?ttl_ms=soon",
        "redis://user:s3cret@host:6379/0?ttl_ms=-5",
        "redis://user:s3cret@host:6379/0?cluster=perhaps",
        "redis://user:s3cret@host:6379/0?prefix=a%7Bb",
        "redis://user:s3cret@host:6379/0?prefix=",
        "redis://user:s3cret@host:6379/0#part",
    ],
)
def test_a_wrong_address_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        RedisSink.from_url(address)
    assert "s3cret" not in str(refused.value)
    assert "w0rd" not in str(refused.value)


@pytest.mark.clause("V6", "Y4")
def test_an_option_that_nobody_knows_is_refused_when_it_connects() -> None:
    with pytest.raises(InvalidArgument) as refused:
        RedisSink.from_url("redis://user:s3cret@127.0.0.1:1/0?prefixx=a").connect("orders")
    assert "s3cret" not in str(refused.value)


@pytest.mark.clause("V6")
@pytest.mark.parametrize(
    "wrong",
    [{"ttl_ms": 0}, {"guard_ttl_ms": 0}, {"ttl_ms": 10, "guard_ttl_ms": 10}, {"wait_replicas": -1}],
)
def test_lifetimes_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        RedisSink("redis://redis", **wrong)


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["%", ":", "%3A", "%25", "a:b"]
)


@pytest.mark.clause("V6", "X7")
@given(_texts, _texts)
def test_a_key_names_one_aggregate(aggregate_type: str, aggregate_id: str) -> None:
    aggregate = Aggregate(aggregate_type, aggregate_id)
    name = document_name(aggregate)
    assert aggregate_of(name.suffix) == aggregate
    assert 0 <= name.bucket < BUCKETS
