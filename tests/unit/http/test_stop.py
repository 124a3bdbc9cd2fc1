"""What the end of a server waits for."""

import pytest

from driftq.http.wire import server


@pytest.mark.clause("H6")
def test_a_stop_waits_on_purpose_for_less_than_two_seconds() -> None:
    """How long the rest of it takes is up to the machine."""
    assert server._TASKS_S + server._FLUSH_S < 1
