"""Gateways are killed on SQLite and on PostgreSQL."""

from tests.fixtures.databases import database_url, postgres_server

__all__ = ["database_url", "postgres_server"]
