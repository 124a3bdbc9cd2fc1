"""One staged batch from its first attempt to its commit, with tasks played by a function."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from driftq.errors import ProjectionFenced, ReadModelUnavailable
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.pipeline.dead_letters.port import DeadLetterCount, TopicDeadLetter
from driftq.pipeline.dead_letters.projection import DeadLetterContext, ProjectionDeadLetters
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.staged.batch import settle
from driftq.pipeline.projection.staged.reports import StagedPart
from driftq.sinks import Change, ParquetSink, ProjectionDeadLetter, TaskWriter, TopicPartition
from driftq.sinks.arrow_rows import CHANGES, as_table
from driftq.sinks.parquet import ParquetReadModel

PLACE = TopicPartition("events.late", 0)
Positions = Mapping[TopicPartition, int]
RETRY_BUDGET = RetryBudget(retries=1, outage_s=60.0, sleep=lambda _: None)


class KeptLetters:
    """Dead-letter topics that take everything."""

    def __init__(self) -> None:
        self.letters: list[HandlerDeadLetter] = []

    def publish(self, dead_letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
        self.letters += dead_letters
        return [None for _ in dead_letters]

    def topics(self) -> list[DeadLetterCount]:
        return []

    def read(self, topic: str) -> Iterator[TopicDeadLetter]:
        return iter(())

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def model(tmp_path: Path) -> ParquetReadModel:
    return ParquetSink(str(tmp_path)).connect("settled")


def play_task(writer: TaskWriter, context: DeadLetterContext, *, attempt: int) -> StagedPart:
    """A task that finds one row and one message that is no event."""
    begun = writer.begin(task=0, attempt=attempt)
    begun.write_changes(as_table([Change("late", "l-1", 1, "e-1", "{}")], CHANGES))
    odd = ProjectionDeadLetter(PLACE.topic, 0, 1, None, "decode", "no JSON", "{")
    begun.write_dead_letters([context.complete(odd)])
    return StagedPart([begun.finish()], {PLACE: 1})


def run(
    model: ParquetReadModel,
    *,
    identities: dict[str, str],
    topics: KeptLetters,
    before: Callable[[int], None] = lambda _: None,
) -> int:
    """How often the batch was staged."""
    attempts = 0

    def stage(writer: TaskWriter, context: DeadLetterContext) -> StagedPart:
        nonlocal attempts
        attempts += 1
        part = play_task(writer, context, attempt=attempts)
        before(attempts)
        return part

    def identify(positions: Positions) -> Positions:
        identities.setdefault(PLACE.topic, "driftq/server/late")
        return {place._replace(identity=identities[place.topic]): at for place, at in positions.items()}

    settle(
        model,
        model.take_over(),
        stage,
        find_dead_letters=lambda _: [],
        identify=identify,
        dead_letters=ProjectionDeadLetters(topics, identities=identities, retries=1),
        retry_budget=RETRY_BUDGET,
    )
    return attempts


@pytest.mark.clause("V10", "V3", "V3d")
def test_dead_letters_of_a_topic_that_appears_carry_its_identity(model: ParquetReadModel) -> None:
    topics = KeptLetters()
    assert run(model, identities={}, topics=topics) == 2
    assert [letter.identity for letter in topics.letters] == ["driftq/server/late"]
    assert model.positions() == {PLACE._replace(identity="driftq/server/late"): 1}
    assert run(model, identities={PLACE.topic: "driftq/server/late"}, topics=topics) == 1
    assert len({letter.id for letter in topics.letters}) == 1
    assert len(list(model.dead_letters())) == 1


@pytest.mark.clause("V10", "V3", "V3c")
def test_a_batch_whose_files_are_lost_or_whose_target_is_away_is_staged_again(
    model: ParquetReadModel,
) -> None:
    def trouble(attempt: int) -> None:
        if attempt == 1:
            raise ReadModelUnavailable(model.address, cause="its disk is away")
        if attempt == 2:
            for path in model.folder.glob("rows-*.parquet"):
                path.unlink()

    topics = KeptLetters()
    assert run(model, identities={PLACE.topic: "driftq/server/t"}, topics=topics, before=trouble) == 3
    assert [row.aggregate_id for row in model.rows()] == ["l-1"]
    assert model.positions() == {PLACE._replace(identity="driftq/server/t"): 1}


@pytest.mark.clause("V10", "Z6")
def test_a_run_that_is_replaced_while_its_tasks_write_commits_nothing(model: ParquetReadModel) -> None:
    def replaced(attempt: int) -> None:
        model.take_over()

    topics = KeptLetters()
    with pytest.raises(ProjectionFenced):
        run(model, identities={PLACE.topic: "driftq/server/t"}, topics=topics, before=replaced)
    assert (model.positions(), list(model.rows()), topics.letters) == ({}, [], [])
