"""`driftq version`: the version of this DriftQ."""

import platform

import typer

import driftq
from driftq.cli.screen import Json, examples, say, say_json
from driftq.settings import load_settings

VERSION_EXAMPLES = examples("driftq version", "driftq version --json")


def show_version(wanted: bool) -> None:
    """`driftq --version`: print the version and exit."""
    if wanted:
        version()
        raise typer.Exit


def version(as_json: Json = False) -> None:
    """Print the version of this DriftQ. For that of a server, see its /v1/version."""
    commit = load_settings().commit
    if as_json:
        say_json({"version": driftq.__version__, "commit": commit, "python": platform.python_version()})
    else:
        say(f"driftq {driftq.__version__} (commit {commit}, Python {platform.python_version()})")
