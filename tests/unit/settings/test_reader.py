"""Only the settings read the environment, and importing the package reads nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import driftq

SOURCE = Path(driftq.__file__).parent


def test_nothing_else_reads_the_environment() -> None:
    readers = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"):
                readers.add(path.relative_to(SOURCE).parts[0])
    assert readers == {"settings"}


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    code = "import sys, driftq; print(*sorted(name for name in sys.modules if name.startswith('driftq')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["driftq"]


def test_messages_decisions_and_every_error_are_there() -> None:
    from driftq import errors, model

    tree = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    assert {"DriftQError", "LogCorrupt"} <= set(tree)
    assert all(getattr(driftq, name) is value for name, value in tree.items())
    assert driftq.Message is model.Message
    assert driftq.RoutingDecision is model.RoutingDecision
    assert driftq.__version__.count(".") == 2


def test_what_one_uses_is_listed_and_the_errors_do_not_hide_it() -> None:
    from driftq import errors

    listed = dir(driftq)
    assert {"Client", "AsyncClient", "Worker", "Jobs", "EventStore", "AsyncEventStore", "open"} <= set(listed)
    assert [name for name in listed if hasattr(errors, name) and name[0].isupper()] == ["DriftQError"]
    assert set(driftq.__all__) <= set(listed)
    assert all(getattr(driftq, name) is not None for name in driftq.__all__)
    assert driftq.__all__[0] == "Client"
    assert driftq.errors is errors


def test_other_names_are_not() -> None:
    for name in ("Nonsense", "nonsense", "annotations_of_errors"):
        with pytest.raises(AttributeError, match=f"module 'driftq' has no attribute '{name}'"):
            getattr(driftq, name)
