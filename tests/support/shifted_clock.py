"""A wall clock for real servers that a test sets: the process starts with it and reads it at every look."""

from pathlib import Path

# Stands in for the clock of the machine: shifted by the number of seconds that a file holds.
_SHIFTED = """
import os, time
_true = time.time_ns
def _shifted():
    with open(os.environ["CLOCK_SHIFT_FILE"]) as file:
        return _true() + int(file.read() or 0) * 1_000_000_000
time.time_ns = _shifted
time.time = lambda: _shifted() / 1e9
"""


class ShiftedClock:
    """The wall clock of every Python process that is started with `env`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SHIFTED)
        self._file = folder / "shift"
        self.set(0)
        self.env = {"PYTHONPATH": str(folder), "CLOCK_SHIFT_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """So far ahead of the true time, from the next look on."""
        whole = self._file.with_suffix(".new")
        whole.write_text(str(seconds))
        whole.replace(self._file)
