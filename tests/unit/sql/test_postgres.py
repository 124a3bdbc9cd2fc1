"""A PostgreSQL that is too old is refused when it is opened."""

import pytest

from driftq.errors import DatabaseUnsuitable
from driftq.sql.postgres import require_version


def test_a_server_without_merge_is_refused_with_both_versions() -> None:
    with pytest.raises(DatabaseUnsuitable, match=r"PostgreSQL is 14, and 15 or newer is needed"):
        require_version("postgresql://db/shop", 14)


@pytest.mark.parametrize("version", [15, 18])
def test_newer_servers_are_used(version: int) -> None:
    require_version("postgresql://db/shop", version)
