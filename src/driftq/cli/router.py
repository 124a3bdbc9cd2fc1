"""Finding the router that `--router module:attr` names."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


class RouterNotUsable(Exception):
    """What `--router` names cannot be asked; the text says what is missing."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"--router {name}: {problem}")
        self.name = name
        self.problem = problem


def load_router(name: str) -> Any:
    """The callable; modules are also looked for in the current directory."""
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
