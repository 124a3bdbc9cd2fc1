"""Options of the formats as users write them: their names, numbers, durations and switches."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches

from driftq.errors import InvalidArgument
from driftq.model.options.credentials import Credentials
from driftq.settings import load_credentials

_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPARKS_OWN = frozenset({"queryname"})
"""What Spark adds to the options of a stream's writer."""


def read_names(given: Mapping[str, str], known: Collection[str], *, use: str) -> dict[str, str]:
    """The options by their names in lower case; raises InvalidArgument, which names the nearest known one."""
    by_lower = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in by_lower and name.lower() not in _SPARKS_OWN:
            near = get_close_matches(name.lower(), by_lower, n=1)
            instead = (
                f"did you mean {by_lower[near[0]]}?" if near else f"there are {', '.join(sorted(known))}"
            )
            raise InvalidArgument(name, f"is no option of {use}; {instead}")
    return {name.lower(): value for name, value in given.items()}


def int_option(name: str, text: str | None) -> int | None:
    """A whole number from 1 on."""
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgument(name, f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(name, f"must be true or false, not {text!r}")
    return text.lower() == "true"


def duration_ms(name: str, text: str) -> int:
    """A duration as Spark writes it: `90s`, `15m`; a number alone counts milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _MS:
        raise InvalidArgument(name, f"must be a duration such as 90s or 15m, not {text!r}")
    return int(found[1]) * _MS[found[2]]


def credentials_of(options: Mapping[str, str]) -> Credentials:
    """The key and the files of TLS, from options by their names in lower case, else from the environment."""
    return load_credentials(
        api_key=options.get("apikey"),
        ca_file=options.get("cafile"),
        client_cert=options.get("clientcert"),
        client_key=options.get("clientkey"),
    )
