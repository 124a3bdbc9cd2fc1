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
"""Events wait for a full segment for so long at most."""
RETRY_S = 5.0

logger = logging.getLogger("driftq.events")


class Sealing:
    """Places and seals what was appended, while this is the active sealer; else waits to become it."""

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
        self._woken.set()  # Something may be left from the last time.
        self._thread = threading.Thread(target=self._work, name="driftq-sealer", daemon=True)
        self._turn = threading.Lock()
        """Taking the lease and placing by it are not done at the same time."""
        self._thread.start()

    def wake(self) -> None:
        """Something was appended."""
        self._woken.set()

    def place(self) -> None:
        """Give what is committed its place in the log, if that is ours to do. Raises Unavailable."""
        with self._turn:
            self._take()
            try:
                while self._active and self._sealer.assign_positions():
                    pass
            except SealerReplaced:
                self._active = False

    def stop(self) -> None:
        """Finish the round that is under way, and let the next sealer in."""
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
                logger.warning("the event log cannot be sealed now, and will be later: %s", error)
            self._troubled = True

    def _take(self) -> None:
        if not self._active:
            self._active = self._sealer.take(force=self._alone)

    def _end(self) -> None:
        try:
            self._sealer.release()
        except Exception as error:  # noqa: BLE001 - the supervisor: the lease ends by itself
            logger.warning("the sealer's lease was not given back: %s", error)
