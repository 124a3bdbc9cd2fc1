"""Leases end in the order they began, and a finished block costs nothing."""

import pytest

from driftq.core.lease import Credit, LeaseBlock, LeaseTable


def _block(*ordinals: int, lease_ms: int = 100, until: int = 100, owner: str = "a") -> LeaseBlock:
    return LeaseBlock(owner=owner, lease_ms=lease_ms, until=until, ordinals=ordinals)


@pytest.mark.clause("G5")
def test_each_length_has_its_own_queue() -> None:
    leases = LeaseTable()
    long, short = _block(0, lease_ms=500, until=500), _block(1, until=200)
    leases.grant(long)
    leases.grant(short)
    assert leases.next_end() == 200
    assert list(leases.expired(199)) == []
    assert list(leases.expired(500)) == [long, short]


@pytest.mark.clause("G5")
def test_a_block_behind_a_live_one_can_finish_first() -> None:
    leases = LeaseTable()
    first, second = _block(0, until=100), _block(1, 2, until=150)
    leases.grant(first)
    leases.grant(second)
    assert leases.release(1)
    assert not leases.release(1)
    assert leases.leased_by(second) == [2]
    leases.release_all([2, 7])
    assert leases.next_end() == 100
    leases.release_all([0])
    assert leases.next_end() is None
    assert len(leases) == 0


@pytest.mark.clause("G6")
def test_a_consumer_is_charged_for_what_it_has_in_flight() -> None:
    leases, credit = LeaseTable(), Credit()
    block = _block(0, 1, 2)
    leases.grant(block)
    block.charge_to(credit, size_bytes=10)
    leases.release(1)
    assert (credit.in_flight, credit.in_flight_bytes) == (2, 7)
    leases.release_all([0, 2])
    assert (credit.in_flight, credit.in_flight_bytes) == (0, 0)


def test_finished_blocks_are_dropped_behind_a_stuck_one() -> None:
    leases = LeaseTable()
    leases.grant(_block(0))
    for ordinal in range(1, 1_000):
        leases.grant(_block(ordinal))
        leases.release(ordinal)
    (fifo,) = leases._fifos.values()
    assert len(fifo) < 200
    assert leases.next_end() == 100
