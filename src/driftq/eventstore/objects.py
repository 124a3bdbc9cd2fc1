"""Where segments are kept: a folder or an S3 bucket, both through obstore.

An object is created once, whole, and never changed. A folder needs care that a bucket does not: the file is
written and synced beside the segments and then linked to its name, so that a listing of the folder shows only
whole files, at any moment and after any crash.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, S3Store

from driftq.errors import InvalidArgument, SegmentLost
from driftq.eventstore.stored import SEGMENT_FOLDER, SegmentRange, largest, parse_segment_name

if TYPE_CHECKING:
    from obstore.store import S3Config

_STAGING = "staging"


@dataclass(frozen=True, slots=True)
class S3Access:
    """How to reach a bucket; a value of None uses the process's usual AWS settings."""

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None


class Objects(Protocol):
    """Where segments are kept."""

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under the name, durably; False, and no change, when the name is taken."""

    def read(self, name: str) -> bytes:
        """The content of an object; raises SegmentLost when it does not exist."""

    def segments(self, *, after: SegmentRange | None = None) -> Iterator[SegmentRange]:
        """The segments in order of position, optionally only those after a given one.

        Where several cover the same positions, because small ones were joined, only the largest counts.
        """

    def sweep(self) -> None:
        """Remove the remnants of a killed writer."""


class JoinableObjects(Objects, Protocol):
    """The same for compaction."""

    def covered(self) -> list[SegmentRange]:
        """The segments that were joined into others."""

    def sizes(self) -> dict[SegmentRange, int]:
        """The size of each current segment, in order of position."""

    def written_at(self, name: str) -> float:
        """When an object was written, in seconds since 1970; raises SegmentLost."""

    def delete(self, name: str) -> None:
        """Remove an object, if it exists."""


class BucketObjects:
    """Segments in a bucket, where every object is whole from the start."""

    def __init__(self, store: S3Store | LocalStore) -> None:
        self._store = store

    def create(self, name: str, content: bytes) -> bool:
        try:
            obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def read(self, name: str) -> bytes:
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except (FileNotFoundError, BaseError) as error:
            raise SegmentLost(name, cause=str(error).partition("\n")[0]) from error

    def segments(self, *, after: SegmentRange | None = None) -> Iterator[SegmentRange]:
        yield from largest(self._listed(after))

    def covered(self) -> list[SegmentRange]:
        every = self._listed(None)
        return sorted(set(every) - set(largest(every)))

    def sizes(self) -> dict[SegmentRange, int]:
        every = self._listed(None)
        return {segment: every[segment] for segment in largest(every)}

    def written_at(self, name: str) -> float:
        try:
            return float(obstore.head(self._store, name)["last_modified"].timestamp())
        except (FileNotFoundError, BaseError) as error:
            raise SegmentLost(name, cause=str(error).partition("\n")[0]) from error

    def _listed(self, after: SegmentRange | None) -> dict[SegmentRange, int]:
        offset = after.name if after else None
        return {
            segment: meta["size"]
            for page in obstore.list(self._store, prefix=SEGMENT_FOLDER, offset=offset)
            for meta in page
            if (segment := parse_segment_name(meta["path"])) is not None
        }

    def names(self, folder: str, *, after: str | None = None) -> list[str]:
        """The names in a folder in order, optionally only those after a given one."""
        found = obstore.list(self._store, prefix=folder, offset=after)
        return sorted(meta["path"] for page in found for meta in page)

    def delete(self, name: str) -> None:
        """Remove an object, if it exists."""
        with suppress(FileNotFoundError):  # A bucket ignores a missing object, a folder does not.
            obstore.delete(self._store, name)

    def sweep(self) -> None:
        """Nothing to do: a put that was cut off leaves no object."""


class FolderObjects(BucketObjects):
    """Segments in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalStore(folder, mkdir=True))
        self._folder = folder
        for name in (SEGMENT_FOLDER, _STAGING):
            (folder / name).mkdir(exist_ok=True)
        _sync(folder)

    def create(self, name: str, content: bytes) -> bool:
        staged = f"{_STAGING}/{uuid.uuid4().hex}"
        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            obstore.put(self._store, staged, content, use_multipart=False)
            _sync(self._folder / staged)
            obstore.rename(self._store, staged, name, overwrite=False)
        except FileNotFoundError:  # Another process removed it with the remnants of killed writers.
            return self.create(name, content)
        except AlreadyExistsError:
            obstore.delete(self._store, staged)
            return False
        finally:
            _sync((self._folder / name).parent)  # Also for a name that a killed writer has not synced.
        return True

    def sweep(self) -> None:
        for left in (self._folder / _STAGING).iterdir():
            left.unlink(missing_ok=True)


def segment_files(folder: str | Path) -> list[str]:
    """The paths of the Parquet files that make up the log in a server's `objects` folder, as of now."""
    objects = open_for_reading(Path(folder).absolute().as_uri())
    return [] if objects is None else [str(Path(folder, one.name)) for one in objects.segments()]


def open_for_reading(url: str, *, access: S3Access | None = None) -> Objects | None:
    """The same for reading only: None when the folder does not exist; nothing is created."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        folder = Path(unquote(parts.path))
        return BucketObjects(LocalStore(folder)) if (folder / SEGMENT_FOLDER).is_dir() else None
    return open_objects(url, access=access)


def open_objects(url: str, *, access: S3Access | None = None) -> BucketObjects:
    """The storage at `file:///folder` or `s3://bucket/prefix`."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return FolderObjects(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        return BucketObjects(_bucket(parts.netloc, prefix=parts.path.strip("/"), access=access or S3Access()))
    raise InvalidArgument("objects_url", f"{url!r} is neither file:///folder nor s3://bucket")


def _bucket(bucket: str, *, prefix: str, access: S3Access) -> S3Store:
    config: S3Config = {}
    if access.endpoint:
        config["endpoint"] = access.endpoint
    if access.region:
        config["region"] = access.region
    if access.access_key_id and access.secret_access_key:
        config["access_key_id"] = access.access_key_id
        config["secret_access_key"] = access.secret_access_key
    plain = (access.endpoint or "").startswith("http://")
    return S3Store(bucket, prefix=prefix or None, config=config, client_options={"allow_http": plain})


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
