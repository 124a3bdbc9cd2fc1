"""Inside a peer's worker: how long it took from the first run of the no-op to the last."""

import os
import threading
import time
from pathlib import Path

URL = os.environ.get("BENCH_PEER_URL", "")
JOBS = int(os.environ.get("BENCH_PEER_JOBS", "0"))
_RESULT = Path(os.environ.get("BENCH_PEER_RESULT", "result"))
_lock = threading.Lock()
_runs = 0
_began = 0.0


def count() -> None:
    """One run; the last one writes down how many seconds lie between it and the first."""
    global _runs, _began  # noqa: PLW0603 - one worker, one count.
    with _lock:
        _runs += 1
        if _runs == 1:
            _began = time.perf_counter()
        if _runs == JOBS:
            part = _RESULT.with_suffix(".part")
            part.write_text(str(time.perf_counter() - _began))
            part.rename(_RESULT)
