"""From an address to a sink: `sqlite:///file.db`, `redis://host:6379/0`, or `module:attribute` of a user.

One table has every scheme. A scheme's module is imported when an address names it, and its class makes the
sink: `from_url(address)`, which raises InvalidArgument for an address that it cannot use. An address may
contain a password: no error here repeats more of it than its scheme.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from driftq.errors import InvalidArgument
from driftq.model.options.sink_addresses import is_own_sink, sink_scheme
from driftq.sinks.port import ReadModelSink

FIELD = "sink"


class SinkClass(Protocol):
    """A class of sinks that an address can name."""

    def from_url(self, url: str) -> ReadModelSink:
        """Plain values and no connection yet. Raises InvalidArgument, without the address in its text."""


class SinkScheme(NamedTuple):
    """Where the sinks of a scheme come from, and what has to be installed for them."""

    module: str
    name: str
    """Of the class."""
    extra: str | None
    packages: tuple[str, ...]
    """That the extra installs, as they are imported."""
    example: str


_OPENSEARCH = ("driftq.sinks.opensearch", "OpenSearchSink", "opensearch", ("opensearchpy",))
_REDIS = ("driftq.sinks.redis", "RedisSink", "redis", ("redis",))
_TERMINUSDB = ("driftq.sinks.terminusdb", "TerminusSink", None, ())
_DELTA = ("driftq.sinks.delta", "DeltaSink", "delta", ("deltalake", "pyarrow"))

SCHEMES: dict[str, SinkScheme] = {
    "sqlite": SinkScheme("driftq.sinks.sqlite", "SqliteSink", "sqlite", ("sqlalchemy",), "sqlite:///file.db"),
    "postgresql": SinkScheme(
        "driftq.sinks.postgres",
        "PostgresSink",
        "postgres",
        ("sqlalchemy", "psycopg"),
        "postgresql://user@host/name",
    ),
    "parquet": SinkScheme(
        "driftq.sinks.parquet", "ParquetSink", "parquet", ("pyarrow",), "parquet:///folder"
    ),
    "opensearch+http": SinkScheme(*_OPENSEARCH, "opensearch+http://host:9200/PREFIX"),
    "opensearch+https": SinkScheme(*_OPENSEARCH, "opensearch+https://host:9200/PREFIX"),
    "redis": SinkScheme(*_REDIS, "redis://host:6379/0?prefix=PREFIX"),
    "rediss": SinkScheme(*_REDIS, "rediss://host:6379/0?prefix=PREFIX"),
    "terminusdb+http": SinkScheme(*_TERMINUSDB, "terminusdb+http://host:6363/ORG/DB"),
    "terminusdb+https": SinkScheme(*_TERMINUSDB, "terminusdb+https://host:6363/ORG/DB"),
    "delta": SinkScheme(*_DELTA, "delta:///folder"),
    "delta+s3": SinkScheme(*_DELTA, "delta+s3://bucket/prefix"),
}


def open_sink(address: str) -> ReadModelSink:
    """The sink at an address; nothing is connected. Raises InvalidArgument."""
    name, is_url, _ = address.partition("://")
    if is_url:
        return _class_of(name).from_url(address)
    if is_own_sink(address):
        return _own_sink(address)
    raise InvalidArgument(FIELD, f"is no address: give one like {_listed()}, or module:attribute")


def folder_of(url: str, *, example: str) -> str:
    """The folder or file that `scheme:///path` names. Raises InvalidArgument."""
    parts = split(url, example=example)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or len(path) < 2:
        raise InvalidArgument(FIELD, f"write the address as {example}")
    return "/" + path.lstrip("/")


def split(url: str, *, example: str) -> SplitResult:
    """The parts of an address, the port checked. Raises InvalidArgument."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidArgument(FIELD, f"write the address as {example}") from None
    return parts


def _known(scheme: str) -> SinkScheme | None:
    name = sink_scheme(scheme)
    return None if name is None else SCHEMES[name]


def _class_of(scheme: str) -> SinkClass:
    known = _known(scheme)
    if known is None:
        near = difflib.get_close_matches(scheme, SCHEMES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}://? " if near else ""
        raise InvalidArgument(FIELD, f"there is no sink {scheme}://; {hint}There are {_listed()}")
    if any(importlib.util.find_spec(package) is None for package in known.packages):
        raise InvalidArgument(
            FIELD, f"{scheme}:// needs another package: pip install 'driftq[{known.extra}]'"
        )
    found: SinkClass = getattr(import_module(known.module), known.name)
    return found


def _own_sink(name: str) -> ReadModelSink:
    """A sink of the user's, or what their function makes; modules are also searched in this folder."""
    module_name, _, attribute = name.partition(":")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)  # Spark's Python processes get the path of this one.
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as missing:
        problem = f"needs the module {missing.name!r}, which is neither here nor installed"
        raise InvalidArgument(FIELD, f"{name} {problem}") from missing
    except Exception as error:  # The module is the user's, and it may raise anything.
        raise InvalidArgument(FIELD, f"{name}: {type(error).__name__} while {module_name} loads") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InvalidArgument(FIELD, f"module {module_name!r} has no {attribute!r}")
        found = getattr(found, part)
    if isinstance(found, type) or not hasattr(found, "connect"):
        if not callable(found):
            raise InvalidArgument(FIELD, f"{name} is a {type(found).__name__} without `connect`")
        try:
            found = found()
        except Exception as error:  # The function is the user's, and it may raise anything.
            raise InvalidArgument(FIELD, f"{name}() raised {type(error).__name__}: {error}") from error
    if not callable(getattr(found, "connect", None)):
        raise InvalidArgument(FIELD, f"{name} made a {type(found).__name__} without `connect`")
    sink: ReadModelSink = found
    return sink


def _listed() -> str:
    return ", ".join(dict.fromkeys(scheme.example for scheme in SCHEMES.values()))
