"""Servers that go away, are busy or full, and servers that cannot hold a read model at all."""

import contextlib
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
import redis

from driftq.errors import InvalidArgument, ReadModelSwapped, ReadModelUnavailable
from driftq.sinks import Application
from driftq.sinks.redis import RedisSink
from driftq.sinks.redis import connection as redis_connection
from driftq.testing.sinks.cast import batch, change, seen
from tests.conformance.redis.conftest import NAME, PLACE, OpenStore
from tests.services_redis import RedisServer
from tests.support.waiting import wait_until

MakeRedis = Callable[..., RedisServer]
_Done = TypeVar("_Done")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that give up soon."""
    monkeypatch.setattr(redis_connection, "_ANSWERED_IN_S", 0.5)


# Outages


@pytest.mark.clause("V6", "V3", "V3c", "X9")
def test_a_killed_server_comes_back_with_all_that_was_stored(private_redis: RedisServer) -> None:
    model = RedisSink(private_redis.url).connect(NAME)
    epoch = model.take_over()
    model.apply(batch(change(1), upto=1), epoch)
    private_redis.kill()
    for attempt in (lambda: model.apply(batch(change(2), upto=2), epoch), lambda: model.positions()):
        with pytest.raises(ReadModelUnavailable):
            attempt()
    with pytest.raises(ReadModelUnavailable):
        RedisSink(private_redis.url).connect(NAME)
    private_redis.start()
    assert seen(model) == {("order", "o-1"): (1, {"at": 1})}
    model.apply(batch(change(2), upto=2), epoch)
    assert (seen(model), list(model.positions().values())) == ({("order", "o-1"): (2, {"at": 2})}, [2])
    model.close()


_WRITER = """
import sys
from driftq.errors import Unavailable
from driftq.sinks import Application, Change, TopicPartition
from driftq.sinks.redis import RedisSink

model = RedisSink(sys.argv[1]).connect(sys.argv[2])
epoch = model.take_over()
for number in range(1, 1_000_000):
    changes = [Change("order", f"o-{n}", number, f"e-{n}-{number}", f'{{"at":{number}}}') for n in range(300)]
    while True:
        try:
            model.apply(Application(changes=changes, positions={TopicPartition("t", 0): number}), epoch)
            break
        except Unavailable:
            print("away", flush=True)
    print(number, flush=True)
"""


@pytest.mark.clause("V6", "V1", "V3", "V3c", "X9")
def test_killed_in_the_middle_of_writing_no_position_is_ahead_of_its_documents(
    private_redis: RedisServer,
) -> None:
    command = [sys.executable, "-c", _WRITER, private_redis.url, NAME]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        model = RedisSink(private_redis.url).connect(NAME)
        try:
            for _ in range(3):
                settled = last = 0
                while settled < 3:
                    settled += next(writer.stdout) != "away\n"
                private_redis.kill()
                while (line := next(writer.stdout)) != "away\n":
                    last = int(line)
                private_redis.start()
                [position] = model.positions().values()
                rows = list(model.rows())
                assert position >= last
                assert len(rows) == 300
                assert all(position <= row.sequence_number == row.state["at"] for row in rows)
        finally:
            writer.kill()
            model.close()


@pytest.mark.clause("V6", "V3", "V3c")
@pytest.mark.usefixtures("impatient")
def test_a_server_that_stops_answering_is_an_outage_and_the_batch_is_repeated(
    private_redis: RedisServer,
) -> None:
    model = RedisSink(private_redis.url).connect(NAME)
    epoch = model.take_over()
    private_redis.pause()
    try:
        with pytest.raises(ReadModelUnavailable):
            model.apply(batch(change(1), upto=1), epoch)
    finally:
        private_redis.resume()
    model.apply(batch(change(1), upto=1), epoch)
    assert seen(model) == {("order", "o-1"): (1, {"at": 1})}
    model.close()


@pytest.mark.clause("V6", "V3", "V3c")
@pytest.mark.usefixtures("impatient")
def test_a_busy_server_is_an_outage_until_its_script_is_killed(
    open_store: OpenStore, private_redis: RedisServer
) -> None:
    store = open_store(RedisSink(private_redis.url))
    with private_redis.client() as client:
        client.config_set("busy-reply-threshold", 20)

    def spin() -> None:
        with private_redis.client() as other, contextlib.suppress(redis.RedisError):
            other.eval("while true do end", 0)

    spinning = threading.Thread(target=spin)
    spinning.start()

    def is_busy() -> bool:
        try:
            store.put(PLACE, [change(1)])
        except ReadModelUnavailable as busy:
            return busy.cause.startswith("BUSY")
        return False

    try:
        wait_until("the server says that it is busy", is_busy)
    finally:
        with private_redis.client() as client:
            client.script_kill()
        spinning.join()
    store.put(PLACE, [change(2)])
    assert [each.sequence_number for each in store.scan(PLACE)] == [2]


@pytest.mark.clause("V6", "V3", "V3c")
def test_a_full_server_is_an_outage_and_takes_the_batch_when_it_has_room(
    private_redis: RedisServer,
) -> None:
    model = RedisSink(private_redis.url).connect(NAME)
    epoch = model.take_over()
    model.apply(batch(change(1), upto=1), epoch)
    with private_redis.client() as client:
        client.config_set("maxmemory", "1mb")  # It has more already.
        many = [change(2, of=f"o-{number}") for number in range(500)]
        with pytest.raises(ReadModelUnavailable, match="maxmemory"):
            model.apply(Application(changes=many), epoch)
        assert seen(model) == {("order", "o-1"): (1, {"at": 1})}
        client.config_set("maxmemory", 0)
    model.apply(Application(changes=many), epoch)
    assert len(seen(model)) == 500
    model.close()


@pytest.mark.clause("V6")
def test_a_server_that_has_forgotten_the_scripts_is_sent_them_again(
    open_store: OpenStore, private_redis: RedisServer
) -> None:
    store = open_store(RedisSink(private_redis.url))
    store.put(PLACE, [change(1)])
    with private_redis.client() as client:
        client.script_flush()
    store.put(PLACE, [change(2, of=f"o-{number}") for number in range(200)])
    assert len(list(store.scan(PLACE))) == 200


@pytest.mark.clause("V6", "V3", "V3c")
def test_a_replica_takes_no_writes_and_may_become_the_primary(
    open_store: OpenStore, make_redis: MakeRedis
) -> None:
    primary = make_redis("--repl-diskless-sync-delay", "0")
    store = open_store(RedisSink(primary.url))
    store.put(PLACE, [change(1)])
    replica = make_redis("--replicaof", "127.0.0.1", str(primary.port))
    copied = RedisSink(replica.url).open_store(NAME)

    def has_copied() -> bool:
        with contextlib.suppress(ReadModelUnavailable):
            return [each.sequence_number for each in copied.scan(PLACE)] == [1]
        return False

    wait_until("the replica has the document", has_copied)
    with pytest.raises(ReadModelUnavailable):
        copied.put(PLACE, [change(2)])
    primary.kill()
    with replica.client() as client:
        client.execute_command("REPLICAOF", "NO", "ONE")
    copied.put(PLACE, [change(2)])
    assert [each.sequence_number for each in copied.scan(PLACE)] == [2]
    copied.close()


@pytest.mark.clause("V6")
@pytest.mark.usefixtures("impatient")
def test_a_position_waits_for_replicas_where_it_is_asked_to(make_redis: MakeRedis) -> None:
    primary = make_redis("--repl-diskless-sync-delay", "0")
    model = replace(RedisSink(primary.url), wait_replicas=1).connect(NAME)
    with pytest.raises(ReadModelUnavailable, match="0 of 1 replicas"):
        model.take_over()
    replica = make_redis("--replicaof", "127.0.0.1", str(primary.port))
    with primary.client() as client:
        wait_until(
            "the replica is there",
            lambda: client.info("replication").get("slave0", {}).get("state") == "online",
        )
    epoch = in_time(model.take_over)
    replica.pause()
    try:
        with pytest.raises(ReadModelUnavailable, match="0 of 1 replicas"):
            model.apply(batch(change(1), upto=1), epoch)
        assert model.positions() == {}
    finally:
        replica.resume()
    in_time(lambda: model.apply(batch(change(1), upto=1), epoch))
    assert list(model.positions().values()) == [1]
    model.close()


def in_time(work: Callable[[], _Done]) -> _Done:
    """Repeated while a busy machine keeps the replica from confirming."""
    done: list[_Done] = []

    def is_done() -> bool:
        with contextlib.suppress(ReadModelUnavailable):
            done.append(work())
        return bool(done)

    wait_until("the replica confirms", is_done)
    return done[0]


@pytest.mark.clause("V6", "V1", "Z6")
def test_a_server_that_lost_its_last_writes_sends_the_run_back_to_its_positions(
    make_redis: MakeRedis,
) -> None:
    """The run that has survived would otherwise move the position past documents that are gone."""
    server = make_redis("--dbfilename", "saved.rdb")
    model = RedisSink(server.url).connect(NAME)
    epoch = model.take_over()
    model.apply(batch(change(1), upto=1), epoch)
    with server.client() as client:
        client.save()
    model.apply(batch(change(2), upto=2), epoch)
    server.kill()
    server.start()
    for _ in range(2):
        with pytest.raises(ReadModelSwapped):
            model.apply(batch(change(1, of="o-2"), upto=3), epoch)
    again = RedisSink(server.url).connect(NAME)
    assert (seen(again), list(again.positions().values())) == ({("order", "o-1"): (1, {"at": 1})}, [1])
    again.apply(batch(change(2), upto=2), again.take_over())
    model.close()
    again.close()


@pytest.mark.clause("V6", "V4")
def test_after_a_flush_the_run_starts_from_nothing(private_redis: RedisServer) -> None:
    model = RedisSink(private_redis.url).connect(NAME)
    epoch = model.take_over()
    model.apply(batch(change(1), upto=1), epoch)
    with private_redis.client() as client:
        client.flushall()
    with pytest.raises(ReadModelSwapped):
        model.apply(batch(change(2), upto=2), epoch)
    model.close()
    again = RedisSink(private_redis.url).connect(NAME)
    assert again.positions() == {}
    again.apply(batch(change(1), upto=1), again.take_over())
    assert seen(again) == {("order", "o-1"): (1, {"at": 1})}
    again.close()


# Servers that cannot be used


@pytest.mark.clause("V6")
@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random"])
def test_a_server_that_evicts_keys_is_refused(private_redis: RedisServer, policy: str) -> None:
    with private_redis.client() as client:
        client.config_set("maxmemory-policy", policy)
    with pytest.raises(InvalidArgument, match=f"evicts keys .*{policy}.*set it to noeviction"):
        RedisSink(private_redis.url).connect(NAME)


@pytest.mark.clause("V6")
def test_a_server_that_hides_its_policy_must_be_vouched_for(private_redis: RedisServer) -> None:
    with private_redis.client() as client:
        client.acl_setuser("app", enabled=True, passwords=["+secret"], keys=["driftq:*"],
                           categories=["+@all"], commands=["-config"])  # fmt: skip
        url = f"redis://app:secret@127.0.0.1:{private_redis.port}/0"
        RedisSink(url).connect(NAME).close()  # INFO tells the policy as well.
        client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(InvalidArgument, match="evicts keys"):
            RedisSink(url).connect(NAME)
        client.execute_command("ACL", "SETUSER", "app", "-info")
    with pytest.raises(InvalidArgument, match=r"does not say whether it evicts keys.*assume_noeviction"):
        RedisSink(url).connect(NAME)
    model = RedisSink(url, assume_noeviction=True).connect(NAME)
    model.apply(batch(change(1)), model.take_over())
    assert len(seen(model)) == 1
    model.close()


@pytest.mark.clause("V6", "Y4")
def test_a_wrong_password_is_a_sentence_without_it(make_redis: MakeRedis) -> None:
    server = make_redis(password="pa55word")
    for wrong in (f"redis://:s3cret@127.0.0.1:{server.port}/0", f"redis://127.0.0.1:{server.port}/0"):
        with pytest.raises(InvalidArgument) as refused:
            RedisSink(wrong).connect(NAME)
        assert str(refused.value) == (
            f"sink: redis://127.0.0.1:{server.port}/0 refuses the user or the password: check both"
        )
    model = RedisSink(server.url).connect(NAME)
    assert "pa55word" not in model.address + repr(RedisSink(server.url))
    model.take_over()
    with server.client() as client:
        client.config_set("requirepass", "other")
        client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(ReadModelUnavailable, match="password"):  # While it runs, that is an outage.
        model.positions()
    model.close()


@pytest.mark.clause("V6")
def test_a_server_without_cluster_and_a_user_without_rights_are_refused(private_redis: RedisServer) -> None:
    with pytest.raises(InvalidArgument, match="is no cluster"):
        RedisSink(private_redis.url, cluster=True).connect(NAME)
    with private_redis.client() as client:
        client.acl_setuser("app", enabled=True, nopass=True, keys=["driftq:*"],
                           categories=["+@all"], commands=["-hmget"])  # fmt: skip
    model = RedisSink(f"redis://app:x@127.0.0.1:{private_redis.port}").connect(NAME)
    with pytest.raises(InvalidArgument, match="refuses a command"):
        model.positions()
    model.close()


class OldServer(socketserver.StreamRequestHandler):
    """Answers as a Redis of long ago does: no old binary can be had from a registry."""

    def handle(self) -> None:
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2].upper())
            if words[0] == b"INFO":
                text = b"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n"
                self.wfile.write(b"$%d\r\n%s\r\n" % (len(text), text))
            else:
                self.wfile.write(b"+OK\r\n")


@pytest.fixture
def old_url() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), OldServer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()


@pytest.mark.clause("V6")
def test_a_server_older_than_the_scripts_need_is_refused(old_url: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is Redis 6\.2\.14; it must be 7\.0 or newer, or Valkey"):
        RedisSink(old_url).connect(NAME)


@pytest.mark.clause("V6")
def test_without_the_package_a_sentence_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from driftq.sinks.redis import RedisSink\n"
        "from driftq.errors import InvalidArgument\n"
        "try: RedisSink('redis://127.0.0.1:1').connect('orders')\n"
        "except InvalidArgument as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "sink: Redis needs redis-py: pip install 'driftq[redis]'"
