"""The publisher's metrics as one line."""

from driftq.publishing.run import PublisherRun


def meter_line(run: PublisherRun) -> str:
    letters = f" and {run.dead_letters} dead-lettered" if run.dead_letters else ""
    return (
        f"publisher: {run.appended} events published{letters} and {run.skipped} skipped "
        f"in {run.batches} batches; "
        f"at position {run.checkpoint.position} of the log, {len(run.checkpoint.topics)} topics"
    )
