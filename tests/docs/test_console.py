"""Outputs in console blocks are what the commands print, on a server in the state that a page describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import STORIES, Shown, Story, a_new_server, normal, shown
from tests.docs.pasting import Shell
from tests.harness import ServerProcess

SHOWN = list(shown())


@pytest.mark.clause("O5")
@pytest.mark.parametrize("example", SHOWN, ids=lambda one: f"{one.page}: {one.command[:40]}")
def test_a_console_block_shows_what_the_command_prints(example: Shown, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "driftq-data") as server:
        STORIES.get(example.command, a_new_server)(Story(server))
        said = Shell(tmp_path, server).run(example.command)
    assert said.failures == []
    assert normal(said.said) == normal(example.output)


def test_every_story_belongs_to_a_command_of_a_page() -> None:
    assert set(STORIES) <= {example.command for example in SHOWN}


def test_times_ids_ports_and_widths_may_differ_and_nothing_else() -> None:
    page = "at   2030-01-01T12:00:00.000Z  at localhost:8080\n\n────\n  indented"
    assert normal(page) == normal("at 2031-02-03T04:05:06Z at localhost:41234\n──────\n  indented")
    assert normal(page) != normal(page.replace("  indented", "indented"))
    assert normal("2 skipped") != normal("3 skipped")


def test_a_command_without_shown_output_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```console\n$ driftq version\n$ driftq topic list\norders\n```\n")
    assert list(shown(tmp_path)) == [Shown("page.md", "driftq topic list", "orders\n")]
