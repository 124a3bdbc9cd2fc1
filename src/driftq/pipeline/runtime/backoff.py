"""How long to wait before something that failed is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from the base to the cap. No chance in it: there is one supervisor, not a herd."""

    base_s: float = 1.0
    cap_s: float = 60.0

    def delay_s(self, failures: int) -> float:
        """Before the next start, after so many failures in a row."""
        return min(self.base_s * 2.0 ** min(failures - 1, 30), self.cap_s)
