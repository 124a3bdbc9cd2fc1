"""The tests that every sink must pass: subclass the suite of your sink's kind and give it a fixture `sink`.

    from driftq.testing.sinks import DocumentSinkSuite

    class TestMySink(DocumentSinkSuite):
        @pytest.fixture
        def sink(self, tmp_path):
            return MySink(str(tmp_path))

`DocumentSinkSuite` is for a sink that opens document stores, `StagedSinkSuite` for one whose read models
tasks can write, `SinkSuite` for any other; `GuardedPutsSuite` is for handlers that write to it. A sink that
passes gives the promises of DriftQ's own.

Each test gets a new, empty target. Where `capabilities.atomic` is false, the suites expect that documents of
a batch are visible before its commit, and still that they change nothing that the commit would not.
"""

from driftq.testing.sinks.dead_letters import DeadLettersSuite
from driftq.testing.sinks.document_batches import DocumentBatchesSuite
from driftq.testing.sinks.document_runs import DocumentRunsSuite
from driftq.testing.sinks.document_stores import DocumentStoresSuite
from driftq.testing.sinks.guarded_puts import GuardedPutsSuite
from driftq.testing.sinks.newest_wins import NewestWinsSuite
from driftq.testing.sinks.staged_batches import StagedBatchesSuite
from driftq.testing.sinks.staged_letters import StagedLettersSuite
from driftq.testing.sinks.writer_epochs import WriterEpochsSuite

__all__ = [
    "DeadLettersSuite",
    "DocumentBatchesSuite",
    "DocumentRunsSuite",
    "DocumentSinkSuite",
    "DocumentStoresSuite",
    "GuardedPutsSuite",
    "NewestWinsSuite",
    "SinkSuite",
    "StagedBatchesSuite",
    "StagedLettersSuite",
    "StagedSinkSuite",
    "WriterEpochsSuite",
]


class SinkSuite(NewestWinsSuite, WriterEpochsSuite, DeadLettersSuite):
    """For every sink."""


class StagedSinkSuite(SinkSuite, StagedBatchesSuite, StagedLettersSuite):
    """For a sink whose read models are a `StagedReadModel`."""


class DocumentSinkSuite(
    StagedSinkSuite, GuardedPutsSuite, DocumentStoresSuite, DocumentBatchesSuite, DocumentRunsSuite
):
    """For a `DocumentSink` whose `connect` returns a `DocumentReadModel`."""
