"""The documents of one projection in a search server.

Each document carries its sequence as an external version, so the server itself refuses an older or equal one.
A deletion is a document with `deleted: true` and the version of its event. A real delete would not do: a
server forgets the version of a deleted document after a minute, or when it restarts.

What a fold reads is fetched by id, which sees every stored write at once. A scan refreshes its index first,
then goes through it page by page in the order of type and id. No document leaves its index before the whole
index goes, and none changes its place in this order, so pages need no snapshot.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import batched
from typing import Any
from urllib.parse import quote

import msgspec

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks.documents.port import ControlText, Note
from driftq.sinks.opensearch.address import IndexNames, write_alias
from driftq.sinks.opensearch.bulk import Bulk
from driftq.sinks.opensearch.connection import SearchConnection
