"""Rounds of a benchmark: what is discarded, what is a median, and what of it a figure says."""

from functools import partial

import pytest

from bench.harness.figure import at_least, at_most
from bench.harness.plan import STEAL_MAX, Plan
from bench.harness.rounds import Rounds, Sample, Side, choose, cpu_us, interleave, p99_ms

BUSY = 2 * STEAL_MAX


class Host:
    """Takes away the given share of each round, then nothing more."""

    def __init__(self, *steals: float) -> None:
        self._steals = list(steals)

    def steal_since(self, _before: dict[str, float]) -> float:
        return self._steals.pop(0) if self._steals else 0.0


class Bench:
    """Two sides that note in which order they ran."""

    def __init__(self, ours: list[float], theirs: list[float]) -> None:
        self.order: list[str] = []
        self._rates = {"ours": ours, "theirs": theirs}

    def run(self, *, rounds: int, host: Host) -> Rounds:
        sides = [Side(name, partial(self._sample, name)) for name in self._rates]
        return interleave(sides, Plan(rounds=rounds, seconds=0), steal_since=host.steal_since)

    def _sample(self, name: str) -> Sample:
        self.order.append(name)
        rate = self._rates[name].pop(0)
        return Sample(rate, cpu_us=1e6 / rate, p99_ms=2.0)


def test_both_sides_take_turns() -> None:
    bench = Bench([1, 2, 3], [4, 5, 6])
    bench.run(rounds=3, host=Host())
    assert bench.order == ["ours", "theirs"] * 3


def test_a_disturbed_round_is_repeated_and_counts_for_neither_side() -> None:
    found = Bench([10, 999, 30], [1, 888, 3]).run(rounds=2, host=Host(0.0, BUSY, 0.0))
    assert found.kept == (0, 2)
    assert (found.median("ours"), found.median("theirs")) == (20, 2)
    assert [one.steal for one in found.every] == [0.0, BUSY, 0.0]


def test_at_most_half_of_the_rounds_are_discarded() -> None:
    """A host that never calms down ends the run after twice the rounds; those with the least steal count."""
    found = Bench([1, 2, 3, 4], [1, 1, 1, 1]).run(rounds=2, host=Host(0.4, 0.2, 0.5, 0.1))
    assert found.kept == (1, 3)
    assert found.figure("rate", "ours", "/s").steal == pytest.approx(0.15)


def test_a_ratio_is_the_median_of_the_ratios_within_each_round() -> None:
    """A host that is ten times slower in one round is so for both."""
    found = Bench([10, 100, 21], [10, 100, 10]).run(rounds=3, host=Host())
    assert found.ratio("ours", "theirs", lambda sample: sample.rate) == 1.0
    assert found.difference("ours", "theirs", lambda sample: sample.rate) == 0


def test_a_figure_lists_every_round_with_its_steal() -> None:
    found = Bench([10, 50, 20], [5, 5, 5]).run(rounds=2, host=Host(0.0, BUSY, 0.01))
    figure = found.figure("rate", "ours", "/s", ratio_to="theirs", ratio_aim=at_least(4))
    assert (figure.value, figure.ratio, figure.rounds) == (15, 3, 2)
    assert figure.held is False
    shown = [(one.value, one.beside, one.steal, one.kept) for one in figure.each_round]
    assert shown == [(10, 5, 0.0, True), (50, 5, BUSY, False), (20, 5, 0.01, True)]


def test_a_figure_of_something_else_than_the_rate() -> None:
    found = Bench([10, 20, 40], [5, 5, 5]).run(rounds=3, host=Host())
    figure = found.figure("p99", "ours", "ms", aim=at_most(2), of=p99_ms)
    assert (figure.value, figure.held) == (2.0, True)
    assert figure.cpu_us == found.median("ours", cpu_us) == 50_000


@pytest.mark.parametrize(
    ("steals", "kept"),
    [
        ([0.0, 0.0, 0.0], (0, 1)),
        ([0.04, 0.2, 0.01], (0, 2)),
        ([0.3, 0.2, 0.1, 0.4], (1, 2)),
    ],
)
def test_the_calmest_rounds_count(steals: list[float], kept: tuple[int, ...]) -> None:
    assert choose(steals, 2) == kept
