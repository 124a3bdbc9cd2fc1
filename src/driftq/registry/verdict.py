"""What a handler raises to say what shall become of its work."""

ERROR_CHARACTERS_MAX = 1_000


class Retry(Exception):
    """Not now: try it again, not sooner than `after` seconds from now when that is given."""

    def __init__(self, reason: str = "asked for a retry", *, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after

    @property
    def after_ms(self) -> int | None:
        return None if self.after is None else max(1, round(self.after * 1000))


class Released(Retry):
    """The worker stops while a target is away: the message is given back, and the attempt does not count."""


class Reject(Exception):
    """Never: trying again is pointless, so it goes to the dead letters at once."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownEffect(Exception):
    """A run of this effect was cut off, and it is unknown whether the effect happened."""


def error_text(error: BaseException) -> str:
    """What is kept as `last_error`."""
    if isinstance(error, Retry | Reject):
        return error.reason[:ERROR_CHARACTERS_MAX]
    text = str(error)
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:ERROR_CHARACTERS_MAX]
