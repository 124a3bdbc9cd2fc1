"""Run the test matrix: suites on systems and versions that `make test` does not have.

python scripts/matrix.py                 every part
python scripts/matrix.py spark-4.0       one part; several may be named
python scripts/matrix.py turn            the small part whose turn it is at this commit
python scripts/matrix.py --list          the parts

Every part runs even if an earlier one failed; the exit code is 1 when one did. A part is one line in PARTS.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TURN = "turn"


@dataclass(frozen=True)
class Part:
    """Tests, and the environment to run them in."""

    name: str
    tests: tuple[str, ...]
    environment: str = ".venv"
    """Its folder; the Makefile makes it, if there is a rule for it."""
    small: bool = False
    """It takes at most ten minutes."""
    thorough: bool = False
    """Its long stories are whole: DRIFTQ_THOROUGH is set."""


STORMS = (
    "tests/crash/test_kill_storm.py",
    "tests/crash/test_client_storm.py",
    "tests/acceptance/dead_letters/test_relay.py",
    "tests/acceptance/eventstore/test_killed.py",
    "tests/conformance/sinks/test_killed_writer.py",
)
PARTS = (
    Part("spark-4.0", ("tests/spark_versions",), ".venv-spark-4.0", small=True),
    Part("spark-4.1", ("tests/spark_versions",), ".venv-spark-4.1", small=True),
    Part("spark-4.2", ("tests/spark_versions",), ".venv-spark-4.2", small=True),
    Part("spark-4.3", ("tests/spark_versions",), ".venv-spark-4.3", small=True),
    Part("kafka-4.0", ("tests/services/transport",), ".venv-spark-4.0.0"),
    Part("python-3.12", ("tests/unit", "tests/contract"), ".venv-python-3.12"),
    Part("python-3.13", ("tests/unit", "tests/contract"), ".venv-python-3.13"),
    Part("seeds", ("tests/simulation",), small=True, thorough=True),
    Part("storms", STORMS, small=True, thorough=True),
    Part("kills", ("tests/matrix/kills",), small=True),
    Part("pages", ("tests/matrix/pages",), small=True),
    Part("kills-on-spark", ("tests/matrix/spark_kills",), small=True),
    Part(
        "volume-on-spark",
        ("tests/matrix/volume", "tests/spark/test_dead_letters.py"),
        small=True,
        thorough=True,
    ),
    Part("cluster", ("tests/matrix/cluster",)),
    Part("replayed", ("tests/matrix/replayed",)),
    Part("two-brokers", ("tests/matrix/two_brokers",)),
    Part("redis-cluster", ("tests/matrix/redis_cluster",), small=True),
    Part("opensearch-3", ("tests/matrix/opensearch_3",)),
    Part("elasticsearch-8", ("tests/matrix/elasticsearch_8",)),
)

Run = Callable[[Sequence[str]], int]
"""Runs a command in the root of the project; its exit code."""


def in_turn(parts: Sequence[Part], commits: int) -> Part:
    """The small part for a history of this many commits: each has its turn before any has its second."""
    small = [part for part in parts if part.small]
    return small[commits % len(small)]


def commits_of(root: Path) -> int:
    """The number of commits; 0 where there is no history."""
    done = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return int(done.stdout) if done.returncode == 0 else 0


def chosen(names: Sequence[str], parts: Sequence[Part], commits: int) -> list[Part]:
    """The parts of these names, all of them without a name; raises ValueError for an unknown one."""
    known = {part.name: part for part in parts} | {TURN: in_turn(parts, commits)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"there is no part {unknown[0]}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(parts)


def run_parts(parts: Sequence[Part], run: Run, *, options: Sequence[str] = ()) -> list[str]:
    """The names of those that failed."""
    failed = []
    for part in parts:
        print(f"--- {part.name}", flush=True)
        made = run(["make", f"{part.environment}/.driftq-setup"])
        thorough = ["env", "DRIFTQ_THOROUGH=1"] if part.thorough else []
        if made or run([*thorough, f"{part.environment}/bin/python", "-m", "pytest", *part.tests, *options]):
            failed.append(part.name)
    return failed


def run_here(command: Sequence[str]) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main(arguments: Sequence[str] | None = None, run: Run = run_here) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help="which parts, or turn; all of them without a name")
    parser.add_argument("--list", action="store_true", help="list the parts and run nothing")
    parser.add_argument("--options", default="", help="options for pytest, separated by spaces")
    asked = parser.parse_args(arguments)
    try:
        parts = chosen(asked.parts, PARTS, commits_of(ROOT))
    except ValueError as problem:
        parser.error(str(problem))
    if asked.list:
        print("\n".join(f"{part.name}{' (small)' if part.small else ''}" for part in parts))
        return 0
    failed = run_parts(parts, run, options=asked.options.split())
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(part.name for part in parts)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
