"""The publisher's checkpoint and where it begins, without Spark and without a server."""

from pathlib import Path

import msgspec
import pytest

from driftq.errors import PublisherReplaced
from driftq.eventstore.objects import open_objects
from driftq.model.options.pipeline import PublisherSettings
from driftq.publishing.checkpoint import Checkpoint, CheckpointStore
from driftq.publishing.resume import decide_resume, take_epoch
from driftq.settings import load_settings

NOW_MS = 10_000_000
SETTINGS = load_settings(environ={}).publisher
IDS = [(position, f"e{position}") for position in range(1, 101)]


def settings(**fields: int) -> PublisherSettings:
    return msgspec.convert({**msgspec.to_builtins(SETTINGS), **fields}, PublisherSettings)


def store(folder: Path) -> CheckpointStore:
    return CheckpointStore(open_objects(folder.as_uri()))


@pytest.mark.clause("U2")
def test_a_checkpoint_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    first = store(tmp_path)
    assert first.load() is None
    saved = Checkpoint(publisher="p", epoch=3, position=9, topics={"events.a": {0: 9}}, recent=IDS[:2])
    for position in range(5, 10):
        first.save(msgspec.structs.replace(saved, position=position))
    assert store(tmp_path).load() == saved
    assert len(list((tmp_path / "publisher").iterdir())) == 3


@pytest.mark.clause("U2")
def test_of_two_publishers_one_moves_the_checkpoint_and_the_other_is_told(tmp_path: Path) -> None:
    store(tmp_path).save(Checkpoint(publisher="p"))
    older, newer = store(tmp_path), store(tmp_path)
    assert older.load() == newer.load()
    newer.save(Checkpoint(publisher="p", epoch=2, position=7))
    with pytest.raises(PublisherReplaced):
        older.save(Checkpoint(publisher="p", epoch=1, position=5))
    found = store(tmp_path).load()
    assert found is not None
    assert (found.epoch, found.position) == (2, 7)


@pytest.mark.clause("U2")
def test_an_older_publisher_is_told_also_when_its_next_number_is_free_again(tmp_path: Path) -> None:
    store(tmp_path).save(Checkpoint(publisher="p"))
    older, newer = store(tmp_path), store(tmp_path)
    older.load()
    newer.load()
    for position in range(20):
        newer.save(Checkpoint(publisher="p", epoch=2, position=position))
    with pytest.raises(PublisherReplaced):
        older.save(Checkpoint(publisher="p", epoch=1, position=999))
    found = store(tmp_path).load()
    assert found is not None
    assert found.position == 19


class Overtaken(CheckpointStore):
    """Between its loads and its saves another publisher stores these."""

    meanwhile: list[Checkpoint]

    def save(self, checkpoint: Checkpoint) -> None:
        if self.meanwhile:
            other = CheckpointStore(self._objects)
            other.load()
            other.save(self.meanwhile.pop(0))
        super().save(checkpoint)


@pytest.mark.clause("U8")
def test_a_publisher_that_starts_takes_over_from_one_that_moves_its_checkpoint_just_then(
    tmp_path: Path,
) -> None:
    store(tmp_path).save(Checkpoint(publisher="p", epoch=1))
    starting = Overtaken(open_objects(tmp_path.as_uri()))
    starting.meanwhile = [Checkpoint(publisher="p", epoch=1, position=at) for at in (5, 6)]
    taken = take_epoch(starting)
    assert (taken.epoch, taken.position) == (2, 6)
    starting.meanwhile = [Checkpoint(publisher="p", epoch=3)]
    with pytest.raises(PublisherReplaced):
        take_epoch(starting)


@pytest.mark.clause("U2")
def test_a_topic_that_lost_something_is_filled_from_what_it_has() -> None:
    known = Checkpoint(publisher="p", position=90, topics={"a": {0: 88, 1: 90}, "b": {0: 7}}, recent=IDS)
    restored = {"a": {0: 40, 1: 90}, "b": {0: 7}}
    beginning = decide_resume(known, restored, SETTINGS, now_ms=NOW_MS)
    assert (beginning.after, beginning.checkpoint.position) == (40, 40)
    assert beginning.sent_ids == frozenset(), "what it remembers may be what was lost"
    assert beginning.checkpoint.topics == restored


@pytest.mark.clause("U2")
def test_a_topic_that_is_gone_is_filled_from_the_start() -> None:
    known = Checkpoint(publisher="p", position=90, topics={"a": {0: 88}})
    assert decide_resume(known, {}, SETTINGS, now_ms=NOW_MS).after == 0


@pytest.mark.clause("U2")
def test_a_topic_without_new_events_holds_nobody_back() -> None:
    """Its last event is old because its aggregates are silent."""
    known = Checkpoint(publisher="p", position=90, topics={"a": {0: 90}, "b": {0: 7}})
    beginning = decide_resume(known, {"a": {0: 95}, "b": {0: 7}}, SETTINGS, now_ms=NOW_MS)
    assert beginning.after == beginning.checkpoint.position == 90


@pytest.mark.clause("U3")
@pytest.mark.parametrize(
    ("seconds", "keys", "after"),
    [(600, 50, 70), (600, 5, 85), (0, 50, 90), (600, 0, 90), (2_000, 1_000, 10)],
)
def test_the_look_back_goes_as_far_as_its_settings_say(seconds: int, keys: int, after: int) -> None:
    """Confirmed 1,000 s ago: up to 10; 300 s ago: up to 70."""
    marks = [(NOW_MS - 1_000_000, 10), (NOW_MS - 300_000, 70)]
    known = Checkpoint(publisher="p", position=90, topics={"a": {0: 90}}, marks=marks, recent=IDS[:90])
    options = settings(lookback_seconds=seconds, lookback_keys_max=keys)
    beginning = decide_resume(known, {"a": {0: 90}}, options, now_ms=NOW_MS)
    assert beginning.after == after
    assert beginning.sent_ids == {f"e{position}" for position in range(after + 1, 91)}
    assert beginning.checkpoint.position == 90


@pytest.mark.clause("U3")
def test_ids_that_this_process_remembers_count_too() -> None:
    known = Checkpoint(publisher="p", position=90, topics={"a": {0: 90}}, marks=[(NOW_MS, 80)])
    beginning = decide_resume(known, {"a": {0: 90}}, SETTINGS, remembered=IDS, now_ms=NOW_MS)
    assert beginning.sent_ids == {f"e{position}" for position in range(81, 91)}
