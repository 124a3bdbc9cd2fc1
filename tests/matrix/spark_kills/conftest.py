"""A server for each module; drivers are processes of their own."""

from tests.spark.conftest import server, url

__all__ = ["server", "url"]
