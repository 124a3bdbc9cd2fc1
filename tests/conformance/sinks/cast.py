"""Changes as the tests tell them, and what is to be read back."""

import json

from driftq.sinks import Application, Change, ProjectionDeadLetter, ReadModel, TopicPartition

ORDERS = TopicPartition("events.order", 0)


def change(sequence: int, *, of: str = "o-1", kind: str = "order", deleted: bool = False) -> Change:
    """The state says which sequence it is from."""
    state = None if deleted else json.dumps({"at": sequence})
    return Change(kind, of, sequence, f"{kind}/{of}/{sequence}", state)


def batch(
    *changes: Change, upto: int | None = None, dead: tuple[ProjectionDeadLetter, ...] = ()
) -> Application:
    positions = {} if upto is None else {ORDERS: upto}
    return Application(changes=changes, positions=positions, dead_letters=dead)


def dead_letter(offset: int, *, error: str = "no JSON", value: str | None = "{") -> ProjectionDeadLetter:
    return ProjectionDeadLetter("events.order", 0, offset, None, "decode", error, value)


def seen(model: ReadModel) -> dict[tuple[str, str], tuple[int, object]]:
    return {(row.aggregate_type, row.aggregate_id): (row.sequence_number, row.state) for row in model.rows()}


def settled(model: ReadModel) -> dict[tuple[str, str], tuple[int, str]]:
    return {
        (row.aggregate_type, row.aggregate_id): (row.last_sequence, row.last_event_id)
        for row in model.registry()
    }
