"""The Java that Spark would use, checked before Spark fails with a message of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from driftq.errors import SparkUnusable
from driftq.settings import java_home

JAVA_MIN = 17
HOW_TO_GET_JAVA = (
    f"install Java {JAVA_MIN} or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17), or set JAVA_HOME to where it is"
)
HOW_TO_GET_SPARK = "pip install 'driftq[spark]'"

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_ANSWER_S = 30


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java."""

    path: str
    release: int


def find_java() -> Java | None:
    """The Java of JAVA_HOME, else of the path; None when there is none that starts."""
    home = java_home()
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None:
        return None
    try:
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [path, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    release = read_release(asked.stderr + asked.stdout)
    return None if release is None else Java(path, release)


def read_release(said: str) -> int | None:
    """The release in the output of `java -version`; before 9 it was written as 1.8."""
    found = _VERSION.search(said)
    if found is None:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def find_spark() -> str | None:
    """The version of pyspark that is installed, if it is."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Means:
    """The installed versions of Java and pyspark."""

    spark: str | None
    java: Java | None

    @property
    def problem(self) -> SparkUnusable | None:
        """The missing part, and what to install."""
        if self.spark is None:
            return SparkUnusable("pyspark is not installed", remedy=HOW_TO_GET_SPARK)
        if self.java is None:
            return SparkUnusable("Spark needs Java, and there is none here", remedy=HOW_TO_GET_JAVA)
        if self.java.release < JAVA_MIN:
            old = f"Spark needs Java {JAVA_MIN} or newer, and {self.java.path} is Java {self.java.release}"
            return SparkUnusable(old, remedy=HOW_TO_GET_JAVA)
        return None


def find_means() -> Means:
    return Means(find_spark(), find_java())


def require_spark() -> None:
    """Raise SparkUnusable, which says what to install, unless Spark and a Java for it are here."""
    problem = find_means().problem
    if problem is not None:
        raise problem
