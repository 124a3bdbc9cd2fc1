"""`driftq ack` and `driftq nack`: say how the work on one delivery ended."""

from typing import Annotated

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Url, examples, say
from driftq.settings import load_url

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Partition = Annotated[int, typer.Argument(metavar="PARTITION", help="As the delivery says.")]
Offset = Annotated[int, typer.Argument(metavar="OFFSET", help="As the delivery says.")]
Group = Annotated[str, typer.Option("--group", "-g", help="The group it was delivered to.")]
Owner = Annotated[str, typer.Option("--owner", "-o", help="The owner it is leased to.")]
Attempt = Annotated[int | None, typer.Option("--attempt", help="Refuse unless this is the current attempt.")]

ACK_EXAMPLES = examples("driftq ack orders 1 0 --group billing --owner me")
NACK_EXAMPLES = examples('driftq nack orders 1 1 --group billing --owner me --reason "out of milk"')


def ack(
    topic: Topic,
    partition: Partition,
    offset: Offset,
    group: Group,
    owner: Owner,
    attempt: Attempt = None,
    url: Url = None,
) -> None:
    """Settle a message: the group never gets it again."""
    delivery = _delivery(topic, partition, offset, group=group, owner=owner, attempt=attempt)
    with Connection(load_url(url)) as connection:
        connection.post("/v1/ack", delivery)
    say(f"acked {topic} partition {partition} offset {offset}")


def nack(
    topic: Topic,
    partition: Partition,
    offset: Offset,
    group: Group,
    owner: Owner,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; the next attempt sees it.")] = "",
    attempt: Attempt = None,
    url: Url = None,
) -> None:
    """Give a message back: it comes again after a short wait."""
    delivery = _delivery(topic, partition, offset, group=group, owner=owner, attempt=attempt)
    with Connection(load_url(url)) as connection:
        connection.post("/v1/nack", {**delivery, "reason": reason})
    say(f"nacked {topic} partition {partition} offset {offset}")


def _delivery(
    topic: str, partition: int, offset: int, *, group: str, owner: str, attempt: int | None
) -> dict[str, str | int]:
    delivery: dict[str, str | int] = {
        "topic": topic,
        "group": group,
        "partition": partition,
        "offset": offset,
        "owner": owner,
    }
    if attempt is not None:
        delivery["attempt"] = attempt
    return delivery
