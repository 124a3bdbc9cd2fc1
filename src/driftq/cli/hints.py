"""What to do next, for errors that a command ends with."""

from __future__ import annotations

import ssl

from driftq.errors import (
    DiskFull,
    DriftQError,
    GroupNotFound,
    JobNotFound,
    KeyMissing,
    KeyUnknown,
    ResourceExhausted,
    RoleMissing,
    ServerUnreachable,
    TopicNotFound,
)

_HINTS: tuple[tuple[type[DriftQError], str], ...] = (
    (KeyMissing, "pass a key in DRIFTQ_API_KEY; `driftq key create` makes one in the server's keys file"),
    (KeyUnknown, "check DRIFTQ_API_KEY; `driftq key list` shows the keys of the server's keys file"),
    (RoleMissing, "use a key with that role; `driftq key create NAME --role ROLE` makes one"),
    (TopicNotFound, "`driftq topic list` shows the topics, `driftq topic create` makes one"),
    (GroupNotFound, "`driftq topic show TOPIC` shows the groups of a topic; a consumer creates its group"),
    (JobNotFound, "`driftq job list` shows the jobs that are kept"),
    (DiskFull, "free space on the server's disk; the server then accepts messages by itself"),
    (ResourceExhausted, "a limit of the server is reached: repeat the command later"),
)


def hint_for(error: DriftQError) -> str | None:
    """A sentence for people; None where the error says it all."""
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)


def way_to_a_server(error: ServerUnreachable) -> str:
    """What to do where no server answers, or one whose certificate is not trusted."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return (
                "name its authority's certificate in DRIFTQ_CA_FILE, and a host that its own certificate has"
            )
        seen = seen.__cause__ or seen.__context__
    return "start one with `driftq serve`, or name another with --url or DRIFTQ_URL"
