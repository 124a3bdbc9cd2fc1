"""docs/reference/python.md: the public names of `driftq`, from their signatures and docstrings."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import driftq
from driftq.client import (
    AsyncConsumer,
    Consumer,
    DeadLetters,
    DeadLetterTopic,
    ExplainedMessage,
    ExplainedRun,
    ExplainedStep,
    GroupStatus,
    Idempotency,
    JobCalls,
    Purged,
    Redriven,
    TimelineEntry,
)
from scripts.reference.markdown import head, joined, with_guides

_MODULE = re.compile(r"\b(?:driftq|typing|datetime|collections)(?:\.[a-z_]+)*\.(?=[A-Za-z])")
_OPTIONAL = re.compile(r"Optional\[(\w+)\]")

CLASSES: tuple[type, ...] = (
    driftq.Client,
    driftq.AsyncClient,
    Consumer,
    driftq.Delivery,
    AsyncConsumer,
    driftq.AsyncDelivery,
    driftq.Receipt,
    driftq.RecordedMessage,
    driftq.ClientOptions,
    driftq.EventStore,
    driftq.AsyncEventStore,
    driftq.EventReceipt,
    driftq.Event,
    driftq.Message,
    driftq.Envelope,
    driftq.RetryPolicy,
    driftq.Routing,
    driftq.RoutingDecision,
    Idempotency,
    JobCalls,
    DeadLetters,
    driftq.DeadLetter,
    DeadLetterTopic,
    Redriven,
    Purged,
    ExplainedMessage,
    GroupStatus,
    TimelineEntry,
    ExplainedRun,
    ExplainedStep,
    driftq.Worker,
    driftq.Context,
    driftq.Retry,
    driftq.Reject,
    driftq.Jobs,
    driftq.Task,
    driftq.JobHandle,
    driftq.JobLimits,
    driftq.JobContext,
    driftq.steps.Run,
    driftq.steps.Step,
    driftq.outbox.Outbox,
)


def text_of(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def signature_of(function: Callable[..., object]) -> str:
    """As a reader wants it: without the modules that types live in."""
    signature = inspect.signature(function)
    parts: list[str] = []
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
        parts.append(f"{stars}{name}: {_hint(parameter.annotation)}{default}")
    return f"({', '.join(parts)}) -> {_hint(signature.return_annotation)}"


def _hint(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:driftq|typing|collections\.abc|os|asyncio)\.(?:\w+\.)*", "", text)


def _shown(default: object) -> str:
    return (
        default.__name__ if isinstance(default, type) else str(default) if default is Any else repr(default)
    )


def members(kind: type) -> Iterator[str]:
    for name in dir(kind):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property):
            yield f"**`{name}`** {text_of(member)}".rstrip()
        elif inspect.isfunction(member):
            wait = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"**`{wait}{name}{signature_of(member)}`**\n\n{text_of(member)}"


def fields(kind: type) -> Iterator[str]:
    """With those of its bases; types without their modules and without the ranges that requests check."""
    own = inspect.get_annotations(kind)
    hints: dict[str, Any] = get_type_hints(kind) if hasattr(kind, "__struct_fields__") else own
    for name, hint in hints.items():
        text = hint if isinstance(hint, str) else inspect.formatannotation(hint)
        plain = _OPTIONAL.sub(r"\1 | None", _MODULE.sub("", text))
        yield f"`{name}: {plain}`"


def page() -> str:
    parts = [
        *head("Python", "the signatures and docstrings of `driftq`"),
        with_guides("The [client guide](guide:client.md) shows these names in use."),
        "## Functions",
    ]
    for function in (driftq.open, driftq.open_async, driftq.table_files, driftq.new_event_id):
        parts.append(f"### driftq.{function.__name__}\n\n`{signature_of(function)}`\n\n{text_of(function)}")
    parts.append("## Classes")
    for kind in CLASSES:
        parts.append(f"### {kind.__name__}\n\n{text_of(kind)}")
        init = inspect.getattr_static(kind, "__init__")
        if init is not object.__init__ and not hasattr(kind, "__struct_fields__"):
            parts.append(f"`{kind.__name__}{signature_of(init).removesuffix(' -> None')}`")
        if hasattr(kind, "__struct_fields__") or hasattr(kind, "__dataclass_fields__"):
            parts.append(" · ".join(fields(kind)))
        parts += members(kind)
    parts += ["## Exceptions", "Every class of `driftq.errors` is on the page of [errors](errors.md)."]
    return joined(parts)
