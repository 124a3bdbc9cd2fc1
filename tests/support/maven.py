"""Jars and servers by the coordinates that requirements/maven pins, fetched once, outside of the repository.

The folder of a cache is named after its pom.xml, so a changed pom is fetched anew. It appears whole or not at
all, and of two processes that want it one fetches and the other waits.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

POMS = Path(__file__).resolve().parents[2] / "requirements/maven"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_FETCHED_IN_S = 600


class JarsUnavailable(Exception):
    """Maven is missing, or could not fetch the jars."""


def jars(name: str) -> list[Path]:
    """The jars of requirements/maven/NAME, in order; raises JarsUnavailable."""
    return sorted(_cached(name, _fetch).glob("*.jar"))


def distribution(name: str) -> Path:
    """The folder of the one zip of requirements/maven/NAME, unpacked; raises JarsUnavailable."""
    [folder] = _cached(name, _fetch_and_unpack).iterdir()
    return folder


def _cached(name: str, fetch: Callable[[Path, Path], None]) -> Path:
    pom = POMS / name / "pom.xml"
    version = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    target = _cache() / f"{name}-{version}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():  # Another process may have fetched it meanwhile.
                with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.") as folder:
                    made = Path(folder, "made")
                    fetch(pom, made)
                    made.rename(target)
    return target


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "driftq" / "maven"


def _fetch(pom: Path, target: Path) -> None:
    if shutil.which("mvn") is None:
        raise JarsUnavailable("Maven is missing (on Debian: apt install maven)")
    done = subprocess.run(
        ["mvn", "-B", "-q", "-f", str(pom), _COPY, f"-DoutputDirectory={target}", "-DincludeScope=runtime"],
        capture_output=True,
        text=True,
        timeout=_FETCHED_IN_S,
        check=False,
    )
    if done.returncode != 0:
        raise JarsUnavailable(f"Maven could not fetch {pom.parent.name}: {done.stdout[-2000:]}")


def _fetch_and_unpack(pom: Path, target: Path) -> None:
    packed = target.with_name("packed")
    _fetch(pom, packed)
    [zipped] = packed.glob("*.zip")
    with zipfile.ZipFile(zipped) as archive:
        for member in archive.infolist():
            made = archive.extract(member, target)
            os.chmod(made, member.external_attr >> 16 | stat.S_IRUSR | stat.S_IWUSR)
