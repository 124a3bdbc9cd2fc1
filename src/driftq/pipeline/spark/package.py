"""The Python packages that a cluster's executors need, in one archive: `driftq pipeline package`.

Executors need DriftQ and what it imports, compiled parts included, which Python cannot load from a zip file.
So the archive holds the installed packages as folders; `spark.archives` unpacks it beside each executor, and
PYTHONPATH leads there. Spark itself is not in it: the executors have it. Driver and executors must run the
same minor version of Python on the same kind of machine.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from driftq.errors import SparkUnusable

ROOT = "driftq_libs"
"""The folder beside an executor into which Spark unpacks the archive."""
OWN = ("driftq", "pyspark_driftq", "pyspark_driftq_events")
_EXTRAS = ("spark", "kafka")
_ON_EXECUTORS = frozenset({"pyspark", "py4j"})


@dataclass(frozen=True, slots=True)
class PackedLibraries:
    """A finished archive: its distributions with their versions, and its size."""

    file: Path
    distributions: dict[str, str]
    bytes: int


def write_package(target: Path) -> PackedLibraries:
    """Write the archive; it appears whole or not at all. Raises SparkUnusable when packages are missing."""
    found = dict(sorted((one.metadata["Name"], one.version) for one in needed_distributions()))
    staged = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with (
            staged.open("xb") as raw,
            gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for name, file in sorted(_files()):
                _add(archive, name, file)
        os.replace(staged, target)
    finally:
        staged.unlink(missing_ok=True)
    return PackedLibraries(target, found, target.stat().st_size)


def package_settings(archive: str) -> dict[str, str]:
    """Spark's settings that bring the archive to the executors and put it on their path."""
    return {"spark.archives": f"{archive}#{ROOT}", "spark.executorEnv.PYTHONPATH": f"./{ROOT}"}


def needed_distributions() -> list[metadata.Distribution]:
    """DriftQ with its extras for Spark, and everything that these need here, without Spark itself."""
    from packaging.requirements import Requirement

    found: dict[str, metadata.Distribution] = {}
    left = [(Requirement("driftq"), extra) for extra in ("", *_EXTRAS)]
    seen: set[tuple[str, str]] = set()
    while left:
        wanted, extra = left.pop()
        name = _plain(wanted.name)
        if name in _ON_EXECUTORS or (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            found[name] = metadata.distribution(wanted.name)
        except metadata.PackageNotFoundError:
            if "kafka" in (extra, name):
                continue  # Not every pipeline reads Kafka.
            raise SparkUnusable(
                f"{wanted.name} is not installed here, and executors need it",
                remedy="pip install 'driftq[spark]'",
            ) from None
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                left += [(needed, more) for more in ("", *sorted(needed.extras))]
    return list(found.values())


def _files() -> Iterator[tuple[str, Path]]:
    """Names in the archive, each with its file."""
    for distribution in needed_distributions():
        # DriftQ may be installed in place, and then lists no modules: they are added below.
        ours = _plain(distribution.metadata["Name"]) == "driftq"
        for entry in distribution.files or ():
            if ours and not entry.parts[0].endswith(".dist-info"):
                continue
            path = Path(str(distribution.locate_file(entry)))
            if ".." not in entry.parts and "__pycache__" not in entry.parts and path.is_file():
                yield entry.as_posix(), path
    for name in OWN:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            for path in Path(folder).rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield f"{name}/{path.relative_to(folder).as_posix()}", path


def _add(archive: tarfile.TarFile, name: str, file: Path) -> None:
    """Without owner and time: the same packages make the same archive."""
    content = file.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o755 if os.access(file, os.X_OK) else 0o644
    archive.addfile(entry, io.BytesIO(content))


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
