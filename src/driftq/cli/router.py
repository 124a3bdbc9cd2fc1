"""The router that the command line names: a callable, a file of rules, or a URL."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


class RouterNotUsable(Exception):
    """The named router cannot be used; the text says why."""

    def __init__(self, name: str, problem: str, *, option: str = "--router") -> None:
        super().__init__(f"{option} {name}: {problem}")
        self.name = name
        self.problem = problem


def find_router(
    *,
    name: str | None,
    rules: str | None,
    url: str | None,
    topics: list[str],
    timeout_ms: int,
    ca_file: str | None = None,
) -> Any:
    """The named router, or None; raises RouterNotUsable."""
    given = [one for one in (name, rules, url) if one is not None]
    if len(given) > 1:
        raise RouterNotUsable(given[1], "give one of --router, --router-rules and --router-url", option="…")
    if topics and url is None:
        raise RouterNotUsable(topics[0], "goes with --router-url", option="--router-topic")
    if rules is not None:
        from driftq.server.routing.rules import RulesRefused, read_rules  # Few servers have a router.

        try:
            return read_rules(rules)
        except RulesRefused as refused:
            raise RouterNotUsable(rules, refused.problem, option="--router-rules") from refused
    if url is not None:
        from driftq.server.routing.webhook import WebhookRouter

        try:
            return WebhookRouter(url, timeout_ms=timeout_ms, topics=topics, ca_file=ca_file)
        except ValueError as error:
            raise RouterNotUsable(url, str(error), option="--router-url") from error
    return None if name is None else load_router(name)


def load_router(name: str) -> Any:
    """The callable; modules are also searched in the current directory."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise RouterNotUsable(name, "give it as module:attr, like routing:route")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and (module_name + ".").startswith(missing.name + "."):
            problem = f"there is no module {missing.name!r} here or among the installed ones"
        else:
            problem = f"module {module_name!r} needs {missing.name!r}, which is not installed"
        raise RouterNotUsable(name, problem) from missing
    except Exception as error:  # The module is the user's, and so is whatever it raises.
        problem = f"importing {module_name!r} failed: {type(error).__name__}: {error}"
        raise RouterNotUsable(name, problem) from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise RouterNotUsable(name, f"module {module_name!r} has no attribute {attribute!r}") from None
    if not callable(found):
        raise RouterNotUsable(name, f"{attribute!r} is a {type(found).__name__} and cannot be called")
    return found
