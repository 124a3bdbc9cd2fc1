"""Rounds of all sides by turns, so that a host which is slower for a while is slower for all of them.

A round runs every side once, one after the other. When the host kept back too much of the processors' time
during a round, it is discarded for all sides together and repeated, so that at most half of all rounds are
discarded. If the host does not calm down, the rounds with the least steal count, and the figure shows it. The
discarded rounds stay in the result.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.harness.figure import Bound, Figure, RoundShown
from bench.harness.plan import STEAL_MAX, Plan, plan
from bench.machine import kept_back, processor_times


@dataclass(frozen=True, slots=True)
class Sample:
    """What one side came to in one round."""

    rate: float
    """Operations per second, or whatever the figure's value is."""
    cpu_us: float | None = None
    """Processor time of the server for one operation."""
    p50_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that are compared, and how it runs once."""

    name: str
    run: Callable[[], Sample]


@dataclass(frozen=True, slots=True)
class Round:
    """One sample of every side, and the share of processor time that the host kept back meanwhile."""

    samples: dict[str, Sample]
    steal: float


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds in their order; `kept` has the indexes of those that count."""

    every: tuple[Round, ...]
    kept: tuple[int, ...]

    def samples(self, side: str) -> list[Sample]:
        return [self.every[index].samples[side] for index in self.kept]

    def median(self, side: str, of: Callable[[Sample], float | None] = lambda sample: sample.rate) -> float:
        """The median over the rounds that count; a KeyError for a side that did not run."""
        return statistics.median(found for one in self.samples(side) if (found := of(one)) is not None)

    def ratio(self, side: str, other: str, of: Callable[[Sample], float | None]) -> float:
        """The median of each round's ratio, which a host that drifts between rounds does not move."""
        pairs = zip(self.samples(side), self.samples(other), strict=True)
        return statistics.median((of(one) or 0.0) / (of(two) or float("nan")) for one, two in pairs)

    def difference(self, side: str, other: str, of: Callable[[Sample], float | None]) -> float:
        """The median of the differences within each round."""
        pairs = zip(self.samples(side), self.samples(other), strict=True)
        return statistics.median((of(one) or 0.0) - (of(two) or 0.0) for one, two in pairs)

    def figure(
        self,
        name: str,
        side: str,
        unit: str,
        *,
        ratio_to: str = "",
        aim: Bound | None = None,
        ratio_aim: Bound | None = None,
        of: Callable[[Sample], float | None] = lambda sample: sample.rate,
        value: float | None = None,
    ) -> Figure:
        """The figure of one side, beside `ratio_to` where that is given; `value` instead of the median."""
        cpu = [one.cpu_us for one in self.samples(side) if one.cpu_us is not None]
        return Figure(
            name=name,
            value=self.median(side, of) if value is None else value,
            unit=unit,
            aim=aim,
            ratio_to=ratio_to,
            ratio=self.ratio(side, ratio_to, of) if ratio_to else None,
            ratio_aim=ratio_aim,
            cpu_us=statistics.median(cpu) if cpu else None,
            steal=statistics.median(self.every[index].steal for index in self.kept),
            rounds=len(self.kept),
            each_round=tuple(
                RoundShown(
                    value=of(one.samples[side]) or 0.0,
                    beside=(of(one.samples[ratio_to]) or 0.0) if ratio_to else None,
                    steal=one.steal,
                    kept=index in self.kept,
                )
                for index, one in enumerate(self.every)
            ),
        )


def p50_ms(sample: Sample) -> float | None:
    return sample.p50_ms


def p99_ms(sample: Sample) -> float | None:
    return sample.p99_ms


def cpu_us(sample: Sample) -> float | None:
    return sample.cpu_us


def interleave(
    sides: Sequence[Side],
    given: Plan | None = None,
    *,
    steal_since: Callable[[dict[str, float]], float] = kept_back,
) -> Rounds:
    """Run all sides by turns until enough rounds count, twice as many at most."""
    count = (given or plan()).rounds
    every: list[Round] = []
    while len(every) < 2 * count:
        before = processor_times()
        samples = {side.name: side.run() for side in sides}
        every.append(Round(samples, steal_since(before)))
        _tell(every[-1])
        if sum(one.steal <= STEAL_MAX for one in every) == count:
            break
    return Rounds(tuple(every), choose([one.steal for one in every], count))


def choose(steals: Sequence[float], count: int) -> tuple[int, ...]:
    """The rounds that count: those with the least steal, in their order."""
    calm = sorted(range(len(steals)), key=lambda index: (steals[index] > STEAL_MAX, steals[index]))
    return tuple(sorted(calm[:count]))


def _tell(one: Round) -> None:
    """Each round on standard error, discarded or not."""
    sides = ", ".join(f"{name} {sample.rate:,.1f}" for name, sample in one.samples.items())
    mark = "  discarded" if one.steal > STEAL_MAX else ""
    print(f"  round: {sides} (steal {one.steal:.1%}){mark}", file=sys.stderr, flush=True)
