"""DriftQ: a durable message broker in one process and one folder.

Here are the words of `driftq.model` and the errors of `driftq.errors`. They are loaded when first used, so
that `import driftq` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq.errors import *  # noqa: F403 - every error there is, also those of later rooms.
    from driftq.model import Delivery as Delivery
    from driftq.model import Envelope as Envelope
    from driftq.model import Message as Message
    from driftq.model import RetryPolicy as RetryPolicy
    from driftq.model import Routing as Routing
    from driftq.model import RoutingDecision as RoutingDecision

    __version__: str

_WORDS = ("Delivery", "Envelope", "Message", "RetryPolicy", "Routing", "RoutingDecision")


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("driftq")
    elif name in _WORDS:
        value = getattr(import_module("driftq.model"), name)
    elif name[0].isupper():
        value = getattr(import_module("driftq.errors"), name, None)
    else:
        value = None
    if value is None:
        raise AttributeError(f"module 'driftq' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    errors = vars(import_module("driftq.errors"))
    classes = [name for name, value in errors.items() if isinstance(value, type)]
    return sorted({*globals(), *_WORDS, *classes, "__version__"})
