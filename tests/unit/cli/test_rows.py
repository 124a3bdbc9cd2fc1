"""Files of JSON lines and tables become messages; filters and indentation are for reading them back."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run


def values(run_client: Run, topic: str, *options: str) -> list[tuple[str, object]]:
    said = run_client("consume", topic, "--group", "g", "--json", *options)
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    return [(line["key"], json.loads(line["value"])) for line in lines]


@pytest.mark.clause("P6")
def test_rows_of_a_table_become_objects(run_client: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text('id,name\n1,"two, coffees"\n2,tea\n')
    said = run_client("produce", topic, "--file", str(file), "--format", "csv", "--key-field", "id")
    assert said.stdout == "2 produced, 0 of them duplicates, 0 failed\n"
    found = values(run_client, topic, "--max", "2")
    assert sorted(found, key=str) == [
        ("1", {"id": "1", "name": "two, coffees"}),
        ("2", {"id": "2", "name": "tea"}),
    ]


def test_json_lines_are_checked_and_stored_compactly(run_client: Run, topic: str) -> None:
    stdin = '{"id": 7, "tag": "a"}\n\n[1, 2]\n'
    said = run_client("produce", topic, "--file", "-", "--format", "ndjson", stdin=stdin)
    assert said.stdout == "2 produced, 0 of them duplicates, 0 failed\n"
    assert values(run_client, topic, "--max", "2") == [("", {"id": 7, "tag": "a"}), ("", [1, 2])]


@pytest.mark.parametrize(
    ("kind", "stdin", "problem"),
    [
        ("ndjson", '{"id": 1}\n{nonsense\n', "line 2: not JSON"),
        ("ndjson", '{"id": 1}\n{"other": 1}\n', "line 2: has no field 'id'"),
        ("csv", "id,name\n1,tea\n2\n", "line 3: does not have the 2 columns"),
    ],
)
def test_what_is_before_a_bad_line_is_sent_and_the_line_is_named(
    run_client: Run, topic: str, kind: str, stdin: str, problem: str
) -> None:
    arguments = ("--file", "-", "--format", kind, "--key-field", "id")
    said = run_client("produce", topic, *arguments, stdin=stdin)
    assert (said.exit_code, said.stdout) == (1, "1 produced, 0 of them duplicates, 0 failed\n")
    assert problem in said.stderr
    assert said.stderr.endswith("nothing after it was sent\n")


def test_a_key_field_needs_fields(run_client: Run, topic: str) -> None:
    assert run_client("produce", topic, "v", "--key-field", "id").exit_code == 2


def test_only_what_is_wanted_is_printed_and_the_rest_is_done_with(run_client: Run, topic: str) -> None:
    stdin = "".join(
        json.dumps({"n": n, "customer": {"tier": t}}) + "\n" for n, t in enumerate(["a", "b", "a"])
    )
    run_client("produce", topic, "--file", "-", "--format", "ndjson", "--key", "k", stdin=stdin)
    found = values(run_client, topic, "--where", "customer.tier=a", "--where", "key=k", "--max", "2")
    assert [value for _, value in found] == [
        {"n": 0, "customer": {"tier": "a"}},
        {"n": 2, "customer": {"tier": "a"}},
    ]
    view = json.loads(run_client("topic", "show", topic, "--json").stdout)
    assert sum(row["lag"] for row in view["groups"]) == 0
    assert run_client("consume", topic, "--group", "g", "--where", "nonsense").exit_code == 2


def test_pretty_values_have_a_line_a_field(run_client: Run, topic: str) -> None:
    run_client("produce", topic, '{"id":1}')
    shown = run_client("consume", topic, "--group", "g", "--max", "1", "--pretty").stdout
    assert shown.endswith('{\n  "id": 1\n}\n')


def test_shells_can_complete(run: Run) -> None:
    assert "--show-completion" in run("--help").stdout


def test_progress_is_shown_to_those_who_watch(
    run_client: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftq.cli.progress.on_terminal", lambda: True)
    file = tmp_path / "lines.txt"
    file.write_text("line\n" * 1500)
    said = run_client("produce", topic, "--file", str(file))
    assert (said.exit_code, said.stdout) == (0, "1500 produced, 0 of them duplicates, 0 failed\n")
    assert "produced" in said.stderr
