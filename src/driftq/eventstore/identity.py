"""The identity of an event log: a name made once and kept beside its segments.

It outlives the publisher's checkpoint and travels with the log, so that what was published before is
recognized. Of two processes that make it at once one decides.
"""

import uuid

from driftq.eventstore.objects import BucketObjects

FOLDER = "identity"
NAME = f"{FOLDER}/event-log"


def event_log_identity(objects: BucketObjects) -> str:
    """The identity of the log whose segments are kept there, made at the first call."""
    if NAME not in objects.names(FOLDER):
        objects.create(NAME, uuid.uuid4().hex.encode())
    return objects.read(NAME).decode()
