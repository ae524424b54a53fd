"""Workers are killed on SQLite and on PostgreSQL."""

from tests.fixtures.databases import database, database_url, postgres_server

__all__ = ["database", "database_url", "postgres_server"]
