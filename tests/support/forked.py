"""A test's body in a forked child: its fixtures are made in the parent, what they hold is used in the child.

A suite asks for both by a fixture of its own:

    @pytest.fixture(params=PROCESSES, autouse=True)
    def process(request): ...

and `tests/conftest.py` runs those with "forked" here. A child that hangs is killed and named.
"""

import os
import select
import signal
import traceback
from collections.abc import Callable

PROCESSES = ("own", "forked")
PATIENCE_S = 120.0


def run_in_child(work: Callable[[], object]) -> None:
    """Run this in a forked child; raises AssertionError with its traceback when it fails or does not end."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        _end_with(work, writable)
    os.close(writable)
    said = _read_all(readable)
    os.close(readable)
    if said is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if said is None:
        raise AssertionError(f"the forked child was still at it after {PATIENCE_S:g} s")
    assert said == "passed", f"in the forked child:\n{said or f'it ended with status {status}'}"


def _end_with(work: Callable[[], object], writable: int) -> None:
    """The child's life: it never comes back to the test runner."""
    said = "passed"
    try:
        work()
    except BaseException:  # noqa: BLE001 - the parent raises it.
        said = traceback.format_exc()
    try:
        os.write(writable, said.encode()[:60_000])
    finally:
        os._exit(0)


def _read_all(readable: int) -> str | None:
    """Everything until the child closes its end; None when it takes too long."""
    parts: list[bytes] = []
    while select.select([readable], [], [], PATIENCE_S)[0]:
        part = os.read(readable, 65_536)
        if not part:
            return b"".join(parts).decode(errors="replace")
        parts.append(part)
    return None
