"""Files of npm packages that requirements/npm.json pins, fetched once, outside of the repository.

The archive is compared with its pinned hash before anything of it is used. A folder of the cache appears
whole or not at all, and of two processes that want it one fetches and the other waits.
"""

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

PINS = Path(__file__).resolve().parents[2] / "requirements/npm.json"
_FETCHED_IN_S = 300


class PackageUnavailable(Exception):
    """npm is missing, or could not fetch the package, or fetched another one."""


def package(name: str) -> Path:
    """The folder of a package, as it was published; raises PackageUnavailable."""
    pin = json.loads(PINS.read_text(encoding="utf-8"))[name]
    target = _cache() / f"{name}-{pin['version']}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():  # Another process may have fetched it meanwhile.
                with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.") as folder:
                    _fetch(name, pin, Path(folder))
                    Path(folder, "package").rename(target)
    return target


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "driftq" / "npm"


def _fetch(name: str, pin: dict[str, str], folder: Path) -> None:
    if shutil.which("npm") is None:
        raise PackageUnavailable("npm is missing (on Debian: apt install npm)")
    done = subprocess.run(
        ["npm", "pack", f"{name}@{pin['version']}", "--ignore-scripts", "--silent"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_FETCHED_IN_S,
        check=False,
    )
    found = list(folder.glob("*.tgz"))
    if done.returncode != 0 or not found:
        raise PackageUnavailable(f"npm could not fetch {name}: {done.stderr[-1000:]}")
    digest = base64.b64encode(hashlib.sha512(found[0].read_bytes()).digest()).decode()
    if pin["integrity"] != f"sha512-{digest}":
        raise PackageUnavailable(f"npm fetched another {name} than requirements/npm.json pins")
    with tarfile.open(found[0]) as archive:
        archive.extractall(folder, filter="data")
