"""A run that settles batch after batch from where the positions are, and says so, until it is killed."""

import sys

from driftq.sinks import StagedCommit
from driftq.testing.sinks.cast import ORDERS, change, dead_letter, write
from driftq.testing.sinks.connected import NAME
from examples.custom_sink import KeyValueSink

AGGREGATES = 7


def main() -> None:
    """Event n is sequence n of one aggregate; every tenth is a dead letter."""
    model = KeyValueSink(sys.argv[1]).connect(NAME)
    epoch = model.take_over()
    settled = model.positions().get(ORDERS, 0)
    while True:
        upto = settled + 5
        staged = model.open_batch(epoch)
        events = range(settled + 1, upto + 1)
        reports = [
            write(
                staged,
                *(change(event, of=f"o-{event % AGGREGATES}") for event in events if event % 2 == task),
                task=task,
                attempt=upto * 10 + task,
                dead=[dead_letter(event) for event in events if event % 10 == 0] if task else [],
            )
            for task in (0, 1)
        ]
        staged.commit(StagedCommit(reports=reports, positions={ORDERS: upto}))
        settled = upto
        print(settled, flush=True)


if __name__ == "__main__":
    main()
