"""How long the long stories are: short in `make test`, whole in the parts of the matrix that are thorough.

DRIFTQ_THOROUGH=1 makes them whole anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Kind = TypeVar("Kind")
VARIABLE = "DRIFTQ_THOROUGH"
THOROUGH = os.environ.get(VARIABLE, "") not in ("", "0")


def rounds(few: int, *, thorough: int) -> int:
    """How often something is repeated."""
    return thorough if THOROUGH else few


def kinds(few: Sequence[Kind], *, thorough: Sequence[Kind]) -> Sequence[Kind]:
    """The cases of a story that is the same in each of them."""
    return [*few, *thorough] if THOROUGH else few
