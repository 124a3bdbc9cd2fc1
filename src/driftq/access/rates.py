"""Rates: what a key may use in a second, and how often an address may fail to name a valid key."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

TRIES_BURST = 20
TRIES_PER_S = 1.0
ADDRESSES_MAX = 4_096


class Allowance:
    """A rate with a burst of one second. A use may exceed what is left; the next one waits."""

    __slots__ = ("_at", "_burst", "_left", "per_s")

    def __init__(self, per_s: float, *, at: float, burst: float | None = None) -> None:
        self.per_s = per_s
        self._burst = max(per_s if burst is None else burst, 1.0)
        self._left = self._burst
        self._at = at

    def wait_s(self, now: float) -> float:
        """How long until something may be used; 0 when it may be now."""
        self._left = min(self._burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        return 0.0 if self._left > 0 else -self._left / self.per_s + 1 / self.per_s

    def use(self, amount: float) -> None:
        self._left -= amount


class FailedTries:
    """How often each address has failed of late; beyond a number of addresses the oldest is forgotten."""

    def __init__(self) -> None:
        self._by_address: OrderedDict[str, Allowance] = OrderedDict()

    def failed(self, address: str, *, now: float) -> float:
        """Count a failure; how long this address has to wait, 0 when it may try at once."""
        network = _network(address)
        tries = self._by_address.pop(network, None) or Allowance(TRIES_PER_S, at=now, burst=TRIES_BURST)
        self._by_address[network] = tries
        if len(self._by_address) > ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        wait_s = tries.wait_s(now)
        if not wait_s:
            tries.use(1.0)
        return wait_s

    def __len__(self) -> int:
        return len(self._by_address)


def _network(address: str) -> str:
    """One client usually has a whole /64 of IPv6 addresses."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
