"""Options of an event store: the sequence allocator, reused ids, the size of segments."""

import enum
from dataclasses import dataclass

SEALER_LEASE_MS = 15_000


class AllocatorMode(enum.StrEnum):
    """The source of sequence numbers. The id check, expected_seq and uniqueness hold in every mode."""

    POSTGRES = "postgres"
    SQLITE = "sqlite"
    LEGACY = "legacy"
    S3 = "s3"
    OFF = "off"


class MismatchMode(enum.StrEnum):
    """What happens to a known event_id with other content."""

    ERROR = "error"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The settings of the write side. `allocator=None` means: the database's own.

    `sequence_schema` and `handler_prefix` are the schema and the name of the rows of PostgreSQL's
    allocator. SQLite has one writer and needs no such rows.
    """

    allocator: AllocatorMode | None = None
    mismatch: MismatchMode = MismatchMode.ERROR
    sequence_schema: str = "spice_event_registry"
    handler_prefix: str = "write_side"
    transaction_events_max: int = 64

    @property
    def schemas(self) -> dict[str, str]:
        """The argument `schemas` of `open_database` that puts the allocator's table into its schema."""
        return {"sequence": self.sequence_schema}


@dataclass(frozen=True, slots=True)
class SealOptions:
    """How the log is cut into segments."""

    lease_ms: int = SEALER_LEASE_MS
    position_events_max: int = 1_000
    segment_events_max: int = 50_000
    segment_bytes_max: int = 32 * 1024 * 1024
    trim: bool = False
