"""Handlers can write to Delta."""

import pytest

from driftq.testing.sinks import GuardedPutsSuite


@pytest.mark.clause("K6", "V8")
class TestPutsInDelta(GuardedPutsSuite):
    """With the fixture `sink` of this folder."""
