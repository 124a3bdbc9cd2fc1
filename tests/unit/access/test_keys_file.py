"""The keys file: what is refused, what is kept, and that two commands at once lose nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from driftq.access.file import change_keys, file_state, read_keys, write_keys
from driftq.access.keys import ApiKey, Role, bearer, new_key
from driftq.errors import KeysFileUnusable

SOUND: dict[str, Any] = {"id": "a1", "name": "billing", "sha256": "0" * 64, "roles": ["read"]}


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_is_kept_with_all_it_may_do(keys_file: Path) -> None:
    entry, text = new_key(
        "billing",
        roles=[Role.PRODUCE, Role.CONSUME],
        topics=["orders.*", "x?"],
        tenant="acme",
        requests_per_s=5,
        bytes_per_s=1000,
        created_at="2026-01-31T00:00:00Z",
    )
    write_keys(keys_file, [entry])
    assert read_keys(keys_file) == [entry]
    given = bearer(f"Bearer {text}".encode())
    assert given is not None
    assert given[0] == entry.id
    assert entry.is_secret(given[1])
    assert not entry.is_secret(given[1][:-1])
    assert text not in repr(entry)
    assert entry.digest.hex() not in repr(entry)


def test_patterns_match_whole_names_in_their_case() -> None:
    key, _ = new_key("k", roles=[Role.READ], topics=["orders.*", "x?"])
    assert [
        name
        for name in ("orders.eu", "orders", "Orders.eu", "my.orders.eu", "xy", "xyz")
        if key.reaches(name)
    ] == [
        "orders.eu",
        "xy",
    ]
    unlimited, _ = new_key("k", roles=[Role.READ])
    assert unlimited.reaches("anything")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "it is not JSON"),
        ("[]", "it has no list of keys"),
        ({"version": 2, "keys": []}, "it is not of version 1"),
        ({"version": 1, "keys": [7]}, "key 1 is not an object"),
        ({"version": 1, "keys": [SOUND | {"role": "read"}]}, "key 1 has the unknown field 'role'"),
        ({"version": 1, "keys": [SOUND | {"sha256": "abc"}]}, "key 1 has no valid sha256"),
        ({"version": 1, "keys": [SOUND | {"roles": []}]}, "key 1 has no valid roles"),
        ({"version": 1, "keys": [SOUND | {"roles": ["root"]}]}, "key 1 has no valid roles"),
        ({"version": 1, "keys": [SOUND | {"topics": "orders"}]}, "key 1 has no valid topics"),
        ({"version": 1, "keys": [SOUND | {"topics": ["a b"]}]}, "key 1 has no valid topics"),
        ({"version": 1, "keys": [SOUND | {"requests_per_s": 0}]}, "key 1 has no valid requests_per_s"),
        ({"version": 1, "keys": [SOUND | {"bytes_per_s": True}]}, "key 1 has no valid bytes_per_s"),
        ({"version": 1, "keys": [SOUND, SOUND | {"name": "b"}]}, "two keys have the same id"),
        ({"version": 1, "keys": [SOUND, SOUND | {"id": "b"}]}, "two keys have the same name"),
    ],
)
def test_an_unsound_file_is_refused_as_a_whole(keys_file: Path, content: Any, problem: str) -> None:
    keys_file.write_text(content if isinstance(content, str) else json.dumps(content))
    keys_file.chmod(0o600)
    with pytest.raises(KeysFileUnusable, match=problem):
        read_keys(keys_file)


def test_a_file_that_others_can_write_is_refused(keys_file: Path) -> None:
    write_keys(keys_file, [])
    keys_file.chmod(0o620)
    with pytest.raises(KeysFileUnusable, match="chmod 600"):
        read_keys(keys_file)


def test_a_change_is_seen_and_leaves_nothing_beside_the_file(keys_file: Path) -> None:
    assert file_state(keys_file) is None
    change_keys(keys_file, lambda keys: keys)
    first = file_state(keys_file)
    change_keys(keys_file, lambda keys: keys)
    assert file_state(keys_file) != first
    assert os.listdir(keys_file.parent) == ["keys.json"]


def test_keys_that_are_created_at_once_are_all_kept(keys_file: Path) -> None:
    create = "import sys; from driftq.access.file import change_keys; from driftq.access.keys import *\n"
    create += "for n in range(20):\n"
    create += "    key = new_key(f'{sys.argv[2]}-{n}', roles=[Role.READ])[0]\n"
    create += "    change_keys(sys.argv[1], lambda keys: [*keys, key])\n"
    started = [subprocess.Popen([sys.executable, "-c", create, str(keys_file), name]) for name in ("a", "b")]
    assert [one.wait(60) for one in started] == [0, 0]
    kept: list[ApiKey] = read_keys(keys_file)
    assert len({key.name for key in kept}) == 40
