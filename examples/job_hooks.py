"""Log the outcome of every job in one place, with hooks and metadata.

A hook runs once for each outcome, after the server has confirmed it. One that raises changes nothing.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)

    @jobs.on_success
    def succeeded(context: driftq.JobContext, result: object) -> None:
        print(f"request {context.metadata['request']}: {context.task} gave {result!r}")

    @jobs.on_dead
    def died(context: driftq.JobContext, error: BaseException) -> None:
        print(f"request {context.metadata['request']}: {context.task} is dead: {error}")

    @jobs.task(queue="mail", max_retries=0)
    def send(to: str) -> str:
        if "@" not in to:
            raise driftq.Reject(f"{to} is no address")
        return "sent"

    with jobs:
        first = send.enqueue("ada@example.org", metadata={"request": "r-1"})
        second = send.enqueue("ada", metadata={"request": "r-2"})
        first.result(timeout=30)
        try:
            second.result(timeout=30)
        except driftq.JobFailed:
            pass  # The hook has told.
