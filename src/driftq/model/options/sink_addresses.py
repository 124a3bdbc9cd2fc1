"""The form of a sink's address: a scheme of ours, or `module:attribute` of a user."""

from __future__ import annotations

import re

SINK_SCHEMES = (
    "sqlite",
    "postgresql",
    "parquet",
    "opensearch+http",
    "opensearch+https",
    "redis",
    "rediss",
    "terminusdb+http",
    "terminusdb+https",
    "delta",
    "delta+s3",
)
_SYNONYMS = {"postgres": "postgresql", "postgresql+psycopg": "postgresql"}
_OWN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def sink_scheme(word: str) -> str | None:
    """The scheme that a word names; None where there is none."""
    scheme = _SYNONYMS.get(word, word)
    return scheme if scheme in SINK_SCHEMES else None


def is_own_sink(address: str) -> bool:
    """Whether it has the form `module:attribute`."""
    return _OWN.fullmatch(address) is not None


def is_sink_address(text: str) -> bool:
    """Whether it has a known scheme, or the form of a sink of the user's."""
    scheme, is_url, _ = text.partition("://")
    return sink_scheme(scheme) is not None if is_url else is_own_sink(text)
