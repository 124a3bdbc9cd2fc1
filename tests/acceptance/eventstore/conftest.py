"""The services that the processes of these tests talk to."""

from tests.services_postgres import postgres_database_url, postgres_url
from tests.services_s3 import s3_server

__all__ = ["postgres_database_url", "postgres_url", "s3_server"]
