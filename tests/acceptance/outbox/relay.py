"""A relay with a short lease, so that a killed one is soon replaced: `python relay.py DATABASE URL`."""

import sys

import driftq

LEASE_MS = 300


def main(database: str, url: str) -> None:
    with driftq.Client(url) as client:
        driftq.outbox.Outbox(database, client, lease_ms=LEASE_MS, batch_rows=100).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
