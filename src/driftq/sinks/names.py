"""Names of projections: they are part of table names, files and jobs."""

import re

from driftq.errors import InvalidArgument

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_NEXT = "__next"


def projection_name(name: str) -> str:
    """The name itself; raises InvalidArgument when it is invalid."""
    if not _NAME.fullmatch(name) or "__" in name or name.startswith("driftq_"):
        raise InvalidArgument(
            "projection",
            f"{name!r} cannot name one: use a-z, 0-9 and single _, at most 40 characters, "
            "a letter first, and not driftq_",
        )
    return name


def beside(name: str) -> str:
    """The name of the read model that a rebuild fills."""
    return name + _NEXT


def is_beside(name: str) -> bool:
    return name.endswith(_NEXT)


def live_name(name: str) -> str:
    """The name of the read model that readers see."""
    return name.removesuffix(_NEXT)
