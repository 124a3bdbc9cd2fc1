"""What a server must offer to hold read models: keys that stay, and scripts that report their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftq.errors import InvalidArgument
from driftq.sinks.redis.failures import is_transient

VALUE_BYTES_MAX = 512 << 20
"""Of servers that do not say what they accept: the default of all."""
_OLDEST = (7, 0)
"""Older servers hide the first word of an error behind that of the script."""


def require_node(client: Any, address: str, *, assume_noeviction: bool, is_cluster: bool) -> int:
    """The largest value that it accepts, in bytes. Raises InvalidArgument for a server of no use."""
    server = _asked(lambda: client.info("server")) or {}
    version = str(server.get("redis_version", ""))
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if found and found < _OLDEST:
        raise InvalidArgument("sink", f"{address} is Redis {version}; it must be 7.0 or newer, or Valkey")
    if not is_cluster and _cluster_enabled(client) is True:
        raise InvalidArgument("sink", f"{address} is part of a cluster: add cluster=true to the address")
    settings = _asked(lambda: client.config_get("maxmemory-policy", "proto-max-bulk-len")) or {}
    policy = settings.get("maxmemory-policy")
    if policy is None:
        policy = (_asked(lambda: client.info("memory")) or {}).get("maxmemory_policy")
    if policy is None and not assume_noeviction:
        raise InvalidArgument(
            "sink",
            f"{address} does not say whether it evicts keys, and a read model that loses keys is wrong: make "
            "sure that its maxmemory-policy is noeviction, then set assume_noeviction",
        )
    if policy is not None and policy != "noeviction":
        raise InvalidArgument(
            "sink",
            f"{address} evicts keys when memory is short (maxmemory-policy {policy}), guards against older "
            "events among them: set it to noeviction",
        )
    return int(settings.get("proto-max-bulk-len") or VALUE_BYTES_MAX)


def require_cluster(client: Any, address: str) -> None:
    """Raises InvalidArgument for a node without cluster. The client of clusters hides what is wrong."""
    if _cluster_enabled(client) is False:
        raise InvalidArgument("sink", f"{address} is no cluster: leave cluster out of the address")


def _cluster_enabled(client: Any) -> bool | None:
    """None where the server does not say."""
    told = (_asked(lambda: client.info("cluster")) or {}).get("cluster_enabled")
    return None if told is None else bool(told)


def _asked(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """None where the server, or the user's rights, do not have the command."""
    from redis import exceptions

    try:
        return ask()
    except (exceptions.NoPermissionError, exceptions.ResponseError) as error:
        if isinstance(error, exceptions.AuthenticationError) or is_transient(error):
            raise
        return None
