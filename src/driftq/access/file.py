"""The keys file: JSON with one entry for each API key, readable by its owner only, replaced as a whole.

`{"version": 1, "keys": [{"id", "name", "sha256", "roles", "topics"?, "tenant"?, "requests_per_s"?,
"bytes_per_s"?, "created_at"?}]}`. A server may read the file at any moment, so it is never changed in place.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from driftq.access.keys import ApiKey, Role
from driftq.errors import KeysFileUnusable

VERSION = 1
NAME = re.compile(r"[A-Za-z0-9._@-]{1,100}")
PATTERN = re.compile(r"[A-Za-z0-9._*?!\[\]-]{1,245}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9A-Za-z]{1,64}")
_BYTES_MAX = 64 << 20
_RATE_MAX = 2**53
_FIELDS = frozenset(
    ("id", "name", "sha256", "roles", "topics", "tenant", "requests_per_s", "bytes_per_s", "created_at")
)

FileState = tuple[int, int, int]
"""Changes whenever the file is replaced or written."""


def file_state(path: str | Path) -> FileState | None:
    """What to compare to see a change without reading; None when there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def read_keys(path: str | Path) -> list[ApiKey]:
    """Every key of the file; raises KeysFileUnusable when there is none or any entry is unsound."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise KeysFileUnusable(str(path), "other users can write it; run `chmod 600` on it")
            content = json.loads(file.read(_BYTES_MAX))
    except OSError as error:
        raise KeysFileUnusable(str(path), (error.strerror or str(error)).lower()) from None
    except (ValueError, RecursionError):
        raise KeysFileUnusable(str(path), "it is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("keys"), list):
        raise KeysFileUnusable(str(path), "it has no list of keys")
    if content.get("version") != VERSION or set(content) - {"version", "keys"}:
        raise KeysFileUnusable(str(path), f"it is not of version {VERSION}")
    keys = [_entry(str(path), number, entry) for number, entry in enumerate(content["keys"], 1)]
    for field in ("id", "name"):
        values = [getattr(key, field) for key in keys]
        if len(set(values)) < len(values):
            raise KeysFileUnusable(str(path), f"two keys have the same {field}")
    return keys


def write_keys(path: str | Path, keys: list[ApiKey]) -> None:
    """Replace the file; a reader sees the old one or the new one."""
    content = json.dumps({"version": VERSION, "keys": [_fields(key) for key in keys]}, indent=2) + "\n"
    path = Path(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise KeysFileUnusable(str(path), (error.strerror or str(error)).lower()) from None


def change_keys(path: str | Path, change: Callable[[list[ApiKey]], list[ApiKey]]) -> None:
    """Read, change and replace the file while no other command does; a missing file has no keys."""
    with _locked(Path(path).absolute().parent, str(path)):
        write_keys(path, change(read_keys(path) if os.path.lexists(path) else []))


@contextlib.contextmanager
def _locked(folder: Path, path: str) -> Iterator[None]:
    """The lock is on the folder: the file itself is replaced."""
    import fcntl  # Windows has none, and clients there import this module without using it.

    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise KeysFileUnusable(path, (error.strerror or str(error)).lower()) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _entry(path: str, number: int, entry: Any) -> ApiKey:
    def refuse(problem: str) -> KeysFileUnusable:
        return KeysFileUnusable(path, f"key {number} {problem}")

    if not isinstance(entry, dict):
        raise refuse("is not an object")
    if unknown := sorted(set(entry) - _FIELDS):
        raise refuse(f"has the unknown field {unknown[0]!r}")
    for field, wanted in (("id", _ID), ("name", NAME), ("sha256", _DIGEST)):
        if not isinstance(entry.get(field), str) or not wanted.fullmatch(entry[field]):
            raise refuse(f"has no valid {field}")
    roles, topics = entry.get("roles"), entry.get("topics", [])
    if not isinstance(roles, list) or not roles or not set(map(str, roles)) <= set(Role):
        raise refuse(f"has no valid roles: they are {', '.join(Role)}")
    if not isinstance(topics, list) or not all(PATTERN.fullmatch(str(pattern)) for pattern in topics):
        raise refuse("has no valid topics: each is a name, with * for any characters")
    tenant = entry.get("tenant")
    if tenant is not None and not (isinstance(tenant, str) and NAME.fullmatch(tenant)):
        raise refuse("has no valid tenant")
    for field in ("requests_per_s", "bytes_per_s"):
        rate = entry.get(field)
        if rate is not None and (type(rate) is not int or not 1 <= rate <= _RATE_MAX):
            raise refuse(f"has no valid {field}: it is a whole number from 1")
    return ApiKey(
        id=entry["id"],
        name=entry["name"],
        digest=bytes.fromhex(entry["sha256"]),
        roles=frozenset(Role(role) for role in roles),
        topics=tuple(map(str, topics)),
        tenant=tenant,
        requests_per_s=entry.get("requests_per_s"),
        bytes_per_s=entry.get("bytes_per_s"),
        created_at=str(entry.get("created_at", "")),
    )


def _fields(key: ApiKey) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": key.id,
        "name": key.name,
        "sha256": key.digest.hex(),
        "roles": [role for role in Role if role in key.roles],
        "topics": list(key.topics),
        "tenant": key.tenant,
        "requests_per_s": key.requests_per_s,
        "bytes_per_s": key.bytes_per_s,
        "created_at": key.created_at,
    }
    return {name: value for name, value in fields.items() if value not in (None, [], "")}
