"""Redriving dead letters of projections: a `latest_state` one gets the event under its sequence guard.

The event is applied to each target that has given it up. No run is fenced: a projection that is running goes
on, and its newer rows win.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from driftq.errors import InvalidArgument, ProjectionError, ReadModelNotFound, Unavailable
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.app.app import App
from driftq.pipeline.app.builtin import chosen_projections
from driftq.pipeline.dead_letters.outcome import NotRedriven, WhyNot
from driftq.pipeline.projection.definition import Projection
from driftq.pipeline.projection.folds import BatchMessage, LatestState, fold_latest
from driftq.pipeline.read_model import open_for_reading
from driftq.sinks import Change, ReadModel
from driftq.sinks.dead_letters import RedriveMark, RedrivesDeadLetters, dead_letter_id_of


class EventIdentity(msgspec.Struct, frozen=True):
    """What every event has that a projection can read."""

    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int


_decode_identity = msgspec.json.Decoder(EventIdentity).decode


class ProjectionRedrives:
    """The projections of an app, or the built-in ones, and their read models, opened when they are needed."""

    def __init__(self, options: PipelineOptions, *, app: App | None, app_file: str | None) -> None:
        self._options = options
        self._app = app
        self._app_file = app_file
        self._models: dict[str, list[ReadModel]] = {}
        self._texts: dict[str, list[dict[str, str | None]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for models in self._models.values():
            for model in models:
                model.close()

    def marks(self, dead_letters: Sequence[HandlerDeadLetter]) -> dict[str, RedriveMark]:
        """Those of these that were redriven; read models that are not known here have no marks."""
        wanted = {each.id for each in dead_letters}
        marks: dict[str, RedriveMark] = {}
        for name in sorted({each.handler for each in dead_letters}):
            for model in self._models_of(name):
                if isinstance(model, RedrivesDeadLetters):
                    found = model.redrive_marks()
                    marks |= {id: found[id] for id in wanted & set(found)}
        return marks

    def redrive(self, dead_letter: HandlerDeadLetter, *, by: str, dry_run: bool) -> NotRedriven | None:
        """None when it was redriven, or in a dry run would be tried."""
        projection = self._projection(dead_letter.handler)
        if projection is None:
            where = f"is not in {self._app_file}" if self._app_file else "is in a file: name it with --app"
            return NotRedriven(WhyNot.UNKNOWN_PROJECTION, f"projection {dead_letter.handler} {where}")
        if not isinstance(projection.fold, LatestState):
            return NotRedriven(WhyNot.REBUILD, self._rebuild(projection))
        targets = self._targets(dead_letter)
        if not targets:
            return NotRedriven(WhyNot.NOT_FOUND, f"the read model {projection.name} does not have it")
        if self.marks([dead_letter]):
            return NotRedriven(WhyNot.ALREADY_REDRIVEN, "it was redriven before")
        for model, text in targets:
            value = dead_letter.value if text is None else text
            change = _change(dead_letter, value, keyed=projection.key == "key")
            if isinstance(change, NotRedriven):
                return change
            problem = None if dry_run else _applied(model, change, dead_letter.id, by=by)
            if problem is not None:
                return problem
        return None

    def _projection(self, name: str) -> Projection | None:
        try:
            found = chosen_projections(self._app, name)[0]
        except InvalidArgument:
            return None
        return found if isinstance(found, Projection) else None

    def _models_of(self, name: str) -> list[ReadModel]:
        """Those that exist."""
        if name not in self._models:
            self._models[name] = []
            projection = self._projection(name)
            for sink in () if projection is None else projection.targets(self._options):
                try:
                    self._models[name].append(open_for_reading(self._options, name, sink))
                except ReadModelNotFound:
                    continue
        return self._models[name]

    def _targets(self, dead_letter: HandlerDeadLetter) -> list[tuple[ReadModel, str | None]]:
        """The read models that have given the event up, each with its text as the read model has it."""
        name = dead_letter.handler
        if name not in self._texts:
            self._texts[name] = [_texts(name, model) for model in self._models_of(name)]
        pairs = zip(self._models_of(name), self._texts[name], strict=True)
        return [(model, texts[dead_letter.id]) for model, texts in pairs if dead_letter.id in texts]

    def _rebuild(self, projection: Projection) -> str:
        app = f" --app {self._app_file}" if self._app_file else ""
        command = f"driftq pipeline run rebuild{app} --name {projection.name}"
        return f"later events were applied without it: rebuild the read model with {command}"


def _texts(name: str, model: ReadModel) -> dict[str, str | None]:
    """The text of each dead letter, by id."""
    try:
        return {dead_letter_id_of(name, dead): dead.value for dead in model.dead_letters()}
    except ReadModelNotFound:
        return {}


def _applied(model: ReadModel, change: Change, id: str, *, by: str) -> NotRedriven | None:
    if not isinstance(model, RedrivesDeadLetters):
        return NotRedriven(WhyNot.NOT_REDRIVABLE, f"{model.address} cannot apply a single event")
    try:
        model.redrive(change, id, by=by)
    except (ProjectionError, Unavailable):
        raise
    except Exception as refused:  # noqa: BLE001 - A target may raise anything for a row that it refuses.
        return NotRedriven(WhyNot.REFUSED, f"{model.address} refuses it: {refused}")
    return None


def _change(dead_letter: HandlerDeadLetter, text: str | None, *, keyed: bool) -> Change | NotRedriven:
    """The row that the event becomes, by the rules of the projection."""
    message = BatchMessage(
        dead_letter.topic,
        dead_letter.partition,
        dead_letter.offset,
        None,
        dead_letter.topic,
        dead_letter.key,
        dead_letter.offset + 1,
        text,
    )
    try:
        if not keyed:
            message = message._replace(**msgspec.structs.asdict(_decode_identity(text or "")))
        folded = fold_latest([message], keyed=keyed)
        if not folded.dead_letters:
            return folded.changes[0]
        problem = folded.dead_letters[0].error
    except (ValueError, RecursionError) as unreadable:
        problem = str(unreadable)
    return NotRedriven(WhyNot.REFUSED, f"it still cannot be read: {problem}")
