"""Ranks servers and tools for a query. Light by default; models live in here only and are imported lazily."""
