"""What the operating system says about the server's process; without /proc only some of it is known."""

from __future__ import annotations

import os
import resource
import time

_STARTED_AT = time.time()
"""The module is loaded when the server starts."""
_PROC = "/proc/self"


def process_numbers() -> dict[str, float]:
    """Metric name to value; what cannot be read is left out."""
    found = {
        "process_cpu_seconds_total": time.process_time(),
        "process_start_time_seconds": _STARTED_AT,
        "process_max_fds": float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    }
    try:
        with open(f"{_PROC}/statm", encoding="ascii") as statm:
            pages = statm.read().split()
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        found["process_virtual_memory_bytes"] = float(int(pages[0]) * page_bytes)
        found["process_resident_memory_bytes"] = float(int(pages[1]) * page_bytes)
        found["process_open_fds"] = float(len(os.listdir(f"{_PROC}/fd")) - 1)  # Without the one that lists.
    except OSError:
        pass
    return found
