"""Judges deliveries to a consumer without a sign of life: one message at a time, with growing pauses."""

from __future__ import annotations

from dataclasses import dataclass

from driftq.testing.checkers import require

_PAUSE_MAX_MS = 30_000


@dataclass(slots=True)
class _Silence:
    """The deliveries of one stream since its owner's last sign of life, or since the count restarted."""

    quiet_from: int
    """Later deliveries were certainly decided after that."""
    first_at: int | None = None
    """When the first delivery arrived that no sign of life has followed."""
    probe_at: int | None = None
    probes: int = 0


class SilenceChecker:
    """Observes the deliveries of each stream and the signs of life of its owner."""

    def __init__(self, *, lease_ms: int, slack_ms: int) -> None:
        self._lease_ms = lease_ms
        self._slack_ms = slack_ms
        self._streams: dict[str, _Silence] = {}

    def heard(self, stream: str, now: int) -> None:
        """A sign of life was sent, or the stream was opened; deliveries that cross it prove nothing."""
        self._streams[stream] = _Silence(quiet_from=now + 2 * self._slack_ms)

    def shaken(self, now: int) -> None:
        """The server may have lost the credits of streams."""
        for stream in self._streams:
            self.heard(stream, now)

    def delivered(self, stream: str, now: int) -> None:
        known = self._streams[stream]
        if now <= known.quiet_from:
            return
        if known.first_at is None:
            known.first_at = now
        if now <= known.first_at + self._lease_ms + self._slack_ms:
            return  # Its first lease may still be running.
        if known.probe_at is not None:
            pause_ms = min(self._lease_ms << (known.probes - 1), _PAUSE_MAX_MS)
            least_ms = self._lease_ms + pause_ms - self._slack_ms
            gap_ms = now - known.probe_at
            require(gap_ms >= least_ms, "G1", f"{stream} is silent and gets another after {gap_ms} ms")
        known.probe_at = now
        known.probes += 1
