"""Rounds of housekeeping on the simulated disk, killed and cut off at every step."""

from random import Random

import pytest

from driftq.housekeeping.round import RoundOptions, run_round
from driftq.log.manifest import read_manifest
from driftq.log.segment import KEPT
from driftq.model import Envelope
from driftq.testing.canonical import canonical, fold_folder
from driftq.testing.disk import PowerCut, ProcessKilled, SimFolder
from tests.support.story import Story

OPTIONS = RoundOptions(small_bytes=0)


def eventful(folder: SimFolder) -> Story:
    """Leases, acks out of order, keys, several partitions, and messages that were dropped."""
    story = Story(folder)
    story.topic("orders", 2)
    story.topic("stuck")
    story.group("orders", "billing")
    story.group("stuck", "nobody")
    for number in range(12):
        story.now += 1_000
        story.produce("orders", f"o{number}-" + "x" * 300, key=f"user:{number % 3}")
        story.produce("stuck", f"s{number}-" + "y" * 20, envelope=Envelope(idempotency_key=f"k{number}"))
        story.deliver("orders", "billing", 10)
        if number % 4:
            first = story.state.topics["orders"].partitions[0].index
            story.ack("orders", "billing", number, partition=1 if first.find(number) is None else 0)
    story.now += 4_000
    story.trim()
    story.produce("orders", "behind the last seal", key="user:1")
    return story


def seen(folder: SimFolder, story: Story) -> object:
    return canonical(fold_folder(folder, story.limits), now=story.now)


@pytest.mark.clause("W2", "W6")
def test_a_restart_from_the_snapshot_is_the_fold_of_the_whole_log() -> None:
    story = eventful(SimFolder(Random(1)))
    before = seen(story.folder, story)  # type: ignore[arg-type]
    assert story.log.sealed >= 2
    manifest = run_round(story.folder, limits=story.limits, upto=story.log.sealed, options=OPTIONS)
    assert manifest.segment == story.log.sealed
    assert seen(story.folder, story) == before  # type: ignore[arg-type]
    values = story.values("orders"), story.values("stuck")
    again = story.reopened()
    assert (again.values("orders"), again.values("stuck")) == values
    assert len(again.state.keys) == len(story.state.keys)


@pytest.mark.clause("W6")
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_round_that_ends_at_any_step_harms_nothing_and_is_done_again(power: bool) -> None:
    story = eventful(SimFolder(Random(2)))
    folder: SimFolder = story.folder  # type: ignore[assignment]
    before = seen(folder, story)
    upto = story.log.sealed
    run_round(folder, limits=story.limits, upto=upto - 1, options=OPTIONS)
    steps = 0
    finished = False
    while not finished:
        for seed in range(6 if power else 1):
            disk = folder.process_kill()
            disk._faults.random = Random(seed)
            if power:
                disk.cut_power_after(steps)
            else:
                disk.kill_after(steps)
            try:
                run_round(disk, limits=story.limits, upto=upto, options=OPTIONS)
                finished = True
            except (ProcessKilled, PowerCut):
                finished = False
            left = disk.crash() if power else disk.process_kill()
            assert seen(left, story) == before, f"after {steps} steps"
            run_round(left, limits=story.limits, upto=upto, options=OPTIONS)
            assert seen(left, story) == before
            manifest = read_manifest(left)
            assert manifest is not None
            assert manifest.segment == upto
        steps += 1
    assert steps > 12


@pytest.mark.clause("W6")
def test_live_messages_leave_files_that_are_mostly_dead() -> None:
    story = Story(SimFolder(Random(3)))
    story.topic("busy")
    story.topic("stuck")
    story.group("stuck", "nobody")
    for number in range(60):
        story.now += 1_000
        story.produce("busy", "b" * 400)
        if number % 6 == 0:
            story.produce("stuck", f"s{number}")
        story.trim()
    manifest = run_round(story.folder, limits=story.limits, upto=story.log.sealed, options=OPTIONS)
    assert [file for file in manifest.files if file.number > KEPT]
    again = story.reopened()
    assert again.values("stuck") == [f"s{number}" for number in range(0, 60, 6)]
    again.now += 60_000
    again.trim()
    assert again.values("busy") == []
    assert len(again.values("stuck")) == 10


@pytest.mark.clause("W6")
def test_small_files_are_put_together() -> None:
    story = Story(SimFolder(Random(4)), segment_records=2)
    story.topic("t")
    story.group("t", "g")
    for number in range(40):
        story.produce("t", f"v{number}")
    assert story.log.sealed > 8
    manifest = run_round(story.folder, limits=story.limits, upto=story.log.sealed)
    assert len(manifest.files) == 1
    assert story.reopened().values("t") == [f"v{number}" for number in range(40)]


@pytest.mark.clause("W4")
@pytest.mark.parametrize("kind", ["MANIFEST", ".snapshot", ".index"])
def test_a_damaged_file_is_noticed_and_the_whole_log_is_folded_while_it_is_there(kind: str) -> None:
    story = eventful(SimFolder(Random(5)))
    folder: SimFolder = story.folder  # type: ignore[assignment]
    before = seen(folder, story)
    everything = RoundOptions(small_bytes=0, live_share_min=0.0)
    run_round(folder, limits=story.limits, upto=story.log.sealed, options=everything)
    name = next(name for name in sorted(folder.names()) if name.endswith(kind))
    file = folder.open(name)
    for position in range(0, file.size(), max(1, file.size() // 20)):
        file.flip(position)
        try:
            found = seen(folder, story)
            assert found == before
        finally:
            file.flip(position)
