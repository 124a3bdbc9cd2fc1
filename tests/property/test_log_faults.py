"""Whatever fails and whenever, the log is cut back to what was confirmed and goes on, or it stops."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftq.errors import LogError
from driftq.log import Log
from driftq.testing.disk import Operation, SimFolder
from tests.unit.log.history import commit, commit_all, folded, opened, recovered

SEGMENT_BYTES = 1500
Sizes = st.lists(st.integers(1, 1200), min_size=1, max_size=10)
OPERATIONS: list[Operation] = ["write", "sync", "allocate", "truncate", "create"]


def payloads_of(sizes: list[int], seed: int) -> list[bytes]:
    random = Random(seed)
    return [random.randbytes(size) for size in sizes]


@pytest.mark.clause("P1")
@settings(max_examples=300, deadline=None)
@given(
    before=Sizes,
    after=Sizes,
    operation=st.sampled_from(OPERATIONS),
    skipped=st.integers(0, 6),
    seed=st.integers(0, 2**32),
)
def test_one_fault_at_any_step_costs_one_commit(
    before: list[int], after: list[int], operation: Operation, skipped: int, seed: int
) -> None:
    disk = SimFolder(Random(seed))
    log = opened(disk, segment_bytes=SEGMENT_BYTES)
    confirmed: list[bytes] = []
    failures = 0
    for number, payload in enumerate(payloads_of(before + after, seed)):
        if number == skipped:
            disk.fail_next(operation)
        try:
            commit(log, payload)
            confirmed.append(payload)
        except OSError:
            failures += 1
            log.cut_back()
            assert recovered(disk.crash(), segment_bytes=SEGMENT_BYTES)[0] == confirmed
            assert folded(log)[0] == confirmed  # The server folds anew and goes on.
    assert failures <= 1
    assert log.last_lsn == len(confirmed)
    assert recovered(disk.crash(), segment_bytes=SEGMENT_BYTES)[0] == confirmed
    assert recovered(disk.process_kill(), segment_bytes=SEGMENT_BYTES)[0] == confirmed


@pytest.mark.clause("P1", "W4")
@settings(max_examples=300, deadline=None)
@given(sizes=Sizes, rate=st.sampled_from([0.02, 0.1, 0.3]), seed=st.integers(0, 2**32))
def test_a_disk_that_keeps_failing_never_takes_what_was_confirmed(
    sizes: list[int], rate: float, seed: int
) -> None:
    disk = SimFolder(Random(seed))
    log = opened(disk, segment_bytes=SEGMENT_BYTES)
    disk.fault_rate = rate
    confirmed: list[bytes] = []
    under_way: list[bytes] = []
    for payload in payloads_of(sizes * 3, seed):
        under_way = [payload]
        try:
            commit(log, payload)
            confirmed.append(payload)
            under_way = []
        except OSError:
            if not restored(log):
                break
            under_way = []
            assert recovered(disk.crash(), segment_bytes=SEGMENT_BYTES)[0] == confirmed
    for after in (disk.crash(), disk.process_kill()):
        found, _ = recovered(after, segment_bytes=SEGMENT_BYTES)
        assert found in (confirmed, confirmed + under_way)
        assert recovered(after.crash(), segment_bytes=SEGMENT_BYTES)[0] == found
        log = opened(after, segment_bytes=SEGMENT_BYTES)
        more = payloads_of([700, 30, 900], seed + 1)
        commit_all(log, more)
        assert recovered(after.crash(), segment_bytes=SEGMENT_BYTES)[0] == found + more


def restored(log: Log) -> bool:
    """Cut back; False, and a log that refuses everything, if that failed."""
    try:
        log.cut_back()
    except OSError:
        assert log.broken is not None
        with pytest.raises(LogError):
            log.sync()
        return False
    return True
