"""The broker inside the program: one folder, no server; what was confirmed is there the next time."""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder:
    with driftq.open(folder) as broker:
        broker.create_topic("notes")
        broker.produce("notes", "remember the milk")

    with driftq.open(folder) as broker:
        for message in broker.records("notes"):
            print(f"{message.timestamp}  {message.value}")
