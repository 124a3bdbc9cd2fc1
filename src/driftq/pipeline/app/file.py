"""Loading a user's file: its contents, or in plain words why it cannot be used.

The file is imported under its own name, and its folder is on the path, so that functions in it are found by
the same name in Spark's Python workers.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from driftq.pipeline.app.app import App


class AppNotUsable(Exception):
    """The file cannot be used; the text says what is wrong and what to do."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.file = file
        self.problem = problem


@dataclass(frozen=True, slots=True)
class AppFile:
    """The app or `main` of a user's file."""

    path: Path
    app: App | None
    main: Callable[..., Any] | None

    def require_app(self) -> App:
        if self.app is None:
            raise AppNotUsable(str(self.path), "it has no app: write `app = App()` (from driftq.pipeline)")
        return self.app


def load_app_file(file: str) -> AppFile:
    """Import the file; raises AppNotUsable."""
    path = _existing(file)
    module = _imported(path, file)
    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    app = _the_app(file, module, apps)
    main = getattr(module, "main", None)
    if main is not None and not callable(main):
        raise AppNotUsable(
            file, f"`main` is a {type(main).__name__}; it has to be a function that takes the session"
        )
    if app is None and main is None:
        raise AppNotUsable(
            file,
            "it has no `app` and no `main`: write `app = App()` (from driftq.pipeline) and register handlers",
        )
    if app is not None and main is None and not app.workers and not app.projections:
        raise AppNotUsable(file, "its app is empty: register a handler with @app.worker or a projection")
    return AppFile(path, app, main)


def _existing(file: str) -> Path:
    path = Path(file).resolve()
    if not path.exists():
        raise AppNotUsable(file, "there is no such file")
    if path.is_dir() or path.suffix != ".py":
        raise AppNotUsable(file, "give a Python file, like pipeline_app.py")
    return path


def _imported(path: Path, file: str) -> ModuleType:
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if known is not None or name in sys.stdlib_module_names or "." in name:
        raise AppNotUsable(file, f"there is another module called {name!r}: give the file another name")
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as missing:
        del sys.modules[name]
        raise AppNotUsable(file, f"it needs the module {missing.name!r}, which is not installed") from missing
    except (Exception, SystemExit) as failure:  # The file is the user's, and it may raise anything.
        del sys.modules[name]
        raise AppNotUsable(file, _where(failure, path)) from failure
    return module


def _where(failure: BaseException, path: Path) -> str:
    """The failure with the last line of the user's own file that led to it."""
    what = f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
    if isinstance(failure, SyntaxError):
        return f"line {failure.lineno}: {type(failure).__name__}: {failure.msg}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == str(path)
    ]
    return f"line {lines[-1]}: {what}" if lines else what


def _the_app(file: str, module: ModuleType, apps: dict[str, App]) -> App | None:
    named = vars(module).get("app")
    if named is not None and not isinstance(named, App):
        raise AppNotUsable(file, f"`app` is a {type(named).__name__}; it has to be a driftq.pipeline.App")
    different = {id(value) for value in apps.values()}
    if len(different) > 1:
        names = " and ".join(sorted(apps))
        raise AppNotUsable(
            file, f"it has more than one app ({names}): keep one and register everything with it"
        )
    return next(iter(apps.values()), None)
