"""Long stories of processes that are killed again and again."""

from tests.services_terminusdb import terminus_url

__all__ = ["terminus_url"]
