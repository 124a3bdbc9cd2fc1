"""Make a release: build, check, tag. Without --tag it does everything but the tag.

python scripts/release.py          check the tree, run `make check`, build dist/
python scripts/release.py --tag    the same, then tag the commit v<version>

It refuses a dirty tree, a version that is tagged already, and a version without a section in CHANGELOG.md. It
pushes and uploads nothing.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class ReleaseRefusedError(Exception):
    """The tree is not ready to be released; the text says why."""


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def version_of(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def require_ready(root: Path, version: str) -> None:
    """Raise ReleaseRefusedError unless this commit can become the release."""
    if changed := git(root, "status", "--porcelain"):
        raise ReleaseRefusedError(f"the tree is not clean:\n{changed}")
    if git(root, "tag", "--list", f"v{version}"):
        raise ReleaseRefusedError(f"v{version} is tagged already; raise the version in pyproject.toml")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$", changelog, re.MULTILINE):
        raise ReleaseRefusedError(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'")


def build(root: Path) -> None:
    """The checks, then a source archive and a wheel in dist/."""
    subprocess.run(["make", "check"], cwd=root, check=True)
    python = [sys.executable, "-m", "uv", "build", "--quiet", "--no-build-isolation"]
    subprocess.run([*python, "--python", sys.executable, "--out-dir", "dist"], cwd=root, check=True)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tag", action="store_true", help="tag the commit when everything passed")
    options = parser.parse_args(arguments)
    version = version_of(root)
    try:
        require_ready(root, version)
        build(root)
        require_ready(root, version)  # What was built is what is committed.
    except ReleaseRefusedError as refused:
        print(f"release: {refused}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as failed:
        print(f"release: {' '.join(failed.cmd)} failed", file=sys.stderr)
        return 1
    if options.tag:
        git(root, "tag", "--annotate", f"v{version}", "--message", f"DriftQ {version}")
        print(f"tagged v{version}; push it with: git push origin v{version}")
    else:
        print(f"v{version} can be released; to tag it: make release ARGS=--tag")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
