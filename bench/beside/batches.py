"""Durable batches of 100 and 500 beside Redis pipelines of as many `XADD`, at equal messages in flight.

With idempotency keys Redis runs a script for each message: `SET NX` with an expiry and, where the key is new,
`XADD`. redis-benchmark draws the keys at random from 2^31, so that nearly every one is new.
"""

from bench.beside.setting import OURS, PARTITIONS, REDIS, VALUE, create_topic
from bench.harness.figure import Figure, at_least
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave
from bench.harness.valkey import Valkey, client_installed, valkey
from bench.harness.wrk import Produces, load
from bench.machine import Server, folder, server

SIZES = (100, 500)
CONNECTIONS = 8
EXPIRY_MS = 24 * 3_600_000
XADD = ("XADD", "batches:__rand_int__", "*", "key", "user:__rand_int__", "value", VALUE)
ONCE = (
    f"if redis.call('SET', KEYS[1], '1', 'NX', 'PX', {EXPIRY_MS}) then "
    "return redis.call('XADD', KEYS[2], '*', 'key', ARGV[1], 'value', ARGV[2]) end"
)
LARGEST_INT = 2**31 - 1


def batches() -> list[Figure]:
    client_installed()
    with folder() as place, valkey(place) as redis, server() as running:
        create_topic(running, "batches")
        once = (
            "EVALSHA",
            redis.load_script(ONCE),
            "2",
            "once:__rand_int__",
            "batches",
            "user:__rand_int__",
            VALUE,
        )
        plain = [_compared(running, redis, size, XADD, keyed=False) for size in SIZES]
        keyed = [_compared(running, redis, size, once, keyed=True) for size in SIZES]
        return [figure for figures in (*plain, *keyed) for figure in figures]


def _compared(
    running: Server, redis: Valkey, size: int, command: tuple[str, ...], *, keyed: bool
) -> list[Figure]:
    seconds = plan().seconds
    produces = Produces("batches", batch=size, keyed=keyed)
    keys = LARGEST_INT if keyed else PARTITIONS

    def theirs() -> Sample:
        return redis.load(command, connections=CONNECTIONS, seconds=seconds, pipeline=size, keys=keys)

    ours = Side(OURS, lambda: load(running, produces, connections=CONNECTIONS, seconds=seconds))
    found = interleave([ours, Side(REDIS, theirs)])
    name = f"batches of {size}{' with idempotency keys' if keyed else ''}, {CONNECTIONS} connections"
    aim = at_least(0.8 if keyed else 1.4)
    return [
        found.figure(name, OURS, "messages/s", ratio_to=REDIS, ratio_aim=aim),
        found.figure(f"{name}: Redis", REDIS, "messages/s"),
    ]
