"""Named sets of limits; an environment variable overrides one of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from driftq.settings import job_table, table
from driftq.settings.spec import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What differs from the defaults of the table."""

    name: str
    values: Mapping[str, Value] = field(default_factory=dict)
    count_unread: bool = False
    """Messages of a topic without readers count against its limits."""


DEFAULT = Profile(name="default")

V1_DEV = Profile(
    name="v1-dev",
    values={
        table.IN_FLIGHT_MAX.name: 2,
        table.ACK_TIMEOUT_MS.name: 2_000,
        table.PARTITION_MESSAGES_MAX.name: 2,
        table.PARTITION_BYTES_MAX.name: 20,
        table.IDEMPOTENCY_TTL_MS.name: 600_000,
        job_table.RETRY_MAX_ATTEMPTS.name: 4,
        job_table.RETRY_BASE_MS.name: 500,
        job_table.RETRY_CAP_MS.name: 30_000,
    },
    count_unread=True,
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in (DEFAULT, V1_DEV)}
