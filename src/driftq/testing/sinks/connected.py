"""Connections to the read model under test, closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from driftq.sinks import ReadModel, ReadModelSink, StagedReadModel

Connect = Callable[[], ReadModel]
"""Another connection to the same read model, as another process has."""
NAME = "orders_by_id"


class ConnectedSuite:
    """The fixtures of every suite; `sink` is that of the subclass, or of its module."""

    @pytest.fixture
    def connect(self, sink: ReadModelSink) -> Iterator[Connect]:
        opened: list[ReadModel] = []

        def open_one() -> ReadModel:
            opened.append(sink.connect(NAME))
            return opened[-1]

        yield open_one
        for model in opened:
            model.close()

    @pytest.fixture
    def model(self, connect: Connect) -> ReadModel:
        return connect()

    @pytest.fixture
    def staged_model(self, model: ReadModel) -> StagedReadModel:
        assert isinstance(model, StagedReadModel)
        return model
