"""The address of Delta tables: a folder, or a prefix in a bucket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import SplitResult, unquote, urlsplit

from driftq.errors import InvalidArgument
from driftq.sinks.names import projection_name
from driftq.sinks.port import Capabilities

if TYPE_CHECKING:
    from driftq.sinks.delta.model import DeltaReadModel

HOW_TO_GET_DELTA = "pip install 'driftq[delta]'"
_ALLOWED = "use a folder, delta:///folder or delta+s3://bucket/prefix"
_BUCKETS = ("delta+s3", "s3")
_HISTORY_HOURS = 6


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """A Delta table for each projection under a folder, `delta:///folder` or `delta+s3://bucket/prefix`.

    A bucket needs a server that creates objects conditionally, as Amazon's does. `storage_options` are those
    of delta-rs and go first. What they leave out comes from the AWS variables of the process; a projection
    passes `DRIFTQ_S3_ENDPOINT` as the endpoint. Raises InvalidArgument.
    """

    address: str
    _: KW_ONLY
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    s3_endpoint: str | None = None
    history_hours: int = _HISTORY_HOURS
    """How long replaced files and old versions stay, for readers that have opened them."""
    capabilities: ClassVar[Capabilities] = Capabilities(atomic=True)

    def __post_init__(self) -> None:
        location_of(self)
        if self.history_hours < 1:
            raise InvalidArgument("history_hours", f"must be at least 1, not {self.history_hours}")

    @classmethod
    def from_url(cls, url: str) -> Self:
        return cls(url)

    def connect(self, projection: str) -> DeltaReadModel:
        name = projection_name(projection)
        try:
            from driftq.sinks.delta.model import DeltaReadModel
        except ModuleNotFoundError as missing:
            package = (missing.name or "deltalake").partition(".")[0]
            raise InvalidArgument("sink", f"{package} is missing: {HOW_TO_GET_DELTA}") from missing
        model = DeltaReadModel(name, location_of(self).child(name), history_hours=self.history_hours)
        model.check()
        return model

    def with_s3_endpoint(self, endpoint: str | None) -> Self:
        """The same at this server, unless it names one itself."""
        return self if self.s3_endpoint or endpoint is None else replace(self, s3_endpoint=endpoint)


@dataclass(frozen=True, slots=True)
class TableLocation:
    """Where a table is, and how delta-rs reaches it."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_local: bool = True

    def child(self, name: str) -> TableLocation:
        return replace(self, uri=f"{self.uri.rstrip('/')}/{name}")


def location_of(sink: DeltaSink) -> TableLocation:
    """Where the tables are; raises InvalidArgument, which never repeats a password."""
    if "://" not in sink.address:
        if not sink.address or not sink.address.isprintable():
            raise InvalidArgument("sink", f"{sink.address!r} is no folder: {_ALLOWED}")
        return TableLocation(os.path.abspath(sink.address), dict(sink.storage_options))
    try:
        parts = urlsplit(sink.address)
    except ValueError:
        raise InvalidArgument("sink", f"the address of Delta tables is invalid: {_ALLOWED}") from None
    if "@" in parts.netloc:
        raise InvalidArgument("sink", "an address of Delta tables has no credentials: use storage_options")
    if parts.query or parts.fragment or not sink.address.isprintable():
        raise InvalidArgument("sink", f"the address of Delta tables has more than a place: {_ALLOWED}")
    if parts.scheme == "delta" and parts.netloc in ("", "localhost") and len(parts.path) > 1:
        return TableLocation(unquote(parts.path), dict(sink.storage_options))
    if parts.scheme in _BUCKETS and parts.netloc:
        return TableLocation(_bucket_uri(parts), _bucket_options(sink), is_local=False)
    raise InvalidArgument("sink", f"{sink.address!r} is no address of Delta tables: {_ALLOWED}")


def _bucket_uri(parts: SplitResult) -> str:
    return f"s3://{parts.netloc}/{parts.path.strip('/')}".rstrip("/")


def _bucket_options(sink: DeltaSink) -> dict[str, str]:
    options = {"aws_conditional_put": "etag"}  # Without it two writers could both create a version.
    if sink.s3_endpoint:
        options["aws_endpoint_url"] = sink.s3_endpoint
        options["aws_allow_http"] = str(sink.s3_endpoint.startswith("http://")).lower()
    given = {name.lower(): value for name, value in sink.storage_options.items()}
    return options | given
