"""The broker inside your own process: `driftq.open`."""

from driftq.embedded.opening import open, open_async  # noqa: A004 - said as `driftq.open`.

__all__ = ["open", "open_async"]
