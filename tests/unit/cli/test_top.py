"""`driftq top`: what one look and two looks at a server show."""

import io

import pytest
from rich.console import Console

from driftq.cli.top_view import Scrape, read_scrape, view
from tests.unit.cli.conftest import Run

FIRST = """\
# TYPE driftq_ready gauge
driftq_ready 1.0
# TYPE driftq_build_info gauge
driftq_build_info{version="1.2.3",commit="c",python="3"} 1.0
# TYPE driftq_produced_total counter
driftq_produced_total 100.0
# TYPE driftq_topic_produced_total counter
driftq_topic_produced_total{topic="orders"} 100.0
driftq_topic_produced_total{topic="quiet"} 5.0
driftq_topic_produced_total{topic="~jobs"} 9.0
# TYPE driftq_group_lag gauge
driftq_group_lag{group="billing",topic="orders"} 40.0
# TYPE driftq_jobs gauge
driftq_jobs{queue="mail",state="ready"} 3.0
# TYPE driftq_queue_oldest_age_seconds gauge
driftq_queue_oldest_age_seconds{queue="mail"} 200.0
"""


def shown(scrape: Scrape, before: Scrape | None, **options: int) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(view(scrape, before, **options))
    return console.export_text()


def words(text: str, first: str) -> list[str]:
    """The cells of the row that begins with this word."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [first])


@pytest.mark.clause("O1")
def test_two_looks_give_rates_and_the_busiest_topic_comes_first() -> None:
    second = FIRST.replace("_total 100.0", "_total 150.0").replace('"orders"} 100.0', '"orders"} 150.0')
    text = shown(read_scrape(second, at=12.0), read_scrape(FIRST, at=2.0))
    assert "DriftQ 1.2.3, ready" in text
    assert words(text, "orders") == ["orders", "0", "5", "40", "0", "0", "0", "B"]
    assert words(text, "billing") == ["billing", "orders", "40", "0"]
    assert words(text, "mail") == ["mail", "3", "0", "0", "0", "3", "min"]
    assert text.index("orders") < text.index("quiet")
    assert "~jobs" not in text


def test_one_look_has_no_rates_and_few_rows_say_of_how_many() -> None:
    text = shown(read_scrape(FIRST, at=0.0), None, rows=1)
    assert words(text, "orders")[2] == "–"
    assert "topics (1 of 2)" in text


@pytest.mark.clause("O1")
def test_once_prints_the_tables_of_a_real_server(run_client: Run, topic: str) -> None:
    assert run_client("produce", topic, "two coffees").exit_code == 0
    done = run_client("top", "--once", "--rows", "500")
    assert done.exit_code == 0
    assert ", ready" in done.stdout
    assert words(done.stdout, topic)[1] == "1"


@pytest.mark.clause("O1")
def test_an_error_is_followed_by_what_to_do(run: Run, run_client: Run) -> None:
    away = run("top", "--once", "--url", "http://127.0.0.1:1")
    assert away.exit_code == 1
    assert "driftq serve" in away.stderr
    missing = run_client("topic", "show", "no-such-topic")
    assert missing.exit_code == 1
    assert missing.stderr.splitlines()[-1].startswith("hint: `driftq topic list`")


def test_the_program_alone_prints_its_help(run: Run) -> None:
    said = run()
    assert "top" in said.output
    assert "Commands" in said.output
