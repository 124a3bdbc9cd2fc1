"""Errors of Redis's client as ours.

Servers of different makes and versions word their errors differently. Only the first word counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from driftq.errors import InvalidArgument, ReadModelUnavailable

_TRANSIENT = frozenset(
    {"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN"}
)
_WORD = re.compile(r"[A-Z]+")


@contextmanager
def translating(address: str, *, opening: bool = False) -> Iterator[None]:
    """The client's errors as ours. While it opens, a refused login is a mistake and no outage."""
    from redis import exceptions

    try:
        yield
    except exceptions.AuthenticationError as error:
        if opening:
            raise InvalidArgument(
                "sink", f"{address} refuses the user or the password: check both"
            ) from error
        raise ReadModelUnavailable(address, cause="it refuses the user or the password") from error
    except (exceptions.NoPermissionError, exceptions.ResponseError) as error:
        if is_transient(error):
            raise ReadModelUnavailable(address, cause=one_line(error)) from error
        raise InvalidArgument("sink", f"{address} refuses a command: {one_line(error)}") from error
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise ReadModelUnavailable(address, cause=one_line(error)) from error


def is_transient(error: Exception) -> bool:
    """Whether the same command may succeed later."""
    from redis import exceptions

    classes = (
        exceptions.ReadOnlyError,
        exceptions.TryAgainError,
        exceptions.ClusterDownError,
        exceptions.MovedError,
    )
    word = _WORD.match(str(error))
    named = type(error).__name__ in {"OutOfMemoryError", "MasterDownError"}  # Not in every release.
    return isinstance(error, classes) or named or (word is not None and word[0] in _TRANSIENT)


def one_line(error: Exception) -> str:
    """The text of an error; none contains a password."""
    return " ".join(str(error).split()) or type(error).__name__
