"""Run the tools of an agent as steps: each runs once, and where an answer was lost a person decides.

The agent is started three times. Its search runs once. Its charge breaks off after the money has moved, so
the second start raises StepUnknown instead of charging again; the third gets the result that a person found.
"""

import tempfile

import driftq

ran: list[str] = []


def search() -> list[str]:
    ran.append("search")
    return ["flight 17"]


def charge() -> dict[str, int]:
    ran.append("charge")
    raise ConnectionError("the bank's answer was lost")


def agent(client: driftq.Client) -> dict[str, int]:
    run = driftq.steps.Run(client, "trip-1", group="agent")
    print(f"found {run.call('search', search, effect='idempotent')}")
    receipt: dict[str, int] = run.call("charge", charge)
    return receipt


with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    for _ in range(2):
        try:
            agent(broker)
        except (ConnectionError, driftq.StepUnknown) as problem:
            print(f"{type(problem).__name__}: {problem}")

    driftq.steps.Run(broker, "trip-1").resolve("charge", happened=True, result={"cents": 9900})
    print(f"charged {agent(broker)}")
    print(f"the tools ran: {ran}")
