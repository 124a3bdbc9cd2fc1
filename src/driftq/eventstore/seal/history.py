"""Segments belong to one history: a database that does not know them must not go on writing beside them."""

from typing import TYPE_CHECKING

from driftq.errors import SegmentsAhead
from driftq.eventstore.stored import SegmentRange
from driftq.sql import Database, Queries

if TYPE_CHECKING:
    from driftq.eventstore.objects import Objects


def require_own_history(database: Database, queries: Queries, objects: "Objects") -> None:
    """Raise SegmentsAhead when the segments hold events that the database does not know.

    That is so when it was lost, or restored from an older copy. Going on would use positions and numbers a
    second time; a rebuild brings the database up to the segments.
    """
    with database.snapshot() as snapshot:
        cut = [
            (SegmentRange(row.first_position, row.last_position), row.sealed)
            for row in snapshot.rows(queries["segments_end"])
        ]
    known = {segment for segment, _ in cut}
    sealed = next((segment for segment, is_sealed in cut if is_sealed), None)
    strange = [segment for segment in objects.segments(after=sealed) if segment not in known]
    if strange:
        raise SegmentsAhead(sealed=strange[-1].last, known=cut[0][0].last if cut else 0)
