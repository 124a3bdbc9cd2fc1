"""The source code of a version of the project, as a folder."""

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NoSuchVersion(Exception):
    """The version is not in this checkout's history, or this is no git checkout."""


@contextmanager
def source_of(revision: str) -> Iterator[Path]:
    """`src` of a commit, unpacked. Raises NoSuchVersion."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", revision, "src"]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as failed:
        raise NoSuchVersion(revision) from failed
    with tempfile.TemporaryDirectory(prefix="driftq-work-") as folder:
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        yield Path(folder) / "src"


def head() -> str:
    """The current commit."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
