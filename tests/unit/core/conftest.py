"""The machine that the stories are told with."""

import pytest

from tests.unit.core.machine import PureBroker


@pytest.fixture
def broker() -> PureBroker:
    return PureBroker()
