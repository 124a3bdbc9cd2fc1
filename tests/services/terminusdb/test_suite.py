"""TerminusDB passes the suite that every document sink passes."""

import pytest

from driftq.sinks.terminusdb import TerminusSink
from driftq.testing.sinks import DocumentSinkSuite
from tests.services_terminusdb import terminus_database_url, terminus_url

__all__ = ["terminus_database_url", "terminus_url"]


@pytest.mark.clause("V7", "V2", "V2g", "V1", "V3", "V4", "V10", "K8", "K10", "X4", "X7")
class TestTerminusSink(DocumentSinkSuite):
    @pytest.fixture
    def sink(self, terminus_database_url: str) -> TerminusSink:
        return TerminusSink(terminus_database_url)
