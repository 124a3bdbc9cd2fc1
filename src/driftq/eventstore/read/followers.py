"""Groups that follow the log, each with a durable position: everything up to it is handled.

A follower opens its group and gets a token that is higher than every earlier one. Only the newest token moves
the position, in one conditional update, so of two followers of a group the older one is fenced from the
moment the newer one opens. Positions only grow.
"""

import msgspec

from driftq.errors import FollowerNotFound, FollowerReplaced
from driftq.sql import Database, Queries, Transaction, key_text, perform


class FollowerState(msgspec.Struct, frozen=True):
    """A group as its follower opened it."""

    token: int
    position: int


class FollowerGroup(msgspec.Struct, frozen=True):
    """A group as it is listed."""

    name: str
    position: int
    moved_at: int
    """In milliseconds."""


class Followers:
    """The groups of one event store. Safe to share between threads."""

    def __init__(self, database: Database, queries: Queries) -> None:
        self._database = database
        self._queries = queries

    def open(self, group: str, *, start: int) -> FollowerState:
        """Replace every earlier follower of the group; a new group begins after the position `start`."""
        name = key_text("group", group)

        def work(transaction: Transaction) -> FollowerState:
            row = transaction.row(self._queries["open_follower"], name=name, position=start)
            return FollowerState(row.token, row.position)

        return perform(self._database, work)

    def move(self, group: str, *, token: int, position: int) -> None:
        """Everything up to `position` is handled. Raises FollowerReplaced, FollowerNotFound."""
        name = key_text("group", group)

        def work(transaction: Transaction) -> None:
            moved = transaction.run(self._queries["move_follower"], name=name, token=token, position=position)
            if not moved:
                self._require_current(transaction, name, token)

        perform(self._database, work)

    def require_current(self, group: str, *, token: int) -> int:
        """The group's position, if the token is its newest; else FollowerReplaced or FollowerNotFound."""
        name = key_text("group", group)
        with self._database.snapshot() as snapshot:
            return self._require_current(snapshot, name, token)

    def listed(self, *, after: str, limit: int) -> list[FollowerGroup]:
        """Groups in the order of their names, behind `after`."""
        with self._database.snapshot() as snapshot:
            rows = snapshot.rows(self._queries["followers"], after=after, followers_max=limit)
        return [FollowerGroup(row.name, row.position, row.moved_at) for row in rows]

    def delete(self, group: str) -> None:
        """Forget the group and its position. Raises FollowerNotFound."""
        name = key_text("group", group)
        if not perform(
            self._database, lambda transaction: transaction.run(self._queries["forget_follower"], name=name)
        ):
            raise FollowerNotFound(name)

    def _require_current(self, transaction: Transaction, name: str, token: int) -> int:
        found = transaction.row(self._queries["follower"], name=name)
        if found is None:
            raise FollowerNotFound(name)
        if found.token != token:
            raise FollowerReplaced(name, token=token)
        return int(found.position)
