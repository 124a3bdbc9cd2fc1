"""The sealer in the background, on a thread of its own: slow object storage keeps no writer waiting."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from driftq.errors import DatabaseDamaged, EventDamaged, SealerReplaced

if TYPE_CHECKING:
    from driftq.eventstore.seal.sealer import Sealer

ROUND_S = 1.0
FLUSH_S = 60.0
"""The longest time that events wait for a full segment."""
RETRY_S = 5.0

logger = logging.getLogger("driftq.events")


class Sealing:
    """Places and seals appended events while this is the active sealer; otherwise waits to become it."""

    def __init__(
        self, sealer: Sealer, *, alone: bool, on_damage: Callable[[EventDamaged | DatabaseDamaged], None]
    ) -> None:
        """`on_damage` is called on this thread, once until a round succeeds again."""
        self._sealer = sealer
        self._alone = alone
        self._on_damage = on_damage
        self._active = False
        self._troubled = False
        self._over = threading.Event()
        self._flushed_at = time.monotonic()
        self._woken = threading.Event()
        self._woken.set()  # Events may be left from an earlier process.
        self._thread = threading.Thread(target=self._work, name="driftq-sealer", daemon=True)
        self._turn = threading.Lock()
        """Keeps one thread from taking the lease while another places events under it."""
        self._thread.start()

    def wake(self) -> None:
        """Events were appended."""
        self._woken.set()

    def place(self) -> None:
        """Assign log positions to committed events, if this is the active sealer. Raises Unavailable."""
        with self._turn:
            self._take()
            try:
                while self._active and self._sealer.assign_positions():
                    pass
            except SealerReplaced:
                self._active = False

    def stop(self) -> None:
        """Finish the current round, and release the lease for the next sealer."""
        self._over.set()
        self._woken.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.is_set():
            self._round()
            if self._over.wait(RETRY_S if self._troubled else ROUND_S):
                break
            self._woken.wait(FLUSH_S if self._active and not self._troubled else RETRY_S)
        if self._active:
            self._end()

    def _round(self) -> None:
        self._woken.clear()
        flush = time.monotonic() - self._flushed_at >= FLUSH_S
        try:
            self.place()
            if self._active:
                self._sealer.step(flush=flush)
                if flush:
                    self._flushed_at = time.monotonic()
            self._troubled = False
        except SealerReplaced as replaced:
            self._active = False
            logger.warning("%s; another server seals the event log now", replaced)
        except (EventDamaged, DatabaseDamaged) as damage:
            if not self._troubled:
                self._on_damage(damage)
            self._troubled = True
        except Exception as error:  # noqa: BLE001 - the supervisor: logged, and tried again
            if not self._troubled:
                logger.warning("the event log cannot be sealed now, it is tried again later: %s", error)
            self._troubled = True

    def _take(self) -> None:
        if not self._active:
            self._active = self._sealer.take(force=self._alone)

    def _end(self) -> None:
        try:
            self._sealer.release()
        except Exception as error:  # noqa: BLE001 - the supervisor: the lease expires anyway
            logger.warning("the sealer's lease was not released: %s", error)
