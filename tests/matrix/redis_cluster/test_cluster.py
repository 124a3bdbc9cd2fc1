"""A cluster of three primary nodes: the shipped suite, documents on every node, and nodes that are killed."""

from collections.abc import Iterator

import pytest

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.sinks import Application, ReadModel
from driftq.sinks.redis import RedisSink
from driftq.testing.sinks import DocumentSinkSuite
from driftq.testing.sinks.cast import ORDERS, change, seen
from tests.services_redis import RedisClusterServers, redis_cluster, unused_prefix
from tests.support.waiting import wait_until

__all__ = ["redis_cluster"]

NAME = "orders_by_id"


@pytest.fixture
def sink(redis_cluster: RedisClusterServers) -> RedisSink:
    return RedisSink(redis_cluster.url, prefix=unused_prefix(), cluster=True)


@pytest.fixture
def model(sink: RedisSink) -> Iterator[ReadModel]:
    opened = sink.connect(NAME)
    yield opened
    opened.close()


@pytest.mark.clause("V1", "V2", "V2f", "V3", "V4", "V6", "V9", "V10", "X4", "X7", "Z6")
class TestRedisCluster(DocumentSinkSuite):
    @pytest.fixture
    def sink(self, sink: RedisSink) -> RedisSink:
        return sink


@pytest.mark.clause("V6")
def test_documents_are_on_every_node(
    model: ReadModel, sink: RedisSink, redis_cluster: RedisClusterServers
) -> None:
    model.apply(Application(changes=[change(1, of=f"o-{n}") for n in range(3_000)]), model.take_over())
    for node in redis_cluster.nodes:
        with node.client() as client:
            documents = sum(1 for _ in client.scan_iter(match=f"{sink.prefix}:*:d:*", count=1_000))
        assert 500 < documents < 2_000
    assert len(seen(model)) == 3_000


@pytest.mark.clause("V6", "V3", "V3c", "X9")
def test_a_killed_node_is_an_outage_and_the_batch_is_repeated(
    model: ReadModel, redis_cluster: RedisClusterServers
) -> None:
    epoch = model.take_over()
    for number, node in enumerate(redis_cluster.nodes, 1):
        changes = [change(number, of=f"o-{n}") for n in range(300)]
        application = Application(changes=changes, positions={ORDERS: number})
        node.kill()
        with pytest.raises(ReadModelUnavailable):
            model.apply(application, epoch)
        node.start()
        wait_until("the cluster is whole", redis_cluster.is_whole)
        assert model.positions().get(ORDERS, 0) == number - 1
        model.apply(application, epoch)
        assert {sequence for sequence, _ in seen(model).values()} == {number}


@pytest.mark.clause("V6")
def test_a_node_of_a_cluster_is_refused_without_the_option(redis_cluster: RedisClusterServers) -> None:
    with pytest.raises(InvalidArgument, match="is part of a cluster: add cluster=true"):
        RedisSink(redis_cluster.url).connect(NAME)
