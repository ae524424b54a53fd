"""Servers and proxies that the benches start, each a program of its own."""
