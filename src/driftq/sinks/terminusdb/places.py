"""Places as branches: how a rebuild is filled beside what readers see, and how it takes its place.

    orders__3f…    a place: the branch that is written, from its creation until it is dropped
    orders         what readers open: it points at the head of the published place

A mark, one document in the branch of each place, says whether the place is published. Publishing sets it and
resets the readers' branch to the head of the place, which is the swap: one step, and the only one that a
reader sees. From then on each write ends with such a reset, so that readers see it when it returns.

No document is ever written into the readers' branch, and no branch with documents is ever reset. So a reset
that arrives late, of a run that was killed or replaced, takes nothing back: readers see an older commit until
the next write or `take_over` resets the branch again. For the same reason a rebuild is not squashed: to go on
from the squashed commit, the branch that is written would have to be reset to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from driftq.errors import ReadModelUnavailable
from driftq.sinks.terminusdb.schema import OPEN, PUBLISHED, ProjectionSchema
from driftq.sinks.terminusdb.server import TerminusRefusal, TerminusServer
from driftq.sinks.terminusdb.woql import Woql, all_of, has

NO_BRANCH = frozenset({"UnresolvableAbsoluteDescriptor", "BranchDoesNotExistError"})
_MARK = "place"
_ROUNDS = 100
"""Each is one more write of another task that was faster."""
_Found = TypeVar("_Found")


class Places:
    """The branches of one projection. Every call raises ReadModelUnavailable and a TerminusRefusal."""

    def __init__(self, server: TerminusServer, schema: ProjectionSchema) -> None:
        self._server = server
        self._schema = schema

    def create(self, place: str) -> None:
        branch, message = self._schema.place_branch(place), f"place {place}"
        unless("BranchExistsError", lambda: self._server.create_branch(branch))
        unless(
            "DocumentIdAlreadyExists",
            lambda: self._server.insert(branch, self._schema.classes(), message=message, schema=True),
        )
        unless(
            "DocumentIdAlreadyExists",
            lambda: self._server.insert(branch, [self._schema.mark(place, OPEN)], message=message),
        )

    def publish(self, place: str) -> None:
        branch = self._schema.place_branch(place)
        mark = self._schema.mark(place, PUBLISHED)
        try:
            if not read_documents(self._server, branch, [str(mark["@id"])]):
                return  # Another run has dropped it, or was killed while it created it.
            self._server.upsert(branch, [mark], message=f"publish {place}")
            unless_refused(lambda: self._server.optimize(branch))  # Only for the speed of reads.
            self._show(branch, self._server.head(branch))
        except TerminusRefusal as refusal:
            if refusal.kind not in NO_BRANCH:
                raise

    def drop(self, place: str) -> None:
        self._delete_branch(self._schema.place_branch(place))
        readers = self._schema.readers_branch
        if read_documents(self._server, readers, [self._schema.mark_id(place)]):
            self._delete_branch(readers)

    def _delete_branch(self, branch: str) -> None:
        try:
            self._server.delete_branch(branch)
        except TerminusRefusal as refusal:
            if refusal.kind not in NO_BRANCH:
                raise

    def write(self, place: str, parts: Sequence[Woql], *, message: str) -> int:
        """Run these writes in one commit, and show it to readers if the place is published.

        Returns how many variables the server has found in them.
        """
        branch = self._schema.place_branch(place)
        mark = has(self._schema.mark_id(place), "published", variable=_MARK)
        try:
            answer, head = self._server.query(branch, all_of(mark, *parts), message=message)
        except TerminusRefusal as refusal:
            raise self._absent(place, refusal) from refusal
        if not answer["bindings"]:
            raise self.gone(place)  # A run was killed while it created it.
        if answer["bindings"][0][_MARK]["@value"] == PUBLISHED:
            try:
                self._show(branch, head)
            except TerminusRefusal as refusal:  # Not of the writes: they are stored.
                raise self._server.unavailable(f"readers cannot be shown it: {refusal}") from refusal
        return len(answer.get("api:variable_names", ())) - 1

    def _show(self, branch: str, head: str) -> None:
        """Point the readers' branch at the head of this one, also when another task moves it meanwhile."""
        readers = self._schema.readers_branch
        for _ in range(_ROUNDS):
            try:
                self._server.reset(readers, head=head)
            except TerminusRefusal as refusal:
                if refusal.kind not in NO_BRANCH and self._exists(readers):
                    raise
                unless("BranchExistsError", lambda: self._server.create_branch(readers, origin=branch))
            shown, head = head, self._server.head(branch)
            if shown == head:
                return
        raise self._server.unavailable("others write faster than readers can be shown it")

    def _exists(self, branch: str) -> bool:
        try:
            find_documents(self._server, branch, [self._schema.mark_id("")])
        except TerminusRefusal as refusal:
            if refusal.kind not in NO_BRANCH:
                raise
            return False
        return True

    def delete(self, place: str, ids: list[str], *, message: str) -> None:
        """In a place that was dropped there is nothing to delete."""
        try:
            self._server.delete(self._schema.place_branch(place), ids, message=message)
        except TerminusRefusal as refusal:
            if refusal.kind not in NO_BRANCH:
                raise

    def read(self, place: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Those of these documents that exist, as one commit has them."""
        return self.call(place, lambda branch: find_documents(self._server, branch, ids))

    def call(self, place: str, work: Callable[[str], _Found]) -> _Found:
        """The result of work in the branch of a place."""
        try:
            return work(self._schema.place_branch(place))
        except TerminusRefusal as refusal:
            raise self._absent(place, refusal) from refusal

    def _absent(self, place: str, refusal: TerminusRefusal) -> Exception:
        return self.gone(place) if refusal.kind in NO_BRANCH else refusal

    def gone(self, place: str) -> ReadModelUnavailable:
        return self._server.unavailable(f"there is no place {place}")


def read_documents(server: TerminusServer, branch: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """As `find_documents`; none in a branch that does not exist."""
    try:
        return find_documents(server, branch, ids)
    except TerminusRefusal as refusal:
        if refusal.kind not in NO_BRANCH:
            raise
        return []


def find_documents(server: TerminusServer, branch: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Those of these documents that exist.

    The server leaves deleted ids out. Where it refuses a list for an id that it never had, the halves of the
    list are read.
    """
    try:
        return server.read(branch, {"ids": list(ids)})
    except TerminusRefusal as refusal:
        if refusal.kind != "DocumentNotFound":
            raise
    if len(ids) == 1:
        return []
    half = len(ids) // 2
    return [*find_documents(server, branch, ids[:half]), *find_documents(server, branch, ids[half:])]


def unless(kind: str, call: Callable[[], None]) -> None:
    """Make something that may exist already."""
    try:
        call()
    except TerminusRefusal as refusal:
        if refusal.kind != kind:
            raise


def unless_refused(call: Callable[[], None]) -> None:
    try:
        call()
    except TerminusRefusal:
        pass
