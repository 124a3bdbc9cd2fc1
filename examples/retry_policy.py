"""Give a message a retry policy: three attempts with a growing wait, then a dead letter.

The broker counts the attempts and keeps the schedule in its log. A message that can never succeed therefore
ends in the dead-letter queue instead of blocking its consumers.
"""

import tempfile
import time

import driftq

POLICY = driftq.RetryPolicy(max_attempts=3, backoff_ms=100, max_backoff_ms=1_000)

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("mail")
    broker.produce("mail", "hello", retry_policy=POLICY)

    with broker.consume("mail", group="senders") as deliveries:
        failed_at = time.monotonic()
        for delivery in deliveries.take(1, within_s=5):
            print(f"attempt {delivery.attempt}")
            delivery.nack("the mail server does not answer")
        while again := deliveries.take(1, within_s=1):
            waited_ms = 1_000 * (time.monotonic() - failed_at)
            print(f"attempt {again[0].attempt} after {waited_ms:.0f} ms, last error: {again[0].last_error}")
            again[0].nack("the mail server does not answer")
            failed_at = time.monotonic()

    [letter] = broker.dead_letters.messages("mail")
    assert letter.envelope is not None
    assert letter.envelope.dlq is not None
    print(f"dead letter after {letter.envelope.dlq.attempts} attempts, reason: {letter.envelope.dlq.reason}")
