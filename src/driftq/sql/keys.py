"""What may be a key in a database: any text, kept and compared byte for byte.

Nothing is trimmed, folded or normalised: `A` and `a`, `é` composed and decomposed, `x` and `x ` are
different keys, and the empty text is one as well. Two things are refused on both engines, because
PostgreSQL cannot store the first and UTF-8 cannot express the second: the NUL character, and half of a
surrogate pair. A length limit keeps every key within what an index takes.
"""

from driftq.errors import InvalidArgument

KEY_BYTES_MAX = 1024
"""For one part of a key. Three such parts would not fit a PostgreSQL index: limit two of them further."""

NOTE_CHARACTERS_MAX = 4096


def key_text(field: str, value: str, *, bytes_max: int = KEY_BYTES_MAX) -> str:
    """The value itself; raises InvalidArgument for what cannot be a key."""
    if value.isascii() and len(value) <= bytes_max and "\x00" not in value:
        return value  # Nearly all are: this is asked several times for each event.
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(field, "must not contain a lone surrogate") from None
    if "\x00" in value:
        raise InvalidArgument(field, "must not contain the NUL character")
    if size > bytes_max:
        raise InvalidArgument(field, f"must not be longer than {bytes_max} bytes (it has {size})")
    return value


def storable(note: str) -> str:
    """A text for people, such as an error, made fit for both engines: never refused, cut if long."""
    cut = note[:NOTE_CHARACTERS_MAX]
    return cut.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
