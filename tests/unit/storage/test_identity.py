"""The identity of a data folder is made once and stays."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from driftq.storage.identity import folder_identity, read_identity


def test_a_folder_has_one_identity_for_good(tmp_path: Path) -> None:
    assert read_identity(tmp_path) is None
    made = folder_identity(tmp_path)
    assert (folder_identity(tmp_path), read_identity(tmp_path)) == (made, made)
    assert [path.name for path in tmp_path.iterdir()] == ["identity"]


def test_a_copy_is_the_same_folder_and_another_folder_is_not(tmp_path: Path) -> None:
    first, copy, other = (tmp_path / name for name in ("first", "copy", "other"))
    first.mkdir()
    other.mkdir()
    made = folder_identity(first)
    shutil.copytree(first, copy)
    assert folder_identity(copy) == made
    assert folder_identity(other) != made


def test_callers_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(folder_identity, [tmp_path] * 32))
    assert found == {read_identity(tmp_path)}
