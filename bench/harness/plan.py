"""How long and how often is measured: a full run, or a quick one that only shows that everything works."""

import os
from dataclasses import dataclass

STEAL_MAX = 0.05
"""A round in which the host kept back more than this share of the processors' time does not count."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The shape of every measurement."""

    rounds: int
    seconds: float
    """Of one side in one round."""
    quick: bool = False

    def pick(self, full: int, quick: int) -> int:
        """A count of things: as many as a full run has, or as a quick one."""
        return quick if self.quick else full


FULL = Plan(rounds=5, seconds=2.0)
QUICK = Plan(rounds=2, seconds=0.4, quick=True)


def plan() -> Plan:
    """The plan of this process: `BENCH_QUICK=1` asks for the quick one."""
    return QUICK if os.environ.get("BENCH_QUICK", "") not in {"", "0"} else FULL
