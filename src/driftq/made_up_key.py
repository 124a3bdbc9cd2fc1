"""Idempotency keys that a client makes up for a caller who gave none.

A client makes one up so that it may repeat a produce whose answer was lost. Such a key says which produce
call a message came from. It says nothing about what the caller means by the message, so wherever the caller's
own identity is asked for (a step of a run, for example) it counts as no key. The mark is a prefix of the key
itself, because the key is stored and travels verbatim: through the log, deliveries, dead letters, redrives.
Clients in other languages use the same prefix.
"""

MADE_UP_PREFIX = "driftq-auto:"


def is_made_up(key: str) -> bool:
    """Whether a client made this key up; a key without the mark is the caller's."""
    return key.startswith(MADE_UP_PREFIX)
