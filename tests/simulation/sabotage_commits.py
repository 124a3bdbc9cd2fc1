"""Ways of breaking the path of a commit to the disk, and the small frames that bring them out."""

from collections.abc import Sequence

import pytest

from driftq.log.files import Bytes, File
from driftq.log.frame import Frame
from driftq.log.handles import OpenSegments
from driftq.server.engine import Engine
from driftq.server.io_threads import CommitPlace
from driftq.storage.journal import Journal
from driftq.testing.disk import SimFile
from driftq.testing.loop import SimBackground
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


def answer_before_the_loop_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread writes what the loop has answered already."""

    def careless(self: SimBackground, frames: Sequence[Frame]) -> None:
        self.commit(frames, lambda error: None)

    monkeypatch.setattr(SimBackground, "commit_here", careless)


def ignore_a_failure_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    commit_here = SimBackground.commit_here

    def careless(self: SimBackground, frames: Sequence[Frame]) -> None:
        if commit_here(self, frames) is not None:
            self._log.cut_back()

    monkeypatch.setattr(SimBackground, "commit_here", careless)


def write_on_the_loop_before_earlier_answers_are_out(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Engine._turn
    monkeypatch.setattr(Engine, "_turn", lambda self, *, ahead=False: turn(self))
    monkeypatch.setattr(SimBackground, "may_commit_here", False)


def write_on_the_loop_beside_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns go on while a commit is on its way, and nobody looks at the writer's queue."""
    never = property(lambda self: False, lambda self, committing: None)
    monkeypatch.setattr(Engine, "_committing", never, raising=False)

    def here(self: CommitPlace, frames: Sequence[Frame]) -> bool:
        return self.is_quick and frames[-1].segment == self._log.segment

    monkeypatch.setattr(CommitPlace, "is_here", here)


def fill_a_spare_that_has_become_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, files = OpenSegments.prepare_spare, dict[OpenSegments, File]()

    def prepared(self: OpenSegments, size: int) -> None:
        before = self._spare
        prepare(self, size)
        if self._spare is not None and self._spare is not before:
            files[self] = self._spare

    def heedless(self: OpenSegments, upto: int) -> bool:
        start = self._filled
        if self not in files or start >= upto:
            return False
        self._filled = start + min(self.fill_bytes, upto - start)
        files[self].fill(start, self._filled - start)
        return True

    monkeypatch.setattr(OpenSegments, "prepare_spare", prepared)
    monkeypatch.setattr(OpenSegments, "fill_spare", heedless)


COMMITS_CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (go_on_after_a_failed_write, {"P1", "A3", "W4"}),
    (answer_before_the_loop_has_written, {"P1", "A3"}),
    (ignore_a_failure_on_the_loop, {"P1"}),
    (write_on_the_loop_before_earlier_answers_are_out, {"T5"}),
    (write_on_the_loop_beside_the_writer, {"ValueError"}),
    (fill_a_spare_that_has_become_a_segment, {"W4"}),
]
