"""PostgreSQL passes the suites of every sink, and those of sinks that tasks write."""

import pytest

from driftq.sinks import PostgresSink
from driftq.testing.sinks import (
    DeadLettersSuite,
    GuardedPutsSuite,
    NewestWinsSuite,
    StagedBatchesSuite,
    StagedLettersSuite,
    WriterEpochsSuite,
)


@pytest.fixture
def sink(postgres_sink: PostgresSink) -> PostgresSink:
    return postgres_sink


@pytest.mark.clause("V1", "V2", "V2c", "V3", "V3a", "X4", "X7", "Z6")
class TestNewestWins(NewestWinsSuite):
    pass


@pytest.mark.clause("V1", "V4", "V10", "Z6", "K8")
class TestWriterEpochs(WriterEpochsSuite):
    pass


@pytest.mark.clause("V3", "V3b", "V3d", "V4", "V10", "K10")
class TestDeadLetters(DeadLettersSuite):
    pass


@pytest.mark.clause("V1", "V4", "V10", "Z6", "K8")
class TestStagedBatches(StagedBatchesSuite):
    pass


@pytest.mark.clause("V3", "V3b", "V3d", "V10", "K10")
class TestStagedLetters(StagedLettersSuite):
    pass


@pytest.mark.clause("V1", "K4", "K6")
class TestGuardedPuts(GuardedPutsSuite):
    pass
