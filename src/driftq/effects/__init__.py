"""Effects of handlers outside of DriftQ: documents in the sinks of read models, and calls of HTTP APIs.

    context.sink("search").upsert(state)         # guarded by the event's sequence: repeats change nothing
    api = driftq.HttpEffect("https://api.example.com/charges", honours_keys=True)
    api.post(context, json={"amount": 5})        # the same Idempotency-Key at every attempt

Handlers of `driftq.Worker` and handlers on Spark use the same: what they need of a context is `EffectRun`.
"""

from driftq.effects.http import HttpAnswer, HttpEffect
from driftq.effects.run import EffectRun
from driftq.effects.sinks import HandlerSinks, SinkHandle

__all__ = ["EffectRun", "HandlerSinks", "HttpAnswer", "HttpEffect", "SinkHandle"]
