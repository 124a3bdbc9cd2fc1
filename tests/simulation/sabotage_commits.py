"""Ways of breaking the path of a commit to the disk, and the small frames that bring them out."""

from collections.abc import Sequence

import pytest

from driftq.log.files import Bytes
from driftq.log.frame import Frame
from driftq.storage.journal import Journal
from driftq.testing.disk import SimFile
from tests.simulation.sabotage import Sabotage

_FRAME_BYTES = 700


def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sabotage: a commit has several frames in one segment, as a commit of more than 32 MiB has."""
    with_space, keep_together = Journal._frame_with_space, Journal.keep_together
    together: list[tuple[Frame, int]] = []

    def small(self: Journal, size: int) -> Frame:
        frame = self._frame
        if frame is not None and frame.size and frame.size + size > _FRAME_BYTES:
            if not together or together[-1][0] is not frame or frame.size + size > together[-1][1]:
                self._close_frame()
        return with_space(self, size)

    def kept(self: Journal, size: int) -> None:
        keep_together(self, size)
        assert self._frame is not None
        together[:] = [(self._frame, self._frame.size + size)]

    monkeypatch.setattr(Journal, "_frame_with_space", small)
    monkeypatch.setattr(Journal, "keep_together", kept)


def go_on_after_a_failed_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has dropped what it could not write: a second sync succeeds and means nothing."""
    write_through = SimFile.write_through

    def careless(self: SimFile, position: int, parts: Sequence[Bytes]) -> None:
        try:
            write_through(self, position, parts)
        except OSError:
            self.sync()

    monkeypatch.setattr(SimFile, "write_through", careless)


COMMITS_CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (go_on_after_a_failed_write, {"P1", "A3", "W4"}),
]
