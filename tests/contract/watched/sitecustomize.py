"""Started by every Python process that has this folder on its path: notes the files that it touches.

`DRIFTQ_TOUCHED` names the file of the notes, one path a line. Reads of the interpreter's own files, of
installed packages and of the system's tables are left out. A name without a folder is noted as it is: it may
be in a folder that was opened before.
"""

import os
import sys

_NOTES = os.environ.get("DRIFTQ_TOUCHED")
_EVENTS = {
    "open": 1,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.listdir": 1,
    "os.scandir": 1,
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
    "sqlite3.connect": 1,
}
"""How many of an event's first arguments are paths."""


def _watch(notes: str) -> None:
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    own = (os.path.dirname(__file__), sys.prefix, sys.base_prefix, os.getcwd(), "/proc", "/sys", "/dev")
    seen: set[str] = set()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        for argument in arguments[: _EVENTS.get(event, 0)]:
            if not isinstance(argument, (str, bytes, os.PathLike)):
                continue  # A descriptor that was opened before.
            name = os.fsdecode(argument)
            path = name if name == os.path.basename(name) else os.path.abspath(name)
            reads = event in ("os.listdir", "os.scandir") or (
                event == "open" and len(arguments) > 2 and not _writes(arguments[1], arguments[2])
            )
            if path not in seen and not (reads and path.startswith(own)):
                seen.add(path)
                os.write(descriptor, f"{'read' if reads else 'write'} {path!r}\n".encode())

    sys.addaudithook(note)


def _writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


if _NOTES:
    _watch(_NOTES)
