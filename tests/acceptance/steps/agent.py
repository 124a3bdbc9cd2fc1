"""An agent that charges a card in a step, to be killed: `python agent.py URL RUN_ID EFFECT LEDGER STOP`.

Its effect is a line in the ledger. STOP names where it stops for ever and says so: `before-effect`,
`after-effect` (before the commit), `after-commit`, or `never`.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import driftq

LEASE_MS = 1_000


def main(url: str, run_id: str, effect: Any, ledger: str, stop: str) -> None:
    def reach(place: str) -> None:
        if stop == place:
            sys.stdout.write(f"at {place}\n")
            sys.stdout.flush()
            threading.Event().wait()

    with driftq.Client(url) as client:
        run = driftq.steps.Run(client, run_id, group="agent", lease_ms=LEASE_MS)
        try:
            with run.step("charge", effect=effect) as step:
                if not step.done:
                    reach("before-effect")
                    with Path(ledger).open("a") as book:
                        book.write("charged\n")
                    reach("after-effect")
                    step.finish({"charges": len(Path(ledger).read_text().splitlines())})
            reach("after-commit")
        except driftq.StepUnknown as unknown:
            sys.stdout.write(f"unknown: {unknown.step}\n")
        else:
            sys.stdout.write(f"result: {step.result}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
