"""A change may cost the server at most three percent more work an operation: counted, not timed."""

import pytest

from bench.work.compare import RATIO_MAX, compare, recorded


@pytest.mark.timeout(900)
def test_no_operation_costs_more_work_than_recorded() -> None:
    """The recorded version and this one side by side, by a count that the machine's noise is not in."""
    figures = compare(recorded().revision)
    dearer = [f"{one.name}: {one.ratio:.3f}" for one in figures if one.ratio > RATIO_MAX]
    assert not dearer, "if the work is worth it, record it: make work ARGS=--record"
