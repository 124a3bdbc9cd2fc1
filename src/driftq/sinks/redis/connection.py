"""A connection to Redis, Valkey or a cluster of either: commands and scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.sinks.redis.failures import translating
from driftq.sinks.redis.requirements import require_cluster, require_node

if TYPE_CHECKING:
    from redis import Redis
    from redis.cluster import RedisCluster

HOW_TO_GET_CLIENT = "pip install 'driftq[redis]'"
EXAMPLE = "redis://user:password@host:6379/0"
_ANSWERED_IN_S = 10.0
_CONNECTED_IN_S = 5.0


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, by its text and by the hash that the server knows it by."""

    text: str
    sha: str

    @classmethod
    def load(cls, name: str) -> Script:
        text = (files("driftq.sinks.redis") / "scripts" / f"{name}.lua").read_text(encoding="utf-8")
        return cls(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


class ScriptCall(NamedTuple):
    """One run of a script; all keys are in one hash slot. It may be repeated."""

    script: Script
    keys: Sequence[bytes | str]
    arguments: Sequence[bytes | str]


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where the server is, as plain values."""

    url: str
    cluster: bool

    @property
    def display(self) -> str:
        """Without user, password and options."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}"

    def connect(self) -> RedisConnection:
        """Raises InvalidArgument and ReadModelUnavailable; without a cluster, nothing is sent yet."""
        try:
            import redis
            from redis.backoff import ConstantBackoff
            from redis.cluster import RedisCluster
            from redis.retry import Retry
        except ImportError:
            raise InvalidArgument("sink", f"Redis needs redis-py: {HOW_TO_GET_CLIENT}") from None
        opened: dict[str, Any] = {
            "protocol": 2,  # Answers have the same shape in every release of the client.
            "socket_timeout": _ANSWERED_IN_S,
            "socket_connect_timeout": _CONNECTED_IN_S,
            "retry": Retry(ConstantBackoff(0.05), 1),  # A connection may have become stale.
        }
        client: Redis | RedisCluster
        with translating(self.display, opening=True):
            try:
                client = redis.Redis.from_url(self.url, **opened)
                client.connection_pool.make_connection()  # Refuses options that it does not know.
            except (TypeError, ValueError):  # Their texts may hold a part of a password.
                raise InvalidArgument("sink", f"write the address as {EXAMPLE}") from None
            if self.cluster:
                with client as node:
                    require_cluster(node, self.display)
                client = RedisCluster.from_url(self.url, **opened)
        return RedisConnection(client, self)


class RedisConnection:
    """Commands and scripts, alone or many at once. Every error of the client is one of ours."""

    def __init__(self, client: Redis | RedisCluster, address: RedisAddress) -> None:
        self._client: Any = client
        self.address = address.display
        self._is_cluster = address.cluster

    def command(self, *words: bytes | str | int) -> Any:
        with translating(self.address):
            return self._client.execute_command(*words)

    def commands(self, commands: Sequence[Sequence[bytes | str | int]]) -> list[Any]:
        """The answers; they arrive together, and nothing makes them one step."""
        if not commands:
            return []
        with translating(self.address):
            pipeline = self._client.pipeline(transaction=False)
            for words in commands:
                pipeline.execute_command(*words)
            answers = pipeline.execute(raise_on_error=False)
            _raise_first(answers)
        return list(answers)

    def run(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """The results of scripts, which arrive together; the server does not run them as one step."""
        from redis.exceptions import NoScriptError

        if not calls:
            return []
        with translating(self.address):
            if self._is_cluster:  # The client does not route hashes of scripts.
                results = self._send(calls, lambda script: ("EVAL", script.text))
            else:
                results = self._send(calls, lambda script: ("EVALSHA", script.sha))
                unknown = [at for at, result in enumerate(results) if isinstance(result, NoScriptError)]
                if unknown:
                    repeated = self._send([calls[at] for at in unknown], lambda script: ("EVAL", script.text))
                    for at, result in zip(unknown, repeated, strict=True):
                        results[at] = result
            _raise_first(results)
        return results

    def confirm(self, replicas: int, barrier: Callable[[int], str]) -> None:
        """Wait until that many replicas of every primary node have all that was written so far."""
        with translating(self.address):
            for client, key in self._primaries(barrier):
                pipeline = client.pipeline(transaction=False)
                pipeline.execute_command("SET", key, "", "EX", 60)  # WAIT counts from the client's own write.
                pipeline.execute_command("WAIT", replicas, int(_ANSWERED_IN_S * 500))
                _, confirmed = pipeline.execute()
                if confirmed < replicas:
                    cause = f"{confirmed} of {replicas} replicas have confirmed in time"
                    raise ReadModelUnavailable(self.address, cause=cause)

    def require(self, *, assume_noeviction: bool) -> int:
        """The size of values that every node accepts; raises InvalidArgument for a server of no use."""
        with translating(self.address, opening=True):
            if not self._is_cluster:
                return require_node(
                    self._client, self.address, assume_noeviction=assume_noeviction, is_cluster=False
                )
            sizes = [
                require_node(client, self.address, assume_noeviction=assume_noeviction, is_cluster=True)
                for client, _ in self._primaries(lambda number: f"barrier:{number}")
            ]
        return min(sizes)

    def close(self) -> None:
        self._client.close()

    def _primaries(self, barrier: Callable[[int], str]) -> Iterator[tuple[Any, str]]:
        """A client for each primary node, and a key that it holds."""
        if not self._is_cluster:
            yield self._client, barrier(0)
            return
        waiting = {node.name for node in self._client.get_primaries()}
        number = 0
        while waiting:
            node = self._client.get_node_from_key(key := barrier(number))
            if node is not None and node.name in waiting:
                waiting.remove(node.name)
                yield self._client.get_redis_connection(node), key
            number += 1
            if number > 1 << 14:
                return  # What is left holds no slot.

    def _send(self, calls: Sequence[ScriptCall], command: Callable[[Script], tuple[str, str]]) -> list[Any]:
        """The results, errors of the server among them."""
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*command(call.script), len(call.keys), *call.keys, *call.arguments)
        results: list[Any] = pipeline.execute(raise_on_error=False)
        return results


def _raise_first(answers: Sequence[Any]) -> None:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
