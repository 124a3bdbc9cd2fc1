"""The relay's side of the tables: one relay at a time, positions, what was sent, what is parked.

Every change is made in a transaction that first checks the relay's token and holds its row. So a relay that
was paused or cut off can change nothing once another has taken over, whatever the clocks say.

`advance` is one transaction: it removes what was sent, parks what was refused, gives committed rows without
a position the next ones, and returns the next rows by position. A row is seen only when its transaction has
committed, and then all rows of that transaction are seen with it. A row that commits late is placed late, so
a long transaction holds nobody up. Rows are placed in the order of their ids: a transaction that began to
write after another had committed has the larger ids and is never placed before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from driftq.errors import OutboxRelayReplaced
from driftq.outbox.rows import OutboxRow, OutboxStatus, ParkedRow, RefusedRow, RowKind
from driftq.outbox.session import OutboxSession, Statements
from driftq.outbox.tables import statements

ERROR_CHARACTERS_MAX = 2_000


class OutboxStore:
    """The tables at `sqlite:///PATH` or `postgresql://…`. Its methods raise DatabaseUnavailable."""

    def __init__(self, url: str, *, lease_ms: int = 10_000) -> None:
        self._session = OutboxSession(url)
        self._lease_ms = lease_ms
        self.token = 0
        self.outbox_id = ""
        self.last_position = 0
        """The last one that a row was given."""

    @property
    def address(self) -> str:
        return self._session.address

    # The relay's own row

    def take(self, owner: str) -> bool:
        """Become the one relay unless another one's lease runs."""

        def work(run: Statements) -> bool:
            run.change(
                "INSERT INTO driftq_outbox_relay (name, outbox_id, last_position, owner, token, lease_until) "
                "VALUES ('relay', :outbox_id, 0, '', 0, 0) ON CONFLICT (name) DO NOTHING",
                outbox_id=uuid.uuid4().hex,
            )
            taken = run.rows(
                "UPDATE driftq_outbox_relay SET owner = :owner, token = token + 1, "
                "lease_until = {now} + :lease_ms WHERE name = 'relay' AND lease_until <= {now} "
                "RETURNING token, outbox_id, last_position",
                owner=owner,
                lease_ms=self._lease_ms,
            )
            if taken:
                self.token, self.outbox_id, self.last_position = taken[0]
            return bool(taken)

        return self._session.perform(work)

    def keep(self) -> None:
        """Extend the lease. Raises OutboxRelayReplaced."""
        self._session.perform(self._fence)

    def release(self) -> None:
        """End the lease, so that another relay need not wait for it."""
        self._session.perform(
            lambda run: run.change(
                "UPDATE driftq_outbox_relay SET lease_until = 0 WHERE name = 'relay' AND token = :token",
                token=self.token,
            )
        )

    def renew_identity(self) -> str:
        """A new name for the outbox towards the server, for tables that were restored from a backup."""
        outbox_id = uuid.uuid4().hex

        def work(run: Statements) -> None:
            self._fence(run)
            run.change(
                "UPDATE driftq_outbox_relay SET outbox_id = :outbox_id WHERE name = 'relay'",
                outbox_id=outbox_id,
            )

        self._session.perform(work)
        self.outbox_id = outbox_id
        return outbox_id

    # Rows

    def advance(
        self, *, sent: Sequence[int] = (), refused: Sequence[RefusedRow] = (), limit: int = 500
    ) -> list[OutboxRow]:
        """Record what became of the last rows, and return the next ones. Raises OutboxRelayReplaced."""

        def work(run: Statements) -> list[OutboxRow]:
            self._fence(run)
            if sent:
                listed = ", ".join(map(str, sent))
                run.change(f"DELETE FROM driftq_outbox WHERE id IN ({listed})")  # noqa: S608 - Whole numbers.
            for refusal in refused:
                run.change(
                    "UPDATE driftq_outbox SET parked_at = {now}, position = NULL, first_sent_at = NULL, "
                    "behind = :behind, error = :error, retry = 0 WHERE id = :id",
                    id=refusal.id,
                    behind=refusal.behind,
                    error=refusal.error[:ERROR_CHARACTERS_MAX].replace("\x00", ""),
                )
            self._take_back_retried(run)
            self._place(run, limit)
            return self._next(run, limit)

        return self._session.perform(work)

    def _fence(self, run: Statements) -> None:
        kept = run.change(
            "UPDATE driftq_outbox_relay SET lease_until = {now} + :lease_ms "
            "WHERE name = 'relay' AND token = :token",
            lease_ms=self._lease_ms,
            token=self.token,
        )
        if not kept:
            raise OutboxRelayReplaced(token=self.token)

    def _take_back_retried(self, run: Statements) -> None:
        """Rows to retry, and those behind them, are placed again: before any unsent row of their key."""
        retried = run.rows(
            "SELECT DISTINCT kind, target, key FROM driftq_outbox WHERE parked_at IS NOT NULL AND retry = 1"
        )
        if not retried:
            return
        for kind, target, key in retried:
            if key:
                run.change(
                    "UPDATE driftq_outbox SET position = NULL WHERE kind = :kind AND target = :target "
                    "AND key = :key AND parked_at IS NULL AND first_sent_at IS NULL",
                    kind=kind,
                    target=target,
                    key=key,
                )
        run.change(
            "UPDATE driftq_outbox SET parked_at = NULL, behind = NULL, error = NULL, retry = 0 "
            "WHERE parked_at IS NOT NULL AND retry = 1"
        )

    def _place(self, run: Statements, limit: int) -> None:
        [(last,)] = run.rows("SELECT last_position FROM driftq_outbox_relay WHERE name = 'relay'")
        placed = run.change(
            "UPDATE driftq_outbox AS placed SET position = :last + numbered.number FROM "
            "(SELECT id, row_number() OVER (ORDER BY id) AS number FROM driftq_outbox "
            "WHERE position IS NULL AND parked_at IS NULL ORDER BY id LIMIT :row_limit) AS numbered "
            "WHERE placed.id = numbered.id",
            last=last,
            row_limit=limit,
        )
        if placed:
            run.change(
                "UPDATE driftq_outbox_relay SET last_position = :last WHERE name = 'relay'",
                last=last + placed,
            )
        self.last_position = last + placed

    def _next(self, run: Statements, limit: int) -> list[OutboxRow]:
        """The next rows, marked as sent from now on: what follows may be a crash."""
        found = [
            OutboxRow(row[0], row[1], RowKind(row[2]), row[3], row[4], row[5], row[6], row[7])
            for row in run.rows(
                "SELECT id, row_key, kind, target, key, body, position, first_sent_at FROM driftq_outbox "
                "WHERE position IS NOT NULL ORDER BY position LIMIT :row_limit",
                row_limit=limit,
            )
        ]
        if found:
            run.change(
                "UPDATE driftq_outbox SET first_sent_at = {now} "
                "WHERE first_sent_at IS NULL AND position BETWEEN :first AND :last",
                first=found[0].position,
                last=found[-1].position,
            )
        return found

    def parked_orders(self) -> dict[tuple[RowKind, str, str], int]:
        """The keys that a parked row holds up, each with that row."""
        rows = self._session.perform(
            lambda run: run.rows(
                "SELECT kind, target, key, min(id) FROM driftq_outbox "
                "WHERE parked_at IS NOT NULL AND key <> '' GROUP BY kind, target, key"
            )
        )
        return {(RowKind(kind), target, key): row_id for kind, target, key, row_id in rows}

    # For operators

    def create(self) -> None:
        """Make the tables where they are missing."""

        def work(run: Statements) -> None:
            for statement in statements(self._session.database):
                run.change(statement)

        self._session.perform(work)

    def status(self) -> OutboxStatus:
        def work(run: Statements) -> OutboxStatus:
            [(waiting, parked, age_ms)] = run.rows(
                "SELECT count(*) - count(parked_at), count(parked_at), "
                "coalesce({now} - min(CASE WHEN parked_at IS NULL THEN created_at END), 0) FROM driftq_outbox"
            )
            relay = run.rows(
                "SELECT last_position, owner, CASE WHEN lease_until > {now} THEN 1 ELSE 0 END "
                "FROM driftq_outbox_relay WHERE name = 'relay'"
            )
            last, owner, running = relay[0] if relay else (0, "", 0)
            return OutboxStatus(waiting, parked, max(0, age_ms), last, owner, bool(running))

        return self._session.perform(work)

    def parked(self, *, limit: int = 100, after: int = 0) -> list[ParkedRow]:
        rows = self._session.perform(
            lambda run: run.rows(
                "SELECT id, kind, target, key, parked_at, behind, error FROM driftq_outbox "
                "WHERE parked_at IS NOT NULL AND id > :after ORDER BY id LIMIT :row_limit",
                after=after,
                row_limit=limit,
            )
        )
        return [ParkedRow(row[0], row[1], row[2], row[3], row[4], row[5], row[6] or "") for row in rows]

    def retry(self, row_id: int | None = None) -> int:
        """Let the relay send a parked row again with those behind it, or all parked rows; how many."""
        only = "" if row_id is None else " AND (id = :id OR behind = :id)"
        named = {} if row_id is None else {"id": row_id}
        return self._session.perform(
            lambda run: run.change(
                f"UPDATE driftq_outbox SET retry = 1 WHERE parked_at IS NOT NULL{only}",  # noqa: S608 - A constant.
                **named,
            )
        )

    def now_ms(self) -> int:
        """The database's clock, which all relays share."""
        [(now,)] = self._session.perform(lambda run: run.rows("SELECT {now}"))
        return int(now)

    def close(self) -> None:
        self._session.close()
