"""Two ends of a connection on one loop: bytes written at one end arrive at the other."""

from __future__ import annotations

import asyncio
from typing import Any

_HIGH_BYTES = 256 << 10
_LOW_BYTES = 64 << 10


class PipeEnd(asyncio.Transport):
    """A protocol's transport; the peer's protocol gets the bytes in a later turn of the loop."""

    def __init__(self, protocol: asyncio.Protocol, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._protocol = protocol
        self._loop = loop
        self._peer: PipeEnd = self
        self._incoming: list[bytes] = []
        self._incoming_bytes = 0
        self._turn_asked = False
        self._reading_paused = False
        self._writing_paused = False
        self._high, self._low = _HIGH_BYTES, _LOW_BYTES
        self._closing = False
        self._gone = False
        self._eof = False
        """The peer has finished writing and still reads."""
        self._ended = False
        """The peer is closed."""

    # Writing

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._closing:
            return
        self._peer._take(bytes(data))
        if not self._writing_paused and self.get_write_buffer_size() > self._high:
            self._writing_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self._peer._incoming_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Finish writing; bytes that the peer writes until it closes still arrive."""
        self._peer._eof = True
        self._peer._want_turn()

    # Reading

    def _take(self, octets: bytes) -> None:
        if not self._gone:
            self._incoming.append(octets)
            self._incoming_bytes += len(octets)
            self._want_turn()

    def _want_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        if self._incoming and not self._reading_paused and not self._gone:
            octets = self._incoming[0] if len(self._incoming) == 1 else b"".join(self._incoming)
            self._incoming.clear()
            self._incoming_bytes = 0
            self._peer._drained()
            self._protocol.data_received(octets)
        if self._eof and not self._incoming and not self._gone:
            self._eof = False
            if not self._protocol.eof_received():
                self.close()
        if self._ended and not self._incoming:
            self._lose()

    def _drained(self) -> None:
        if self._writing_paused and not self._gone:
            self._writing_paused = False
            self._loop.call_soon(self._protocol.resume_writing)

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._want_turn()

    # The end

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close; bytes already written still arrive."""
        if not self._closing:
            self._closing = True
            self._peer._ended = True
            self._peer._want_turn()
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        self._peer._incoming.clear()
        self._peer._incoming_bytes = 0
        self.close()

    def _lose(self) -> None:
        if not self._gone:
            self._gone = self._closing = True
            self._incoming.clear()
            self._incoming_bytes = 0
            self._protocol.connection_lost(None)
            self._peer._ended = True
            self._peer._want_turn()


def join(left: asyncio.Protocol, right: asyncio.Protocol) -> None:
    """Connect two protocols on the running loop."""
    loop = asyncio.get_running_loop()
    first, second = PipeEnd(left, loop), PipeEnd(right, loop)
    first._peer, second._peer = second, first
    left.connection_made(first)
    right.connection_made(second)
