"""`driftq version`: which DriftQ this is."""

import platform

import typer

import driftq
from driftq.cli.screen import Json, examples, say, say_json
from driftq.settings import load_settings

VERSION_EXAMPLES = examples("driftq version", "driftq version --json")


def show_version(wanted: bool) -> None:
    """`driftq --version`: the same line, and nothing else is run."""
    if wanted:
        version()
        raise typer.Exit


def version(as_json: Json = False) -> None:
    """Say which DriftQ this is. What a server runs is at its /v1/version."""
    commit = load_settings().commit
    if as_json:
        say_json({"version": driftq.__version__, "commit": commit, "python": platform.python_version()})
    else:
        say(f"driftq {driftq.__version__} (commit {commit}, Python {platform.python_version()})")
