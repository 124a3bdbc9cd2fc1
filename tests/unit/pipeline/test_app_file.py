"""A user's file: what is found in it, and what is said when it cannot be used."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from driftq.pipeline.app.file import AppNotUsable, load_app_file
from driftq.pipeline.app.plan import plan_of

_numbers = itertools.count()
HEAD = "import driftq\nfrom driftq.pipeline import App\napp = App()\n"
HANDLER = """
@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def charge(event, context): ...
"""


def written(folder: Path, text: str, name: str | None = None) -> str:
    file = folder / (name or f"user_app_{next(_numbers)}.py")
    file.write_text(text)
    return str(file)


def test_handlers_and_projections_are_found_in_their_order(tmp_path: Path) -> None:
    projection = """
class Counts:
    name = "counts"
    topics = ("events.order", "events.user")
    fold = staticmethod(len)
    def job(self, options): ...
    def rebuild(self, options): ...
app.projection(Counts())
"""
    ontology = """
@app.worker(topic_pattern="events[.].*", effect="unknown",
            name="mail", family="ontology", gap_policy="full_state")
def second(event, context): ...
"""
    app = load_app_file(written(tmp_path, HEAD + HANDLER + ontology + projection)).require_app()
    steps = plan_of(app)
    assert [(step.job, step.kind, step.sources, step.does) for step in steps] == [
        ("worker-charge", "worker", ("events.order",), "charge"),
        ("worker-mail", "worker", ("events[.].*",), "mail"),
        ("projection-counts", "projection", ("events.order", "events.user"), "len"),
    ]
    assert [(step.effect, step.family, step.gap_policy) for step in steps] == [
        ("idempotent", "instance", "ordered"),
        ("unknown", "ontology", "full_state"),
        (None, None, None),
    ]


def test_a_file_is_read_once_and_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_app.py").write_text("TOPIC = 'events.order'")
    handler = HANDLER.replace('"events.order"', "neighbour_of_app.TOPIC")
    file = written(tmp_path, "import neighbour_of_app\n" + HEAD + handler)
    first = load_app_file(file)
    assert first.require_app().workers[0].topics == ("events.order",)
    assert load_app_file(file).app is first.app


def test_a_main_needs_no_app(tmp_path: Path) -> None:
    file = load_app_file(written(tmp_path, "def main(spark): ..."))
    assert file.main is not None
    with pytest.raises(AppNotUsable, match="it has no app"):
        file.require_app()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "it has no `app` and no `main`"),
        (HEAD, "its app is empty"),
        (HEAD + HANDLER + "other = App()", "more than one app (app and other)"),
        ("app = 7", "`app` is a int; it has to be a driftq.pipeline.App"),
        (HEAD + HANDLER + "main = 7", "`main` is a int"),
        (HEAD + HANDLER + HANDLER, "line 8: ValueError: there are two handlers called 'charge'"),
        (HEAD + HANDLER.replace('["events.order"]', '"events.order"'), "write topics=['events.order']"),
        (HEAD + HANDLER.replace('["events.order"]', "[]"), "worker 'charge' needs topics"),
        (HEAD + HANDLER.replace("driftq.Effect.IDEMPOTENT", "'maybe'"), "must be one of transactional"),
        (
            HEAD + "app.projection('latest')",
            "line 4: TypeError: app.projection takes a driftq.pipeline.Projection",
        ),
        ("def broken(:", "line 1: SyntaxError"),
        ("\n1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        (
            "import no_such_module_at_all",
            "it needs the module 'no_such_module_at_all', which is not installed",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(AppNotUsable) as refused:
        load_app_file(file)
    assert said in str(refused.value)
    assert str(refused.value).startswith(file)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.py", "there is no such file"),
        ("app.txt", "give a Python file"),
        ("json.py", "another module called 'json'"),
    ],
)
def test_files_that_cannot_be_an_app(tmp_path: Path, name: str, said: str) -> None:
    if name != "missing.py":
        written(tmp_path, HEAD, name)
    with pytest.raises(AppNotUsable, match=said):
        load_app_file(str(tmp_path / name))
