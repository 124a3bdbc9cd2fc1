"""Copy lines into a topic by their position, get interrupted, and go on without a gap or a double.

The topic keeps the last position of each writer together with the messages. A program that is killed asks
for it and continues there, and needs no notes of its own.
"""

import tempfile

import driftq

LINES = ["first", "second", "third", "fourth"]


def import_lines(broker: driftq.Client, *, stop_before: int) -> None:
    """Append what the topic does not have yet; `stop_before` stands for a kill."""
    opened = broker.writer("lines", "importer")  # Older runs of this writer can no longer append.
    begin = opened.lanes.get(0, -1) + 1
    print(f"run {opened.epoch} starts at line {begin}")
    messages = [driftq.PositionedMessage(place, text) for place, text in enumerate(LINES)]
    broker.append("lines", messages[begin:stop_before], writer="importer", epoch=opened.epoch)


with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("lines")
    import_lines(broker, stop_before=2)
    import_lines(broker, stop_before=len(LINES))
    print(f"the topic has {[message.value for message in broker.records('lines')]}")
