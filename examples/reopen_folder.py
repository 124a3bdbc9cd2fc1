"""Run the broker inside your program, close it, and open its folder again.

A produce returns when the message is on the disk. So every message that was confirmed is still there after
a restart, and no server is needed for that.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder:
    with driftq.open(folder) as broker:
        broker.create_topic("notes")
        broker.produce("notes", "remember the milk")

    with driftq.open(folder) as broker:
        for message in broker.records("notes"):
            print(f"offset {message.offset}, stored at {message.timestamp}: {message.value}")
