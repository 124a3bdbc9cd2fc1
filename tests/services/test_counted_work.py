"""A change may cost the server at most three percent more work an operation: counted, not timed.

Beside the recorded figures it is ten percent, so that many small steps do not add up unseen.
"""

import pytest

from bench.work.compare import compare, recorded


@pytest.mark.timeout(900)
def test_no_operation_costs_more_work_than_recorded() -> None:
    """By a count that the machine's noise is not in, side by side and beside the recorded figures."""
    record = recorded()
    dearer = [fault for one in compare(record.revision) for fault in one.faults(record)]
    assert not dearer, "if the work is worth it, record it: make work ARGS=--record"
