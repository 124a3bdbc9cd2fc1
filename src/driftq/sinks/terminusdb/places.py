"""Places as branches: how a rebuild is filled beside what readers see, and how it takes its place.

    orders           the branch that readers open: the published place
    orders__7        the place that a rebuild fills, until it is published

A mark, one document, says which place a branch holds, and every write has it as its first condition. So a
write finds its place wherever that is now, or nowhere, and never meets the documents of another.

Publishing is: seal the mark, squash the branch to one commit, reset the readers' branch to that commit, delete
the branch. The reset is the swap and the only step that a reader sees. From the seal on no write lands in the
branch of the place, so none is lost between squash and reset. A kill before the reset leaves a sealed place,
which refuses writes until it is published; a kill after it leaves a branch that nothing uses. `publish` repairs
both, and the next `take_over` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftq.errors import ReadModelUnavailable
from driftq.sinks.terminusdb.schema import OPEN, SEALED, ProjectionSchema
from driftq.sinks.terminusdb.server import TerminusRefusal, TerminusServer
from driftq.sinks.terminusdb.woql import Woql, all_of, has, less

NO_BRANCH = frozenset({"UnresolvableAbsoluteDescriptor", "BranchDoesNotExistError", "UnresolvableCollection"})
_MARK = "place"
_ROUNDS = 2
"""A place that is published between two looks is found in the second round."""


class Places:
    """The branches of one projection."""

    def __init__(self, server: TerminusServer, schema: ProjectionSchema) -> None:
        self._server = server
        self._schema = schema
        self._seen_in: dict[str, str] = {}
        """By place, the branch to look into first. Where it is wrong, the mark says so."""

    # Their lives.

    def create(self, place: str) -> None:
        if self._is_published(place):
            return
        branch = self._schema.place_branch(place)
        message = f"place {place}"
        _unless(
            "BranchExistsError",
            lambda: self._server.create_branch(branch),
        )
        _unless(
            "DocumentIdAlreadyExists",
            lambda: self._server.insert(branch, self._schema.classes(), message=message, schema=True),
        )
        _unless(
            "DocumentIdAlreadyExists",
            lambda: self._server.insert(branch, [self._schema.mark(place, OPEN)], message=message),
        )

    def publish(self, place: str) -> None:
        branch = self._schema.place_branch(place)
        if not self._is_published(place):
            if not self._mark_in(branch, place):
                return  # Another run has dropped it.
            self._server.upsert(branch, [self._schema.mark(place, SEALED)], message=f"publish {place}")
            self._show(branch, message=f"publish {place}")
        self._delete(branch)
        self._seen_in.pop(place, None)

    def _show(self, branch: str, *, message: str) -> None:
        """Let readers see this branch, in one step."""
        live = self._schema.live_branch
        if not self._exists(live):
            try:
                self._server.create_branch(live, origin=branch)
            except TerminusRefusal as refusal:
                if refusal.kind != "BranchExistsError":
                    raise
            else:
                return
        self._server.reset(live, commit=self._server.squash(branch, message=message))

    def drop(self, place: str) -> None:
        self._delete(self._schema.place_branch(place))
        if self._is_published(place):
            self._delete(self._schema.live_branch)
        self._seen_in.pop(place, None)

    def _delete(self, branch: str) -> None:
        try:
            self._server.delete_branch(branch)
        except TerminusRefusal as refusal:
            if refusal.kind not in NO_BRANCH:
                raise

    # What is in them.

    def write(self, place: str, parts: Sequence[Woql], *, message: str) -> dict[str, Any]:
        """Run these writes where the place is, in one commit; the answer of the server."""
        mark = has(self._schema.mark_id(place), "sealed", variable=_MARK)
        for _ in range(_ROUNDS):
            for branch in self._candidates(place):
                # In the readers' branch every place is sealed, and stays to be written.
                held = [mark] if branch == self._schema.live_branch else [mark, less(_MARK, SEALED)]
                try:
                    answer = self._server.query(branch, all_of(*held, *parts), message=message)
                except TerminusRefusal as refusal:
                    if refusal.kind not in NO_BRANCH:
                        raise
                    continue
                if answer["bindings"]:
                    self._seen_in[place] = branch
                    return answer
        raise self.gone(place)

    def read(self, place: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Those of these documents that exist, as one commit has them."""
        branch, documents = self._read(place, ids)
        self._seen_in[place] = branch
        return documents

    def branch_of(self, place: str) -> str:
        """Where it is now."""
        return self._read(place, ())[0]

    def _read(self, place: str, ids: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
        mark_id = self._schema.mark_id(place)
        sealed: tuple[str, list[dict[str, Any]]] | None = None
        for branch in self._candidates(place):
            found = {document["@id"]: document for document in self._documents(branch, [mark_id, *ids])}
            mark = found.pop(mark_id, None)
            if mark is None:
                continue
            if branch == self._schema.live_branch or mark["sealed"] < SEALED:
                return branch, list(found.values())
            sealed = branch, list(found.values())  # Readers may see it already, and newer.
        if sealed is None:
            raise self.gone(place)
        return sealed

    def gone(self, place: str) -> ReadModelUnavailable:
        return self._server.unavailable(f"place {place} is not there, or is being published")

    def _candidates(self, place: str) -> list[str]:
        both = [self._schema.live_branch, self._schema.place_branch(place)]
        return both if self._seen_in.get(place) != both[1] else both[::-1]

    def _is_published(self, place: str) -> bool:
        return self._mark_in(self._schema.live_branch, place)

    def _mark_in(self, branch: str, place: str) -> bool:
        return bool(self._documents(branch, [self._schema.mark_id(place)]))

    def _exists(self, branch: str) -> bool:
        try:
            self._server.read(branch, {"type": self._schema.place_class})
        except TerminusRefusal as refusal:
            if refusal.kind in NO_BRANCH:
                return False
            raise
        return True

    def _documents(self, branch: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        return read_documents(self._server, branch, ids)


def read_documents(server: TerminusServer, branch: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Those of these documents that exist; none in a branch that does not exist.

    The server leaves deleted ids out. Where it refuses a list for an id that it never had, the halves of the
    list are read.
    """
    try:
        return server.read(branch, {"ids": list(ids)})
    except TerminusRefusal as refusal:
        if refusal.kind in NO_BRANCH:
            return []
        if refusal.kind != "DocumentNotFound":
            raise
    if len(ids) == 1:
        return []
    half = len(ids) // 2
    return [
        *read_documents(server, branch, ids[:half]),
        *read_documents(server, branch, ids[half:]),
    ]


def _unless(kind: str, call: Any) -> None:
    """Make something that may exist already."""
    try:
        call()
    except TerminusRefusal as refusal:
        if refusal.kind != kind:
            raise
