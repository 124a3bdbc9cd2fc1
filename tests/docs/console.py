"""Console blocks of the pages: commands with the output that is shown, and the state that they need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SAME = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), "ID"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"─+"), "─"),  # As wide as the table, and that is as wide as its contents.
    (re.compile(r"(?<=\S) +"), " "),
)
"""What differs between two runs, or with the width of a column. Indentation counts."""


@dataclass(frozen=True)
class Shown:
    """One command of a page, and the lines below it."""

    page: str
    command: str
    output: str


def shown(root: Path = ROOT) -> Iterator[Shown]:
    """Every command for which a page shows what it prints."""
    for page in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                if output.strip():
                    yield Shown(page.relative_to(root).as_posix(), command, output)


def normal(text: str) -> list[str]:
    """Lines without what may differ, and without empty lines."""
    lines: list[str] = []
    for written in text.splitlines():
        line = written
        for pattern, instead in _SAME:
            line = pattern.sub(instead, line)
        if line.strip():
            lines.append(line.rstrip())
    return lines


class Story:
    """Brings a new server to the state that a page describes."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._client = server.client()

    def post(self, path: str, **body: Any) -> Any:
        answer = self._client.post(path, body)
        assert answer.status < 300, answer
        return answer.body

    def produce(
        self, topic: str, *, times: int = 1, value: str = "x", key: str = "", **envelope: Any
    ) -> None:
        for _ in range(times):
            self.post("/v1/produce", topic=topic, value=value, key=key, envelope=envelope)

    def take(self, topic: str, group: str, count: int, *, owner: str = "worker-a") -> list[dict[str, Any]]:
        """The group's next deliveries. Their leases outlive the stream, so nothing more is delivered."""
        stream = self._server.stream(topic, group, owner, lease_ms=30_000, prefetch=count)
        deliveries = stream.take(count)
        stream.close()
        names = {"topic": topic, "group": group, "owner": owner}
        return [
            names | {"partition": delivery["partition"], "offset": delivery["offset"]}
            for delivery in deliveries
        ]

    def ack(self, deliveries: list[dict[str, Any]]) -> None:
        for delivery in deliveries:
            self.post("/v1/ack", **delivery)

    def nack(self, deliveries: list[dict[str, Any]], reason: str, *, retryable: bool = True) -> None:
        for delivery in deliveries:
            self.post("/v1/nack", **delivery, reason=reason, retryable=retryable)

    def delete(self, path: str) -> None:
        assert self._client._call("DELETE", path, None).status == 200


def a_message_that_died_and_was_redriven(story: Story) -> None:
    story.post("/v1/topics", name="orders")
    story.produce("orders", times=17)
    earlier = story.take("orders", "billing", 17)
    story.ack(earlier[3:])
    story.nack(earlier[:3], "card declined", retryable=False)
    story.produce(
        "orders", value="two coffees", key="user:1", tenant_id="acme", retry_policy={"max_attempts": 2}
    )
    story.nack(story.take("orders", "billing", 1), "card service is down")
    story.nack(story.take("orders", "billing", 1, owner="worker-b"), "card declined")
    story.produce("orders", times=23)
    story.post("/v1/dlq/orders/redrive", offsets=[3], by="ada")


def a_run_in_every_state(story: Story) -> None:
    run: dict[str, Any] = {"run_id": "nightly-7"}
    for topic in ("agent", "tools"):
        story.post("/v1/topics", name=topic)
    story.produce("agent", step_id="plan", **run)
    story.produce("agent")
    story.ack(story.take("agent", "agents", 2))
    story.produce("tools", times=4)
    story.ack(story.take("tools", "agents", 4))
    story.produce("tools", step_id="search", parent_step_id="plan", **run)
    story.nack(story.take("tools", "agents", 1), "try again")
    story.take("tools", "agents", 1)
    story.produce("tools", step_id="fetch", parent_step_id="search", **run)
    story.nack(story.take("tools", "agents", 1), "no such page", retryable=False)
    story.produce("agent", step_id="write", parent_step_id="plan", **run)


def dead_letters_of_a_deleted_group(story: Story) -> None:
    """Ten dead letters. Five are left: three of a group that exists and two, at 4 and 9, of a deleted one."""
    story.post("/v1/topics", name="orders")
    for offset in range(10):
        story.produce("orders")
        gives_up, settles = ("billing", "mail") if offset in (4, 9) else ("mail", "billing")
        story.ack(story.take("orders", settles, 1))
        story.nack(story.take("orders", gives_up, 1), "no", retryable=False)
    story.post("/v1/dlq/orders/purge", offsets=[0, 1, 2, 3, 5])
    story.delete("/v1/topics/orders/groups/billing")


def a_new_server(story: Story) -> None:
    """Nothing has happened."""


STORIES: dict[str, Callable[[Story], None]] = {
    "driftq explain orders/17": a_message_that_died_and_was_redriven,
    "driftq explain --run nightly-7": a_run_in_every_state,
    "driftq dlq redrive orders": dead_letters_of_a_deleted_group,
}
"""What has happened before a command; without an entry, nothing has."""
