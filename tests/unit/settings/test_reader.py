"""Only the settings read the environment, and importing the package reads nothing."""

import ast
import subprocess
import sys
from pathlib import Path

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


def test_every_promised_name_is_there() -> None:
    for name in driftq.__all__:
        assert getattr(driftq, name) is not None
    assert set(driftq.__all__) <= set(dir(driftq))
    assert driftq.__version__.count(".") == 2


def test_every_error_of_the_tree_is_promised() -> None:
    from driftq import errors

    tree = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert tree <= set(driftq.__all__)
