"""How fast a request comes in, looked at once a second while the server waits for its bytes.

A second in which the server does not wait is not looked at and so does not count. Nothing is noted between
two looks: a request that comes whole within a second costs nothing here.
"""

from __future__ import annotations

from collections import deque

from driftq.errors import RequestTimeout
from driftq.http.wire.options import HttpOptions


class Pace:
    """The looks at one connection's unfinished requests, one request after the other."""

    __slots__ = ("_looks", "_options", "_part", "_sizes")

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._part: tuple[int, bool] = (0, False)
        self._looks = 0
        self._sizes: deque[int] = deque(maxlen=options.body_window_s + 1)

    def look(self, request: int, *, in_head: bool, received_bytes: int) -> RequestTimeout | None:
        """One more second of request number `request`; the error when it has come too slowly."""
        if self._part != (request, in_head):
            if self._part[0] != request:
                self._looks = 0
            self._part = (request, in_head)
            self._sizes.clear()
        self._looks += 1
        if in_head:
            if self._looks > self._options.head_s:
                return RequestTimeout(f"the request's head did not come within {self._options.head_s} s")
            return None
        self._sizes.append(received_bytes)
        window_s, least = self._options.body_window_s, self._options.body_bytes_per_s_min
        if len(self._sizes) > window_s and self._sizes[-1] - self._sizes[0] < window_s * least:
            return RequestTimeout(
                f"the request's body came slower than {least} bytes per second over {window_s} s"
            )
        return None

    def bytes_per_s(self, request: int, *, received_bytes: int) -> float:
        """How fast this request has come so far."""
        return received_bytes / (self._looks if self._part[0] == request and self._looks else 1)
