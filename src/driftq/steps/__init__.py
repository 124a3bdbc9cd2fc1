"""Steps of a run that happen once: the result is stored with the commit and returned on every later run.

    run = driftq.steps.Run(client, "order-17", group="agent")
    with run.step("charge", effect="unknown") as step:
        if not step.done:
            step.finish(charge_the_card())
    print(step.result)

A crash between the effect and its commit is the one case that no program can decide. A step declares what it
means: `idempotent` runs again, `unknown` raises StepUnknown until a person has decided.
"""

from driftq.steps.awaited import AsyncRun, AsyncStep, NothingHappened
from driftq.steps.run import Run, Step

__all__ = ["AsyncRun", "AsyncStep", "NothingHappened", "Run", "Step"]
