"""Write docs/reference/python.md: the public names of `driftq`, from their signatures and docstrings.

python scripts/reference.py            write the page
python scripts/reference.py --check    fail if the page is not what would be written
"""

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

_MODULE = re.compile(r"\b(?:driftq|typing|datetime|collections)(?:\.[a-z_]+)*\.(?=[A-Za-z])")
_OPTIONAL = re.compile(r"Optional\[(\w+)\]")

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/python.md"
sys.path.insert(0, str(ROOT / "src"))

import driftq  # noqa: E402 - from this very tree.
from driftq import errors  # noqa: E402
from driftq.client import (  # noqa: E402
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
    driftq.JobContext,
)


def text_of(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def signature_of(function: Callable[..., object]) -> str:
    """As a reader wants it: without the rooms that types live in."""
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
        "# Python reference",
        "Made from the code by `make reference`. See also [how to use it](../how-to/client.md).",
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
    tree = (errors.__doc__ or "").split("\n\n")[1]
    parts += ["## Errors", f"```text\n{inspect.cleandoc(tree)}\n```"]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    wanted = page()
    if parser.parse_args().check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
            print("docs/reference/python.md is not what the code says: run `make reference`")
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
