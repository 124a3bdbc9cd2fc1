"""Notes which functions of DriftQ run in this process, in the folder that TRACED_INTO names.

Every Python process of a server and of a pipeline imports it, because its folder is first in their
PYTHONPATH. The file `phase` in that folder has one byte, which the test sets; a line of `calls` is a phase
and the file and name of a function that ran in it.
"""

import mmap
import os
import runpy
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

_INLINED = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Functions of their own up to Python 3.11 only."""


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the call belongs to an import, which a process that has just started does at any time."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__":
            return True
        frame = frame.f_back
    return False


def trace(folder: Path) -> None:
    package = find_spec("driftq")
    assert package is not None
    assert package.origin is not None
    source = f"{Path(package.origin).parent}/"
    with (folder / "phase").open("rb") as file:
        phase = mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ)
    noted: set[tuple[int, str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(source) or code.co_name in _INLINED:
            return
        call = (phase[0], code.co_filename, code.co_qualname)
        if call not in noted and not _is_importing(frame):
            noted.add(call)
            line = f"{call[0]}\t{call[1].removeprefix(source)}\t{call[2]}\n"
            file = os.open(folder / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, line.encode())  # Of a few processes at once: each line is written whole.
            os.close(file)

    threading.setprofile(note)
    sys.setprofile(note)


runpy.run_path(str(Path(__file__).parents[1] / "compiled" / "sitecustomize.py"))
trace(Path(os.environ["TRACED_INTO"]))
