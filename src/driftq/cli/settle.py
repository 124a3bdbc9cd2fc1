"""`driftq ack` and `driftq nack`: settle one delivery."""

from typing import Annotated

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Url, examples, say
from driftq.settings import load_url

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Partition = Annotated[int, typer.Argument(metavar="PARTITION", help="The partition of the delivery.")]
Offset = Annotated[int, typer.Argument(metavar="OFFSET", help="The offset of the delivery.")]
Group = Annotated[str, typer.Option("--group", "-g", help="The group of the delivery.")]
Owner = Annotated[str, typer.Option("--owner", "-o", help="The owner of the lease.")]
Attempt = Annotated[int | None, typer.Option("--attempt", help="Fail unless this is the current attempt.")]

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
    """Ack a message: the group never gets it again."""
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
    reason: Annotated[
        str, typer.Option("--reason", "-r", help="The reason, shown to the next attempt.")
    ] = "",
    no_retry: Annotated[
        bool, typer.Option("--no-retry", help="No retry can help: make it a dead letter at once.")
    ] = False,
    attempt: Attempt = None,
    url: Url = None,
) -> None:
    """Nack a message: the server redelivers it after a short wait."""
    delivery = _delivery(topic, partition, offset, group=group, owner=owner, attempt=attempt)
    with Connection(load_url(url)) as connection:
        connection.post("/v1/nack", {**delivery, "reason": reason, "retryable": not no_retry})
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
