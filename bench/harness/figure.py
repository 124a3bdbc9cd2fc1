"""One figure of a run: its value, what it stands beside, its bounds, and the rounds it is the median of."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Bound:
    """What a value has to be at least, or at most."""

    kind: Literal["≥", "≤", "<", "="]
    value: float

    def holds(self, value: float) -> bool:
        match self.kind:
            case "≥":
                return value >= self.value
            case "≤":
                return value <= self.value
            case "<":
                return value < self.value
            case "=":
                return value == self.value


def at_least(value: float) -> Bound:
    return Bound("≥", value)


def at_most(value: float) -> Bound:
    return Bound("≤", value)


def below(value: float) -> Bound:
    return Bound("<", value)


def exactly(value: float) -> Bound:
    return Bound("=", value)


@dataclass(frozen=True, slots=True)
class RoundShown:
    """One round: this side's value, the other side's, and whether it counts."""

    value: float
    beside: float | None
    steal: float
    kept: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured. `cpu_us` is the server's processor time for one operation, `steal` a share."""

    name: str
    value: float
    unit: str = ""
    aim: Bound | None = None
    ratio_to: str = ""
    ratio: float | None = None
    ratio_aim: Bound | None = None
    cpu_us: float | None = None
    steal: float | None = None
    rounds: int = 1
    each_round: tuple[RoundShown, ...] = ()
    benchmark: str = ""

    @property
    def held(self) -> bool | None:
        """Whether every bound holds; None where there is none."""
        checks = [self.aim.holds(self.value)] if self.aim else []
        if self.ratio_aim and self.ratio is not None:
            checks.append(self.ratio_aim.holds(self.ratio))
        return all(checks) if checks else None
