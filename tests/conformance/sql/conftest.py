"""A real PostgreSQL beside SQLite."""

from tests.services_postgres import postgres_database_url, postgres_url

__all__ = ["postgres_database_url", "postgres_url"]
